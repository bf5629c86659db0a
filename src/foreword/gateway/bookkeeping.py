"""The ledgers of sessions: read before a turn, and kept with each of its steps, so that history and ledger agree."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime

from foreword.events.event import Reader
from foreword.events.visible import sees_all
from foreword.frozen import frozen
from foreword.ledger import Book, Frozen, Moment
from foreword.ledger.calibration import PLAIN, Calibration, learn
from foreword.ledger.state import empty, lose
from foreword.prices import Request, find_prices
from foreword.runtime.history import Messages, recount
from foreword.runtime.providers import LOCAL
from foreword.store import ledgers
from foreword.turn import Turn
from foreword.words import Policy
from foreword.workspace import Workspace


@frozen
class Books:
    """What the state has of a session's ledger before a turn."""

    frozen: Frozen | None = None
    edits: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    """What was learned of each model's tokens."""
    damaged: bool = False
    """Whether there is a ledger that cannot be read, so that nobody knows what was sent."""

    def follow(self, since: datetime | None) -> "Books":
        """Take what was sent before a time as lost, where whoever had it has only been there since."""
        known = self.frozen
        return replace(self, frozen=lose(known)) if known and since and known.last.at < since else self

    def reveal(self, reader: Reader) -> "Books":
        """Leave out what all calls together have taught, unless a reader sees everything: others' calls are in it."""
        return self if sees_all(reader) else replace(self, calibrations={})

    def open(
        self, workspace: Workspace, turn: Turn, now: datetime, *, folded: bool = False, taken: Messages = ()
    ) -> Book:
        """Open the ledger for a turn."""
        config = workspace.config
        model = turn.model or config.agents[turn.agent or next(iter(config.agents))].model
        facts = workspace.ground.measure(model).facts
        known = self.calibrations.get(facts.name, PLAIN)
        tokens = known.correct(self.frozen.last.tokens) if self.frozen else 0
        prices = find_prices(facts.name, config.models, Request(tokens=tokens, now=now))
        moment = Moment(now=now, facts=facts.cache, prices=prices, known=known)
        said = tuple(message.text for message in recount(taken))
        return Book(
            frozen=self.frozen, moment=moment, edits=self.edits, folded=folded, taken=said, damaged=self.damaged
        )


@frozen(eq=True)
class Lesson:
    """What one call teaches about a model's tokens."""

    model: str
    counted: int
    reported: int


@frozen
class Entry:
    """What is kept of a turn's calls, with the step that followed them."""

    frozen: Frozen | None
    """What the session has sent by now; nothing if that is to be as if it had sent nothing."""
    lessons: tuple[Lesson, ...] = ()
    anew: bool = False
    """Whether the turn began with an empty ledger, so that all it sent was made since."""


def ignore(_session: str, _row: ledgers.Row, _frozen: Frozen) -> None:
    """Remember nothing of it."""


def read_books(
    state: sqlite3.Connection,
    session: str,
    since: datetime | None = None,
    read: Callable[[sqlite3.Connection, str], Frozen | None] = ledgers.read_ledger,
) -> Books:
    """Read the ledger of a session.

    The embedded engine has nothing of what was sent before it was started, at `since` where that is known.
    """
    known = read(state, session)
    if known and since and known.identity.model.partition(":")[0] == LOCAL and known.last.at < since:
        known = lose(known)
    return Books(
        frozen=known,
        edits=ledgers.read_edits(state),
        calibrations=ledgers.read_calibrations(state),
        damaged=known is None and ledgers.has_ledger(state, session),
    )


def keep_entry(
    state: sqlite3.Connection, session: str, entry: Entry, keep: Callable[[str, ledgers.Row, Frozen], None] = ignore
) -> None:
    """Keep what a session has sent, and what was learned of it; whoever remembers ledgers keeps it, too."""
    if entry.frozen is None:
        ledgers.drop_ledger(state, session)
    elif not entry.anew and ledgers.is_empty(state, session):
        # What was forgotten while the turn went on is in what it sent, and must not come back with it.
        ledgers.scrub_said(state, session, [update.said for update in entry.frozen.updates])
        ledgers.replace_ledger(state, session, ledgers.make_row(empty(entry.frozen)))
    else:
        row = ledgers.make_row(entry.frozen)
        ledgers.replace_ledger(state, session, row)
        keep(session, row, entry.frozen)
    known = ledgers.read_calibrations(state) if entry.lessons else {}
    for lesson in entry.lessons:
        learned = known.get(lesson.model, Calibration(model=lesson.model))
        ledgers.write_calibration(state, learn(learned, lesson.counted, lesson.reported))
