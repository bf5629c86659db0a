"""Rows: an event as the log stores it, without secrets and within bounds whatever it was made of."""

import math
from collections.abc import Mapping
from datetime import UTC
from functools import lru_cache
from hashlib import sha256
from json import JSONEncoder
from typing import Any, NamedTuple

from foreword.events.event import CATEGORIES, Context, Event, Level, Usage
from foreword.events.redact import MARGIN, REDACTED, announces_secret, redact
from foreword.sources.own_memory import hide_own_paths
from foreword.words import Trust

COLUMNS = (
    "timestamp", "level", "category", "session_id", "agent_id", "user_id", "channel", "event_type", "duration_ms",
    "tokens_in", "tokens_out", "cost_usd", "error", "metadata", "room", "schedule", "trust", "model", "trace_id",
    "span_id", "parent_id", "prompt_hash", "cache_read", "cache_write",
)  # fmt: skip
INSERT = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - names of columns

NAME = 200  # characters of an id
ERROR = 4_000  # characters of an error
TEXT = 2_000  # characters of one text among the facts
ITEMS = 100  # entries of one list or mapping among the facts
DEPTH = 6  # lists within lists
ENTRIES = 1_000  # entries of all lists and mappings within the facts of an event; a long text is several
WIDTH = 100  # characters of a text that make one entry
SECTIONS = 1_000  # sections of a call that are counted
METADATA = 16_000  # characters of all facts as JSON
LARGEST = 2**63 - 1
CONTEXTS = 512  # turns that are remembered
CUT = "cut"  # the fact that says what is missing

_TYPES = {kind: kind.value for kind in CATEGORIES}
_LEVELS = {level: level.value for level in Level}
_NOTHING = (None, None, None, None)
_PLAIN = frozenset((int, float, bool, type(None)))
_AMOUNTS = frozenset((int, float))
_LISTS = frozenset((list, tuple))
# By identity, with the context itself, so that no other takes its place.
_contexts: dict[int, tuple[Context, tuple[Any, ...]]] = {}
_encode = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Row(NamedTuple):
    """A row without its id, and the sections of the call that it tells of, for the sums."""

    values: tuple[Any, ...]
    sections: tuple[tuple[Any, ...], ...] = ()


def make_row(event: Event) -> Row:
    """Make the row of an event."""
    place, usage, cost, kind = event.place, event.usage, event.cost_usd, event.type
    session, agent, user, channel, room, schedule, trust = read_context(event.context)
    facts = _mapping(event.facts, DEPTH, Room()) if event.facts else None
    metadata = None if facts is None else write(facts)
    time = event.time if event.time.tzinfo is UTC else event.time.astimezone(UTC)
    tokens_in, tokens_out, cache_read, cache_write = _NOTHING if usage is None else read_usage(usage)
    values = (
        time.isoformat(timespec="microseconds")[:26] + "Z",
        _LEVELS[event.level],
        CATEGORIES[kind],
        session,
        agent,
        user,
        channel,
        _TYPES[kind],
        None if event.duration_ms is None else bound(event.duration_ms),
        tokens_in,
        tokens_out,
        None if cost is None else read_amount(cost),
        redact(hide_own_paths(str(event.error)), ERROR) if event.error else None,
        metadata,
        room,
        schedule,
        trust,
        redact(str(event.model), NAME) if event.model else None,
        name(place.trace),
        name(place.span),
        name(place.parent),
        name(event.prompt_hash),
        cache_read,
        cache_write,
    )
    return Row(values, read_sections(event.facts["sections"]) if facts and "sections" in event.facts else ())


def read_context(context: Context) -> tuple[Any, ...]:
    """Read whom an event belongs to, once for all events of a turn."""
    known = _contexts.get(id(context))
    if known is not None and known[0] is context:
        return known[1]
    texts = (context.session, context.agent, context.user, context.channel, context.room, context.schedule)
    values = (*map(name, texts), int(context.trust))
    if len(_contexts) >= CONTEXTS:
        _contexts.clear()
    _contexts[id(context)] = (context, values)
    return values


def read_usage(usage: Usage) -> tuple[int | None, ...]:
    """Read what a call used."""
    return bound(usage.tokens_in), bound(usage.tokens_out), bound(usage.cache_read), bound(usage.cache_write)


def read_amount(amount: Any) -> float | None:
    """Read an amount of money, of whatever kind of number; None where it is none."""
    try:
        read = float(amount)
    except (TypeError, ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def name(text: str) -> str | None:
    """Return an id as it is stored: nothing for the empty one, and no longer than an id may be.

    Ids are not redacted: who may read a row is decided by comparing them. So one that cannot be stored as it is ends
    with its hash, and is nobody else's.
    """
    if not text:
        return None
    text = str(text)
    if len(text) <= NAME and (text.isascii() or clean(text) == text):
        return text
    mark = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{clean(text[: NAME - len(mark) - 1])}…{mark}"


def clean(text: str) -> str:
    """Replace what cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def bound(number: Any) -> int | None:
    """Bound a number, of whatever kind, to what the database holds; None where it is none."""
    if type(number) is not int:
        try:
            number = int(number)
        except (TypeError, ValueError, OverflowError):
            return None
    return number if -LARGEST <= number <= LARGEST else LARGEST if number > 0 else -LARGEST


def write(facts: dict[str, Any]) -> str:
    """Write facts as JSON; if that is too long, the largest go first, and a note says which."""
    text = _encode(facts)
    if len(text) <= METADATA:
        return text
    sizes = sorted(((len(_encode(value)) + len(key), key) for key, value in facts.items()), reverse=True)
    missing, spare = [], len(text) - METADATA + 400
    for size, key in sizes:
        if spare <= 0:
            break
        del facts[key]
        missing.append(f"{key} ({size:,} characters)")
        spare -= size
    facts[CUT] = f"left out, being too long: {', '.join(missing)}"[:300]
    return _encode(facts)


class Room:
    """How much more of what stands within lists and mappings may be told of one event."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENTRIES

    def take(self, wanted: int) -> int:
        """Take room for so many entries, or for as many as there may be."""
        taken = min(wanted, ITEMS, max(self.left, 0))
        self.left -= taken
        return taken


def _mapping(facts: Mapping[Any, Any], depth: int, room: Room) -> dict[str, Any]:
    """Copy facts, redacted and shortened, each loss with a note; those of the event itself cost no room."""
    shown: dict[str, Any] = {}
    most = ITEMS if depth == DEPTH else room.take(len(facts))
    for number, (key, value) in enumerate(facts.items()):
        if number == most:
            shown[CUT] = f"{len(facts) - most:,} more"
            break
        label, secret = read_label(str(key)[: NAME + MARGIN])
        if secret and value:
            shown[label] = REDACTED
        else:
            shown[label] = redact(value, TEXT) if type(value) is str else _value(value, depth, room)
        if type(value) is str and depth < DEPTH:
            room.left -= min(len(value), TEXT) // WIDTH
    return shown


@lru_cache(512)
def read_label(key: str) -> tuple[str, bool]:
    """Read the name of a fact: what may be told of it, and whether it announces a secret."""
    label = redact(key, NAME)
    return label, announces_secret(label)


def _entry(value: Any, depth: int, room: Room) -> Any:
    """Copy one entry of a list; a flat one of a name and numbers, such as a section's share, is the usual one."""
    kind = type(value)
    if kind is str:
        room.left -= min(len(value), TEXT) // WIDTH
        return redact(value, TEXT) if room.left >= 0 else f"{len(value):,} characters, too many to be told"
    if is_section(value) and depth:
        section, tokens, cached, usd = value
        if tokens <= LARGEST and cached <= LARGEST and (usd is None or -LARGEST <= usd <= LARGEST):
            return [redact(section, TEXT), tokens, cached, usd]
    return _value(value, depth, room)


def _value(value: Any, depth: int, room: Room) -> Any:
    """Copy one value; what JSON cannot say becomes a text."""
    if type(value) in _PLAIN:
        return value if value is None or -LARGEST <= value <= LARGEST else _strange(value)
    if isinstance(value, Mapping):
        return _mapping(value, depth - 1, room) if depth else f"{len(value):,} entries, too deep to be told"
    if not isinstance(value, list | tuple):
        return redact(str(value), TEXT)
    if not depth:
        return f"{len(value):,} entries, too deep to be told"
    most = room.take(len(value))
    shown = [_entry(one, depth - 1, room) for one in value[:most]]
    return shown if len(value) <= most else [*shown, f"{len(value) - most:,} more"]


def _strange(number: float) -> str:
    """Tell of a number that neither JSON nor the database holds."""
    return f"a number of {number.bit_length():,} bits" if isinstance(number, int) else str(number)


def read_sections(listed: Any) -> tuple[tuple[Any, ...], ...]:
    """Read what a call's sections took: name, tokens, those of the cache, and dollars; nothing malformed.

    They are read as they were told, so that the sums know every section though the row names the first of many.
    """
    if type(listed) not in _LISTS:
        return ()
    return tuple(
        [
            (redact(section, TEXT), bound(tokens), bound(cached), None if usd is None else read_amount(usd))
            for section, tokens, cached, usd in filter(is_section, listed[:SECTIONS])
        ]
    )


def is_section(value: Any) -> bool:
    """Whether a value is a name, two counts, and an amount or nothing."""
    if type(value) not in _LISTS or len(value) != 4:
        return False
    section, tokens, cached, usd = value
    if type(section) is not str or type(tokens) is not int or type(cached) is not int:
        return False
    return (usd is None or type(usd) in _AMOUNTS) and tokens >= 0 and cached >= 0


class Report(NamedTuple):
    """What the log says about itself; only at full trust, since it is about everybody's rows."""

    timestamp: str
    level: str
    event_type: str
    error: str
    facts: dict[str, Any]

    def to_row(self) -> Row:
        """Make its row."""
        said = dict.fromkeys(COLUMNS) | {
            "timestamp": self.timestamp,
            "level": self.level,
            "category": "log",
            "event_type": self.event_type,
            "error": redact(self.error, ERROR),
            "metadata": _encode(self.facts),
            "trust": int(Trust.FULL),
        }
        return Row(tuple(said.values()))
