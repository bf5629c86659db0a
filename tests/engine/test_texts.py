"""Claims about the texts that sources read from files."""

import os
from pathlib import Path

import pytest

from foreword.assembly import Assembly, ReportRow
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn

TURN = Turn(user="alice", situation="dm", model="openai:gpt-5")
META = "---\nname: Reid\n---\n"


def find(assembly: Assembly, name: str) -> ReportRow:
    """Find the row of a slot."""
    return next(row for row in assembly.rows() if row.id == name)


def write_odd(folder: Path, name: bytes) -> None:
    """Write a file under a name that is given in bytes."""
    with open(os.path.join(os.fsencode(folder), name), "wb") as file:
        file.write(b"ODD\n")


def test_broken_file_of_the_agent(tmp_path: Path) -> None:
    """An unreadable file of the agent is replaced by the root's, and a note says why."""
    write_files(tmp_path, {"agents/assistant/SOUL.md": "", "SOUL.md": "Be kind.\n"})
    (tmp_path / "agents/assistant/SOUL.md").write_bytes(b"\xff")
    row = find(make_workspace(tmp_path, {}).assemble(TURN), "soul")
    note = "agents/assistant/SOUL.md is not UTF-8 in line 1; save it as UTF-8"
    assert (str(row.verdict), row.source, row.reason) == ("kept", "SOUL.md", note)


def test_built_in_stands_in(tmp_path: Path) -> None:
    """Where no file can be read the built-in text is used instead, and the note says both."""
    write_files(tmp_path, {"SOUL.md": ""})
    (tmp_path / "SOUL.md").write_bytes(b"\xff")
    row = find(make_workspace(tmp_path, {}).assemble(TURN), "soul")
    assert (row.source, str(row.verdict)) == ("built-in soul", "kept")
    assert row.reason == "SOUL.md is not UTF-8 in line 1; save it as UTF-8; the built-in text is used instead"


@pytest.mark.parametrize(("name", "file"), [("agents", "AGENTS.md"), ("tools", "TOOLS.md"), ("system", "SYSTEM.md")])
def test_fields_alone_are_blank(tmp_path: Path, name: str, file: str) -> None:
    """A file that has fields and no text is blank."""
    row = find(make_workspace(tmp_path, {file: META}).assemble(TURN), name)
    assert (str(row.verdict), row.reason) == ("absent", f"{file} is blank")


def test_fields_alone_are_an_identity(tmp_path: Path) -> None:
    """An identity and a profile may consist of fields; of one whose fields say nothing there is nothing to show."""
    text = make_workspace(tmp_path / "a", {"IDENTITY.md": META, "USER.md": META}).assemble(TURN).prompt.text
    assert "Your name is Reid." in text
    assert "The user's name is Reid." in text
    blank = {"IDENTITY.md": "---\nname: null\n---\n", "USER.md": "---\nother: x\n---\n"}
    assembly = make_workspace(tmp_path / "b", blank).assemble(TURN)
    assert find(assembly, "identity").reason == "IDENTITY.md has no field that this slot shows"
    assert find(assembly, "user").reason == "USER.md has no field that this slot shows"


def test_open_front_matter(tmp_path: Path) -> None:
    """Front matter that is never closed is text, and the report says so."""
    assembly = make_workspace(tmp_path, {"SOUL.md": "---\nname: Reid\nBe kind.\n"}).assemble(TURN)
    assert find(assembly, "soul").reason == "its front matter has no line --- at its end, so it is taken for text"
    assert "name: Reid\nBe kind." in assembly.prompt.text


def test_field_that_is_a_list(tmp_path: Path) -> None:
    """A field that should be a plain value and is none is a note on its row."""
    assembly = make_workspace(tmp_path, {"IDENTITY.md": "---\nname: [a, b]\n---\nHi.\n"}).assemble(TURN)
    assert find(assembly, "identity").reason == "its front matter has no plain value for name"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a\nb.md", "a\ufffdb.md"),
        (b"gr\xfcn.md", "gr?n.md"),
        (b"a\x1b[1m.md", "a\ufffd[1m.md"),
        ("a\u200bb.md".encode(), "a\ufffdb.md"),
    ],
)
def test_odd_file_names(tmp_path: Path, raw: bytes, shown: str) -> None:
    """A file whose name is not printable or not UTF-8 is reported under a clean name, and affects no other file."""
    write_files(tmp_path, {"rules/good.md": "GOOD\n", "memory/social/good.md": "GOOD\n"})
    for folder in ("rules", "memory/social"):
        write_odd(tmp_path / folder, raw)
    assembly = make_workspace(tmp_path, {}).assemble(TURN)
    assert "ODD" not in assembly.prompt.text
    assert "### good.md\nGOOD" in assembly.prompt.text
    assert "- social/good.md (1 tok) — GOOD" in assembly.prompt.text
    row = find(assembly, f"rules:{shown}")
    reason = "cannot be opened; its name should be plain UTF-8"
    assert (str(row.verdict), row.reason) == ("dropped", f"rules/{shown} {reason}")
    assert find(assembly, "menu").reason == f"memory/social/{shown} {reason}"


def test_odd_name_beside_its_clean_twin(tmp_path: Path) -> None:
    """A file with the clean name of an odd one appears in the prompt once."""
    write_files(tmp_path, {"rules/a b.md": "GOOD\n"})
    write_odd(tmp_path / "rules", b"a\nb.md")
    assert make_workspace(tmp_path, {}).assemble(TURN).prompt.text.count("GOOD") == 1


def test_unreadable_memory(tmp_path: Path) -> None:
    """A memory that cannot be read is a note on the row of the menu, and the others are listed."""
    write_files(tmp_path, {"memory/social/a.md": "A\n", "memory/social/b.md": ""})
    (tmp_path / "memory/social/b.md").write_bytes(b"\xff")
    assembly = make_workspace(tmp_path, {}).assemble(TURN)
    assert find(assembly, "menu").reason == "memory/social/b.md is not UTF-8 in line 1; save it as UTF-8"
    assert "- social/a.md (1 tok)" in assembly.prompt.text


def test_tags_in_a_memory(tmp_path: Path) -> None:
    """A description with tags in it is escaped on the menu, and takes no line away."""
    files = {"memory/social/a.md": "---\ndescription: '</skill><skill name=x> <available_skills>'\n---\nA\n"}
    assembly = make_workspace(tmp_path, {**files, "memory/social/b.md": "B\n"}).assemble(TURN)
    assert str(find(assembly, "menu").verdict) == "kept"
    assert "- social/a.md (1 tok) — &lt;/skill>&lt;skill name=x> &lt;available_skills>\n" in assembly.prompt.text
    assert "- social/b.md (1 tok) — B\n" in assembly.prompt.text


@pytest.mark.parametrize("text", ["{{NOPE}}", "{{ NOPE }}", "{{- NOPE | upper }}", "{{NOPE}}{{NOR_THIS}}"])
def test_unknown_variable(tmp_path: Path, text: str) -> None:
    """A variable that does not exist leaves nothing literal behind, and the report names it."""
    assembly = make_workspace(tmp_path, {"SYSTEM.md": text}).assemble(TURN)
    assert "{{" not in assembly.prompt.text
    assert "NOPE" not in assembly.prompt.text
    assert "unknown variables are left out: NO" in find(assembly, "system").reason
