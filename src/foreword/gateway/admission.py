"""Admission: which session a message belongs to, and whether it was accepted before."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.gateway.beginning import NOTHING, chain
from foreword.gateway.lane import Lane
from foreword.gateway.message import Incoming, NotFound
from foreword.gateway.outside import recount_outside
from foreword.gateway.past import Kind, Piece, add_piece, copy_past
from foreword.gateway.session import OF_LANE, Session, add_session, find_current, get_session
from foreword.store.ledgers import copy_ledger
from foreword.turn import Message

ROUGHLY = 3  # characters to a token, where no model is known to count by
FEW = 400  # hashes that are asked for at once


@frozen
class Admitted:
    """Where a message belongs."""

    session: Session
    new: bool = False
    turn: str = ""
    """The turn that the same message became before."""


def find_admitted(state: sqlite3.Connection, incoming: Incoming, lane: Lane) -> Admitted | None:
    """Find the session of a message where nothing has to be written for it."""
    if incoming.key and (known := find_repeated(state, incoming, lane)):
        return known
    if incoming.session:
        return Admitted(session=find_named(state, incoming.session, lane))
    current = find_current(state, lane) if incoming.before is None and is_named(lane) else None
    return Admitted(session=current) if current else None


def admit(state: sqlite3.Connection, incoming: Incoming, lane: Lane, now: datetime) -> Admitted:
    """Find the session of a message, or begin one."""
    if found := find_admitted(state, incoming, lane):
        return found
    if incoming.before is not None:
        return find_by_beginning(state, incoming.before, lane, incoming.situation, now, known=is_named(lane))
    return Admitted(session=add_session(state, lane, incoming.situation, now), new=True)


def is_named(lane: Lane) -> bool:
    """Whether a lane is somebody's; of those whom nobody has named, none is known again."""
    return bool(lane.user or (lane.room and not lane.room.startswith("(")))


def write_key(incoming: Incoming) -> str | None:
    """Write a message's own key so that nobody else's can be the same, nor that of another room."""
    if not incoming.key:
        return None
    if incoming.origin:
        written = f"{incoming.channel}\x00{incoming.origin}\x00{incoming.key}"
        return written.encode("utf-8", "backslashreplace").decode()
    return f"{incoming.channel}\x00{incoming.room}\x00{incoming.user}\x00{incoming.key}"


def find_repeated(state: sqlite3.Connection, incoming: Incoming, lane: Lane) -> Admitted | None:
    """Find the turn that a message became when it was delivered before; one above the clearance of now is not told.

    Another text under the same key is a mistake: the reply to the first would pass for an answer to it.
    """
    asked = "SELECT id, session_id, text FROM turns WHERE key = ?"
    row = state.execute(asked, (write_key(incoming),)).fetchone()
    session = get_session(state, row[1]) if row else None
    if session and session.lane.clearance > lane.clearance:
        raise NotFound("turn")
    if session and row[2] != incoming.text:
        raise InputError("this key belongs to another message; send a new message under a key of its own")
    return Admitted(session=session, turn=row[0]) if session else None


def find_named(state: sqlite3.Connection, identifier: str, lane: Lane) -> Session:
    """Find a session by its id; one that is not of this lane is not told from one that does not exist."""
    session = get_session(state, identifier)
    if session is None or session.lane.user != lane.user or session.lane.room != lane.room:
        raise NotFound("session")
    if not lane.user and (not lane.room or session.lane.channel != lane.channel):
        raise NotFound("session")  # nobody's is nobody's, and rooms of two channels may share a name
    if session.lane.clearance > lane.clearance:
        raise NotFound("session")
    if session.lane.clearance < lane.clearance:
        raise InputError(
            f"this session was begun at {session.lane.clearance} and keeps that for life; "
            f"you are {lane.clearance} now, so begin a new one"
        )
    if (session.lane.agent, session.lane.channel) != (lane.agent, lane.channel):
        raise InputError(
            f"this session is with {session.lane.agent} on {session.lane.channel}, not {lane.agent} on {lane.channel}"
        )
    return session


def find_by_beginning(
    state: sqlite3.Connection, before: Sequence[Message], lane: Lane, situation: str, now: datetime, *, known: bool
) -> Admitted:
    """Find the session with the longest common beginning; where it went on otherwise, fork it there."""
    session, position, length = find_longest(state, before, lane) if known else (None, 0, 0)
    if session and position == find_end(state, session):
        rest = before[length:]
        if not rest:
            return Admitted(session=session)
    made = add_session(state, lane, situation, now, session)
    if session:
        copy_past(state, session.id, position, made.id)
        copy_ledger(state, session.id, made.id, whole=position == find_end(state, session))
    if rest := before[length:]:
        weight = sum(len(message.text) for message in rest) // ROUGHLY
        add_piece(state, made.id, Piece(kind=Kind.OUTSIDE, messages=recount_outside(rest), tokens=weight))
    return Admitted(session=made, new=True)


def find_longest(state: sqlite3.Connection, before: Sequence[Message], lane: Lane) -> tuple[Session | None, int, int]:
    """Find a session of the lane, where in it the longest common beginning ends, and how many messages that is."""
    lengths = {beginning: number for number, beginning in enumerate(chain(before), 1)}
    hashes = list(lengths)
    for start in range(len(hashes), 0, -FEW):
        part = hashes[max(0, start - FEW) : start]
        found = state.execute(
            "SELECT history.session_id, history.position, history.beginning FROM history"
            " JOIN sessions ON sessions.id = history.session_id"
            f" WHERE history.beginning IN ({', '.join('?' * len(part))}) AND {OF_LANE}"
            " ORDER BY sessions.current DESC, sessions.used DESC",
            (*part, *lane.key),
        ).fetchall()
        if found:
            best = max(found, key=lambda row: lengths[row[2]])  # the first of equal ones: used last
            return get_session(state, best[0]), best[1], lengths[best[2]]
    return None, 0, 0


def find_end(state: sqlite3.Connection, session: Session) -> int:
    """Find where the past of a session ends; one with a turn under way has no end yet."""
    asked = "SELECT 1 FROM turns WHERE session_id = ? AND finished IS NULL LIMIT 1"
    if state.execute(asked, (session.id,)).fetchone():
        return -1
    (last,) = state.execute("SELECT max(position) FROM history WHERE session_id = ?", (session.id,)).fetchone()
    return last or 0


def summarise_before(before: Sequence[Message] | None) -> str | None:
    """Hash what was said before, for the row that the turn will become."""
    if before is None:
        return None
    beginning = NOTHING
    for beginning in chain(before):  # noqa: B007 - the last one counts
        pass
    return beginning
