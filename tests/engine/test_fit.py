"""Claims about the fit as a whole."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from small import HEAD, STRICT, build, file_slot, lines, list_verdicts, why

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.errors import BudgetError
from foreword.resources import read_blueprint
from foreword.testing import make_workspace
from foreword.turn import Message, Task, Tool, Toolset, Turn
from foreword.types import Trust

MENU = "id: menu, source: menu, pace: session, trust: familiar"


def read_numbers(text: str) -> list[int]:
    """Return the numbers of a sentence."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


def test_required_do_not_fit(tmp_path: Path) -> None:
    """Where the required slots do not fit, the error names each with its weight, and the sums are right."""
    slots = [file_slot("a", "required: true"), file_slot("b", "required: true"), file_slot("c")]
    files = {"A.md": lines(30), "B.md": lines(10), "C.md": lines(10)}
    whole = {row.id: row.tokens for row in build(tmp_path / "whole", "", slots, files).rows()}
    with pytest.raises(BudgetError) as caught:
        build(tmp_path / "tight", "system: 200", slots, files)
    needed = whole["a"] + whole["b"]
    assert str(caught.value).startswith(
        f"the prompt does not fit: a {whole['a']} + b {whole['b']} = {needed} tokens, and the system budget, "
        f"the smaller of 200 and 15 % of a window of 400,000, has 200; {needed - 200} are missing. "
    )


def test_exactly_required(tmp_path: Path) -> None:
    """Required slots that fill the budget to the last token are a prompt; one token less is none."""
    slots = [file_slot("a", "required: true"), file_slot("b")]
    files = {"A.md": lines(30), "B.md": lines(1)}
    need = next(row.tokens for row in build(tmp_path / "whole", "", slots, files).rows())
    assert list_verdicts(build(tmp_path / "exact", f"system: {need}", slots, files)) == {"a": "kept", "b": "dropped"}
    with pytest.raises(BudgetError, match="1 are missing"):
        build(tmp_path / "less", f"system: {need - 1}", slots, files)


def test_tools_are_counted(tmp_path: Path) -> None:
    """Tool schemas are taken from the system budget, and a tool that is larger than it is left out with the sum."""
    tools = Toolset([Tool(name="big", description="word " * 500, trust=Trust.PUBLIC)])
    slots = [file_slot("a", "required: true")]
    assembly = build(tmp_path / "a", "", slots, {"A.md": "A\n"}, tools=tools)
    assert assembly.fit.tool_tokens > 500
    assert assembly.system_tokens == assembly.fit.tool_tokens + assembly.prompt.tokens
    small = build(tmp_path / "b", "system: 400", slots, {"A.md": "A\n"}, tools=tools)
    assert list_verdicts(small) == {"a": "kept", "tool:big": "dropped"}
    assert why(small, "tool:big").startswith("tool schemas have 400 of 400 tokens; wants 5")


SUM = re.compile(r"does not fit: (.*) = ([\d,]+) tokens, and (.*) has ([\d,]+); ([\d,]+) are missing\. Use ")
MUST = "id: must, source: file, file: B.md, pace: session, required: true"
TASK = "id: task, source: moment, form: forms/task, pace: turn, placement: tail"
WORK = f"{TASK}, required: true"
TIME = "id: time, source: moment, form: 'It is {time} ({zone}).', pace: turn"


@pytest.mark.parametrize(
    ("head", "budget", "slots", "named"),
    [
        (HEAD, "system: 400, menu_share: 0.2", [file_slot("a", "required: true"), MENU], ["tool schemas", "a"]),
        (
            HEAD,
            "system: 500, menu_share: 0.1, session_share: 0.0",
            [file_slot("a"), MUST, MENU],
            ["tool schemas", "static slots", "must"],
        ),
        (
            STRICT,
            "system: 500, menu_share: 0.1, session_share: 0.0",
            [file_slot("a"), MUST, MENU],
            ["tool schemas", "static slots", "menu", "must"],
        ),
        (STRICT, "system: 400", [file_slot("a", "required: true"), file_slot("b")], ["tool schemas", "a", "naming"]),
        (STRICT, "system: 230", [file_slot("a"), file_slot("b")], ["tool schemas", "naming"]),
        (HEAD, "turn: 50", [WORK], ["task"]),
        (STRICT, "turn: 50", [WORK, TIME], ["task", "naming"]),
    ],
)
def test_arithmetic_adds_up(tmp_path: Path, head: str, budget: str, slots: list[str], named: list[str]) -> None:
    """The numbers of the error add up: it names every addend, and the shortfall is their sum less the budget."""
    files = {"A.md": lines(30), "B.md": lines(30), "memory/social/x.md": "X\n"}
    with pytest.raises(BudgetError) as caught:
        build(tmp_path, budget, slots, files, head=head, tools=READING_TOOLS, task=Task(id="1", title="t" * 1_000))
    parts, total, pool, limit, missing = SUM.search(str(caught.value)).groups()
    assert sum(read_numbers(part)[-1] for part in parts.split(" + ")) == int(total) == int(limit) + int(missing)
    assert [name for name, part in zip(named, parts.split(" + "), strict=True) if not part.startswith(name)] == []
    assert pool.startswith("the budget of a turn" if "turn" in budget else "the system budget, the smaller of")


def test_menu_alone_fails_nothing(tmp_path: Path) -> None:
    """A prompt without required slots never fails: the menu yields first."""
    slots = [file_slot("a", "listed: overflow"), MENU]
    assert list_verdicts(
        build(tmp_path, "system: 220, menu_share: 0.2", slots, {"A.md": lines(30)}, tools=READING_TOOLS)
    )


def test_static_leaves_room_for_session(tmp_path: Path) -> None:
    """Static slots leave the session its share, however long they are."""
    slots = [file_slot("a"), "id: b, source: file, file: B.md, pace: session"]
    files = {"A.md": lines(200), "B.md": lines(20)}
    assembly = build(tmp_path, "system: 600, session_share: 0.4, least: 20", slots, files)
    assert list_verdicts(assembly) == {"a": "shortened", "b": "kept"}


@pytest.mark.parametrize(
    ("budget", "more", "left"),
    [
        ("session_share: 0.3", [], 0),
        ("session_share: 0.3", ["floor: 0"], 300),
        ("session_share: 0.0", ["floor: 0"], 0),
        ("session_share: 0.0", ["floor: 100", "floor: 700"], 0),
        ("session_share: 0.6", ["floor: 100", "floor: 700"], 600),
        ("session_share: 0.1, menu_share: 0.2", ["floor: 50", "menu"], 100),
        ("session_share: 0.3", ["modes: [minimal]"], 0),
        ("session_share: 0.3", ["modes: [minimal]", "modes: [full]"], 300),
    ],
)
def test_what_static_leaves(tmp_path: Path, budget: str, more: list[str], left: int) -> None:
    """Static slots leave the session's share, for any floors, and nothing where the mode has no session slot."""
    slots = [file_slot("a")]
    for number, one in enumerate(more):
        slots.append(MENU if one == "menu" else f"id: s{number}, source: file, file: GONE.md, pace: session, {one}")
    assembly = build(tmp_path, f"system: 1000, least: 20, {budget}", slots, {"A.md": "word\n" * 2_000})
    assert 1000 - left - 2 <= assembly.system_tokens <= 1000 - left


SESSIONS = [
    {},
    {"instructions": "Be brief."},
    {"instructions": lines(400)},
    {"directories": tuple(f"~/{number}" for number in range(200))},
    {"channel": "telegram"},
    {"project": "~/house", "session": "s1"},
]


@pytest.mark.parametrize("tools", [Toolset(), READING_TOOLS], ids=["bare", "tools"])
@pytest.mark.parametrize("system", [700, 900, 1200, 1700, 2500])
def test_static_follows_no_session(tmp_path: Path, system: int, tools: Toolset) -> None:
    """The static block does not depend on the session: long or short, files, menu and all."""
    small = (read_blueprint("default") or "").replace("  system: 30000", f"  system: {system}")
    static = {"AGENTS.md": lines(60), "rules/a.md": lines(30), "rules/b.md": lines(3), "TOOLS.md": lines(9)}
    contents = [
        {},
        {"USER.md": lines(200)},
        {"USER.md": "Short.\n", "MEMORY.md": lines(50), "BOOT.md": lines(40)},
        {f"memory/social/{number}.md": f"# Person {number}\n" for number in range(50)},
    ]
    seen = set()
    for at, content in enumerate(contents):
        ws = make_workspace(tmp_path / str(at), {"blueprints/small.yaml": small, **static, **content})
        for facts in SESSIONS:
            turn = Turn(user="alice", situation="dm", model="openai:gpt-5", blueprint="small", tools=tools, **facts)
            # A session that cannot even name its losses fails, and that says nothing of the earlier turns.
            with suppress(BudgetError):
                seen.add(ws.assemble(turn).prompt.blocks[0].text)
    assert len(seen) == 1


def test_tier_cap(tmp_path: Path) -> None:
    """A tier takes its share at most, over both paces together."""
    slots = [file_slot("a", "tier: high"), "id: b, source: file, file: B.md, pace: session, tier: high", file_slot("c")]
    files = {"A.md": lines(30), "B.md": lines(30), "C.md": lines(30)}
    assembly = build(tmp_path, "system: 1000, least: 20, tiers: {high: 0.3, low: 1.0}", slots, files)
    rows = {row.id: row for row in assembly.rows()}
    assert rows["a"].tokens + rows["b"].tokens <= 300
    assert str(rows["c"].verdict) == "kept"
    assert why(assembly, "b").startswith("tier high ends at 30 % of 1,000; wants ")


def test_later_floor(tmp_path: Path) -> None:
    """An earlier tier leaves a later one its floors."""
    tiers = "tiers: {high: 1.0, low: 1.0}"
    slots = [file_slot("a", "tier: high"), file_slot("b", "tier: low, floor: 60")]
    files = {"A.md": lines(100), "B.md": lines(7)}
    assert list_verdicts(build(tmp_path / "with", f"system: 300, least: 20, {tiers}", slots, files))["b"] == "kept"
    slots[1] = file_slot("b", "tier: low")
    assert (
        list_verdicts(build(tmp_path / "without", f"system: 300, least: 20, {tiers}", slots, files))["b"] == "dropped"
    )


def test_turn_presses_on_nothing(tmp_path: Path) -> None:
    """A turn's slots have separate room: however long a task is, the rest of the prompt is the same."""
    slots = [file_slot("a"), TASK]
    files = {"A.md": lines(30)}
    texts = [
        build(
            tmp_path / str(size), "system: 300, turn: 100, least: 20", slots, files, task=Task(id="1", title="t" * size)
        )
        for size in (1, 4_000)
    ]
    assert texts[0].prompt.blocks[0].text == texts[1].prompt.blocks[0].text
    assert all(one.used - one.system_tokens <= 100 for one in texts)


def test_conversation_does_not_fit(tmp_path: Path) -> None:
    """A conversation that leaves no room for an answer is an error with the sum, and evicts nothing."""
    ws = make_workspace(
        tmp_path, {"foreword.yaml": "owner: a\nusers: {a: {trust: full}}\nmodels: {m: {window: 40000}}\n"}
    )
    turn = Turn(user="a", situation="dm", model="openai:m", history=(Message(role="user", text="word " * 40_000),))
    with pytest.raises(BudgetError) as caught:
        ws.assemble(turn)
    parts, total = re.search(r": (.*) = ([\d,]+) tokens", str(caught.value)).groups()
    assert sum(read_numbers(parts)) == read_numbers(total)[0]
    assert "Compact the conversation" in str(caught.value)


def test_window_too_small(tmp_path: Path) -> None:
    """A window that is too small by itself fails with the sum, in which the answer has a quarter at most."""
    config = "owner: a\nusers: {a: {trust: full}}\nmodels: {m: {window: 4000}}\n"
    blueprint = (read_blueprint("default") or "").replace("  turn: 400", "  turn: 2500")
    ws = make_workspace(tmp_path, {"foreword.yaml": config, "blueprints/wide.yaml": blueprint})
    with pytest.raises(BudgetError) as caught:
        ws.assemble(Turn(user="a", situation="dm", model="openai:m", blueprint="wide", tools=Toolset()))
    assert str(caught.value) == (
        "the window is too small: 600 for the system prompt + 2,500 for the turn + 1,000 for the answer + "
        "conversation 0 = 4,100 tokens, and it has 4,000; 100 are missing. Use a model with a larger window."
    )


def test_small_window(tmp_path: Path) -> None:
    """The system budget follows the model's window, and a window under 16,000 gets the minimal prompt."""
    config = "owner: a\nusers: {a: {trust: full}}\nmodels: {small: {window: 15999}, large: {window: 16000}}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config, "SOUL.md": "Be kind.\n"})
    small, large = (ws.assemble(Turn(user="a", situation="dm", model=f"openai:{name}")) for name in ("small", "large"))
    assert (small.fit.limit, large.fit.limit) == (2399, 2400)
    assert ("Soul" in small.prompt.text, "Soul" in large.prompt.text) == (False, True)
