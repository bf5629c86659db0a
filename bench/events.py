"""The event log: rows per second compared with a raw executemany, cost per turn, and the time of every query.

`python -m bench events` queries a million rows; `python -m bench.events 10000000` queries that many.
"""

import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from bench.event_rows import CHANNELS, END, USERS, Gateway, fill
from bench.figure import Figure, Times, clock
from foreword.events.event import Event, Grouping, Level, Reader
from foreword.events.log import MAX_BATCH_ROWS, EventLog, LogLimits
from foreword.events.query import find_events, find_turn_events, parse_filter
from foreword.events.record import INSERT_EVENT, make_row
from foreword.events.status import find_status
from foreword.events.totals import sum_usage_by
from foreword.storage.database import EVENTS_FILE, open_events
from foreword.types import Trust

ROWS = 1_000_000
WRITTEN = 200_000
ASKED = 200
AIM = 20.0
MINUTE = 1 / 1_440  # of a day
OWNER = Reader(user="owner", clearance=Trust.FULL, timezone="Europe/Paris")


def run(rows: int = ROWS) -> Iterator[Figure]:
    """Measure everything."""
    yield from measure_writing()
    yield from measure_turn()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        connection = fill(folder, rows)
        size = os.path.getsize(os.path.join(folder, EVENTS_FILE)) / 1e6
        yield Figure(name=f"events: {rows:,} rows are", value=size, unit="MB")
        print(f"({rows:,} rows made in {time.perf_counter() - begin:.0f} s)", file=sys.stderr)
        yield from measure_questions(connection)
        connection.close()


def measure_writing() -> Iterator[Figure]:
    """Measure sustained writing, compared with raw rows in the same table, indexes and transaction size."""
    events = list(Gateway().make_events(WRITTEN, MINUTE))
    raw = max(write_raw(events) for _ in range(2))
    ours = max(write_ours(events) for _ in range(2))
    yield Figure(
        name="events: rows written a second",
        value=int(ours),
        unit="/s",
        baseline=f"raw executemany {raw:,.0f} /s; ours is {ours / raw:.2f} of it (aim ≥ 0.5)",
    )


def write_raw(events: Sequence[Event]) -> float:
    """Write prepared rows; return rows per second."""
    rows = [make_row(event).values for event in events]
    with tempfile.TemporaryDirectory() as folder:
        connection = open_events(folder).connection
        begin = time.perf_counter()
        for start in range(0, len(rows), MAX_BATCH_ROWS):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT_EVENT, rows[start : start + MAX_BATCH_ROWS])
            connection.execute("COMMIT")
        seconds = time.perf_counter() - begin
        connection.close()
    return len(rows) / seconds


def write_ours(events: Sequence[Event]) -> float:
    """Record events until all are in the database; return events per second. Errors are acknowledged one by one."""
    plain = [event for event in events if event.level is Level.INFO]
    with tempfile.TemporaryDirectory() as folder, EventLog(folder, limits=LogLimits(rows=10 * WRITTEN)) as log:
        begin = time.perf_counter()
        for event in plain:
            log.record(event)
        if not log.flush(600) or log.lost:
            raise SystemExit("events were lost")
        return len(plain) / (time.perf_counter() - begin)


def measure_turn() -> Iterator[Figure]:
    """Measure the time that recording one event adds to a turn, at the pace of turns."""
    events = [event for event in Gateway().make_events(12_000) if event.level is Level.INFO]
    with tempfile.TemporaryDirectory() as folder, EventLog(folder) as log:

        def record(number: int) -> None:
            log.record(events[number])

        log.record(events[0])
        log.flush()
        times = clock_paced(record, 6_000)
        yield Figure(name="events: one event in a turn, p50", value=times.p50, unit="µs", aim=20)
        yield Figure(name="events: one event in a turn, p99", value=times.p99, unit="µs")
        errors = [event for event in Gateway().make_events(30_000) if event.level is Level.ERROR]
        waits = clock(lambda number: log.record(errors[number]), 80)
        yield Figure(name="events: an error until it is on the disk, p50", value=waits.p50 / 1_000, unit="ms")


def clock_paced(call: Callable[[int], object], count: int) -> Times:
    """Time single calls, with a pause after each dozen like a turn."""

    def pause(number: int) -> None:
        if number % 12 == 0:
            time.sleep(0.002)

    times = []
    for number in range(count):
        pause(number)
        begin = time.perf_counter_ns()
        call(number)
        times.append((time.perf_counter_ns() - begin) / 1_000)
    times.sort()
    return Times(p50=times[count // 2], p99=times[count * 99 // 100])


def measure_questions(connection: sqlite3.Connection) -> Iterator[Figure]:
    """Measure each documented query, for the owner and for people who see only their own rows."""
    for name, ask in list_questions(connection).items():
        busy: list[float] = []

        def call(number: int, ask: Callable[[int], object] = ask, busy: list[float] = busy) -> None:
            begin = time.thread_time()
            ask(number)
            busy.append((time.thread_time() - begin) * 1_000)

        times = clock(call, ASKED)
        processor = f"p50 {times.p50 / 1_000:.2f} ms; of the processor p99 {sorted(busy)[ASKED * 99 // 100]:.2f} ms"
        yield Figure(name=f"events: {name}, p99", value=times.p99 / 1_000, unit="ms", aim=AIM, baseline=processor)


def list_questions(connection: sqlite3.Connection) -> dict[str, Callable[[int], object]]:
    """List the documented queries, each with a different session, person or turn every time."""
    dice = random.Random(7)
    last = connection.execute("SELECT max(id) FROM events").fetchone()[0]
    picked = [
        connection.execute("SELECT session_id, trace_id FROM events WHERE id = ?", (number,)).fetchone()
        for number in dice.choices(range(1, last), k=ASKED)
    ]

    def logs(number: int, reader: Reader = OWNER, **asked: str) -> object:
        given = {key: value.format(session=picked[number][0], user=find_user(number)) for key, value in asked.items()}
        return find_events(connection, reader, parse_filter(given, reader, END))

    def own(number: int, **asked: str) -> object:
        return logs(number, find_reader(number), **asked)

    def total(number: int, by: Grouping, days: float, *, mine: bool = False) -> object:
        reader = find_reader(number) if mine else OWNER
        since = (END - timedelta(days=days, minutes=number)) if days else today(number)
        return sum_usage_by(connection, reader, by, since)[0]

    questions: dict[str, Callable[[int], object]] = {
        "all events of a session": partial(logs, session_id="{session}"),
        "errors of an hour": partial(logs, level="error", since="1h"),
        "errors of a night": partial(logs, level="error", since="12h"),
        "the last 5 API errors": lambda _: find_events(
            connection, OWNER, parse_filter({"event_type": "api_error", "limit": 5}, OWNER, END)
        ),
        "a person's events today": partial(logs, user="{user}", since="today"),
        "a channel's events yesterday": lambda number: logs(
            number, channel=CHANNELS[number % 4], since="yesterday", until="yesterday"
        ),
        "the newest events": logs,
        "one's own errors": partial(own, level="error"),
        "one's own calls of an hour": partial(own, event_type="api_call", since="1h"),
        "a turn's tree": lambda number: find_turn_events(connection, OWNER, picked[number][1]),
        "a turn's tree by twelve digits": lambda number: find_turn_events(connection, OWNER, picked[number][1][:12]),
        "the status": lambda number: find_status(connection, OWNER, END - timedelta(minutes=number)),
        "one's own status": lambda number: find_status(connection, find_reader(number), END),
    }
    for by in Grouping:
        questions[f"sum by {by} of today"] = partial(total, by=by, days=0)
        questions[f"sum by {by} of twelve hours"] = partial(total, by=by, days=0.5)
        questions[f"sum by {by} of a month"] = partial(total, by=by, days=30)
        questions[f"one's own sum by {by} of a month"] = partial(total, by=by, days=30, mine=True)
    return questions


def today(number: int):
    """Return the beginning of a day, in whole hours before the end, like time zones."""
    return END.replace(minute=0, second=0) - timedelta(hours=number % 24)


def find_user(number: int) -> str:
    """Choose a person; some are busy."""
    return f"user{number * 7 % USERS}"


def find_reader(number: int) -> Reader:
    """Choose a reader who sees only their own rows."""
    return Reader(user=find_user(number), clearance=Trust.INNER, timezone="America/Los_Angeles")


def main(arguments: Sequence[str]) -> int:
    """Run with the given number of rows."""
    for figure in run(int(arguments[0].replace("_", "")) if arguments else ROWS):
        aim = f"aim ≤ {figure.aim:g} {figure.unit}: {figure.verdict}" if figure.aim is not None else ""
        print(f"{figure.name:52} {figure.value:>12,.2f} {figure.unit:3} {aim} {figure.baseline}".rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
