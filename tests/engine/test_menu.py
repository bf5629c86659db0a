"""Claims about the memory menu."""

from pathlib import Path

import pytest
from small import HEAD, STRICT, build, file_slot, lines, list_verdicts, show, why

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly

MENU = "id: menu, source: menu, pace: session, trust: familiar"
MEMORIES = {f"memory/social/P{number:02}.md": f"# Person {number}\n\nText.\n" for number in range(30)}


def list_lines(assembly: Assembly) -> list[str]:
    """Return the lines of the menu."""
    return [line for line in assembly.prompt.text.splitlines() if line.startswith("- ")]


def test_order(tmp_path: Path) -> None:
    """Files of the workspace come first, then the stores, each in the order of their names."""
    slots = [file_slot("z", "listed: always"), file_slot("b", "listed: always"), MENU]
    files = {"Z.md": "Z\n", "B.md": "B\n", "memory/social/b.md": "x\n", "memory/private/a.md": "x\n"}
    lines = list_lines(build(tmp_path, "", slots, files, tools=READING_TOOLS))
    assert [line.split()[1] for line in lines] == ["B.md", "Z.md", "private/a.md", "social/b.md"]


def test_line(tmp_path: Path) -> None:
    """A line is path, price and description; a file without one has no dash, and thousands are set apart."""
    files = {
        "memory/social/a.md": "---\ndescription: About a.\n---\n" + "word " * 3846 + "word\n",
        "memory/social/b.md": "---\nx: 1\n---\n#\n",
    }
    found = list_lines(build(tmp_path, "", [MENU], files, tools=READING_TOOLS))
    assert found == ["- social/a.md (3,847 tok) — About a", "- social/b.md (1 tok)"]


def test_nothing_to_list(tmp_path: Path) -> None:
    """With nothing to list there is no menu, not a heading either."""
    assembly = build(tmp_path, "", [file_slot("a"), MENU], {"A.md": "A\n"}, tools=READING_TOOLS)
    assert list_verdicts(assembly)["menu"] == "absent"
    assert "Available" not in assembly.prompt.text


def test_overflow(tmp_path: Path) -> None:
    """A file that finds no room is listed with its price where its slot allows it, and dropped where not."""
    slots = [file_slot("a"), file_slot("b", "listed: overflow"), file_slot("c"), MENU]
    files = {"A.md": lines(30), "B.md": lines(30), "C.md": lines(30)}
    budget = "fitting: sequential, least: 200, system: 600, menu_share: 0.2, session_share: 0.0"
    assembly = build(tmp_path, budget, slots, files, tools=READING_TOOLS)
    assert list_verdicts(assembly) == {"a": "kept", "b": "indexed", "c": "dropped", "menu": "kept"}
    assert [line.partition(" (")[0] for line in list_lines(assembly)] == ["- B.md"]
    assert why(assembly, "b").endswith("on the menu")


def test_blank_and_broken_are_not_offered(tmp_path: Path) -> None:
    """The menu lists only readable files: no blank file, and none that is not text."""
    files = {"memory/social/a.md": "\n", "memory/social/b.md": "B\n"}
    (tmp_path / "memory/social").mkdir(parents=True)
    (tmp_path / "memory/social/c.md").write_bytes(b"\xff")
    found = list_lines(build(tmp_path, "", [MENU], files, tools=READING_TOOLS))
    assert [line.split()[1] for line in found] == ["social/b.md"]


def test_stores_above_are_not_read(tmp_path: Path) -> None:
    """A store above the clearance is not even listed on the disk."""
    files = {"memory/private/a.md": "x\n", "memory/shared/b.md": "x\n", "memory/social/c.md": "x\n"}
    config = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
    files["foreword.yaml"] = config
    assembly = build(tmp_path, "", [MENU], files, tools=READING_TOOLS, user="bob")
    assert [line.split()[1] for line in list_lines(assembly)] == ["social/c.md"]


@pytest.mark.parametrize("listed", ["overflow", "always"])
@pytest.mark.parametrize("head", [HEAD, STRICT], ids=["loose", "strict"])
def test_room_for_one_more_line(tmp_path: Path, head: str, listed: str) -> None:
    """A file that moves to the menu for lack of room finds room there, which the others make for it."""
    slots = [file_slot("a"), file_slot("b", f"listed: {listed}"), MENU]
    files = {"A.md": lines(30), "B.md": lines(30)}
    assembly = build(tmp_path, "least: 200, system: 640, menu_share: 0.1", slots, files, head=head, tools=READING_TOOLS)
    assert list_verdicts(assembly)["b"] == "indexed"
    assert [line.partition(" (")[0] for line in list_lines(assembly)] == ["- B.md"]


@pytest.mark.parametrize("head", [HEAD, STRICT], ids=["loose", "strict"])
def test_no_room_is_kept_in_vain(tmp_path: Path, head: str) -> None:
    """As long as no file overflows, the menu takes nothing: files fill the budget to its last token."""
    slots = ["id: a, source: file, file: A.md, pace: session, listed: overflow", MENU]
    files = {"A.md": lines(30)}
    whole = build(tmp_path / "whole", "", slots, files, head=head, tools=READING_TOOLS)
    exact = build(tmp_path / "exact", f"system: {whole.system_tokens}", slots, files, head=head, tools=READING_TOOLS)
    assert list_verdicts(exact) == {"a": "kept", "menu": "absent"}


def test_reserve_gives_way(tmp_path: Path) -> None:
    """The menu's reserve yields to a required slot, except for the line that names the menu."""
    slots = ["id: a, source: file, file: A.md, pace: session, required: true", MENU]
    files = {"A.md": lines(30), **MEMORIES}
    whole = build(tmp_path / "whole", "menu_share: 0.9", slots, files, head=STRICT, tools=READING_TOOLS)
    needed = whole.fit.tool_tokens + next(row.tokens for row in whole.rows() if row.id == "a")
    budget = f"menu_share: 0.9, system: {needed + 50}"
    tight = build(tmp_path / "tight", budget, slots, files, head=STRICT, tools=READING_TOOLS)
    assert list_verdicts(tight) == {"a": "kept", "menu": "dropped"}
    assert 'read_section("menu", from=1)]' in show(tight, "menu")


def test_listed_on_a_menu_that_is_there(tmp_path: Path) -> None:
    """A file is reported as listed only where the prompt has its line, or a line that says where the menu is."""
    slots = [file_slot("a", "listed: always"), MENU]
    budget, files = "system: 1000, menu_share: 0.01", {"A.md": lines(30)}
    loose = build(tmp_path / "loose", budget, slots, files, tools=READING_TOOLS)
    assert list_verdicts(loose) == {"a": "dropped", "menu": "dropped"}
    assert why(loose, "a") == "on the menu, to be read on demand, which does not fit either"
    strict = build(tmp_path / "strict", budget, slots, files, head=STRICT, tools=READING_TOOLS)
    assert list_verdicts(strict) == {"a": "indexed", "menu": "dropped"}
    assert show(strict, "a") is None
    assert 'read_section("menu", from=1)]' in show(strict, "menu")


def test_cut_menu_says_how_to_load(tmp_path: Path) -> None:
    """A menu that is cut keeps its closing lines, without which its offers are of no use."""
    assembly = build(tmp_path, "system: 1000, menu_share: 0.2, least: 50", [MENU], MEMORIES, tools=READING_TOOLS)
    assert list_verdicts(assembly)["menu"] == "shortened"
    *listed, marker, blank, closing = show(assembly, "menu").rstrip("\n").split("\n")[1:]
    assert all(line.startswith("- social/P") for line in listed)
    assert marker.endswith(f'of 30: read_section("menu", from={len(listed) + 1})]')
    assert (blank, closing) == ("", "Use memory_get(path, from, lines) to load sections.")


@pytest.mark.parametrize("head", [HEAD, STRICT], ids=["loose", "strict"])
def test_menu_within_its_share(tmp_path: Path, head: str) -> None:
    """However small its share, the menu stays within it or names its call, and offers nothing without a call."""
    for share in range(0, 700, 25):
        budget = f"system: 1000, menu_share: {share / 1000}, least: 50"
        assembly = build(tmp_path / str(share), budget, [MENU], MEMORIES, head=head, tools=READING_TOOLS)
        menu = show(assembly, "menu") or ""
        stub = "[gone " in menu
        assert stub or assembly.meter.count(menu) <= share
        assert ("- social/P" in menu) == ("Use memory_get(path, from, lines)" in menu)
        assert menu or head is HEAD
