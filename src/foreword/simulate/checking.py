"""What is wrong with a scenario beyond its shape: each fault with its line, and what is allowed there."""

from collections.abc import Iterator, Mapping

from foreword.config.finding import Finding, Places, find, find_texts
from foreword.errors import suggest
from foreword.frozen import frozen
from foreword.simulate.scenario import TURNS, Scenario
from foreword.words import Pace

MONTH = 30 * 24 * 3_600
RANGES: Mapping[tuple[str, ...], tuple[int, int]] = {
    ("tools", "count"): (0, 500),
    ("tools", "tokens"): (1, 20_000),
    ("sections", "*", "tokens"): (1, 200_000),
    ("turns",): (1, 1_000),
    ("seconds", "*"): (0, MONTH),
    ("pauses", "*", "seconds"): (0, MONTH),
    ("work", "*", "calls"): (0, 200),
    ("work", "*", "at_once"): (0, 200),
    ("tail",): (1, 100_000),
    ("message",): (1, 100_000),
    ("answer",): (1, 100_000),
    ("result",): (1, 100_000),
    ("edits", "*", "grow"): (0, 100_000),
}
MOST_CALLS = 1_000
MOST_TOKENS = 30_000_000  # ten times the session that ships, which takes seconds


@frozen(eq=True)
class Size:
    """How large a scenario is: the calls of the model, and the input of all of them together."""

    calls: int
    tokens: int


def check(places: Places) -> Iterator[Finding]:
    """Check what was written in a scenario."""
    yield from check_ranges(places)
    yield from check_turns(places)
    yield from check_seconds(places)
    yield from check_sections(places)
    yield from check_edits(places)


def check_ranges(places: Places) -> Iterator[Finding]:
    """Check that each number is one that can be played."""
    for pattern, (least, most) in RANGES.items():
        for keys, place in find(places, *pattern):
            if isinstance(place.value, int) and not least <= place.value <= most:
                yield keys, place.line, f"must be between {least:,} and {most:,}, not {place.value:,}"


def check_turns(places: Places) -> Iterator[Finding]:
    """Check that each turn that is named is one of the session, and is named once."""
    written = places[("turns",)].value if ("turns",) in places else TURNS
    last = written if isinstance(written, int) else RANGES["turns",][1]
    firsts = {("pauses", "*", "turn"): 1, ("work", "*", "turn"): 1, ("folded", "*"): 2, ("edits", "*", "turn"): 2,
              ("sections", "*", "from_turn"): 1}  # fmt: skip
    for pattern, first in firsts.items():
        seen: dict[int, int] = {}
        for keys, place in find(places, *pattern):
            if not isinstance(place.value, int):
                continue
            if not first <= place.value <= last:
                yield keys, place.line, f"must be a turn between {first} and {last:,}, not {place.value:,}"
            elif place.value in seen and pattern[0] in ("pauses", "work", "folded"):
                yield keys, place.line, f"is turn {place.value}, as on line {seen[place.value]}; name a turn once"
            seen.setdefault(place.value, place.line)


def check_seconds(places: Places) -> Iterator[Finding]:
    """Check the two numbers between which gaps are drawn."""
    for keys, place in find(places, "seconds"):
        if not isinstance(place.value, tuple):
            continue
        if len(place.value) != 2:
            yield keys, place.line, "must be two numbers: the least and the most seconds before a turn"
        elif place.value[0] > place.value[1]:
            most, least = place.value
            yield keys, place.line, f"must have the least before the most: [{least}, {most}], not [{most}, {least}]"


def check_sections(places: Places) -> Iterator[Finding]:
    """Check that there are sections, each with a name of its own and a pace that a prefix can have."""
    for keys, place in find(places, "sections"):
        if place.value == ():
            yield keys, place.line, "must list at least one section"
    seen: dict[str, int] = {}
    for keys, line, name in find_texts(places, "sections", "*", "id"):
        if not name.strip():
            yield keys, line, "is blank; a section is known by its id"
        elif name in seen:
            yield keys, line, f"repeats {name!r} from line {seen[name]}"
        seen.setdefault(name, line)
    for keys, place in find(places, "sections", "*", "pace"):
        if place.value is Pace.TURN:
            yield keys, place.line, "must be static or session; what changes with every turn is `tail`"


def check_edits(places: Places) -> Iterator[Finding]:
    """Check that edits are of sections that there are, one before a turn."""
    known = [name for _, _, name in find_texts(places, "sections", "*", "id")]
    seen: dict[tuple[object, str], int] = {}
    for keys, line, name in find_texts(places, "edits", "*", "section"):
        turn = places.get((*keys[:-1], "turn"))
        once = (turn.value if turn else None, name)
        if name not in known:
            yield keys, line, f"is {name!r}, which is no section{suggest(name, known)}"
        elif once in seen:
            yield keys, line, f"is edited before this turn already, on line {seen[once]}; join the two edits"
        seen.setdefault(once, line)


def measure(scenario: Scenario) -> Size:
    """Measure a scenario roughly, without writing a word of it."""
    head = scenario.tools.count * scenario.tools.tokens + sum(part.tokens for part in scenario.sections)
    said = calls = tokens = 0
    for turn in range(1, scenario.turns + 1):
        said = scenario.message if turn in scenario.folded else said + scenario.message
        for tools in (*scenario.list_steps(turn), 0):
            calls, tokens = calls + 1, tokens + head + said
            said += tools * (scenario.result + 30) if tools else scenario.answer + scenario.tail
    return Size(calls=calls, tokens=tokens)


def judge_size(scenario: Scenario) -> str:
    """Say why a scenario is too large to be played, if it is."""
    size = measure(scenario)
    if size.calls > MOST_CALLS:
        return f"the session has {size.calls:,} calls of the model, and at most {MOST_CALLS:,} are played"
    if size.tokens > MOST_TOKENS:
        return f"all requests together have about {size.tokens:,} tokens, and at most {MOST_TOKENS:,} are played"
    return ""
