"""Rows of the event log: made from events, redacted and limited in size; added to the totals; read back as records."""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from json import JSONEncoder
from operator import itemgetter
from typing import Any, NamedTuple

from foreword.engine.trust import hide_own_paths
from foreword.events.event import CATEGORIES, Event, EventType, Grouping, Reader, format_timestamp, sees_all
from foreword.secret import REDACTED, SCAN_MARGIN_CHARS, is_secret_label, redact
from foreword.types import Trust, frozen

COLUMN_FIELDS = {
    "id": "id", "timestamp": "time", "level": "level", "category": "category", "session_id": "session",
    "agent_id": "agent", "user_id": "user", "channel": "channel", "event_type": "type", "duration_ms": "duration_ms",
    "tokens_in": "tokens_in", "tokens_out": "tokens_out", "cost_usd": "cost_usd", "error": "error",
    "metadata": "facts", "room": "room", "schedule": "schedule", "trust": "trust", "model": "model",
    "trace_id": "trace", "span_id": "span", "parent_id": "parent", "prompt_hash": "prompt_hash",
    "cache_read": "cache_read", "cache_write": "cache_write",
}  # fmt: skip
"""The columns of the table in order, each with its field in `Record`."""
RECORD_COLUMNS = tuple(COLUMN_FIELDS)
RECORD_SELECT = ", ".join(RECORD_COLUMNS)
EVENT_COLUMNS = RECORD_COLUMNS[1:]
INSERT_EVENT = f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES ({', '.join('?' * len(EVENT_COLUMNS))})"

MAX_ID_CHARS = 200  # characters of an id
MAX_ERROR_CHARS = 4_000  # characters of an error
MAX_TEXT_CHARS = 2_000  # characters of one string in the facts
MAX_LIST_ENTRIES = 100  # entries of one list or mapping in the facts
MAX_DEPTH = 6  # levels of nesting
MAX_SECTIONS = 1_000  # sections of a call that are counted
MAX_METADATA_CHARS = 16_000  # characters of all facts as JSON
MAX_INTEGER = 2**63 - 1
CUT_FACT = "cut"  # the fact that names omissions

_encode = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class EventRow(NamedTuple):
    """A row without its id, and the sections of the call for the totals."""

    values: tuple[Any, ...]
    sections: tuple[tuple[Any, ...], ...] = ()


def make_row(event: Event) -> EventRow:
    """Convert an event to a row."""
    context, position, usage = event.context, event.position, event.usage
    tokens = usage and (usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write)
    tokens_in, tokens_out, cache_read, cache_write = map(clamp_integer, tokens or (None,) * 4)
    values = (
        format_timestamp(event.time),
        event.level.value,
        CATEGORIES[event.type],
        convert_id(context.session),
        convert_id(context.agent),
        convert_id(context.user),
        convert_id(context.channel),
        event.type.value,
        clamp_integer(event.duration_ms),
        tokens_in,
        tokens_out,
        convert_amount(event.cost_usd),
        redact(hide_own_paths(str(event.error)), MAX_ERROR_CHARS) if event.error else None,
        encode_facts(copy_facts(event.facts, MAX_DEPTH)) if event.facts else None,
        convert_id(context.room),
        convert_id(context.schedule),
        int(context.trust),
        redact(str(event.model), MAX_ID_CHARS) if event.model else None,
        convert_id(position.trace),
        convert_id(position.span),
        convert_id(position.parent),
        convert_id(event.prompt_hash),
        cache_read,
        cache_write,
    )
    return EventRow(values, read_sections(event.facts.get("sections")))


def make_warning_row(time: datetime, event_type: str, error: str, facts: dict[str, Any]) -> EventRow:
    """Make a row that the log writes about itself. Only full trust reads it, since it concerns all users."""
    values = dict.fromkeys(EVENT_COLUMNS) | {
        "timestamp": format_timestamp(time), "level": "warn", "category": "log", "event_type": event_type,
        "error": redact(error, MAX_ERROR_CHARS), "metadata": _encode(facts), "trust": int(Trust.FULL),
    }  # fmt: skip
    return EventRow(tuple(values.values()))


def convert_amount(amount: Any) -> float | None:
    """Convert any number to a finite float, or None."""
    try:
        number = float(amount)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def clamp_integer(number: Any) -> int | None:
    """Convert any number to an integer that SQLite can store, or None."""
    try:
        return max(-MAX_INTEGER, min(int(number), MAX_INTEGER))
    except (TypeError, ValueError, OverflowError):
        return None


def convert_id(text: str) -> str | None:
    """Return an id as stored: None if empty, and at most `MAX_ID_CHARS` characters.

    Ids are not redacted, because access checks compare them. A changed id ends with its hash, so it equals no other.
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


def encode_facts(facts: dict[str, Any]) -> str:
    """Encode facts as JSON. If the result is too long, drop the largest facts and name them."""
    missing: list[str] = []
    while len(text := _encode(facts)) > MAX_METADATA_CHARS:
        facts.pop(CUT_FACT, None)
        size, key = max((len(_encode(value)) + len(key), key) for key, value in facts.items())
        del facts[key]
        missing.append(f"{key} ({size:,} characters)")
        facts[CUT_FACT] = f"left out because too long: {', '.join(missing)}"[:300]
    return text


def copy_facts(facts: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    """Copy a mapping without secrets, shortened, and with a note for each omission."""
    copied: dict[str, Any] = {}
    for key, value in islice(facts.items(), MAX_LIST_ENTRIES):
        label, secret = redact_label(str(key)[: MAX_ID_CHARS + SCAN_MARGIN_CHARS])
        copied[label] = REDACTED if secret and value else copy_fact(value, depth)
    if len(facts) > MAX_LIST_ENTRIES:
        copied[CUT_FACT] = f"{len(facts) - MAX_LIST_ENTRIES:,} more"
    return copied


def copy_fact(value: Any, depth: int) -> Any:
    """Copy one value. A value that JSON cannot represent becomes a string."""
    kind = type(value)
    if kind is str:
        return redact(value, MAX_TEXT_CHARS)
    if value is None or (kind in (bool, int, float) and -MAX_INTEGER <= value <= MAX_INTEGER):
        return value
    if kind not in (list, tuple, dict) and not isinstance(value, list | tuple | Mapping):
        return f"a number of {value.bit_length():,} bits" if kind is int else redact(str(value), MAX_TEXT_CHARS)
    if not depth:
        return f"{len(value):,} entries, too deep to record"
    if kind is dict or isinstance(value, Mapping):
        return copy_facts(value, depth - 1)
    copied = [copy_fact(entry, depth - 1) for entry in value[:MAX_LIST_ENTRIES]]
    return copied if len(copied) == len(value) else [*copied, f"{len(value) - len(copied):,} more"]


@lru_cache(512)
def redact_label(key: str) -> tuple[str, bool]:
    """Return the redacted name of a fact, and whether the name indicates a secret."""
    label = redact(key, MAX_ID_CHARS)
    return label, is_secret_label(label)


def read_sections(listed: Any) -> tuple[tuple[Any, ...], ...]:
    """Read the sections of a call: name, tokens, cached tokens and dollars. Skip malformed entries.

    For a new row the input is the original list, so the totals include every section even if the row lists only some.
    """
    if not isinstance(listed, list | tuple):
        return ()
    found = [each for each in listed[:MAX_SECTIONS] if isinstance(each, list | tuple) and len(each) == 4]
    return tuple(
        (redact(section, MAX_TEXT_CHARS), clamp_integer(tokens), clamp_integer(cached), convert_amount(usd))
        for section, tokens, cached, usd in found
        if (type(section), type(tokens), type(cached)) == (str, int, int)
        if type(usd) in (int, float, type(None)) and tokens >= 0 and cached >= 0
    )


FIGURES = ("turns", "calls", "unpriced", "tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd")
TOTALS_KEY = ("kind", "owner", "room", "start", "name", "trust")
TOTALS_TABLES = ("totals_quarter", "totals_day")
TURN_TYPE, CALL_TYPE = EventType.TURN_STARTED.value, EventType.API_CALL.value
MAX_CALL_FIGURE = 10**12  # tokens or dollars of one call

TotalsKey = tuple[str, str, str, str, str, int]
Figures = Sequence[float]

_COLUMN_AT = {column: place for place, column in enumerate(EVENT_COLUMNS)}
_TYPE, _TIME, METADATA_PLACE = _COLUMN_AT["event_type"], _COLUMN_AT["timestamp"], _COLUMN_AT["metadata"]
_get_place = itemgetter(
    *(_COLUMN_AT[name] for name in ("session_id", "user_id", "agent_id", "channel", "model", "room", "trust"))
)
_get_usage = itemgetter(*(_COLUMN_AT[name] for name in FIGURES[3:]))


def write_totals(connection: sqlite3.Connection, rows: Iterable[EventRow]) -> None:
    """Add rows to the totals, inside the transaction that writes them."""
    quarters = count_rows(rows)
    days: dict[TotalsKey, Figures] = {}
    for (kind, owner, room, start, name, trust), figures in quarters.items():
        add_figures(days, (kind, owner, room, start[:10], name, trust), figures)
    columns = (*TOTALS_KEY, *FIGURES)
    added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
    for table, sums in zip(TOTALS_TABLES, (quarters, days), strict=True):
        connection.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT ({', '.join(TOTALS_KEY)}) DO UPDATE SET {added}",
            [(*key, *figures) for key, figures in sorted(sums.items())],
        )


def count_rows(rows: Iterable[EventRow]) -> dict[TotalsKey, Figures]:
    """Count rows into totals per quarter-hour. Rows of one place are added first, since most of a batch share one."""
    places: dict[tuple[Any, ...], Figures] = {}
    sections: dict[tuple[Any, ...], Figures] = {}
    for values, shares in rows:
        if values[_TYPE] in (TURN_TYPE, CALL_TYPE):
            start, place = find_quarter(values[_TIME]), _get_place(values)
            add_figures(places, (start, *place), count_row(values))
            _, user, _, _, _, room, trust = place
            for name, tokens, cached, usd in shares if values[_TYPE] == CALL_TYPE else ():
                share = (0, 1, int(usd is None), *map(clamp_figure, (tokens, 0, cached, 0, usd or 0.0)))
                add_figures(sections, (start, user, room, trust, name), share)
    sums: dict[TotalsKey, Figures] = {}
    for (start, session, user, agent, channel, model, room, trust), figures in places.items():
        names = {"all": "", "session": session, "agent": agent, "channel": channel, "model": model}
        for owner, where in list_scopes(user, room):
            # For one user, the total by user equals the overall total.
            for kind, name in (names if owner else {**names, "user": user}).items():
                add_figures(sums, (kind, owner, where, start, name or "", trust), figures)
    for (start, user, room, trust, name), figures in sections.items():
        for owner, where in list_scopes(user, room):
            add_figures(sums, (Grouping.SECTION.value, owner, where, start, name, trust), figures)
    return sums


def find_quarter(timestamp: str) -> str:
    """Return the start of the quarter-hour of a timestamp."""
    return f"{timestamp[:14]}{int(timestamp[14:16]) // 15 * 15:02}"


def count_row(values: Sequence[Any]) -> Figures:
    """Return the figures of a turn or a call. A retry is not another turn."""
    if values[_TYPE] == TURN_TYPE:
        metadata = values[METADATA_PLACE] or ""
        retried = '"attempt"' in metadata and json.loads(metadata).get("attempt") not in (None, 1)
        return (int(not retried), 0, 0, 0, 0, 0, 0, 0.0)
    *tokens, cost = _get_usage(values)
    return (0, 1, int(cost is None), *(clamp_figure(each or 0) for each in tokens), clamp_figure(cost or 0.0))


def clamp_figure(figure: float) -> float:
    """Limit a figure of one call, so that no total overflows."""
    return max(-MAX_CALL_FIGURE, min(figure, MAX_CALL_FIGURE))


def list_scopes(user: str | None, room: str | None) -> Iterator[tuple[str, str]]:
    """List the scopes of a row: everybody, its user, its room, and its user in that room."""
    for owner in ("", user) if user else ("",):
        for where in ("", room) if room else ("",):
            yield owner, where


def add_figures(sums: dict[Any, Figures], key: Any, figures: Figures) -> None:
    """Add figures to those of a key."""
    known = sums.get(key)
    sums[key] = figures if known is None else [one + other for one, other in zip(known, figures, strict=True)]


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
        columns = RECORD_COLUMNS if sees_all(reader) else EVENT_COLUMNS
        values = {column: getattr(self, COLUMN_FIELDS[column]) for column in columns}
        plain = {column: None if value == "" else value for column, value in values.items()}
        shown = {"timestamp": format_timestamp(self.time), "trust": str(self.trust), "metadata": dict(self.facts)}
        return plain | shown


NUMBER_FIELDS = frozenset(("duration_ms", "tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd"))


def read_record(values: Sequence[Any]) -> Record:
    """Convert a row with the columns of `RECORD_SELECT` to a record."""
    fields: dict[str, Any] = {
        name: "" if value is None and name not in NUMBER_FIELDS else value
        for name, value in zip(COLUMN_FIELDS.values(), values, strict=True)
    }
    time, trust, facts = datetime.fromisoformat(fields["time"]), Trust(fields["trust"]), parse_facts(fields["facts"])
    return Record(**fields | {"time": time, "trust": trust, "facts": facts})


def parse_facts(text: str) -> Mapping[str, Any]:
    """Parse the facts of an event. Text that is not a JSON object is returned under a generic key."""
    try:
        facts = json.loads(text or "{}")
    except ValueError:
        return {"text": text}
    return facts if isinstance(facts, dict) else {"value": facts}


def sum_known(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of the known amounts, or None if none is known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
