"""Judging what a slot says: whether its form, its built-in text and its names exist."""

from collections.abc import Iterator

from foreword.blueprint import Slot
from foreword.blueprint.select import MARK, NAMES
from foreword.errors import suggest
from foreword.shipped import list_prompts
from foreword.sources.facts import TOOL
from foreword.sources.form import NAME, TEXT, read_form
from foreword.sources.registry import SOURCES, Source
from foreword.words import Pace

TELLERS = {Pace.STATIC: "about", Pace.SESSION: "place", Pace.TURN: "moment"}
FOLDERS = ("tool_hints",)  # sources whose text is a folder of texts


def judge_wording(slot: Slot) -> Iterator[str]:
    """Say what is wrong with the words of a slot, whose source is known."""
    source = SOURCES[slot.source]
    for name in (name for place in (slot.file, slot.folder, slot.text) for name in MARK.findall(place)):
        if name not in NAMES:
            yield f"has the unknown name {{{name}}}{suggest(name, list(NAMES))}"
    if slot.text and not MARK.search(slot.text) and not has_text(slot):
        yield f"names the built-in text {slot.text!r}, which does not exist{suggest(slot.text, sorted(list_prompts()))}"
    if slot.form:
        yield from judge_form(slot.form, source)


def has_text(slot: Slot) -> bool:
    """Whether the built-in text of a slot exists."""
    prompts = list_prompts()
    folder = slot.source in FOLDERS and any(name.startswith(f"{slot.text}/") for name in prompts)
    return slot.text in prompts or folder


def judge_form(form: str, source: Source) -> Iterator[str]:
    """Say what is wrong with a form: no such one, no field in it, or a field that its source does not know."""
    if NAME.fullmatch(form) and form not in list_prompts():
        yield f"names the form {form!r}, which does not exist{suggest(form, sorted(list_prompts()))}"
        return
    names = read_form(form).names
    known = source.fields or {*SOURCES[TELLERS[source.pace]].fields, TEXT}
    for name in names:
        if name not in known and not name.startswith(TOOL):
            yield f"has the unknown field {{{name}}} in its form{suggest(name, sorted(known))}"
    if not source.fields and TEXT not in names:
        yield "has a form without {text}, where its text would stand"
