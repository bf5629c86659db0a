"""Law 6 for the goldens: the call in every menu line, listed skill and marker of every prompt works."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from golden_case import Case, assemble
from golden_cases import CASES

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.agent.tools.registry import BUILT_IN
from foreword.assembly import Assembly
from foreword.engine.cuts import Fitted
from foreword.testing import NOON
from foreword.types import Verdict
from foreword.workspace import Workspace

CALL = re.compile(r'(memory_get|read_section)\(("(?:[^"\\]|\\.)*")(?:, from=(\d+))?(?:, lines=(\d+))?\)')
MENU_LINE = re.compile(r"^- (\S+) \(([\d,]+) tok\)(?: — .*)?$", re.MULTILINE)
SKILL = re.compile(r'^<skill name="[^"]*" source="skill" path="([^"]*)">$', re.MULTILINE)
HOW_TO = 'memory_get("PATH/SKILL.md")'  # the call that reads a listed skill
MARKER = re.compile(
    r"^.*(?:\[shortened: |\[left out here: |\[truncated at |\[\.\.\.truncated\.\.\.\]|cut at [\d,]+ of|\(Left out at"
    r"|\bmore: ).*$",
    re.MULTILINE,
)
# Markers that name no call, with the blueprint whose document defines them.
EXCEPTIONS = {
    "[...truncated...]": ("osa", "the document's own marker; the loss stands in the report alone"),
    "(This is cut at ": ("moltis", "the document's own notice of a limit; it offers nothing"),
    "(Left out at the limit of ": ("moltis", "the document's limit of the list; the report names each"),
}
UNREADABLE = ("cannot be read in this turn]", " tokens]")  # endings of markers in turns without a reading tool
INSTRUCTIONS = "read_memory shows all of them"
EVERY = [pytest.param(case, id=name) for name, case in CASES.items()]


def open_case(case: Case, folder: Path) -> tuple[Workspace, Assembly]:
    """Assemble a golden, and open its workspace."""
    assembly = assemble(case, folder)
    return Workspace(str(folder / "tight"), lambda: NOON), assembly


def read_on(workspace: Workspace, assembly: Assembly, call: str) -> Iterator[str]:
    """Run a call exactly as written, follow its continuations, and yield the lines."""
    while call:
        name, target, first, count = CALL.fullmatch(call).groups()
        arguments = {"path" if name == "memory_get" else "id": json.loads(target)}
        arguments |= {"from": int(first)} if first else {}
        arguments |= {"lines": int(count)} if count else {}
        reading = workspace.call(assembly, name, arguments)
        assert reading.first == int(first or 1)
        yield from reading.text.split("\n")
        call = reading.more


def find_whole(assembly: Assembly, call: re.Match[str]) -> list[str] | None:
    """Find the whole text of the cut section that contains a marker; None if the section was not cut."""
    inside = [span.id for span in assembly.prompt.spans if span.start <= call.start() < span.end]
    fitted = (one for run in assembly.fit.runs for one in run.items if isinstance(one, Fitted))
    cut = (one for one in fitted if one.verdict is not Verdict.KEPT and one.item.id in inside)
    found = [one.item.text for one in cut if call.group() in one.body]
    return found[0].split("\n") if found else None


def redeem_menu(workspace: Workspace, assembly: Assembly, text: str) -> int:
    """Read every menu entry, check its token count, and return the number of entries."""
    lines = MENU_LINE.findall(text)
    for path, price in lines:
        whole = "\n".join(read_on(workspace, assembly, f'memory_get("{path}")'))
        assert f"{assembly.meter.count(whole):,}" == price, path
    return len(lines)


def redeem_calls(workspace: Workspace, assembly: Assembly) -> int:
    """Run every call of a prompt to its end, check that it returns the missing lines, and count the calls."""
    calls = [call for call in CALL.finditer(assembly.prompt.text) if call.group() != HOW_TO]
    for call in calls:
        lines = list(read_on(workspace, assembly, call.group()))
        whole = find_whole(assembly, call)
        start, count = int(call[3] or 1) - 1, int(call[4]) if call[4] else None
        assert (whole is None) is assembly.prompt.text[: call.start()].endswith("more: "), call.group()
        assert whole is None or lines == whole[start : start + count if count else None], call.group()
        assert "".join(lines).strip()
        redeem_menu(workspace, assembly, "\n".join(lines))
    return len(calls)


def redeem_skills(workspace: Workspace, assembly: Assembly) -> int:
    """Read every listed skill with the call that the prompt gives, and count the skills."""
    paths = SKILL.findall(assembly.prompt.text) if HOW_TO in assembly.prompt.text else []
    for path in paths:
        text = (Path(workspace.files.root) / path / "SKILL.md").read_text(encoding="utf-8")
        assert text.rstrip().endswith("\n".join(read_on(workspace, assembly, HOW_TO.replace("PATH", path))))
    return len(paths)


@pytest.mark.parametrize("case", EVERY)
def test_every_offer_is_redeemed(case: Case, tmp_path: Path) -> None:
    """Every call that a golden offers returns the offered text to its last line, at the stated token count.

    Seen to fail while the token count of an unreviewed memory omitted its attribution.
    """
    workspace, assembly = open_case(case, tmp_path)
    with workspace:
        redeem_menu(workspace, assembly, assembly.prompt.text)
        redeem_calls(workspace, assembly)
        redeem_skills(workspace, assembly)
        for line in MARKER.findall(assembly.prompt.text):
            redeem_marker(workspace, assembly, line, case.base)


def redeem_marker(workspace: Workspace, assembly: Assembly, line: str, base: str) -> None:
    """Check that a marker names a call, unless the turn has no reading tool or the document defines the marker."""
    own = next((owner for words, (owner, _) in EXCEPTIONS.items() if words in line), "")
    if own:
        assert base == own
    elif INSTRUCTIONS in line and "read_memory" in assembly.tools:
        said = workspace.call(assembly, "read_memory", {}).text
        assert said.endswith(f"Standing instructions:\n{assembly.turn.instructions.strip()}")
    elif INSTRUCTIONS in line:
        assert base == "spec010"  # the document's wording, which does not depend on the tools of the turn
    elif not CALL.search(line):
        assert line.endswith(UNREADABLE), line
        assert not assembly.tools.names & READING_TOOLS.names, line


def test_instructions_are_read_whole(tmp_path: Path) -> None:
    """If a turn has read_memory, the tool returns the whole instructions, as the notice of cut instructions says."""
    case = CASES["spec010-instructions-above"]
    workspace, assembly = open_case(replace(case, turn=replace(case.turn, tools=BUILT_IN)), tmp_path)
    (line,) = [line for line in MARKER.findall(assembly.prompt.text) if INSTRUCTIONS in line]
    assert "read_memory" in assembly.tools
    redeem_marker(workspace, assembly, line, "spec010")


def test_there_are_offers() -> None:
    """The goldens contain menus, calls, skills and every exception, so the tests above are not vacuous."""
    texts = [(Path(__file__).parent / f"{name}.md").read_bytes().decode() for name in CASES]
    assert sum(len(MENU_LINE.findall(text)) for text in texts) > 80
    assert sum(len(CALL.findall(text.replace(HOW_TO, ""))) for text in texts) > 15
    assert sum(len(SKILL.findall(text)) for text in texts if HOW_TO in text) > 5
    assert {words for words in EXCEPTIONS if any(words in text for text in texts)} == set(EXCEPTIONS)
