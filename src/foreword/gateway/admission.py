"""Admission: which session a message belongs to, and whether it was accepted before."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from foreword.frozen import frozen
from foreword.gateway.beginning import NOTHING, chain
from foreword.gateway.lane import Lane
from foreword.gateway.message import Incoming, KeyReused, NotFound, WrongSession
from foreword.gateway.moment import write_moment
from foreword.gateway.outside import recount_outside
from foreword.gateway.past import Kind, Piece, add_piece, copy_past
from foreword.gateway.session import OF_LANE, Session, add_session, find_current, get_session
from foreword.gateway.spoken import SEPARATOR
from foreword.runtime.calls import strip_calls
from foreword.runtime.history import load, read_answers
from foreword.store.ledgers import copy_ledger
from foreword.turn import Message

CHARS_PER_TOKEN = 3  # an estimate, for text without a tokenizer
FEW = 400  # hashes that are asked for at once
RECENT_SESSIONS = 20  # of one person, among which an interrupted one is looked for
RETRY_WINDOW = timedelta(seconds=60)  # after the end of a turn; a later request is a new message
RUNNING_WINDOW = timedelta(days=1)  # no turn is tried for longer
# Only the newest message of a session can be the one whose answer got lost; the run of a held call is no message.
RETRIED = """
SELECT id, session_id, text, request FROM turns
WHERE user_id = :user AND channel = :channel AND received > :day AND (finished IS NULL OR finished > :recent
    AND NOT EXISTS (SELECT 1 FROM turns AS later WHERE later.session_id = turns.session_id
        AND later.number > turns.number AND coalesce(json_extract(later.request, '$.held'), '') = ''))
AND state NOT IN ('stopped', 'failed')
AND json_extract(request, '$.request.token') = :token AND json_extract(request, '$.request.digest') = :digest
ORDER BY number DESC LIMIT 1"""
NEWEST_COLUMNS = ("session", "turn", "text", "reply", "finished", "beginning")
NEWEST_TURNS = f"""
SELECT sessions.id, turns.id, turns.text, turns.reply, turns.finished, json_extract(turns.request, '$.beginning')
FROM (SELECT id, used FROM sessions WHERE {OF_LANE} ORDER BY used DESC LIMIT {RECENT_SESSIONS}) AS sessions
JOIN turns ON turns.number = (SELECT max(number) FROM turns WHERE session_id = sessions.id)
ORDER BY sessions.used DESC"""


@frozen
class Admitted:
    """Where a message belongs."""

    session: Session
    new: bool = False
    turn: str = ""
    """The turn that the same message became before."""


@frozen
class Newest:
    """The newest turn of a session."""

    session: str
    turn: str
    text: str
    reply: str | None
    finished: str | None
    beginning: str | None
    """The hash of what the client said was said before it."""


def find_admitted(state: sqlite3.Connection, incoming: Incoming, lane: Lane, now: datetime) -> Admitted | None:
    """Find the session of a message where nothing has to be written for it."""
    if known := find_repeated(state, incoming, lane, now):
        return known
    if incoming.session:
        return Admitted(session=find_named(state, incoming.session, lane))
    current = find_current(state, lane) if incoming.before is None and is_named(lane) else None
    return Admitted(session=current) if current else None


def admit(state: sqlite3.Connection, incoming: Incoming, lane: Lane, now: datetime) -> Admitted:
    """Find the session of a message, or begin one."""
    if found := find_admitted(state, incoming, lane, now):
        return found
    if incoming.before is not None:
        return find_by_beginning(state, incoming.before, lane, incoming.situation, now, known=is_named(lane))
    return Admitted(session=add_session(state, lane, incoming.situation, now), new=True)


def find_session_model(state: sqlite3.Connection, incoming: Incoming, lane: Lane, now: datetime) -> str:
    """Find the model that was chosen for the session of a message, without a write; empty for the agent's own model."""
    if found := find_admitted(state, incoming, lane, now):
        return found.session.model
    if incoming.before is None or not is_named(lane):
        return ""
    session, _, length = find_longest(state, incoming.before, lane)
    if incoming.before[length:] and (interrupted := find_interrupted(state, incoming.before, lane)):
        return interrupted.model
    return session.model if session else ""


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


def find_repeated(state: sqlite3.Connection, incoming: Incoming, lane: Lane, now: datetime) -> Admitted | None:
    """Find the turn that a message became when it was sent before; one above the clearance of now is not told.

    Another message under the same key is a mistake: the reply to the first would pass for an answer to it.
    """
    row = None
    if incoming.key:
        asked = "SELECT id, session_id, text, request FROM turns WHERE key = ?"
        row = state.execute(asked, (write_key(incoming),)).fetchone()
    elif incoming.request.retry:
        row = find_retried(state, incoming, now)
    session = get_session(state, row[1]) if row else None
    if row is None or session is None:
        return None
    if session.lane.clearance > lane.clearance:
        raise NotFound("turn")
    if incoming.key and (row[2] != incoming.text or read_digest(row[3]) != incoming.request.digest):
        raise KeyReused("this idempotency key was used for a different request")
    return Admitted(session=session, turn=row[0])


def find_retried(state: sqlite3.Connection, incoming: Incoming, now: datetime) -> tuple[str, str, str, str] | None:
    """Find the turn of the first try: the same request with the same token, still running or answered just now."""
    wanted = {
        "user": incoming.user,
        "channel": incoming.channel,
        "token": incoming.request.token,
        "digest": incoming.request.digest,
        "day": write_moment(now - RUNNING_WINDOW),
        "recent": write_moment(now - RETRY_WINDOW),
    }
    row: tuple[str, str, str, str] | None = state.execute(RETRIED, wanted).fetchone()
    return row


def read_digest(request: str) -> str:
    """Read the hash of the request that a turn came with."""
    return str(json.loads(request).get("request", {}).get("digest", ""))


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
        raise WrongSession(
            f"this session has {session.lane.clearance} clearance and you now have {lane.clearance}; "
            "start a new session"
        )
    if (session.lane.agent, session.lane.channel) != (lane.agent, lane.channel):
        raise WrongSession(
            f"this session is with {session.lane.agent} on {session.lane.channel}, not {lane.agent} on {lane.channel}"
        )
    return session


def find_by_beginning(
    state: sqlite3.Connection, before: Sequence[Message], lane: Lane, situation: str, now: datetime, *, known: bool
) -> Admitted:
    """Find the session with the longest common beginning; where it went on otherwise, fork it there."""
    session, position, length = find_longest(state, before, lane) if known else (None, 0, 0)
    rest = before[length:]
    if session and not rest and position == find_end(state, session):
        return Admitted(session=session)
    if known and rest and (interrupted := find_interrupted(state, before, lane)):
        return Admitted(session=interrupted)
    made = add_session(state, lane, situation, now, session)
    if session:
        copy_past(state, session.id, position, made.id)
        copy_ledger(state, session.id, made.id, whole=position == find_end(state, session))
    if rest:
        weight = sum(len(message.text) for message in rest) // CHARS_PER_TOKEN
        add_piece(state, made.id, Piece(kind=Kind.OUTSIDE, messages=recount_outside(rest), tokens=weight))
    return Admitted(session=made, new=True)


def find_interrupted(state: sqlite3.Connection, before: Sequence[Message], lane: Lane) -> Session | None:
    """Find a session whose newest message the client repeats with no answer, or with the beginning of one.

    The client hung up or stopped the turn. Chat UIs then drop what they were shown, or keep it; both go on here.
    """
    lengths = {NOTHING: 0} | {beginning: number for number, beginning in enumerate(chain(before), 1)}
    for row in state.execute(NEWEST_TURNS, lane.key).fetchall():
        newest = Newest(**dict(zip(NEWEST_COLUMNS, row, strict=True)))
        if newest.beginning in lengths and repeats(state, newest, before[lengths[newest.beginning] :]):
            return get_session(state, newest.session)
    return None


def repeats(state: sqlite3.Connection, newest: Newest, messages: Sequence[Message]) -> bool:
    """Return whether messages are those of a turn, with an answer that may be missing or incomplete.

    The answer is compared and not taken over: the history has what was said. While the turn runs there is nothing to
    compare with yet.
    """
    asked = Message(role="user", text=newest.text.strip())
    match [Message(role=message.role, text=message.text.strip()) for message in messages]:
        case [first]:
            return first == asked
        case [first, Message(role="assistant", text=answer)]:
            running = newest.finished is None
            return first == asked and (running or any(text.startswith(answer) for text in list_shown(state, newest)))
        case _:
            return False


def list_shown(state: sqlite3.Connection, newest: Newest) -> list[str]:
    """List what a client may have been shown as the answer: the reply alone, or all that was said in the turn."""
    row = state.execute(
        "SELECT messages FROM history WHERE session_id = ? AND turn_id = ? AND kind = ?",
        (newest.session, newest.turn, str(Kind.TURN)),
    ).fetchone()
    answers = read_answers(load(row[0])) if row else []
    spoken = (SEPARATOR.join(filter(None, texts)) for texts in (answers, [strip_calls(text) for text in answers]))
    return [text.strip() for text in (newest.reply or "", *spoken)]


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
            " ORDER BY sessions.current DESC, sessions.used DESC, history.position DESC",
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
