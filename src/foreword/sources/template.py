"""Templates: variables of SYSTEM.md, filled in one pass, so that a value is never expanded again."""

import re
from collections.abc import Callable, Mapping

from foreword.blueprint import Planned
from foreword.sources.catalogue import show_tools
from foreword.sources.registry import source
from foreword.sources.section import Item
from foreword.sources.texts import find_document, missing, retell, section_of
from foreword.sources.view import StaticView
from foreword.words import Pace

VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w{0,80})[^{}\n]{0,200}\}\}")
VARIABLES: Mapping[str, Callable[[StaticView], str]] = {"TOOL_DEFINITIONS": lambda view: show_tools(view.tools)}


@source("template", Pace.STATIC)
def read_template(view: StaticView, entry: Planned) -> Item:
    """Read a file and fill its variables in; one that does not exist is left out, and the verdict says so."""
    found = find_document(view, entry)
    if found.document is None:
        return missing(entry, found)
    section = section_of(entry, found.document, note=found.note)
    names = {match[1] for match in VARIABLE.finditer(section.text)}
    if not names:
        return section
    values = {name: VARIABLES[name](view) if name in VARIABLES else "" for name in names}
    unknown = ", ".join(sorted(names - VARIABLES.keys()))
    text = VARIABLE.sub(lambda match: values[match[1]], section.text).strip()
    return retell(section, text, f"unknown variables are left out: {unknown}" if unknown else "")
