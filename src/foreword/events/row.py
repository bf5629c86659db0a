"""Rows: an event as the log stores it, without secrets and within bounds whatever it was made of."""

import math
from collections.abc import Mapping
from datetime import UTC
from json import JSONEncoder
from typing import Any, NamedTuple

from foreword.events.event import CATEGORIES, Event, Level
from foreword.events.redact import REDACTED, announces_secret, redact
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
METADATA = 16_000  # characters of all facts as JSON
LARGEST = 2**63 - 1
CUT = "cut"  # the fact that says what is missing

_TYPES = {kind: kind.value for kind in CATEGORIES}
_LEVELS = {level: level.value for level in Level}
_encode = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Row(NamedTuple):
    """A row without its id, and the sections of the call that it tells of, for the sums."""

    values: tuple[Any, ...]
    sections: tuple[tuple[Any, ...], ...] = ()


def make_row(event: Event) -> Row:
    """Make the row of an event."""
    context, place, usage = event.context, event.place, event.usage
    facts = shorten(event.facts) if event.facts else None
    metadata = None if facts is None else write(facts)
    values = (
        event.time.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z",
        _LEVELS[event.level],
        CATEGORIES[event.type],
        name(context.session),
        name(context.agent),
        name(context.user),
        name(context.channel),
        _TYPES[event.type],
        None if event.duration_ms is None else bound(event.duration_ms),
        None if usage is None else bound(usage.tokens_in),
        None if usage is None else bound(usage.tokens_out),
        event.cost_usd if event.cost_usd is not None and math.isfinite(event.cost_usd) else None,
        redact(event.error, ERROR) if event.error else None,
        metadata,
        name(context.room),
        name(context.schedule),
        int(context.trust),
        redact(event.model, NAME) if event.model else None,
        name(place.trace),
        name(place.span),
        name(place.parent),
        name(event.prompt_hash),
        None if usage is None else bound(usage.cache_read),
        None if usage is None else bound(usage.cache_write),
    )
    return Row(values, read_sections(facts) if facts and "sections" in facts else ())


def name(text: str) -> str | None:
    """Return an id as it is stored: nothing for the empty one, and no longer than an id may be.

    Ids are not redacted: who may read a row is decided by comparing them.
    """
    if not text:
        return None
    return text if len(text) <= NAME and text.isascii() else clean(text[:NAME])


def clean(text: str) -> str:
    """Replace what cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def bound(number: int) -> int:
    """Bound a number to what the database holds."""
    return max(-LARGEST, min(LARGEST, int(number)))


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


def shorten(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Copy facts, redacted and shortened, each loss with a note in its place."""
    return _mapping(facts, DEPTH)


def _mapping(facts: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in facts.items():
        if len(shown) == ITEMS:
            shown[CUT] = f"{len(facts) - ITEMS:,} more"
            break
        label = redact(key if type(key) is str else str(key), NAME)
        if announces_secret(label) and value:
            shown[label] = REDACTED
        else:
            shown[label] = redact(value, TEXT) if type(value) is str else _value(value, depth)
    return shown


def _value(value: Any, depth: int) -> Any:
    """Copy one value; what JSON cannot say becomes a text."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        return value if -LARGEST <= value <= LARGEST else f"a number of {value.bit_length():,} bits"
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping | list | tuple):
        return _collection(value, depth)
    return redact(str(value), TEXT)


def _collection(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
    if depth == 0:
        return f"{len(value):,} entries, too deep to be told"
    if isinstance(value, Mapping):
        return _mapping(value, depth - 1)
    shown = [redact(one, TEXT) if type(one) is str else _value(one, depth - 1) for one in value[:ITEMS]]
    return shown if len(value) <= ITEMS else [*shown, f"{len(value) - ITEMS:,} more"]


def read_sections(facts: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
    """Read what a call's sections took: name, tokens, those of the cache, and dollars; what is malformed is passed by."""
    listed = facts.get("sections")
    if not isinstance(listed, list):
        return ()
    return tuple(tuple(one) for one in listed if is_section(one))


def is_section(value: Any) -> bool:
    """Whether a value is a name, two counts, and an amount or nothing."""
    if not isinstance(value, list) or len(value) != 4:
        return False
    section, tokens, cached, usd = value
    counts = all(isinstance(number, int | float) and not isinstance(number, bool) for number in (tokens, cached))
    return isinstance(section, str) and counts and (usd is None or isinstance(usd, int | float))


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
