"""Scenarios: scripted sessions with sections, turns, pauses, tool calls and edits, read from YAML and validated."""

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
DEFAULT_TURNS = 10


@frozen(eq=True)
class ScriptedSection:
    """A section of the prompt."""

    id: str
    title: str = ""
    pace: Pace = Pace.STATIC
    tokens: int = 100
    governs: bool = False
    from_turn: int = 1  # the first turn that has it


@frozen(eq=True)
class ScriptedEdit:
    """A change of a section before a turn."""

    turn: int  # the first turn that sees it
    section: str
    policy: EditPolicy = EditPolicy.AUTO
    remove: bool = False
    grow: int = 30  # approximate tokens that it adds


@frozen(eq=True)
class ScriptedPause:
    """A longer gap before a turn."""

    turn: int
    seconds: int


@frozen(eq=True)
class ScriptedToolCalls:
    """The tool calls of a turn."""

    turn: int
    calls: int = 0
    at_once: int = 0  # number of parallel calls in the first answer

    @property
    def steps(self) -> tuple[int, ...]:
        """The number of tool calls in each answer."""
        return (*((self.at_once,) if self.at_once else ()), *(1 for _ in range(self.calls)))


@frozen(eq=True)
class ScriptedTools:
    """The tools of a session."""

    count: int = 0
    tokens: int = 200  # approximate tokens of one schema


@frozen(eq=True)
class Scenario:
    """A scripted session."""

    name: str
    description: str = ""
    seed: int = 0  # the random seed of its texts and gaps
    model: str = ""
    tools: ScriptedTools = ScriptedTools()
    sections: tuple[ScriptedSection, ...]
    turns: int = DEFAULT_TURNS
    seconds: tuple[int, ...] = (30, 150)  # minimum and maximum seconds before a turn
    pauses: tuple[ScriptedPause, ...] = ()
    work: tuple[ScriptedToolCalls, ...] = ()
    folded: tuple[int, ...] = ()  # the turns before which the history is compacted into a summary
    tail: int = 30  # approximate tokens of a message's tail
    message: int = 60
    answer: int = 150
    result: int = 200
    edits: tuple[ScriptedEdit, ...] = ()

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
        lines = (
            " ".join(random.choice(VERBS if at % 3 == 2 else NOUNS) for at in range(10))
            for _ in range(max(1, round(tokens / 12)))
        )
        return "\n".join(f"The {line}." for line in lines)


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


def check_size(scenario: Scenario) -> str:
    """Explain why a scenario is too large, without generating its text; return an empty text if it is not."""
    head = scenario.tools.count * scenario.tools.tokens + sum(part.tokens for part in scenario.sections)
    said = calls = tokens = 0
    for turn in range(1, scenario.turns + 1):
        said = scenario.message if turn in scenario.folded else said + scenario.message
        for tools in (*scenario.list_steps(turn), 0):
            calls, tokens = calls + 1, tokens + head + said
            said += tools * (scenario.result + 30) if tools else scenario.answer + scenario.tail
    if calls > MAX_CALLS:
        return f"the session has {calls:,} model calls; the maximum is {MAX_CALLS:,}"
    if tokens > MAX_INPUT_TOKENS:
        return f"the requests have about {tokens:,} tokens in total; the maximum is {MAX_INPUT_TOKENS:,}"
    return ""


def read_scenario(text: str, file: str) -> Scenario:
    """Parse a scenario; raise ConfigError with all problems."""
    from foreword.config.yaml import parse_nodes

    structured = convert_node(parse_nodes(text, file), Scenario, file)
    further = [
        ConfigFault(file=file, line=line, message=f"{format_keys(keys)} {message}")
        for check in (check_ranges, check_turns, check_seconds, check_sections, check_edits)
        for keys, line, message in check(structured.values)
    ]
    scenario = raise_or_return(structured, further)
    if problem := check_size(scenario):
        raise InputError(f"{file}: {problem}; play fewer turns, or smaller sections and results")
    return scenario


def load_shipped_scenario() -> Scenario:
    """Load the scenario that ships with the package."""
    return read_scenario(read_resource("data", "scenarios", "living.yaml") or "", "living.yaml")
