"""Scenarios: scripted sessions with sections, turns, pauses, tool calls and edits.

Validation of scenarios beyond their structure: each problem with its line and the allowed values. Load scenarios from
YAML, with all problems reported at once, or the shipped one.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random

from foreword.config.structure import (
    ConfigProblem,
    ParsedValues,
    convert_node,
    find_texts,
    find_values,
    format_keys,
    raise_or_return,
)
from foreword.errors import ConfigFault, InputError, suggest_name
from foreword.resources import read_resource
from foreword.types import EditPolicy, Pace, frozen

SESSION_START = datetime(2026, 11, 16, 13, 0, tzinfo=UTC)
CALL_INTERVAL_S = 6  # seconds between two calls of one turn
DEFAULT_TURNS = 10  # default


@frozen(eq=True)
class ScriptedSection:
    """A section of the prompt."""

    id: str
    """Its name."""
    title: str = ""
    """Its heading."""
    pace: Pace = Pace.STATIC
    """Its pace: static or session."""
    tokens: int = 100
    """Approximate tokens."""
    governs: bool = False
    """Whether it governs safety."""
    from_turn: int = 1
    """The first turn that has it."""


@frozen(eq=True)
class ScriptedEdit:
    """A change of a section before a turn."""

    turn: int
    """The first turn that sees it."""
    section: str
    """The section."""
    policy: EditPolicy = EditPolicy.AUTO
    """When it reaches the session."""
    remove: bool = False
    """Whether it removes the section."""
    grow: int = 30
    """Approximate tokens that it adds."""


@frozen(eq=True)
class ScriptedPause:
    """A longer gap before a turn."""

    turn: int
    """The turn."""
    seconds: int
    """Length of the gap."""


@frozen(eq=True)
class ScriptedToolCalls:
    """The tool calls of a turn."""

    turn: int
    """The turn."""
    calls: int = 0
    """Number of sequential calls."""
    at_once: int = 0
    """Number of parallel calls in the first answer."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The number of tool calls in each answer."""
        return (*((self.at_once,) if self.at_once else ()), *(1 for _ in range(self.calls)))


@frozen(eq=True)
class ScriptedTools:
    """The tools of a session."""

    count: int = 0
    """Number of tools."""
    tokens: int = 200
    """Approximate tokens of one schema."""


@frozen(eq=True)
class Scenario:
    """A scripted session."""

    name: str
    """Its name."""
    description: str = ""
    """Its purpose."""
    seed: int = 0
    """The random seed of its texts and gaps."""
    model: str = ""
    """The default model."""
    tools: ScriptedTools = ScriptedTools()
    """The tools."""
    sections: tuple[ScriptedSection, ...]
    """The sections, in order."""
    turns: int = DEFAULT_TURNS
    """Number of turns."""
    seconds: tuple[int, ...] = (30, 150)
    """Minimum and maximum seconds before a turn."""
    pauses: tuple[ScriptedPause, ...] = ()
    """Longer gaps before some turns."""
    work: tuple[ScriptedToolCalls, ...] = ()
    """The tool calls of some turns."""
    folded: tuple[int, ...] = ()
    """The turns before which the history is compacted into a summary."""
    tail: int = 30
    """Approximate tokens of a message's tail."""
    message: int = 60
    """Approximate tokens of a message."""
    answer: int = 150
    """Approximate tokens of an answer."""
    result: int = 200
    """Approximate tokens of a tool result."""
    edits: tuple[ScriptedEdit, ...] = ()
    """The edits."""

    def list_steps(self, turn: int) -> tuple[int, ...]:
        """List the number of tool calls in each answer of a turn before the last."""
        return next((work.steps for work in self.work if work.turn == turn), ())


def list_times(scenario: Scenario) -> Iterator[datetime]:
    """List the start time of each turn."""
    random, now = Random(scenario.seed), SESSION_START  # noqa: S311 - the same seed gives the same session
    pauses = {pause.turn: pause.seconds for pause in scenario.pauses}
    for turn in range(1, scenario.turns + 1):
        gap = random.randint(*scenario.seconds)
        if turn > 1:
            now += timedelta(seconds=pauses.get(turn, gap))
        yield now
        now += timedelta(seconds=CALL_INTERVAL_S * len(scenario.list_steps(turn)))


NOUNS = (
    "harbour", "lamp", "ledger", "garden", "river", "station", "letter", "window", "engine", "meadow", "bridge",
    "kettle", "market", "compass", "orchard", "signal", "timber", "valley", "anchor", "bakery", "castle", "dairy",
)  # fmt: skip
VERBS = ("keeps", "opens", "asks", "reads", "counts", "moves", "finds", "holds", "brings", "writes", "mends", "checks")


class TextGenerator:
    """Generates texts of about a given number of tokens; the same seed and name give the same text."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def write(self, name: str, tokens: int) -> str:
        """Write lines of ten words, about twelve tokens each."""
        random = Random(f"{self._seed} {name}")  # noqa: S311 - the same name gives the same words
        lines = max(1, round(tokens / 12))
        return "".join(generate_line(random) for _ in range(lines)).rstrip("\n")


def generate_line(random: Random) -> str:
    """Write one line."""
    words = [random.choice(VERBS if at % 3 == 2 else NOUNS) for at in range(10)]
    return f"The {' '.join(words)}.\n"


MONTH_S = 30 * 24 * 3_600
RANGES: Mapping[tuple[str, ...], tuple[int, int]] = {
    ("tools", "count"): (0, 500),
    ("tools", "tokens"): (1, 20_000),
    ("sections", "*", "tokens"): (1, 200_000),
    ("turns",): (1, 1_000),
    ("seconds", "*"): (0, MONTH_S),
    ("pauses", "*", "seconds"): (0, MONTH_S),
    ("work", "*", "calls"): (0, 200),
    ("work", "*", "at_once"): (0, 200),
    ("tail",): (1, 100_000),
    ("message",): (1, 100_000),
    ("answer",): (1, 100_000),
    ("result",): (1, 100_000),
    ("edits", "*", "grow"): (0, 100_000),
}
MAX_CALLS = 1_000
MAX_INPUT_TOKENS = 30_000_000  # ten times the shipped session, which takes seconds


@frozen(eq=True)
class ScenarioSize:
    """The size of a scenario: model calls, and their total input tokens."""

    calls: int
    tokens: int


def check_scenario(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check the values of a scenario."""
    yield from check_ranges(places)
    yield from check_turns(places)
    yield from check_seconds(places)
    yield from check_sections(places)
    yield from check_edits(places)


def check_ranges(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that each number is in its range."""
    for pattern, (least, most) in RANGES.items():
        for keys, place in find_values(places, *pattern):
            if isinstance(place.value, int) and not least <= place.value <= most:
                yield keys, place.line, f"must be between {least:,} and {most:,}, not {place.value:,}"


def check_turns(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that each turn number exists and is not repeated."""
    written = places[("turns",)].value if ("turns",) in places else DEFAULT_TURNS
    last = written if isinstance(written, int) else RANGES["turns",][1]
    firsts = {("pauses", "*", "turn"): 1, ("work", "*", "turn"): 1, ("folded", "*"): 2, ("edits", "*", "turn"): 2,
              ("sections", "*", "from_turn"): 1}  # fmt: skip
    for pattern, first in firsts.items():
        seen: dict[int, int] = {}
        for keys, place in find_values(places, *pattern):
            if not isinstance(place.value, int):
                continue
            if not first <= place.value <= last:
                yield keys, place.line, f"must be a turn between {first} and {last:,}, not {place.value:,}"
            elif place.value in seen and pattern[0] in ("pauses", "work", "folded"):
                yield keys, place.line, f"is turn {place.value}, as on line {seen[place.value]}; name a turn once"
            seen.setdefault(place.value, place.line)


def check_seconds(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check the two limits of the gaps."""
    for keys, place in find_values(places, "seconds"):
        if not isinstance(place.value, tuple):
            continue
        if len(place.value) != 2:
            yield keys, place.line, "must be two numbers: the minimum and the maximum seconds before a turn"
        elif place.value[0] > place.value[1]:
            most, least = place.value
            yield keys, place.line, f"must list the minimum first: [{least}, {most}], not [{most}, {least}]"


def check_sections(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that there are sections, each with a unique id and a pace that a prefix can have."""
    for keys, place in find_values(places, "sections"):
        if place.value == ():
            yield keys, place.line, "must list at least one section"
    seen: dict[str, int] = {}
    for keys, line, name in find_texts(places, "sections", "*", "id"):
        if not name.strip():
            yield keys, line, "is blank; a section is known by its id"
        elif name in seen:
            yield keys, line, f"repeats {name!r} from line {seen[name]}"
        seen.setdefault(name, line)
    for keys, place in find_values(places, "sections", "*", "pace"):
        if place.value is Pace.TURN:
            yield keys, place.line, "must be static or session; use `tail` for text that changes every turn"


def check_edits(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that edits name existing sections, at most once per turn."""
    known = [name for _, _, name in find_texts(places, "sections", "*", "id")]
    seen: dict[tuple[object, str], int] = {}
    for keys, line, name in find_texts(places, "edits", "*", "section"):
        turn = places.get((*keys[:-1], "turn"))
        once = (turn.value if turn else None, name)
        if name not in known:
            yield keys, line, f"is {name!r}, which is not a section{suggest_name(name, known)}"
        elif once in seen:
            yield keys, line, f"repeats the edit before this turn on line {seen[once]}; merge the two edits"
        seen.setdefault(once, line)


def estimate_size(scenario: Scenario) -> ScenarioSize:
    """Estimate the size of a scenario without generating its text."""
    head = scenario.tools.count * scenario.tools.tokens + sum(part.tokens for part in scenario.sections)
    said = calls = tokens = 0
    for turn in range(1, scenario.turns + 1):
        said = scenario.message if turn in scenario.folded else said + scenario.message
        for tools in (*scenario.list_steps(turn), 0):
            calls, tokens = calls + 1, tokens + head + said
            said += tools * (scenario.result + 30) if tools else scenario.answer + scenario.tail
    return ScenarioSize(calls=calls, tokens=tokens)


def check_size(scenario: Scenario) -> str:
    """Explain why a scenario is too large; return an empty text if it is not."""
    size = estimate_size(scenario)
    if size.calls > MAX_CALLS:
        return f"the session has {size.calls:,} model calls; the maximum is {MAX_CALLS:,}"
    if size.tokens > MAX_INPUT_TOKENS:
        return f"the requests have about {size.tokens:,} tokens in total; the maximum is {MAX_INPUT_TOKENS:,}"
    return ""


SHIPPED_SCENARIO = "living"


def read_scenario(text: str, file: str) -> Scenario:
    """Parse a scenario; raise ConfigError with all problems."""
    from foreword.config.yaml import parse_nodes

    structured = convert_node(parse_nodes(text, file), Scenario, file)
    further = [
        ConfigFault(file=file, line=line, message=f"{format_keys(keys)} {message}")
        for keys, line, message in check_scenario(structured.values)
    ]
    scenario = raise_or_return(structured, further)
    if problem := check_size(scenario):
        raise InputError(f"{file}: {problem}; play fewer turns, or smaller sections and results")
    return scenario


def load_shipped_scenario() -> Scenario:
    """Load the scenario that ships with the package."""
    return read_scenario(
        read_resource("data", "scenarios", f"{SHIPPED_SCENARIO}.yaml") or "", f"{SHIPPED_SCENARIO}.yaml"
    )
