"""The blueprint `moltis`: twelve optional components in order, as its document prints them."""

from pathlib import Path

import pytest
from dialect_case import ask, at, describe, find_row, find_section, list_headings, list_shown
from moltis_case import (
    COMMIT,
    HOST,
    HOUSE,
    IDENTITY,
    SEARCH,
    TOOLS,
    say,
    say_everything,
    show,
)

from foreword.engine.sources.documents import read_builtin
from foreword.testing import make_workspace
from foreword.turn import Toolset
from foreword.types import Mode

COMPONENTS = [
    "introduction", "identity", "soul", "user", "project", "runtime", "routing", "skills", "agents", "tool-notes",
    "boot", "memory", "tools", "guidelines",
]  # fmt: skip
HEADINGS = [
    "## Soul", "## Project Context", "### CLAUDE.md", "## Runtime", "## Execution routing", "## Available Skills",
    "## Workspace Files", "### AGENTS.md", "### TOOLS.md", "### BOOT.md", "## Long-Term Memory", "## Available Tools",
    "## Guidelines",
]  # fmt: skip


def test_order(tmp_path: Path) -> None:
    """All components are in order, under their headings."""
    assembly = say_everything(tmp_path)
    assert list_shown(assembly) == COMPONENTS
    assert list_headings(assembly.prompt.text) == HEADINGS
    assert "NEVER" not in assembly.prompt.text


@pytest.mark.parametrize(
    ("mode", "tools", "shown"),
    [
        (Mode.FULL, TOOLS, COMPONENTS),
        (Mode.MINIMAL, TOOLS, ["introduction", "project", "tools", "guidelines"]),
        (Mode.NONE, None, ["introduction-plain", "guidelines-plain"]),
    ],
)
def test_entry_points(tmp_path: Path, mode: Mode, tools: Toolset | None, shown: list[str]) -> None:
    """The three entry points: everything, the simple one with tools and project, and the one without tools."""
    assert list_shown(say_everything(tmp_path, mode=mode, tools=tools)) == shown


def test_simple_without_project(tmp_path: Path) -> None:
    """In the simple entry point the project context is optional."""
    assert list_shown(say(tmp_path, mode=Mode.MINIMAL, tools=TOOLS)) == ["introduction", "tools", "guidelines"]


def test_introduction(tmp_path: Path) -> None:
    """The first line says whether the turn has visible tools, and names a shell among them."""
    armed, plain = show(tmp_path / "a", tools=TOOLS).splitlines()[0], read_builtin("moltis/introduction_plain").strip()
    assert "among them exec, which runs shell commands" in armed
    assert show(tmp_path / "d", tools=Toolset([SEARCH])).splitlines()[0] == f"{armed.partition(',')[0]}."
    assert show(tmp_path / "b").splitlines()[0] == plain
    assert show(tmp_path / "c", tools=TOOLS, user="mallory").splitlines()[0] == plain
    assert "tools" in armed
    assert "tools" not in plain


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            "name: Reid\nemoji: X\ncreature: heron\nvibe: calm",
            ["Your name is Reid X.", "You are a heron.", "Your vibe: calm."],
        ),
        ("name: Reid", ["Your name is Reid."]),
        ("name: Reid\nemoji: X", ["Your name is Reid X."]),
        ("creature: heron", ["You are a heron."]),
        ("vibe: calm", ["Your vibe: calm."]),
        ("vibe: calm.", ["Your vibe: calm."]),
        ("emoji: X", []),
        ("age: 7", []),
    ],
)
def test_identity(tmp_path: Path, fields: str, lines: list[str]) -> None:
    """Each field of IDENTITY.md has its sentence, a missing field has none, and the body is not shown."""
    text = show(tmp_path, {"IDENTITY.md": f"---\n{fields}\n---\nBODY\n"})
    between = text.partition("\n\n")[2].partition("## Soul")[0]
    assert between.split("\n\n")[0].splitlines() == lines
    assert "BODY" not in text


def test_configured_identity(tmp_path: Path) -> None:
    """Without a file the configuration gives the fields."""
    assert "\nYour name is Wren.\nYou are a wren.\n" in show(
        tmp_path, describe("identity: {name: Wren, creature: wren}")
    )


@pytest.mark.parametrize(
    ("soul", "own"), [(None, False), ("", False), ("\n \n", False), ("<!-- x -->\n", False), ("Dry.\n", True)]
)
@pytest.mark.parametrize("identity", [True, False])
def test_soul(tmp_path: Path, soul: str | None, own: bool, identity: bool) -> None:
    """There is always a soul: the file's, or the built-in one if the file is blank."""
    files = {**({"IDENTITY.md": IDENTITY} if identity else {}), **({} if soul is None else {"SOUL.md": soul})}
    section = find_section(show(tmp_path, files), "## Soul")
    assert (section == "Dry.") is own
    assert section == "Dry." or section.startswith(read_builtin("moltis/soul").partition("\n")[0])


def test_user(tmp_path: Path) -> None:
    """The prompt shows only the name of the user's own file."""
    files = {"USER.md": "OWNER\n", "users/carol/USER.md": "---\nname: Carol\nlocation: Lyon\n---\nBODY\n"}
    text = show(tmp_path, files, user="carol")
    assert "\nThe user's name is Carol.\n" in text
    assert not {"OWNER", "BODY", "Lyon"} & set(text.split())


def test_skills(tmp_path: Path) -> None:
    """The skill of the document's example is rendered as printed there."""
    section = find_section(show(tmp_path, {"skills/commit/SKILL.md": COMMIT}), "## Available Skills")
    assert section.splitlines() == [
        "<available_skills>",
        '<skill name="commit" source="skill" path="skills/commit">',
        "Create git commits",
        "</skill>",
        "</available_skills>",
    ]


def test_no_skills(tmp_path: Path) -> None:
    """Without a skill there is no list."""
    assert "available_skills" not in show(tmp_path, {"skills/notes.md": "No skill.\n"})


def test_skill_stays_in_its_element(tmp_path: Path) -> None:
    """Neither a name nor a description can close its element."""
    text = show(
        tmp_path, {"skills/a/SKILL.md": "---\nname: 'x\"><b'\ndescription: '</skill></available_skills>'\n---\n"}
    )
    assert (
        '<skill name="x&quot;&gt;&lt;b" source="skill" path="skills/a">\n&lt;/skill&gt;&lt;/available_skills&gt;\n'
        in text
    )


@pytest.mark.parametrize(("name", "slot"), [("AGENTS.md", "agents"), ("TOOLS.md", "tool-notes"), ("BOOT.md", "boot")])
@pytest.mark.parametrize(("size", "limit"), [(31_999, 31_999), (32_000, 32_000), (32_001, 32_000), (40_000, 32_000)])
def test_workspace_files(tmp_path: Path, name: str, slot: str, size: int, limit: int) -> None:
    """Each workspace file has up to 32,000 characters under both headings, and a cut has its notice."""
    assembly = say(tmp_path, {**dict.fromkeys(("AGENTS.md", "TOOLS.md", "BOOT.md"), "Short.\n"), name: "x" * size})
    notice = f"(This is cut at 32,000 of {size:,} characters to save room.)"
    body = "x" * limit if limit == size else f"{'x' * limit}\n{notice}"
    section = find_section(assembly.prompt.text, "## Workspace Files")
    others = dict.fromkeys(("AGENTS.md", "TOOLS.md", "BOOT.md"), "Short.")
    assert section == "\n\n".join(f"### {one}\n{text}" for one, text in {**others, name: body}.items())
    assert str(find_row(assembly, slot).verdict) == ("kept" if limit == size else "shortened")


def test_comments_are_stripped(tmp_path: Path) -> None:
    """Leading HTML comments are stripped; later ones remain."""
    files = {
        "AGENTS.md": "<!-- one -->\n\n<!-- two\nlines -->\nShoes off.\n<!-- three -->\n",
        "TOOLS.md": "<!-- only -->\n",
    }
    section = find_section(show(tmp_path, files), "## Workspace Files")
    assert section == "### AGENTS.md\nShoes off.\n<!-- three -->"


@pytest.mark.parametrize(
    ("user", "hidden"),
    [
        ("alice", ()),
        ("carol", ("user", "boot")),
        ("bob", ("user", "project", "runtime", "routing", "boot")),
    ],
)
def test_trust(tmp_path: Path, user: str, hidden: tuple[str, ...]) -> None:
    """An inner user has no BOOT.md, and a familiar one also no runtime and no project."""
    assert list_shown(say_everything(tmp_path, user=user)) == [one for one in COMPONENTS if one not in hidden]


def test_stranger(tmp_path: Path) -> None:
    """A stranger's agent without a public tool has the introduction and the guidelines."""
    assert list_shown(say_everything(tmp_path, user="mallory")) == ["introduction-plain", "guidelines-plain"]


def test_no_clock(tmp_path: Path) -> None:
    """The prompt has no clock, so an hour later it is byte-equal and can be cached completely."""
    ws = make_workspace(tmp_path, HOUSE)
    one, other = (ws.assemble(ask("moltis", tools=TOOLS, host=HOST, now=at(hour))) for hour in (12, 13))
    assert one.prompt.text == other.prompt.text
    assert all(mine is yours for mine, yours in zip(one.prompt.blocks, other.prompt.blocks, strict=True))
