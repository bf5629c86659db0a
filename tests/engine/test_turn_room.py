"""Claims about the room of a turn's slots where the conversation and the prompt share one window."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import HEAD, STRICT, lines

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assemble import prepare
from foreword.assembly import Assembly
from foreword.engine.budget import Fit, FittedRun, TurnRoom, find_turn_room, fit_budget
from foreword.engine.cuts import Fitted
from foreword.engine.sources.fill import fill_turn, make_turn_view
from foreword.errors import BudgetError
from foreword.testing import make_workspace
from foreword.turn import Message, Toolset, Turn
from foreword.types import Pace
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users: {alice: {trust: full}}
models: {large: {window: 200000}, even: {window: 128000}, small: {window: 20000}, tiny: {window: 12000}}
"""
OSA = "system: 128000, window_share: 1.0, window: 128000, reserve: 4096, turn: 2000, turn_room: rest, session_share: 0"
TIERS = "turn_tiers: {critical: 1.0, high: 0.4, medium: 0.3, low: 1.0}"
RULE = f"{OSA}, {TIERS}, fitting: sequential, least: 1"
STATIC = "id: s, source: file, file: S.md, pace: static, modes: [full, minimal]"
SMALL = 20_000 - 4_096  # the room of a small window before any message
FLOOR = 128_000 - 4_096 - 2_000  # the conversation beyond which the whole prompt has no less than 2,000
SUM = re.compile(r"does not fit: (.*) = ([\d,]+) tokens, and (.*) has ([\d,]+); ([\d,]+) are missing\. Use ")


def moving(name: str, tier: str, more: str = "") -> str:
    """Write a slot that changes with the turn."""
    return f"id: {name}, source: file, file: {name.upper()}.md, pace: turn, tier: {tier}{', ' if more else ''}{more}"


class House:
    """A workspace with one blueprint, whose prompts can be fitted next to any conversation."""

    def __init__(self, folder: Path, slots: Sequence[str], files: dict[str, str], budget: str = RULE, head: str = HEAD):
        rows = "".join(f"  - {{{slot}}}\n" for slot in slots)
        text = f"{head}budget: {{{budget}}}\nslots:\n{rows}"
        self.ws: Workspace = make_workspace(folder, {"foreword.yaml": CONFIG, "blueprints/mine.yaml": text, **files})

    def assemble(self, model: str = "large", **facts: object) -> Assembly:
        """Assemble a turn of the owner."""
        turn = {"user": "alice", "situation": "dm", "tools": Toolset(), "blueprint": "mine", **facts}
        return self.ws.assemble(Turn(model=f"openai:{model}", **turn))

    def fit(self, conversation: int, model: str = "large", **facts: object) -> Fit:
        """Fit the same prompt next to a conversation of so many tokens."""
        made = self.assemble(model, **facts)
        stable = prepare(made.turn, self.ws.context, made.plan.blueprint)
        view = make_turn_view(made.plan, stable.view, made.turn, self.ws.context, conversation)
        return fit_budget(stable.runs, fill_turn(made.plan, view), made.inputs, conversation)

    def find_room(self, conversation: int, model: str = "large", **facts: object) -> TurnRoom:
        """Find the room of the turn's slots next to a conversation of so many tokens."""
        made = self.assemble(model, **facts)
        return find_turn_room(made.inputs, slow(made.fit), conversation)


def slow(made: Fit) -> list[FittedRun]:
    """Return the runs that do not change with the turn."""
    return [run for run in made.runs if run.pace is not Pace.TURN]


def items(made: Fit) -> dict[str, Fitted]:
    """Return the fitted sections by name."""
    return {one.item.id: one for run in made.runs for one in run.items if isinstance(one, Fitted)}


def list_verdicts(made: Fit) -> dict[str, str]:
    """Return the verdict of every section."""
    return {name: str(one.verdict) for name, one in items(made).items()}


def read_numbers(text: str) -> list[int]:
    """Return the numbers of a sentence."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


@pytest.mark.parametrize(
    ("model", "conversation", "whole"),
    [
        ("large", 0, 123_904),
        ("large", 1, 123_903),
        ("large", 100_000, 23_904),
        ("large", FLOOR - 1, 2_001),
        ("large", FLOOR, 2_000),
        ("large", FLOOR + 1, 2_000),
        ("large", 190_000, 2_000),
        ("even", 0, 123_904),
        ("even", FLOOR, 2_000),
        ("small", 0, 20_000 - 4_096),
        ("small", 13_904, 2_000),
        ("tiny", 0, 9_000),
        ("tiny", 6_999, 2_001),
    ],
)
def test_old_formula(tmp_path: Path, model: str, conversation: int, whole: int) -> None:
    """The whole prompt has 128,000 less 4,096 and the conversation, less of a smaller window, never under 2,000."""
    assert House(tmp_path, [STATIC], {"S.md": "S\n"}).find_room(conversation, model).whole == whole


@pytest.mark.parametrize("model", ["large", "even", "small", "tiny"])
@pytest.mark.parametrize("conversation", [0, 1, 500, 5_000])
def test_new_formula(tmp_path: Path, model: str, conversation: int) -> None:
    """The turn's slots have what window, static base, conversation and reserve leave, to the token."""
    room = House(tmp_path, [STATIC], {"S.md": lines(30)}).find_room(conversation, model, tools=READING_TOOLS)
    window = {"large": 128_000, "even": 128_000, "small": 20_000, "tiny": 12_000}[model]
    assert room.used > 400
    assert room.left == window - room.used - conversation - min(4_096, window // 4)


def test_static_base(tmp_path: Path) -> None:
    """The static base is what static and session slots weigh, tool schemas included."""
    slots = [STATIC, "id: t, source: file, file: T.md, pace: session", moving("a", "low")]
    house = House(tmp_path, slots, {"S.md": lines(9), "T.md": lines(7), "A.md": lines(50)})
    made = house.assemble(tools=READING_TOOLS)
    assert house.find_room(0, tools=READING_TOOLS).used == made.system_tokens == made.used - items(made.fit)["a"].tokens


def test_floor_is_shared(tmp_path: Path) -> None:
    """At the floor the static base is part of the 2,000, so that the turn's slots have what it leaves."""
    room = House(tmp_path, [STATIC], {"S.md": lines(30)}).find_room(150_000)
    assert room.left == 2_000 - room.used < 2_000


@pytest.mark.parametrize("beyond", [0, 1, 500, 1_700])
def test_floor_is_no_promise(tmp_path: Path, beyond: int) -> None:
    """The floor is limited by the window: the conversation and the answer come first."""
    room = House(tmp_path, [STATIC], {"S.md": lines(30)}).find_room(FLOOR + beyond, "even")
    assert room.whole == 2_000
    assert room.left == 128_000 - 4_096 - (FLOOR + beyond) - room.used == 2_000 - beyond - room.used


def test_window_is_full(tmp_path: Path) -> None:
    """A conversation may fill the window to the last token that prompt and answer leave, and not one more."""
    house = House(tmp_path, [STATIC], {"S.md": lines(30)})
    used = house.find_room(0, "even").used
    most = 128_000 - 4_096 - used
    assert house.find_room(most, "even").left == 0
    with pytest.raises(BudgetError) as caught:
        house.find_room(most + 1, "even")
    assert str(caught.value) == (
        f"the window is too small: {used} for the system prompt + 0 for the turn + 4,096 for the answer + "
        f"conversation {most + 1:,} = 128,001 tokens, and it has 128,000; 1 are missing. "
        "Compact the conversation, or use a model with a larger window."
    )


def test_fixed(tmp_path: Path) -> None:
    """With a fixed room the conversation changes nothing for a turn's slots."""
    house = House(tmp_path, [STATIC], {"S.md": "S\n"}, budget="turn: 700")
    rooms = {house.find_room(conversation).left for conversation in (0, 1, 100_000)}
    assert rooms == {700}


LONG = {"S.md": lines(30), **{f"{name}.md": "word\n" * 8_000 for name in "ABC"}}


@pytest.mark.parametrize("conversation", [0, 1, 5_000, 13_000, 13_904])
def test_tiers(tmp_path: Path, conversation: int) -> None:
    """The second tier ends at 40 % of the sum and the third at 30 %, and the last one has the rest."""
    house = House(tmp_path, [STATIC, moving("a", "high"), moving("b", "medium"), moving("c", "low")], LONG)
    made, room = items(house.fit(conversation, "small")), house.find_room(conversation, "small")
    for name, tier, most in (("a", "high", int(0.4 * room.whole)), ("b", "medium", int(0.3 * room.whole))):
        assert most - 5 <= made[name].tokens <= most
        assert made[name].reason.startswith(f"tier {tier} has {most:,} of {room.whole:,} tokens; wants ")
    left = room.left - made["a"].tokens - made["b"].tokens
    assert left - 5 <= made["c"].tokens <= left
    assert made["c"].reason.startswith(f"tier low has {left:,} of {room.whole:,} tokens; wants ")


def test_tier_is_of_the_sum(tmp_path: Path) -> None:
    """A share is one of what the whole prompt may use, not of what the static base leaves."""
    slots = [STATIC, moving("a", "high")]
    short, long = ({**LONG, "S.md": lines(size)} for size in (1, 500))
    seen = [
        items(House(tmp_path / name, slots, files).fit(0, "small"))["a"].tokens
        for name, files in (("s", short), ("l", long))
    ]
    assert seen[0] == seen[1]


def test_unused_goes_on(tmp_path: Path) -> None:
    """The unused part of a tier goes to the last one, and an earlier tier takes no more than its share."""
    slots = [moving("a", "high"), moving("b", "medium"), moving("c", "low")]
    made = items(House(tmp_path, slots, {**LONG, "A.md": "Short.\n"}).fit(0, "small"))
    assert str(made["a"].verdict) == "kept"
    assert made["b"].tokens <= int(0.3 * SMALL)
    assert made["a"].tokens + made["b"].tokens + made["c"].tokens >= SMALL - 10


def test_exact_share(tmp_path: Path) -> None:
    """A text that weighs exactly its tier's share is whole, and with one token less it is shortened."""
    house = House(tmp_path, [moving("a", "high")], {"A.md": lines(200)})
    need = items(house.fit(0))["a"].tokens
    # int(0.4 * whole) is the share; the least sum whose share is `need`, and the one before it.
    whole = next(size for size in range(need, 4 * need) if int(0.4 * size) == need)
    assert list_verdicts(house.fit(123_904 - whole)) == {"a": "kept"}
    assert list_verdicts(house.fit(123_904 - whole + 1)) == {"a": "shortened"}


def test_in_order(tmp_path: Path) -> None:
    """Inside a tier the first block takes all it needs, the next one the rest, and the last one nothing."""
    house = House(tmp_path, [moving(name, "high") for name in "abc"], {f"{name}.md": lines(300) for name in "ABC"})
    each = items(house.fit(0))["a"].tokens
    whole = int((each + each // 2) / 0.4)
    made = house.fit(123_904 - whole)
    assert list_verdicts(made) == {"a": "kept", "b": "shortened", "c": "dropped"}
    share = int(0.4 * whole)
    assert share - 12 <= sum(one.tokens for one in items(made).values()) <= share


def test_later_tier_waits(tmp_path: Path) -> None:
    """A block of a later tier never takes from one of an earlier tier, in any order of the slots in the file."""
    house = House(tmp_path, [moving("c", "low"), moving("a", "high")], LONG)
    alone = House(tmp_path / "alone", [moving("a", "high")], LONG)
    assert items(house.fit(0, "small"))["a"].tokens == items(alone.fit(0, "small"))["a"].tokens


MUST = [
    STATIC,
    moving("m", "critical", "required: true"),
    moving("n", "critical", "required: true"),
    moving("a", "high"),
]
CRITICAL = {"S.md": lines(30), "M.md": lines(20), "N.md": lines(10), "A.md": lines(500)}


def test_critical_is_never_cut(tmp_path: Path) -> None:
    """Critical blocks are whole however long the conversation is, and the others give way to the last token."""
    house = House(tmp_path, MUST, CRITICAL)
    whole = items(house.fit(0))
    need = sum(whole[name].tokens for name in "smn")
    for spare in (0, 1, 50, 400, 3_000):
        made = items(house.fit(123_904 - need - spare, "even"))
        assert [made[name].body for name in "smn"] == [whole[name].body for name in "smn"]
        assert made["a"].tokens <= spare
    assert str(items(house.fit(123_904 - need, "even"))["a"].verdict) == "dropped"


@pytest.mark.parametrize("lack", [1, 2, 100])
def test_critical_does_not_fit(tmp_path: Path, lack: int) -> None:
    """Where critical blocks cannot fit, the error names each with its weight, and the sum is exact to the token."""
    house = House(tmp_path, MUST, CRITICAL)
    made = items(house.fit(0))
    s, m, n = (made[name].tokens for name in "smn")
    with pytest.raises(BudgetError) as caught:
        house.fit(123_904 - (s + m + n) + lack, "even")
    assert str(caught.value).startswith(
        f"the prompt does not fit: the system prompt {s} + m {m} + n {n} = {s + m + n} tokens, "
        f"and the budget of the whole prompt has {s + m + n - lack}; {lack} are missing. "
    )


def test_static_beyond_the_floor(tmp_path: Path) -> None:
    """Where the static base alone is more than the floor, the error still adds up."""
    house = House(tmp_path, MUST, {**CRITICAL, "S.md": lines(400)})
    with pytest.raises(BudgetError) as caught:
        house.fit(150_000)
    parts, total, pool, limit, missing = SUM.search(str(caught.value)).groups()
    assert sum(read_numbers(part)[-1] for part in parts.split(" + ")) == read_numbers(total)[0]
    assert read_numbers(total)[0] == read_numbers(limit)[0] + read_numbers(missing)[0]
    assert (pool, limit) == ("the budget of the whole prompt", "2,000")


def test_nothing_critical(tmp_path: Path) -> None:
    """Without critical blocks a full window costs the others their place, and is no error."""
    house = House(tmp_path, [STATIC, moving("a", "high")], CRITICAL)
    assert list_verdicts(house.fit(house.find_room(0, "even").left, "even")) == {"s": "kept", "a": "dropped"}


@given(st.lists(st.integers(0, 15_000), min_size=2, max_size=6))
def test_conversation_presses_on_the_turn(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """As a conversation grows the static text stays byte for byte, and the others only ever get less."""
    files = {**LONG, "M.md": lines(20)}
    slots = [STATIC, moving("m", "critical", "required: true"), moving("a", "high"), moving("b", "medium")]
    house = House(tmp_path_factory.mktemp("x"), slots, files)
    before: dict[str, Fitted] = {}
    for conversation in sorted(sizes):
        made = items(house.fit(conversation, "small"))
        assert sum(one.tokens for one in made.values()) <= SMALL - conversation
        if before:
            assert [made[name].body for name in "sm"] == [before[name].body for name in "sm"]
            assert all(made[name].tokens <= before[name].tokens for name in "ab")
        before = made


def test_history_counts(tmp_path: Path) -> None:
    """The history and the new message are the conversation, in a whole turn as in the arithmetic."""
    house = House(tmp_path, [STATIC, moving("a", "low")], LONG)
    history = tuple(Message(role="user", text="word " * 1_000) for _ in range(10))
    brief, long = (house.assemble("small", message="Hello.", history=said) for said in ((), history))
    assert brief.prompt.blocks[0].text == long.prompt.blocks[0].text
    assert long.conversation > 10_000
    assert long.used + long.conversation + 4_096 <= 20_000 < long.used + long.conversation + 4_096 + 5
    assert brief.used + brief.conversation + 4_096 <= 20_000


@pytest.mark.parametrize("conversation", range(123_904 - 900, 123_904 - 360, 7))
def test_strict_tiers_tell_their_losses(tmp_path: Path, conversation: int) -> None:
    """In a strict blueprint the tiers of a turn reserve room for each other's omission lines, or the turn fails."""
    slots = [STATIC, moving("a", "high"), moving("b", "medium"), moving("c", "low", "cut: never")]
    files = {"S.md": lines(30), "A.md": lines(90), "B.md": lines(90), "C.md": lines(90)}
    house = House(tmp_path, slots, files, head=STRICT)
    made = items(house.fit(conversation, "even"))
    assert all(one.body for one in made.values())
    assert sum(one.tokens for one in made.values()) <= 123_904 - conversation
