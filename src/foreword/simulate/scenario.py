"""Scenarios: sessions as a script, with their sections, turns, pauses, tool calls and edits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from foreword.frozen import frozen
from foreword.words import Pace, Policy

BEGIN = datetime(2026, 11, 16, 13, 0, tzinfo=UTC)
LOOP = 6  # seconds between two calls of one turn
TURNS = 10  # of a scenario that does not say


@frozen(eq=True)
class Part:
    """A section of the prompt."""

    id: str
    """Its name."""
    title: str = ""
    """Its heading."""
    pace: Pace = Pace.STATIC
    """What it may depend on: static or session."""
    tokens: int = 100
    """Roughly what it weighs."""
    governs: bool = False
    """Whether safety follows from it."""
    from_turn: int = 1
    """The turn from which on it is there."""


@frozen(eq=True)
class Edit:
    """A change of a section before a turn."""

    turn: int
    """The turn that sees it first."""
    section: str
    """The section."""
    policy: Policy = Policy.AUTO
    """When it is to reach the session."""
    remove: bool = False
    """Whether the section is gone from then on."""
    grow: int = 30
    """Roughly how many tokens it adds."""


@frozen(eq=True)
class Pause:
    """A longer time before a turn."""

    turn: int
    """The turn."""
    seconds: int
    """How long nothing is said before it."""


@frozen(eq=True)
class Work:
    """Tools that are called in a turn."""

    turn: int
    """The turn."""
    calls: int = 0
    """How many are called one after the other."""
    at_once: int = 0
    """How many are called at once, in the first answer."""

    @property
    def steps(self) -> tuple[int, ...]:
        """How many tools each answer calls."""
        return (*((self.at_once,) if self.at_once else ()), *(1 for _ in range(self.calls)))


@frozen(eq=True)
class Equipped:
    """The tools of a session."""

    count: int = 0
    """How many there are."""
    tokens: int = 200
    """Roughly what the schema of one weighs."""


@frozen(eq=True)
class Scenario:
    """A session as a script."""

    name: str
    """What it is called."""
    description: str = ""
    """What it shows."""
    seed: int = 0
    """What its words and gaps are drawn from."""
    model: str = ""
    """The model that it is for, where none is named."""
    tools: Equipped = Equipped()
    """The tools."""
    sections: tuple[Part, ...]
    """The sections, in order."""
    turns: int = TURNS
    """How many turns there are."""
    seconds: tuple[int, ...] = (30, 150)
    """The least and the most seconds before a turn."""
    pauses: tuple[Pause, ...] = ()
    """Longer times before some turns."""
    work: tuple[Work, ...] = ()
    """The turns in which tools are called."""
    folded: tuple[int, ...] = ()
    """The turns before which the conversation is folded into a summary."""
    tail: int = 30
    """Roughly what the tail of a message weighs."""
    message: int = 60
    """Roughly what a message weighs."""
    answer: int = 150
    """Roughly what an answer weighs."""
    result: int = 200
    """Roughly what the result of a tool weighs."""
    edits: tuple[Edit, ...] = ()
    """The edits."""

    def list_steps(self, turn: int) -> tuple[int, ...]:
        """List how many tools each answer of a turn calls before the last."""
        return next((work.steps for work in self.work if work.turn == turn), ())


def list_times(scenario: Scenario) -> Iterator[datetime]:
    """List when each turn begins."""
    random, now = Random(scenario.seed), BEGIN  # noqa: S311 - the same seed gives the same session
    pauses = {pause.turn: pause.seconds for pause in scenario.pauses}
    for turn in range(1, scenario.turns + 1):
        gap = random.randint(*scenario.seconds)
        if turn > 1:
            now += timedelta(seconds=pauses.get(turn, gap))
        yield now
        now += timedelta(seconds=LOOP * len(scenario.list_steps(turn)))


NOUNS = (
    "harbour", "lamp", "ledger", "garden", "river", "station", "letter", "window", "engine", "meadow", "bridge",
    "kettle", "market", "compass", "orchard", "signal", "timber", "valley", "anchor", "bakery", "castle", "dairy",
)  # fmt: skip
VERBS = ("keeps", "opens", "asks", "reads", "counts", "moves", "finds", "holds", "brings", "writes", "mends", "checks")


class Words:
    """Writes texts of roughly so many tokens, always the same for the same seed and name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def write(self, name: str, tokens: int) -> str:
        """Write lines of ten words, which are about twelve tokens each."""
        random = Random(f"{self._seed} {name}")  # noqa: S311 - the same name gives the same words
        lines = max(1, round(tokens / 12))
        return "".join(write_line(random) for _ in range(lines)).rstrip("\n")


def write_line(random: Random) -> str:
    """Write one line."""
    words = [random.choice(VERBS if at % 3 == 2 else NOUNS) for at in range(10)]
    return f"The {' '.join(words)}.\n"
