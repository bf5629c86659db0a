"""The rule `variable`: names in a template that nothing fills in."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from foreword.lint.finding import Finding, Level
from foreword.lint.survey import Survey

RULE = "variable"
TEMPLATE = "SYSTEM.md"  # always a template; other files are declared as such
KNOWN = ("TOOL_DEFINITIONS", "RULES", "USER_PROFILE", "extensions", "current_date_time", "mode", "goose_mode")

_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w{0,80})(?:[^{}\n]{0,200})\}\}")
_LOOP = re.compile(r"\{%-?\s*(?:for|set)\s+([A-Za-z_]\w{0,80})")


def check_variables(survey: Survey) -> Iterator[Finding]:
    """Find variables of templates that do not exist; in other files two braces are text."""
    templates = {TEMPLATE, *(entry.path for entry in survey.config.prompt.files if entry.template)}
    for path, page in survey.pages.items():
        if not any(
            path == name or re.fullmatch(rf"(?:agents|users)/[^/]+/{re.escape(name)}", path) for name in templates
        ):
            continue
        own = set(_LOOP.findall(page.text))
        for match in _VARIABLE.finditer(page.text, page.body[0]):
            name = match[1]
            if name not in KNOWN and name not in own:
                yield Finding(
                    file=path,
                    line=page.line_of(match.start()),
                    rule=RULE,
                    level=Level.ERROR,
                    message=f"there is no variable {name!r}, so nothing will stand here",
                    remedy=suggest(name),
                )


def suggest(name: str) -> str:
    """Name the nearest variable, however it is written."""
    plain = {known.lower(): known for known in KNOWN}
    near = get_close_matches(name.lower(), plain, n=1)
    return f"did you mean {plain[near[0]]}?" if near else f"there is {', '.join(KNOWN)}"
