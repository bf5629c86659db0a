"""The tools that read shortened and listed texts."""

import re
from pathlib import Path
from typing import Any

import pytest

from foreword.agent.tools.declaration import MAX_READING_TOKENS, TextExcerpt
from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName, quote_name
from foreword.resources import read_blueprint
from foreword.testing import make_workspace, write_files
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = "owner: alice\nusers: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}\n"
LONG = "".join(f"{number}. Ask before you buy anything.\n" for number in range(1, 301))
FILES = {
    "foreword.yaml": CONFIG,
    "AGENTS.md": LONG,
    "IDENTITY.md": "---\nname: Reid\n---\n" + LONG,
    "MEMORY.md": "one\ntwo\nthree\nfour\n",
    "BOOT.md": "SECRET BOOT\n",
    "memory/private/A.md": "SECRET A\n",
    "memory/social/P.md": "# People\n\nBob likes trains.\n",
    "memory/social/inbox/x/Q.md": "Q\n",
    "skills/tea/SKILL.md": "---\nname: tea\n---\nBoil water.\n",
    "secret.md": "SECRET FILE\n",
}


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace whose prompt does not fit."""
    small = (read_blueprint("default") or "").replace("  system: 30000", "  system: 2500")
    return make_workspace(tmp_path, {**FILES, "blueprints/small.yaml": small})


def assemble(ws: Workspace, user: str = "alice", **facts: object) -> Assembly:
    """Assemble a turn in private."""
    return ws.assemble(
        Turn(**{"user": user, "situation": "dm", "model": "openai:gpt-5", "blueprint": "small", **facts})
    )


def get(ws: Workspace, path: object, user: str = "alice", **more: Any) -> TextExcerpt:
    """Call memory_get."""
    return ws.call(assemble(ws, user), "memory_get", {"path": path, **more})


def redeem(ws: Workspace, assembly: Assembly, call: str) -> TextExcerpt:
    """Run a call as a prompt writes it."""
    name, target, rest = re.fullmatch(r'(\w+)\("([^"]+)"(.*)\)', call).groups()
    arguments = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", rest)}
    return ws.call(assembly, name, {"path" if name == "memory_get" else "id": target, **arguments})


def test_markers_are_redeemed(ws: Workspace) -> None:
    """Every call in a marker returns exactly the lines that the marker left out."""
    assembly = assemble(ws, instructions=LONG)
    markers = re.findall(
        r"lines ([\d,]+)–([\d,]+) of ([\d,]+) are left out here; read them with (.*)\]", assembly.prompt.text
    )
    assert {call.partition("(")[0] for *_, call in markers} == {"memory_get", "read_section"}
    for first, last, total, call in markers:
        reading = redeem(ws, assembly, call)
        assert (reading.first, reading.total) == (int(first.replace(",", "")), int(total.replace(",", "")))
        while reading.more and reading.last < int(last.replace(",", "")):
            reading = redeem(ws, assembly, reading.more)
        assert reading.last == int(last.replace(",", ""))


def test_menu_lines_are_redeemed(ws: Workspace) -> None:
    """Every path on the menu can be read and has its stated tokens; unreviewed text shows its origin."""
    assembly = assemble(ws)
    entries = re.findall(r"^- (\S+) \(([\d,]+) tok\)", assembly.prompt.text, re.MULTILINE)
    assert [path for path, _ in entries] == ["MEMORY.md", "private/A.md", "social/P.md", "social/inbox/x"]
    for path, tokens in entries:
        text = ws.call(assembly, "memory_get", {"path": path}).text
        assert text.startswith("(unreviewed, saved for x)\n") is (path == "social/inbox/x")
        assert assembly.meter.count(text) == int(tokens.replace(",", ""))


def test_cut_menu_is_redeemed(tmp_path: Path) -> None:
    """A shortened menu can be read to its end."""
    files = {f"memory/social/{number:03}.md": f"# Person {number}\n" for number in range(60)}
    small = (read_blueprint("default") or "").replace("  system: 30000", "  system: 2500")
    ws = make_workspace(tmp_path, {**files, "blueprints/small.yaml": small})
    assembly = assemble(ws)
    call = re.search(r"read them with (read_section\(.*\))\]", assembly.prompt.text)[1]
    assert "social/059.md" in redeem(ws, assembly, call).text


def test_skill(ws: Workspace) -> None:
    """A skill is read as its listing says."""
    assert get(ws, "skills/tea/SKILL.md", "bob").text == "Boil water."


def test_lines(ws: Workspace) -> None:
    """Lines are counted from 1, and a complete answer offers no further call."""
    assert get(ws, "MEMORY.md") == TextExcerpt(text="one\ntwo\nthree\nfour", first=1, last=4, total=4, tokens=8)
    part = get(ws, "MEMORY.md", **{"from": 2, "lines": 2})
    assert (part.text, part.first, part.last, part.more) == ("two\nthree", 2, 3, "")
    assert get(ws, "MEMORY.md", **{"from": 3, "lines": 99}).more == ""
    with pytest.raises(InputError, match=r"^the last line is 4$"):
        get(ws, "MEMORY.md", **{"from": 5})


def test_answer_is_bounded(tmp_path: Path) -> None:
    """One answer has at most 2,000 tokens, ends with a whole line and names the next call."""
    ws = make_workspace(tmp_path, {"memory/social/big.md": LONG * 5})
    assembly = ws.assemble(Turn(user="alice", situation="dm"))
    reading = ws.call(assembly, "memory_get", {"path": "social/big.md"})
    assert MAX_READING_TOKENS - 20 < reading.tokens <= MAX_READING_TOKENS
    assert LONG.startswith(reading.text[:100])
    assert reading.more == f'memory_get("social/big.md", from={reading.last + 1})'
    asked = {"path": "social/big.md", "from": 3, "lines": 400}
    part = ws.call(assembly, "memory_get", asked)
    assert part.more == f'memory_get("social/big.md", from={part.last + 1}, lines={402 - part.last})'
    rest = redeem(ws, assembly, part.more)
    assert (rest.first, rest.last, rest.more) == (part.last + 1, 402, "")


def test_one_long_line(tmp_path: Path) -> None:
    """A very long line is truncated with the missing length, and the lines after it can be read."""
    ws = make_workspace(tmp_path, {"memory/social/big.md": "words " * 2_000 + "\nend\n"})
    assembly = ws.assemble(Turn(user="alice", situation="dm"))
    reading = ws.call(assembly, "memory_get", {"path": "social/big.md", "lines": 1})
    assert reading.text == ("words " * 2_000)[:8_000] + " [the line goes on for 4,000 characters]"
    assert (reading.last, reading.more) == (1, "")
    assert ws.call(assembly, "memory_get", {"path": "social/big.md", "from": 2}).text == "end"


PATHS = [
    *("private/A.md", "memory/private/A.md", "BOOT.md", "MEMORY.md", "secret.md", "foreword.yaml", ".foreword/x"),
    *("../home/x", "/etc/passwd", "social/../private/A.md", "nothing.md", "social", "social/", "nul\0nul"),
    *("", "a" * 9_999, "social/x\\y.md", "~/x.md"),
]


@pytest.mark.parametrize("user", ["bob", "mallory"])
def test_not_for_them(ws: Workspace, user: str) -> None:
    """Withheld and missing paths get the same error."""
    for path in PATHS:
        with pytest.raises(InputError) as caught:
            get(ws, path, user)
        assert str(caught.value) == f"there is no {quote_name(path)} here"


def test_not_for_the_owner_either(ws: Workspace) -> None:
    """The tools read what the prompt offers, not any file."""
    for path in ("secret.md", "foreword.yaml", "memory/../secret.md", "skills/../secret.md", "AGENTS.md/"):
        with pytest.raises(InputError, match="there is no"):
            get(ws, path)


def test_withheld_section(ws: Workspace) -> None:
    """A section above the clearance does not exist in this turn."""
    with pytest.raises(InputError, match="there is no 'boot' here"):
        ws.call(assemble(ws, "bob"), "read_section", {"id": "boot"})
    assert ws.call(assemble(ws), "read_section", {"id": "boot"}).text == "SECRET BOOT"


@pytest.mark.parametrize(
    "arguments",
    [
        *({}, {"path": 3}, {"path": None}),
        *({"path": "MEMORY.md", "from": value} for value in (0, "2", 1.5)),
        *({"path": "MEMORY.md", "lines": value} for value in (-1, True)),
    ],
)
def test_bad_arguments(ws: Workspace, arguments: dict[str, Any]) -> None:
    """Invalid arguments are refused with a reason that a model can act on."""
    with pytest.raises(InputError, match=r"is missing|is to be string|is to be integer|is to be at least 1"):
        ws.call(assemble(ws), "memory_get", arguments)


def test_tool_of_this_turn(ws: Workspace) -> None:
    """A turn without the tool cannot call it, and other tools are not run here."""
    with pytest.raises(UnknownName):
        ws.call(assemble(ws, tools=Toolset()), "memory_get", {"path": "MEMORY.md"})
    with pytest.raises(UnknownName):
        ws.call(assemble(ws), "bash", {"path": "MEMORY.md"})


def test_public_may_know_them() -> None:
    """Both tools need public trust: visibility is decided per file."""
    assert READING_TOOLS.names == {"memory_get", "read_section"}
    assert {str(tool.trust) for tool in READING_TOOLS.tools} == {"public"}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("it's.md", 'memory_get("social/it\'s.md", from='),
        ('so "called".md', 'memory_get("social/so \\"called\\".md", from='),
        ("übung.md", 'memory_get("social/übung.md", from='),
    ],
)
def test_quotes_in_a_path(tmp_path: Path, name: str, call: str) -> None:
    """The next call quotes the exact path as JSON, even with a quote in it."""
    ws = make_workspace(tmp_path, {f"memory/social/{name}": LONG * 5})
    assembly = ws.assemble(Turn(user="alice", situation="dm"))
    assert ws.call(assembly, "memory_get", {"path": f"social/{name}"}).more.startswith(call)


@pytest.mark.parametrize("kind", ["../../x", "../core", "/etc/passwd", "a\0b"])
def test_kind_is_no_path(ws: Workspace, kind: str) -> None:
    """The kind of a tool selects a built-in text or none; it reads no file."""
    write_files(ws.files.root, {"x.md": "SECRET X\n"})
    tool = Tool(name="lamp", kind=kind, trust=Trust.PUBLIC)
    assembly = assemble(ws, tools=Toolset([tool]), blueprint="")
    rows = {row.id: row for row in assembly.rows()}
    assert rows["guidance"].reason == "the turn has no tools that need guidance"
    assert "SECRET X" not in assembly.prompt.text


def test_more_only_where_the_answer_ended_early(tmp_path: Path) -> None:
    """An answer with the last requested line offers no further call, even if the file is longer."""
    ws = make_workspace(tmp_path, {"memory/social/big.md": LONG})
    assembly = ws.assemble(Turn(user="alice", situation="dm"))
    asked = {"path": "social/big.md", "from": 10, "lines": 5}
    assert ws.call(assembly, "memory_get", asked).more == ""
    assert ws.call(assembly, "memory_get", {"path": "social/big.md", "from": 300}).more == ""
    assert ws.call(assembly, "memory_get", {"path": "social/big.md"}).more != ""
