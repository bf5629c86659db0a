"""Claims about limits: how many characters a text may have, for any room."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import HEAD, STRICT, build, file_slot, lines, list_verdicts, show, why

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.engine.blueprint import Slot
from foreword.engine.cuts import find_char_limits
from foreword.engine.selection import PlannedSlot
from foreword.engine.sources.sections import Section
from foreword.testing import make_workspace
from foreword.turn import State, Toolset
from foreword.types import Pace

NOTICE = (
    f'{HEAD}notice: "(shown: {{limit}} of {{size}} characters of {{name}}, {{first}}–{{last}} of {{lines}} {{call}})"\n'
)
CALL = re.compile(r'memory_get\("A.md", from=(\d+)(?:, lines=(\d+))?\)')
MARKER = re.compile(r"\n(\[cut [^\n]*\])(?:\n|$)")


def limit(folder: Path, text: str, more: str, head: str = HEAD, **facts: object) -> Assembly:
    """Assemble a prompt of one file under a limit."""
    return build(folder, "least: 1", [file_slot("a", f"title: A.md, {more}")], {"A.md": text}, head=head, **facts)


def read_body(assembly: Assembly, name: str = "a") -> str:
    """Return the text of a slot without its heading."""
    shown = show(assembly, name)
    assert shown is not None
    return shown.removeprefix("## A.md\n").removesuffix("\n\n")


def make_text(size: int) -> str:
    """Make a text of so many characters in one line, no two of which are next to the same ones."""
    return "".join(f"{number} " for number in range(size))[:size].replace(" ", "_")


@pytest.mark.parametrize("cut", ["head", "head_tail"])
@pytest.mark.parametrize("size", [1, 99, 100])
def test_within(tmp_path: Path, size: int, cut: str) -> None:
    """A text of as many characters as its limit is whole."""
    assembly = limit(tmp_path, make_text(size), f"limit: 100, cut: {cut}")
    assert (list_verdicts(assembly), why(assembly, "a")) == ({"a": "kept"}, "")
    assert read_body(assembly) == make_text(size)


@pytest.mark.parametrize("size", [101, 150, 1_000])
def test_head(tmp_path: Path, size: int) -> None:
    """Of a longer text exactly the first characters within the limit stay, then a marker."""
    assembly = limit(tmp_path, make_text(size), "limit: 100")
    assert list_verdicts(assembly) == {"a": "shortened"}
    shown, marker, rest = MARKER.split(read_body(assembly))
    assert (shown, rest) == (make_text(size)[:100], "")
    assert marker.endswith(", lines 1–1 of 1]")


@pytest.mark.parametrize("size", [101, 150, 1_000])
def test_both_ends(tmp_path: Path, size: int) -> None:
    """With both ends retained, three quarters of the limit are the beginning and one is the end."""
    shown, _, rest = MARKER.split(read_body(limit(tmp_path, make_text(size), "limit: 100, cut: head_tail")))
    assert (shown, rest) == (make_text(size)[:75], make_text(size)[-25:])


@pytest.mark.parametrize(("size", "verdict"), [(19_999, "kept"), (20_000, "kept"), (20_001, "shortened")])
def test_openclaw(tmp_path: Path, size: int, verdict: str) -> None:
    """OpenClaw's rule is a limit of 20,000 characters a file with head and tail."""
    text = make_text(size)
    assembly = limit(tmp_path, text, "limit: 20000, cut: head_tail")
    assert list_verdicts(assembly) == {"a": verdict}
    if verdict == "shortened":
        head, _, tail = MARKER.split(read_body(assembly))
        assert (head, tail) == (text[:15_000], text[-5_000:])


def test_signs_count_once(tmp_path: Path) -> None:
    """A limit counts characters as a reader does in every script, not bytes and not tokens."""
    text = "🪶é字" * 40
    assert list_verdicts(limit(tmp_path / "a", text, "limit: 120")) == {"a": "kept"}
    assert read_body(limit(tmp_path / "b", text, "limit: 119")).startswith(text[:119] + "\n[cut ")


def test_reason(tmp_path: Path) -> None:
    """The reason names the size of the text, the shown part, the limit, and the call that reads the rest."""
    text = lines(20)
    assembly = limit(tmp_path / "a", text, "limit: 100")
    size = len(text.rstrip())
    assert why(assembly, "a") == f"has {size} characters, and 100 are shown; the limit is 100 characters"
    assembly = limit(tmp_path / "b", text, "limit: 100", tools=READING_TOOLS)
    assert why(assembly, "a").endswith('; the limit is 100 characters; rest: memory_get("A.md", from=4)')


def test_notice(tmp_path: Path) -> None:
    """A notice has these fields: shown part, total, owner of the text, lines, and call."""
    text = lines(40, "x" * 46)
    size = f"{len(text.rstrip()):,}"
    body = read_body(limit(tmp_path / "a", text, "limit: 1200", head=NOTICE, tools=READING_TOOLS))
    assert body.endswith(f'\n(shown: 1,200 of {size} characters of A.md, 24–40 of 40 memory_get("A.md", from=24))')
    assert read_body(limit(tmp_path / "b", text, "limit: 1200", head=NOTICE)).endswith(", 24–40 of 40 )")


def test_notice_is_for_limits(tmp_path: Path) -> None:
    """A text that is cut for want of room has the marker, though there is a notice for limits."""
    slots = [file_slot("a", "limit: 100000")]
    assembly = build(tmp_path, "least: 1, system: 100", slots, {"A.md": lines(50)}, head=NOTICE)
    assert "[cut " in assembly.prompt.text
    assert "(shown: " not in assembly.prompt.text


@pytest.mark.parametrize("cut", ["head", "head_tail"])
@pytest.mark.parametrize("most", [1, 27, 28, 29, 30, 57, 58, 59, 60, 100, 333, 570, 575])
def test_rest_can_be_read(tmp_path: Path, most: int, cut: str) -> None:
    """The lines before the gap, the answer of the named call, and the lines after it are the whole text."""
    text = lines(20)
    assembly = limit(tmp_path, text, f"limit: {most}, cut: {cut}", tools=READING_TOOLS)
    assert list_verdicts(assembly) == {"a": "shortened"}
    first, count = CALL.search(read_body(assembly)).groups()
    asked = {"path": "A.md", "from": int(first), **({"lines": int(count)} if count else {})}
    found = make_workspace(tmp_path, {}).call(assembly, "memory_get", asked)
    whole = text.rstrip().split("\n")
    behind = whole[int(first) - 1 + int(count) :] if count else []
    assert [*whole[: int(first) - 1], *found.text.split("\n"), *behind] == whole
    shown = MARKER.split("\n" + read_body(assembly))
    assert shown[0].lstrip("\n").split("\n")[: int(first) - 1] == whole[: int(first) - 1]
    assert shown[2].split("\n")[len(shown[2].split("\n")) - len(behind) :] == behind


@given(
    st.text("ab\n", min_size=2, max_size=80).filter(str.strip),
    st.integers(1, 79),
    st.sampled_from(["head", "head_tail"]),
)
def test_no_more_than_allowed(tmp_path_factory: pytest.TempPathFactory, text: str, most: int, cut: str) -> None:
    """For any lines, no more of a text is shown than its limit, from its beginning and its end."""
    body = read_body(limit(tmp_path_factory.mktemp("x"), text, f"limit: {most}, cut: {cut}"))
    plain = text.strip("\n").rstrip()
    if len(plain) <= most:
        assert body == plain
        return
    head, _, tail = MARKER.split("\n" + body)
    assert len(head) - 1 + len(tail) <= most
    assert plain.startswith(head[1:])
    assert plain.endswith(tail)


DENSE = "\n".join("".join(chr(0x4E00 + (7 * at * at + 13 * line) % 8_000) for at in range(20)) for line in range(100))
CHEAP = "\n".join(" ".join(["information"] * 8) for _ in range(200))


@pytest.mark.parametrize("cut", ["head", "head_tail"])
@pytest.mark.parametrize("text", [f"{DENSE}\n{CHEAP}", f"{CHEAP}\n{DENSE}"], ids=["dense first", "cheap first"])
@pytest.mark.parametrize("system", [100, 300, 700, 1_500, 2_500])
def test_limit_in_a_small_room(tmp_path: Path, system: int, text: str, cut: str) -> None:
    """A text with a limit and too little room respects both."""
    slots = [file_slot("a", f"limit: 2000, cut: {cut}")]
    assembly = build(tmp_path, f"least: 1, system: {system}", slots, {"A.md": text})
    assert assembly.system_tokens <= system
    shown = MARKER.split("\n" + (show(assembly, "a") or "[cut ]").removesuffix("\n\n"))
    assert len(shown[0]) - 1 + len(shown[-1]) <= 2_000


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_code_is_closed(tmp_path: Path, fence: str) -> None:
    """A cut in the middle of code closes the code before the notice and opens it again behind it."""
    text = f"{fence}python\n{lines(50)}{fence}\nEnd.\n"
    head, _, rest = MARKER.split(read_body(limit(tmp_path / "a", text, "limit: 300")))
    assert head.endswith(f"\n{fence}")
    assert rest == ""
    head, _, tail = MARKER.split(read_body(limit(tmp_path / "b", text, "limit: 300, cut: head_tail")))
    assert head.endswith(f"\n{fence}")
    assert tail.startswith(f"{fence}\n")
    assert tail.endswith(f"\n{fence}\nEnd.")


def test_open_code_stays_alone(tmp_path: Path) -> None:
    """A cut before or behind code adds no fence."""
    body = read_body(limit(tmp_path, f"{lines(9)}```\nx\n```\n", "limit: 200"))
    assert "```" not in body


def test_form_is_not_cut(tmp_path: Path) -> None:
    """A limit applies to the text alone: its heading and the form around it are neither counted nor cut."""
    body = read_body(limit(tmp_path / "a", make_text(100), "limit: 100, form: 'Before.\n\n  {text}\n\n  After.'"))
    assert body == f"Before.\n{make_text(100)}\nAfter."
    body = read_body(limit(tmp_path / "b", make_text(200), "limit: 100, form: 'Before.\n\n  {text}\n\n  After.'"))
    assert body.startswith(f"Before.\n{make_text(200)[:100]}\n[cut ")
    assert body.endswith("]\nAfter.")


def test_never_cut(tmp_path: Path) -> None:
    """A limit does not cut a text that is marked as never cut: its source respects the limit by itself."""
    assert list_verdicts(limit(tmp_path, lines(50), "limit: 10, cut: never")) == {"a": "kept"}


def test_required(tmp_path: Path) -> None:
    """A required slot also has its limit, and needs no more room than that."""
    slots = [file_slot("a", "limit: 100, required: true")]
    assert list_verdicts(build(tmp_path, "system: 100", slots, {"A.md": lines(90)})) == {"a": "shortened"}


def test_turn(tmp_path: Path) -> None:
    """A slot of the turn has its limit, whether or not there is room for more."""
    slots = ["id: a, source: moment, form: '{workflow}', pace: turn, placement: tail, limit: 100"]
    assembly = build(tmp_path, "turn: 4000", slots, {}, state=State(workflow=make_text(500)))
    assert assembly.prompt.text.startswith(make_text(500)[:100] + "\n[cut ")
    assert list_verdicts(assembly) == {"a": "shortened"}


@pytest.mark.parametrize(
    ("sizes", "one", "whole", "caps"),
    [
        ([100, 100, 100], 0, 300, [100, 100, 100]),
        ([100, 100, 100], 0, 299, [99, 100, 100]),
        ([100, 100, 100], 0, 200, [0, 100, 100]),
        ([100, 100, 100], 0, 199, [0, 99, 100]),
        ([100, 100, 100], 0, 50, [0, 0, 50]),
        ([50, 10, 200], 0, 100, [0, 0, 100]),
        ([100, 200, 300], 150, 0, [100, 150, 150]),
        ([200, 200, 200], 100, 250, [50, 100, 100]),
        ([200, 200, 200], 100, 300, [100, 100, 100]),
        ([20, 20, 20], 100, 250, [20, 20, 20]),
        ([], 10, 10, []),
    ],
)
def test_caps(sizes: list[int], one: int, whole: int, caps: list[int]) -> None:
    """Every text keeps to its own limit, and where they are too much together the first ones give way first."""
    slot = Slot(id="x", source="folder", pace=Pace.STATIC, limit=one, limit_all=whole)
    entry = PlannedSlot(slot=slot, id="x", trust=slot.trust)
    sections = [Section(entry=entry, name=str(at), text="a" * size, origin="") for at, size in enumerate(sizes)]
    found = find_char_limits(sections)
    assert [found.get(section, len(section.text)) for section in sections] == caps
    assert all(found[section] < len(section.text) for section in sections if section in found)


def test_slots_are_apart() -> None:
    """The limit of one slot affects no other slot."""
    kinds = [Slot(id=name, source="folder", pace=Pace.STATIC, limit_all=most) for name, most in (("x", 10), ("y", 100))]
    entries = [PlannedSlot(slot=slot, id=slot.id, trust=slot.trust) for slot in kinds]
    sections = [Section(entry=entry, text="a" * 90, origin="") for entry in entries]
    assert find_char_limits(sections) == {sections[0]: 10}


FOLDER = "id: r, source: folder, folder: rules, pace: static, limit_all: 150"
RULES = {f"rules/{name}.md": make_text(100) for name in "abc"}


@pytest.mark.parametrize(
    ("head", "stands"),
    [
        (HEAD, "### a.md\n[cut 0/"),
        (NOTICE, "### a.md\n(shown: 0 of 100 characters of a.md, 1–1 of 1 )"),
        (STRICT, "### a.md\n[gone "),
    ],
)
def test_nothing_left(tmp_path: Path, head: str, stands: str) -> None:
    """A text for which nothing of the limit is left is dropped, and a line in its place says so to the model."""
    assembly = build(tmp_path, "least: 1", [f"{FOLDER}, title: Rules"], RULES, head=head)
    assert list_verdicts(assembly) == {"r:a.md": "dropped", "r:b.md": "shortened", "r:c.md": "kept"}
    assert why(assembly, "r:a.md") == "the 150 characters of r end before it"
    assert f"## Rules\n{stands}" in assembly.prompt.text
    assert f"### b.md\n{make_text(100)[:50]}\n" in assembly.prompt.text
    assert f"### c.md\n{make_text(100)}\n" in assembly.prompt.text


def test_nothing_left_can_be_read(tmp_path: Path) -> None:
    """A text that the limit left out whole can be read whole."""
    assembly = build(tmp_path, "least: 1", [FOLDER], RULES, tools=READING_TOOLS)
    assert 'memory_get("rules/a.md", from=1)]' in (show(assembly, "r:a.md") or "")
    found = make_workspace(tmp_path, {}).call(assembly, "memory_get", {"path": "rules/a.md", "from": 1})
    assert found.text == make_text(100)


def test_nothing_left_is_listed(tmp_path: Path) -> None:
    """A text that the limit left out whole is on the menu where its slot may be listed."""
    slots = [f"{FOLDER}, listed: overflow", "id: menu, source: menu, pace: session, trust: familiar"]
    assembly = build(tmp_path, "least: 1", slots, RULES, tools=READING_TOOLS)
    assert list_verdicts(assembly)["r:a.md"] == "indexed"
    assert "- rules/a.md (" in (show(assembly, "menu") or "")


SKILLS = {f"skills/{name}/SKILL.md": f"---\nname: {name}\ndescription: {name * 60}\n---\n" for name in "abc"}


def list_skills(folder: Path, most: int, files: dict[str, str]) -> Assembly:
    """Assemble a prompt that lists skills under a limit."""
    slot = f"id: s, source: skills, folder: skills, pace: static, cut: never, voice: system, limit: {most}"
    return build(folder, "", [slot], files, tools=Toolset())


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_whole_skills(tmp_path: Path, kept: int) -> None:
    """A list of skills under a limit holds whole skills from its beginning, and names the others as dropped."""
    one = len(show(list_skills(tmp_path / "one", 0, {"skills/a/SKILL.md": SKILLS["skills/a/SKILL.md"]}), "s") or "")
    one -= len("<available_skills>\n</available_skills>\n\n")
    assembly = (
        list_skills(tmp_path / "exact", kept * one, SKILLS) if kept else list_skills(tmp_path / "x", one - 1, SKILLS)
    )
    assert list_verdicts(assembly) == {"s": "kept", **{f"s:{name}": "dropped" for name in "abc"[kept:]}}
    text = assembly.prompt.text
    assert [name for name in "abc" if name * 60 in text] == [*"abc"[:kept]]
    assert text.count("<skill ") == text.count("</skill>") == kept
    assert (f" characters: {3 - kept} more.)" in text) is (kept < 3)
    less = list_skills(tmp_path / "less", max(kept * one - 1, 1), SKILLS)
    assert less.prompt.text.count("<skill ") == max(kept - 1, 0)


def test_no_limit_lists_all(tmp_path: Path) -> None:
    """Without a limit every skill is listed, and none is mentioned as missing."""
    assembly = list_skills(tmp_path, 0, SKILLS)
    assert list_verdicts(assembly) == {"s": "kept"}
    assert "Left out at" not in assembly.prompt.text
