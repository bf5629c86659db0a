"""Outcomes: what became of turns that had errors, such as a queued message that was delivered later."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, Reader
from foreword.events.filter import Filter
from foreword.events.line import SHORT, list_parts, show_time
from foreword.events.record import SELECTED, Record, read_record
from foreword.events.visible import visible
from foreword.frozen import frozen

MAX_TURNS = 20  # turns of one answer
MAX_ROWS = 50  # rows of one turn; each attempt and each delivery has one
COMPLETED, SENT = EventType.TURN_COMPLETED.value, EventType.MESSAGE_SENT.value
FACTS = ("outcome", "calls_refused", "turns_before", "minutes_before")
ERRORS = tuple(kind.value for kind in EventType if kind.value.endswith("_error"))


@frozen(eq=True)
class Outcome:
    """The attempts of one turn in order, and the time at which its reply was delivered."""

    turn: str
    attempts: tuple[Record, ...]
    delivered: datetime | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the last attempt was answered."""
        return bool(self.attempts) and "outcome" not in self.attempts[-1].facts


def asks_for_errors(wanted: Filter) -> bool:
    """Whether a filter asks for warnings or errors, so that the rows that follow them are not in its answer."""
    return bool(wanted.levels) or wanted.type in ERRORS


def find_outcomes(connection: sqlite3.Connection, reader: Reader, records: Iterable[Record]) -> list[Outcome]:
    """Find what became of the turns of some records, as far as the reader may see, in the order of the records."""
    turns = list(dict.fromkeys(record.trace for record in records if record.trace and record.session))[:MAX_TURNS]
    found = (make_outcome(turn, find_steps(connection, reader, turn)) for turn in turns)
    return [outcome for outcome in found if outcome.attempts]


def find_steps(connection: sqlite3.Connection, reader: Reader, turn: str) -> list[Record]:
    """Find the ends of a turn's attempts and its deliveries, the oldest first."""
    where, values = visible(reader)
    rows = connection.execute(
        f"SELECT {SELECTED} FROM events INDEXED BY idx_events_trace WHERE trace_id = ? "  # noqa: S608 - our own names
        f"AND event_type IN ('{COMPLETED}', '{SENT}') AND {where} ORDER BY timestamp DESC, id DESC LIMIT {MAX_ROWS}",
        [turn, *values],
    ).fetchall()
    return [read_record(row) for row in reversed(rows)]


def make_outcome(turn: str, steps: Sequence[Record]) -> Outcome:
    """Make an outcome of a turn's steps; a message that was sent before the answer only said that it has to wait."""
    attempts = tuple(step for step in steps if step.type == COMPLETED)
    outcome = Outcome(turn=turn, attempts=attempts)
    if not outcome.is_answered:
        return outcome
    sent = [step.time for step in steps if step.type == SENT and step.time >= attempts[-1].time]
    return Outcome(turn=turn, attempts=attempts, delivered=sent[-1] if sent else None)


def show_outcomes(outcomes: Iterable[Outcome], zone: ZoneInfo) -> Iterator[str]:
    """Show outcomes, a line each."""
    for outcome in outcomes:
        yield f"turn {outcome.turn[:SHORT]}: {'; '.join(list_steps(outcome, zone))}"


def list_steps(outcome: Outcome, zone: ZoneInfo) -> Iterator[str]:
    """List what happened to a turn, in order."""
    for attempt in outcome.attempts:
        facts = {name: attempt.facts[name] for name in FACTS if name in attempt.facts}
        if facts:
            yield f"{show_time(attempt.time, zone)} {' '.join(list_parts(facts))}"
    last = outcome.attempts[-1]
    if outcome.is_answered:
        number = len(outcome.attempts)
        tries = f" on attempt {number}" if number > 1 else ""
        yield f"{show_time(last.time, zone)} answered{tries}"
        yield f"{show_time(outcome.delivered, zone)} delivered" if outcome.delivered else "not delivered yet"
    elif last.facts.get("outcome") == "queued":
        yield "not answered yet"
