"""A month of a busy gateway as rows of the event log: 500 people, sessions of 40 turns, 12 events per turn."""

import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from foreword.events.event import Context, Event, EventType, Level, TracePosition, Usage
from foreword.events.record import EVENT_COLUMNS, FIGURES, INSERT_EVENT, TOTALS_KEY, EventRow, make_row, write_totals
from foreword.storage.database import open_events
from foreword.types import Trust

END = datetime(2026, 11, 16, 23, 59, 59, tzinfo=UTC)
DAYS = 30
USERS = 500
TURNS = 40  # per session
AT_ONCE = 64  # concurrent sessions
BATCH = 20_000
CHANNELS = ("telegram", "web", "signal", "terminal")
MODELS = ("anthropic:claude-sonnet-5", "openai:gpt-5", "local:small")
SECTIONS = ("core", "identity", "soul", "agents", "tools", "menu", "time", "history")
TABLES = {"events": EVENT_COLUMNS, "totals_quarter": (*TOTALS_KEY, *FIGURES), "totals_day": (*TOTALS_KEY, *FIGURES)}
# The columns that differ between days.
CHANGED = {
    "timestamp": ":date || substr(timestamp, 11)",
    "session_id": ":mark || substr(session_id, 9)",
    "trace_id": "substr(:mark, 1, 4) || substr(trace_id, 5)",
    "start": ":date || substr(start, 11)",
    "name": "CASE kind WHEN 'session' THEN :mark || substr(name, 9) ELSE name END",
}
E = EventType
STEPS = (
    E.MESSAGE_RECEIVED, E.TRUST_RESOLVED, E.PROMPT_BUILT, E.TURN_STARTED, E.API_CALL, E.TOOL_CALL, E.MEMORY_SEARCH,
    E.API_CALL, E.TOOL_CALL, E.API_CALL, E.TURN_COMPLETED, E.MESSAGE_SENT,
)  # fmt: skip


class Gateway:
    """Generates the events of turns from interleaved sessions, in time order."""

    def __init__(self, seed: int = 5) -> None:
        self.dice = random.Random(seed)
        self.sessions = [self.begin() for _ in range(AT_ONCE)]

    def begin(self) -> Context:
        """Begin a session; one in ten is in a room."""
        dice = self.dice
        room = f"room{dice.randrange(20)}" if dice.random() < 0.1 else ""
        return Context(
            trust=Trust.FAMILIAR if room else dice.choice(list(Trust)),
            session=f"{dice.getrandbits(64):016x}",
            agent=f"agent{dice.randrange(4)}",
            user=f"user{int(USERS * dice.random() ** 2)}",
            channel=dice.choice(CHANNELS),
            room=room,
        )

    def make_turn(self, time: datetime) -> Iterator[Event]:
        """Make one turn of a random session; one call in fifty fails."""
        dice = self.dice
        slot = dice.randrange(AT_ONCE)
        if dice.random() < 1 / TURNS:
            self.sessions[slot] = self.begin()
        context, trace = self.sessions[slot], f"{dice.getrandbits(128):032x}"
        root = f"{dice.getrandbits(64):016x}"
        for number, kind in enumerate(STEPS):
            position = TracePosition(trace=trace, span=f"{dice.getrandbits(64):016x}", parent=root)
            moment = time + timedelta(milliseconds=150 * number)
            if kind is E.API_CALL:
                yield self.make_call(moment, context, position)
            else:
                facts = {"name": "bash", "status": "ok", "length": dice.randrange(5_000)}
                yield Event(type=kind, time=moment, context=context, position=position, duration_ms=80, facts=facts)

    def make_call(self, time: datetime, context: Context, position: TracePosition) -> Event:
        """Make one model call."""
        dice = self.dice
        model = dice.choice(MODELS)
        if dice.random() < 0.02:
            error = "429 Too Many Requests"
            facts = {"status": 429, "attempt": 1, "wait": 2}
            return Event(
                type=E.API_ERROR,
                level=Level.ERROR,
                time=time,
                context=context,
                position=position,
                error=error,
                facts=facts,
            )
        tokens = dice.randrange(2_000, 8_000)
        cost = None if model.startswith("local") else tokens / 300_000
        shares = [(name, tokens // 8, tokens // 16, cost and cost / 8) for name in SECTIONS]
        return Event(
            type=E.API_CALL,
            time=time,
            context=context,
            position=position,
            duration_ms=900,
            model=model,
            usage=Usage(tokens_in=tokens, tokens_out=tokens // 10, cache_read=tokens // 2),
            cost_usd=cost,
            prompt_hash=f"{dice.getrandbits(256):064x}",
            facts={"sections": shares, "attempt": 1},
        )

    def make_events(self, count: int, days: float = DAYS) -> Iterator[Event]:
        """Make events over a number of days up to the end."""
        turns = -(-count // len(STEPS))
        step = timedelta(days=days) / turns
        begin = END - timedelta(days=days)
        for number in range(turns):
            yield from self.make_turn(begin + number * step)


def fill(folder: str, count: int) -> sqlite3.Connection:
    """Fill a log with rows and totals as the log's writer would; return the open database.

    The last day is made event by event; the other days copy its turns with different sessions and traces. The indexes
    are dropped while the rows are written and rebuilt afterwards.
    """
    connection = open_events(folder).connection
    for order in ("synchronous=OFF", "cache_size=-2000000", "wal_autocheckpoint=200000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {order}")
    query = "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'events' AND type = 'index' AND sql IS NOT NULL"
    kept = dict(connection.execute(query).fetchall())
    for name in kept:
        connection.execute(f"DROP INDEX {name}")
    rows = [make_row(event) for event in Gateway().make_events(count // DAYS, 1)]
    rows = [EventRow((str(END.date()) + row.values[0][10:], *row.values[1:]), row.sections) for row in rows]
    for start in range(0, len(rows), BATCH):
        put(connection, rows[start : start + BATCH])
    for table in TABLES:
        connection.execute(f"CREATE TEMP TABLE day_{table} AS SELECT * FROM {table}")
    for number in range(1, DAYS):
        copy(connection, str(END.date() - timedelta(days=number)), number)
    for order in kept.values():
        connection.execute(order)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return open_events(folder).connection


def copy(connection: sqlite3.Connection, date: str, number: int) -> None:
    """Copy the generated day to another date, rows and totals, with different sessions and traces."""
    mark = f"{random.Random(number).getrandbits(32):08x}"
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in TABLES.items():
        values = ", ".join(CHANGED.get(column, column) for column in columns)
        connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM day_{table}", {"date": date, "mark": mark}
        )
    connection.execute("COMMIT")


def put(connection: sqlite3.Connection, rows: list[EventRow]) -> None:
    """Write a batch like the log does."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT_EVENT, [row.values for row in rows])
    write_totals(connection, rows)
    connection.execute("COMMIT")
