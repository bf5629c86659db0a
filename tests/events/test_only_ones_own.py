"""No answer contains an event that its reader may not see, over generated logs, readers and questions."""

import io
import json
import os
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from event_rows import NOON, make_event
from foreword.cli import log_commands as cost_command
from foreword.cli import status_commands as status_command
from foreword.errors import InputError
from foreword.events.cache_breaks import find_breaks, find_repeated, report_to_json, show_breaks, show_causes
from foreword.events.event import GROUPINGS, Event, EventType, Level, Reader, TracePosition, Usage
from foreword.events.lines import explain_cache, show_line, show_tree_entry
from foreword.events.query import (
    Filter,
    complete_session,
    find_events,
    find_events_after,
    find_turn_at,
    find_turn_events,
    is_recorded,
    lay_out_turn,
    parse_filter,
    query_log,
)
from foreword.events.record import RECORD_COLUMNS, Record, make_row, write_totals
from foreword.events.sent_prompts import find_recorded_turn
from foreword.events.status import find_status, show_status
from foreword.events.totals import find_spending, show_spending
from foreword.host import load_zone
from foreword.privacy.export import write_lines
from foreword.storage.database import open_events
from foreword.types import Trust

CASES, CASE_LOGS = (100_000, 10) if os.environ.get("FOREWORD_SOAK") else (600, 3)
USERS = ("alice", "bob", "carol", "", "bob ", "BOB", "bo%", "'bob'")
ROOMS = ("", "", "kitchen", "cellar")
SESSIONS = ("s1", "s2", "s3", "")
CHANNELS = ("web", "signal", "")
KINDS_OF_EVENTS = [*EventType]
ZONES = ("", "Europe/Paris", "Asia/Kathmandu")
COUNT = 160  # events of one log
LOGS = 10  # logs of one run
SPANS = (3, 500)  # days that the events of one log span
PERIODS = (("3d", ""), ("today", ""), ("2h", ""), ("600d", ""), ("600d", "20d"), ("", "20d"), ("", "today"))
LATER = NOON + timedelta(hours=1)
UTC, _ = load_zone("")


def may_see(reader: Reader, event: Event) -> bool:
    """Return whether a reader may see an event, restated from the specification."""
    own = bool(reader.user) and event.context.user == reader.user
    here = not reader.room or event.context.room == reader.room
    return event.context.trust <= reader.clearance and (own or reader.clearance is Trust.FULL) and here


def make_events(dice: random.Random) -> list[Event]:
    """Make events in turns, each with unique texts and unique figures."""
    events = []
    span = dice.choice(SPANS)
    for at in range(COUNT):
        turn = at // 5
        mark = f"mark{at:04}x"
        kind = dice.choice((*KINDS_OF_EVENTS, *[EventType.API_CALL] * 10))
        call = kind is EventType.API_CALL
        events.append(
            make_event(
                kind,
                -dice.randrange(60 * 24 * span),
                level=dice.choice([*Level]),
                user=dice.choice(USERS),
                trust=dice.choice([*Trust]),
                room=dice.choice(ROOMS),
                # Fields that are summed by name have a name that is unique to the event.
                session=f"{mark}s" if dice.random() < 0.5 else dice.choice(SESSIONS),
                channel=f"{mark}c" if dice.random() < 0.3 else dice.choice(CHANNELS),
                agent=f"{mark}a",
                model=f"{mark}m",
                error=f"{mark}e",
                usage=Usage(tokens_in=10**9 + at, tokens_out=at) if call else None,
                cost_usd=float(1 << at % 40) if call and at % 3 else None,
                prompt_hash=f"{at:064x}" if kind is EventType.PROMPT_BUILT else "",
                facts=make_facts(at, mark) if call else {"word": f"{mark}v", "ledger": make_ledger(mark)},
                position=TracePosition(trace=f"{turn:08x}" + "0" * 24, span=f"{at:016x}", parent=f"{at - at % 5:016x}"),
            )
        )
    return events


def make_facts(at: int, mark: str) -> Mapping[str, object]:
    """Make the facts of a call, usually with a cache break."""
    blame = {
        "cause": f"{mark}b",
        "reason": f"{mark}r",
        "where": f"{mark}w",
        "byte": at,
        "tokens": 10**6 + at,
        "usd": at,
    }
    blame["cause"] = blame["cause"] if at % 2 else "tools"
    cache = {"predicted": {"read": at, "write": 1, "fresh": 2}, "blame": blame if at % 5 else None}
    return {f"{mark}k": f"{mark}v", "sections": [[f"{mark}p", 5, 0, 0.5]], "cache": cache}


def make_ledger(mark: str) -> Mapping[str, object]:
    """Make a ledger decision."""
    rebase = {"ground": "cold", "reason": f"{mark}g", "section": f"{mark}x", "byte": 7, "tokens": 3, "usd": None}
    return {"deed": f"{mark}d", "reason": f"{mark}r", "rebase": rebase, "decisions": []}


def write(folder: str, events: Mapping[int, Event]) -> None:
    """Write numbered events and their sums."""
    rows = {number: make_row(event) for number, event in events.items()}
    marks = ", ".join("?" * len(RECORD_COLUMNS))
    with closing(open_events(folder).connection) as connection:
        connection.execute("BEGIN")
        insert = f"INSERT INTO events ({', '.join(RECORD_COLUMNS)}) VALUES ({marks})"
        connection.executemany(insert, [(number, *row.values) for number, row in rows.items()])
        write_totals(connection, rows.values())
        connection.execute("COMMIT")


@dataclass(frozen=True)
class Question:
    """All queries of a reader; each method returns the complete answer as the reader sees it."""

    reader: Reader
    wanted: Filter
    turn: str
    span: str
    moment: datetime
    spent: Mapping[str, str]

    def find(self, log: sqlite3.Connection) -> str:
        """Find events and the start of the next page."""
        found = find_events(log, self.reader, self.wanted)
        onward = found.find_next_page(len(found.records) // 2, self.wanted)
        return "\n".join([*map(show_line, found.records), self.describe(found.records), found.notice, onward])

    def follow(self, log: sqlite3.Connection) -> str:
        """Find events written after a row."""
        (last,) = log.execute("SELECT coalesce(max(id), 0) FROM events WHERE span_id < ?", [self.span]).fetchone()
        return self.describe(find_events_after(log, self.reader, self.wanted, last))

    def trace(self, log: sqlite3.Connection) -> str:
        """Find the events of a turn."""
        try:
            found = find_turn_events(log, self.reader, self.turn)
        except InputError as error:
            return str(error)
        branches = [show_tree_entry(*entry, NOON) for entry in lay_out_turn(found.records)]
        return "\n".join([*branches, self.describe(found.records)])

    def trace_at(self, log: sqlite3.Connection) -> str:
        """Find the turn at a time."""
        return find_turn_at(log, self.reader, self.moment)

    def spend(self, log: sqlite3.Connection) -> str:
        """Find the spending."""
        found = find_spending(log, self.reader, self.spent, NOON)
        return "\n".join([*show_spending(found, UTC), json.dumps(cost_command.spending_to_dict(found))])

    def look(self, log: sqlite3.Connection) -> str:
        """Find the status."""
        found = find_status(log, self.reader, NOON)
        return "\n".join([*show_status(found, UTC), json.dumps(status_command.status_to_dict(found, [], self.reader))])

    def blame(self, log: sqlite3.Connection) -> str:
        """Find cache breaks and repeated breaks."""
        found = find_breaks(log, self.reader, self.wanted)
        often = find_repeated(log, self.reader, self.moment, ["tools"])
        return "\n".join(
            [*show_breaks(found, UTC), *show_causes(found), json.dumps(report_to_json(found)), repr(often)]
        )

    def complete(self, log: sqlite3.Connection) -> str:
        """Complete a session id, and check whether other users are known."""
        people = [is_recorded(log, self.reader, "user_id", name) for name in ("alice", "bob", "carol")]
        try:
            return f"{complete_session(log, self.reader, f'mark0{self.turn[-1]}')} {people}"
        except InputError as error:
            return f"{error} {people}"

    def recall(self, log: sqlite3.Connection) -> str:
        """Load the prompt of a turn, or a prompt by its hash."""
        try:
            found = [find_recorded_turn(log, self.reader, name) for name in (self.turn, f"{int(self.span, 16):064x}")]
        except InputError as error:
            return str(error)
        return "\n".join(line for one in found if one for line in (one.turn, *explain_cache(one.records)))

    def export(self, log: sqlite3.Connection) -> str:
        """Export, and collect the progress."""
        file, shown = io.StringIO(), []
        write_lines(log, self.reader, file, progress=lambda *figures: shown.append(figures))
        return f"{file.getvalue()}{shown}"

    def describe(self, records: Sequence[Record]) -> str:
        """Serialise records as JSON."""
        return json.dumps([record.to_dict(self.reader) for record in records])


def ask_something(dice: random.Random, reader: Reader) -> Callable[[sqlite3.Connection], str]:
    """Make a random question."""
    asked = {
        "session_id": dice.choice(SESSIONS),
        "level": dice.choice(("", "", "warn", "error")),
        "event_type": dice.choice(("", "", dice.choice(KINDS_OF_EVENTS).value)),
        "user": dice.choice(("", "", *USERS)),
        "channel": dice.choice(("", *CHANNELS)),
        "since": dice.choice(("", "2d", "today", "yesterday", "5h", "300d")),
        "limit": dice.choice((1, 5, 50, 1_000)),
    }
    since, until = dice.choice(PERIODS)
    question = Question(
        reader=reader,
        wanted=parse_filter(asked, reader, NOON),
        turn=f"{dice.randrange(COUNT // 5):08x}"[: dice.choice((6, 7, 8))],
        span=f"{dice.randrange(COUNT):016x}",
        moment=NOON - timedelta(minutes=dice.randrange(60 * 24 * 3)),
        # Whole days make the sums look for their ends.
        spent={"by": dice.choice((*GROUPINGS, *["day"] * 5)), "since": since, "until": until},
    )
    kinds = [question.find, question.follow, question.trace, question.trace_at, question.look, question.export]
    kinds += [question.blame, question.blame, question.complete, question.recall]
    return dice.choice([*kinds, question.find, question.spend, question.spend])


def make_reader(dice: random.Random) -> Reader:
    """Make a random reader."""
    return Reader(
        user=dice.choice(USERS),
        clearance=dice.choice([*Trust]),
        room=dice.choice((*ROOMS, "attic")),
        timezone=dice.choice(ZONES),
    )


def find_leak(
    tmp_path, cases: int, taken_for: Callable[[Reader], Reader] = lambda reader: reader, logs: int = LOGS
) -> str:
    """Ask generated questions; return the first answer that changes with events the reader may not see.

    Law 3: each question is put to the whole log and to a log without the events that the reader may not see. Both
    answers are equal byte for byte, unless the reader is mistaken for another person.
    """
    dice = random.Random(0)
    for number in range(logs):
        events = dict(enumerate(make_events(dice), start=1))
        whole = str(tmp_path / f"{number}")
        write(whole, events)
        readers = [make_reader(dice) for _ in range(10)]
        for at, reader in enumerate(readers):
            seen = {number: event for number, event in events.items() if may_see(reader, event)}
            allowed = str(tmp_path / f"{number}-{at}")
            if seen:
                # Renumber: gaps between numbers would reveal how many rows others have.
                write(allowed, dict(enumerate(seen.values(), start=1)))
            numbers = [dice.getrandbits(64) for _ in range(cases // logs // len(readers))]
            questions = [ask_something(random.Random(number), taken_for(reader)) for number in numbers]
            answers, _ = query_log(whole, lambda log, these=questions: [each(log) for each in these])
            questions = [ask_something(random.Random(number), reader) for number in numbers]
            others, _ = query_log(allowed, lambda log, these=questions: [each(log) for each in these])
            for answer, other in zip(answers, others, strict=True):
                if answer != other:
                    return f"{reader}:\n{answer}\n---\n{other}"
    return ""


def test_no_answer_holds_what_is_not_the_readers(tmp_path):
    """Deleting every event that a reader may not see changes no byte of any answer to that reader."""
    assert find_leak(tmp_path, CASES, logs=CASE_LOGS) == ""


MISTAKES = {
    "clearance": lambda reader: replace(reader, clearance=max(reader.clearance, Trust.INNER)),
    "name": lambda reader: replace(reader, user="bob" if reader.user == "alice" else "alice"),
    "room": lambda reader: replace(reader, room=""),
    "all": lambda reader: replace(reader, clearance=Trust.FULL, room=""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_claim_can_fail(tmp_path, mistake):
    """The property above fails if the reader's clearance, name or room is wrong."""
    assert find_leak(tmp_path, 3_000, MISTAKES[mistake])


def test_an_unnamed_reader_owns_nothing(tmp_path):
    """Events without an owner are visible at full trust only."""
    folder = str(tmp_path / "log")
    write(folder, {1: make_event(EventType.API_CALL, user="", trust=Trust.PUBLIC, usage=Usage(), cost_usd=1.0)})
    for clearance in Trust:
        reader = Reader(user="", clearance=clearance)
        found, _ = query_log(folder, lambda log, who=reader: find_events(log, who).records)
        spent, _ = query_log(folder, lambda log, who=reader: find_spending(log, who, {"since": "3d"}, LATER))
        assert (len(found), spent.whole.calls) == ((1, 1) if clearance is Trust.FULL else (0, 0))
