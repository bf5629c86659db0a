"""Records: rows of the event log as values for readers.

Conversion of events to rows: redacted, and limited in size whatever the event contains.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from json import JSONEncoder
from typing import Any, NamedTuple

from foreword.engine.trust import hide_own_paths
from foreword.events.event import CATEGORIES, Context, Event, Level, Reader, Usage, sees_all
from foreword.events.period import format_timestamp, parse_timestamp
from foreword.events.redaction import REDACTED, SCAN_MARGIN_CHARS, is_secret_label, redact
from foreword.types import Trust, frozen

EVENT_COLUMNS = (
    "timestamp", "level", "category", "session_id", "agent_id", "user_id", "channel", "event_type", "duration_ms",
    "tokens_in", "tokens_out", "cost_usd", "error", "metadata", "room", "schedule", "trust", "model", "trace_id",
    "span_id", "parent_id", "prompt_hash", "cache_read", "cache_write",
)  # fmt: skip
INSERT_EVENT = f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES ({', '.join('?' * len(EVENT_COLUMNS))})"

MAX_ID_CHARS = 200  # characters of an id
MAX_ERROR_CHARS = 4_000  # characters of an error
MAX_TEXT_CHARS = 2_000  # characters of one string in the facts
MAX_LIST_ENTRIES = 100  # entries of one list or mapping in the facts
MAX_DEPTH = 6  # levels of nesting
MAX_ENTRIES = 1_000  # entries of all lists and mappings in the facts of an event; a long string counts as several
CHARS_PER_ENTRY = 100  # characters of a string that count as one entry
MAX_SECTIONS = 1_000  # sections of a call that are counted
MAX_METADATA_CHARS = 16_000  # characters of all facts as JSON
MAX_INTEGER = 2**63 - 1
CUT_FACT = "cut"  # the fact that says what was left out

_TYPES = {kind: kind.value for kind in CATEGORIES}
_LEVELS = {level: level.value for level in Level}
_NOTHING = (None, None, None, None)
_PLAIN = frozenset((int, float, bool, type(None)))
_AMOUNTS = frozenset((int, float))
_LISTS = frozenset((list, tuple))
_encode = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class EventRow(NamedTuple):
    """A row without its id, and the sections of the call for the totals."""

    values: tuple[Any, ...]
    sections: tuple[tuple[Any, ...], ...] = ()


def make_row(event: Event) -> EventRow:
    """Convert an event to a row."""
    place, usage, cost, kind = event.place, event.usage, event.cost_usd, event.type
    session, agent, user, channel, room, schedule, trust = convert_context(event.context)
    facts = _mapping(event.facts, MAX_DEPTH, EntryQuota()) if event.facts else None
    metadata = None if facts is None else encode_facts(facts)
    time = event.time if event.time.tzinfo is UTC else event.time.astimezone(UTC)
    tokens_in, tokens_out, cache_read, cache_write = _NOTHING if usage is None else convert_usage(usage)
    values = (
        time.isoformat(timespec="microseconds")[:26] + "Z",
        _LEVELS[event.level],
        CATEGORIES[kind],
        session,
        agent,
        user,
        channel,
        _TYPES[kind],
        None if event.duration_ms is None else clamp_integer(event.duration_ms),
        tokens_in,
        tokens_out,
        None if cost is None else convert_amount(cost),
        redact(hide_own_paths(str(event.error)), MAX_ERROR_CHARS) if event.error else None,
        metadata,
        room,
        schedule,
        trust,
        redact(str(event.model), MAX_ID_CHARS) if event.model else None,
        convert_id(place.trace),
        convert_id(place.span),
        convert_id(place.parent),
        convert_id(event.prompt_hash),
        cache_read,
        cache_write,
    )
    return EventRow(values, read_sections(event.facts["sections"]) if facts and "sections" in event.facts else ())


def convert_context(context: Context) -> tuple[Any, ...]:
    """Return the columns of a context."""
    texts = (context.session, context.agent, context.user, context.channel, context.room, context.schedule)
    return (*map(convert_id, texts), int(context.trust))


def convert_usage(usage: Usage) -> tuple[int | None, ...]:
    """Return the token columns of a call."""
    return (
        clamp_integer(usage.tokens_in),
        clamp_integer(usage.tokens_out),
        clamp_integer(usage.cache_read),
        clamp_integer(usage.cache_write),
    )


def convert_amount(amount: Any) -> float | None:
    """Convert any number to a finite float, or None."""
    try:
        read = float(amount)
    except (TypeError, ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def convert_id(text: str) -> str | None:
    """Return an id as stored: None if empty, and at most `MAX_ID_CHARS` characters.

    Ids are not redacted, because access checks compare them. An id that cannot be stored unchanged ends with its hash,
    so that it equals no other id.
    """
    if not text:
        return None
    text = str(text)
    if len(text) <= MAX_ID_CHARS and (text.isascii() or replace_surrogates(text) == text):
        return text
    mark = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{replace_surrogates(text[: MAX_ID_CHARS - len(mark) - 1])}…{mark}"


def replace_surrogates(text: str) -> str:
    """Replace characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def clamp_integer(number: Any) -> int | None:
    """Convert any number to an integer that SQLite can store, or None."""
    if type(number) is not int:
        try:
            number = int(number)
        except (TypeError, ValueError, OverflowError):
            return None
    return number if -MAX_INTEGER <= number <= MAX_INTEGER else MAX_INTEGER if number > 0 else -MAX_INTEGER


def encode_facts(facts: dict[str, Any]) -> str:
    """Encode facts as JSON. If the result is too long, drop the largest facts and name them."""
    text = _encode(facts)
    if len(text) <= MAX_METADATA_CHARS:
        return text
    sizes = sorted(((len(_encode(value)) + len(key), key) for key, value in facts.items()), reverse=True)
    missing, spare = [], len(text) - MAX_METADATA_CHARS + 400
    for size, key in sizes:
        if spare <= 0:
            break
        del facts[key]
        missing.append(f"{key} ({size:,} characters)")
        spare -= size
    facts[CUT_FACT] = f"left out because too long: {', '.join(missing)}"[:300]
    return _encode(facts)


class EntryQuota:
    """The number of nested entries that may still be recorded for one event."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_ENTRIES

    def take(self, wanted: int) -> int:
        """Take room for at most `wanted` entries and return how many were granted."""
        taken = min(wanted, MAX_LIST_ENTRIES, max(self.left, 0))
        self.left -= taken
        return taken


def _mapping(facts: Mapping[Any, Any], depth: int, room: EntryQuota) -> dict[str, Any]:
    """Copy facts, redacted and shortened, with a note for each omission. Top-level facts use no room."""
    shown: dict[str, Any] = {}
    most = MAX_LIST_ENTRIES if depth == MAX_DEPTH else room.take(len(facts))
    for number, (key, value) in enumerate(facts.items()):
        if number == most:
            shown[CUT_FACT] = f"{len(facts) - most:,} more"
            break
        label, secret = redact_label(str(key)[: MAX_ID_CHARS + SCAN_MARGIN_CHARS])
        if secret and value:
            shown[label] = REDACTED
        else:
            shown[label] = redact(value, MAX_TEXT_CHARS) if type(value) is str else _value(value, depth, room)
        if type(value) is str and depth < MAX_DEPTH:
            room.left -= min(len(value), MAX_TEXT_CHARS) // CHARS_PER_ENTRY
    return shown


@lru_cache(512)
def redact_label(key: str) -> tuple[str, bool]:
    """Return the redacted name of a fact, and whether the name indicates a secret."""
    label = redact(key, MAX_ID_CHARS)
    return label, is_secret_label(label)


def _entry(value: Any, depth: int, room: EntryQuota) -> Any:
    """Copy one entry of a list. The common case is a section's share: a name and numbers."""
    kind = type(value)
    if kind is str:
        room.left -= min(len(value), MAX_TEXT_CHARS) // CHARS_PER_ENTRY
        return redact(value, MAX_TEXT_CHARS) if room.left >= 0 else f"{len(value):,} characters, too many to record"
    if is_section(value) and depth:
        section, tokens, cached, usd = value
        if tokens <= MAX_INTEGER and cached <= MAX_INTEGER and (usd is None or -MAX_INTEGER <= usd <= MAX_INTEGER):
            return [redact(section, MAX_TEXT_CHARS), tokens, cached, usd]
    return _value(value, depth, room)


def _value(value: Any, depth: int, room: EntryQuota) -> Any:
    """Copy one value. A value that JSON cannot represent becomes a string."""
    if type(value) in _PLAIN:
        return value if value is None or -MAX_INTEGER <= value <= MAX_INTEGER else _strange(value)
    if isinstance(value, Mapping):
        return _mapping(value, depth - 1, room) if depth else f"{len(value):,} entries, too deep to record"
    if not isinstance(value, list | tuple):
        return redact(str(value), MAX_TEXT_CHARS)
    if not depth:
        return f"{len(value):,} entries, too deep to record"
    most = room.take(len(value))
    shown = [_entry(one, depth - 1, room) for one in value[:most]]
    return shown if len(value) <= most else [*shown, f"{len(value) - most:,} more"]


def _strange(number: float) -> str:
    """Describe a number that neither JSON nor SQLite can store."""
    return f"a number of {number.bit_length():,} bits" if isinstance(number, int) else str(number)


def read_sections(listed: Any) -> tuple[tuple[Any, ...], ...]:
    """Read the sections of a call: name, tokens, cached tokens and dollars. Skip malformed entries.

    The input is the original list, so the totals include every section even if the row lists only the first ones.
    """
    if type(listed) not in _LISTS:
        return ()
    return tuple(
        [
            (
                redact(section, MAX_TEXT_CHARS),
                clamp_integer(tokens),
                clamp_integer(cached),
                None if usd is None else convert_amount(usd),
            )
            for section, tokens, cached, usd in filter(is_section, listed[:MAX_SECTIONS])
        ]
    )


def is_section(value: Any) -> bool:
    """Return whether a value has the form [name, tokens, cached tokens, dollars or None]."""
    if type(value) not in _LISTS or len(value) != 4:
        return False
    section, tokens, cached, usd = value
    if type(section) is not str or type(tokens) is not int or type(cached) is not int:
        return False
    return (usd is None or type(usd) in _AMOUNTS) and tokens >= 0 and cached >= 0


class LogReport(NamedTuple):
    """A row that the log writes about itself. Readable only at full trust, since it concerns all users."""

    timestamp: str
    level: str
    event_type: str
    error: str
    facts: dict[str, Any]

    def to_row(self) -> EventRow:
        """Convert to a row."""
        said = dict.fromkeys(EVENT_COLUMNS) | {
            "timestamp": self.timestamp,
            "level": self.level,
            "category": "log",
            "event_type": self.event_type,
            "error": redact(self.error, MAX_ERROR_CHARS),
            "metadata": _encode(self.facts),
            "trust": int(Trust.FULL),
        }
        return EventRow(tuple(said.values()))


RECORD_COLUMNS = ("id", *EVENT_COLUMNS)
RECORD_SELECT = ", ".join(RECORD_COLUMNS)
TRUST_LEVELS = tuple(Trust)


@frozen(eq=True)
class Record:
    """One recorded event. A missing text is empty, a missing number is None."""

    id: int
    time: datetime
    level: str
    category: str
    type: str
    session: str
    agent: str
    user: str
    channel: str
    room: str
    schedule: str
    trust: Trust
    model: str
    trace: str
    span: str
    parent: str
    prompt_hash: str
    duration_ms: int | None
    tokens_in: int | None
    tokens_out: int | None
    cache_read: int | None
    cache_write: int | None
    cost_usd: float | None
    error: str
    facts: Mapping[str, Any]

    def to_dict(self, reader: Reader) -> dict[str, Any]:
        """Return the record as JSON-ready values under its column names.

        Ids have gaps where rows of other users are, so only readers who see all rows get them.
        """
        names = RECORD_COLUMNS if sees_all(reader) else EVENT_COLUMNS
        values = {name: getattr(self, FIELD_BY_COLUMN.get(name, name)) for name in names}
        plain = {name: None if value == "" else value for name, value in values.items()}
        return plain | {
            "timestamp": format_timestamp(self.time),
            "trust": str(self.trust),
            "metadata": dict(self.facts),
        }


FIELD_BY_COLUMN = {
    "timestamp": "time",
    "session_id": "session",
    "agent_id": "agent",
    "user_id": "user",
    "event_type": "type",
    "metadata": "facts",
    "trace_id": "trace",
    "span_id": "span",
    "parent_id": "parent",
}


def read_record(values: Sequence[Any]) -> Record:
    """Convert a row with the columns of `RECORD_SELECT` to a record."""
    (
        number, time, level, category, session, agent, user, channel, kind, duration, tokens_in, tokens_out, cost,
        error, metadata, room, schedule, trust, model, trace, span, parent, prompt, cache_read, cache_write,
    ) = values  # fmt: skip
    return Record(
        id=number,
        time=parse_timestamp(time),
        level=level,
        category=category,
        type=kind,
        session=session or "",
        agent=agent or "",
        user=user or "",
        channel=channel or "",
        room=room or "",
        schedule=schedule or "",
        trust=TRUST_LEVELS[trust],
        model=model or "",
        trace=trace or "",
        span=span or "",
        parent=parent or "",
        prompt_hash=prompt or "",
        duration_ms=duration,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=cost,
        error=error or "",
        facts=parse_facts(metadata),
    )


def parse_facts(text: str | None) -> Mapping[str, Any]:
    """Parse the facts of an event. Text that is not a JSON object is returned under a generic key."""
    if not text:
        return {}
    try:
        facts = json.loads(text)
    except ValueError:
        return {"text": text}
    return facts if isinstance(facts, dict) else {"value": facts}


def sum_cost(records: Iterable[Record]) -> float | None:
    """Return the sum of the known costs, or None if none is known."""
    prices = [record.cost_usd for record in records if record.cost_usd is not None]
    return sum(prices) if prices else None
