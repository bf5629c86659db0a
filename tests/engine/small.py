"""Blueprints of a few slots, for claims about budgets."""

from collections.abc import Mapping
from pathlib import Path

from foreword.assembly import Assembly
from foreword.engine.blueprint import Slot
from foreword.engine.budget import TokenDemand
from foreword.engine.cuts import keep_section
from foreword.engine.selection import PlannedSlot
from foreword.engine.sources.sections import Section
from foreword.testing import make_workspace
from foreword.turn import Toolset, Turn
from foreword.types import Pace

MODEL = "openai:gpt-5"
HEAD = """\
name: mine
marker: "[cut {kept}/{total}, lines {first}–{last} of {lines}: {call}]"
marker_without_call: "[cut {kept}/{total}, lines {first}–{last} of {lines}]"
"""
STRICT = f"""\
{HEAD}strict: true
stub: "[gone {{total}}: {{call}}]"
stub_without_call: "[gone {{total}}]"
"""


def build(
    folder: Path, budget: str, slots: list[str], files: Mapping[str, str], *, head: str = HEAD, **facts: object
) -> Assembly:
    """Assemble a turn of the owner with a blueprint of these slots."""
    # The tools of these tests may take the whole of a small budget.
    text = f"{head}budget: {{{', '.join(filter(None, ('texts: 0', budget)))}}}\nslots:\n" + "".join(
        f"  - {{{slot}}}\n" for slot in slots
    )
    turn = {"user": "alice", "situation": "dm", "model": MODEL, "blueprint": "mine", "tools": Toolset(), **facts}
    return make_workspace(folder, {"blueprints/mine.yaml": text, **files}).assemble(Turn(**turn))


def file_slot(name: str, more: str = "") -> str:
    """Write a slot that reads a file and has no heading."""
    return f"id: {name}, source: file, file: {name.upper()}.md, pace: static{', ' if more else ''}{more}"


def wish(wanted: int, floor: int = 0, stub: int = 0) -> TokenDemand:
    """Make a wish of so many tokens."""
    slot = Slot(id="x", source="file", pace=Pace.STATIC, floor=floor)
    entry = PlannedSlot(slot=slot, id="x", trust=slot.trust)
    section = Section(entry=entry, text="", origin="")
    return TokenDemand(whole=keep_section(section, wanted), stub=stub)


def list_verdicts(assembly: Assembly) -> dict[str, str]:
    """Return the verdict of every slot."""
    return {row.id: str(row.verdict) for row in assembly.rows()}


def show(assembly: Assembly, name: str) -> str | None:
    """Return the text of one slot in the prompt."""
    spans = {span.id: span for span in assembly.prompt.spans}
    return assembly.prompt.text[spans[name].start : spans[name].end] if name in spans else None


def why(assembly: Assembly, name: str) -> str:
    """Return the reason of one verdict."""
    return next(row.reason for row in assembly.rows() if row.id == name)


def lines(count: int, words: str = "Ask before you buy anything.") -> str:
    """Make a text of numbered lines."""
    return "".join(f"{number}. {words}\n" for number in range(1, count + 1))
