"""Rows and events for the tests of log queries, written to a real log."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

from foreword.events.event import CATEGORIES, Context, Event, EventType, Reader, format_timestamp
from foreword.events.log import EventLog, LogLimits
from foreword.types import Trust

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ALICE = Reader(user="alice", clearance=Trust.FULL)
BOB = Reader(user="bob", clearance=Trust.FAMILIAR)


def put(connection: sqlite3.Connection, time: datetime = NOON, **columns: Any) -> int:
    """Write one row and return its id; omitted columns are those of an ordinary event of alice."""
    kind = columns.get("event_type", "api_call")
    row = {
        "timestamp": format_timestamp(time),
        "level": "info",
        "category": CATEGORIES[EventType(kind)],
        "event_type": kind,
        "user_id": "alice",
        "trust": int(Trust.FAMILIAR),
        **columns,
    }
    if isinstance(row.get("metadata"), dict):
        row["metadata"] = json.dumps(row["metadata"])
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    return connection.execute(f"INSERT INTO events ({names}) VALUES ({marks})", list(row.values())).lastrowid


def make_event(kind: EventType = EventType.API_CALL, minutes: float = 0, **said: Any) -> Event:
    """Make an event some minutes after noon; arguments that are not event fields are fields of its context."""
    fields = {name: said.pop(name) for name in list(said) if name in Event.__dataclass_fields__}
    context = Context(**{"user": "alice", "trust": Trust.FAMILIAR, **said})
    return Event(**{"type": kind, "time": NOON + timedelta(minutes=minutes), "context": context, **fields})


def record_events(folder: str, *events: Event) -> None:
    """Write events as a gateway does, with their totals."""
    log = EventLog(folder, limits=LogLimits(close_timeout_s=60.0))
    for event in events:
        log.record(event)
    log.close()
    assert not log.lost
