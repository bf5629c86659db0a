"""Rows for the tests of questions: written straight into a real log, so that nothing but the question is under test."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from foreword.events.event import CATEGORIES, EventType, Reader
from foreword.events.moment import stamp
from foreword.words import Trust

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ALICE = Reader(user="alice", clearance=Trust.FULL)
BOB = Reader(user="bob", clearance=Trust.FAMILIAR)


def put(connection: sqlite3.Connection, time: datetime = NOON, **columns: Any) -> int:
    """Write one row and return its id; what is not given is an unremarkable event of alice's."""
    kind = columns.get("event_type", "api_call")
    row = {
        "timestamp": stamp(time),
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
