"""Session lookup: find the session of a message, and detect messages that were accepted before.

History sent by a client: shown to the model as labelled external text, never as its own messages. Event context and
first trace step of a message. The session key: agent, place, clearance and person select the sessions that a message
may belong to.
"""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.agent.conversation import dump_messages, load_messages, make_user_message, read_answers
from foreword.agent.reply_stream import SEPARATOR, strip_calls
from foreword.config.schema import Config
from foreword.engine.sources.documents import read_prompt
from foreword.engine.trust import Clearance, has_other_readers, resolve_trust
from foreword.errors import UnknownName
from foreword.events.event import Context, EventType
from foreword.events.tracer import Tracer, TraceStep
from foreword.gateway.history import EMPTY_HASH, HistoryKind, HistoryPiece, append_piece, copy_history, hash_prefixes
from foreword.gateway.messages import KeyReused, NotFound, RoutedMessage, WrongSession
from foreword.storage.database import format_moment
from foreword.storage.ledgers import copy_ledger
from foreword.storage.sessions import WHERE_SESSION_KEY, Lane, Session, add_session, find_current_session, get_session
from foreword.turn import Message, Turn
from foreword.types import frozen


def write_client_history(messages: Sequence[Message]) -> bytes:
    """Write a claimed history as one labelled message and an acknowledging answer."""
    lines = "\n\n".join(f"> {message.role}: " + message.text.replace("\n", "\n> ") for message in messages)
    label = read_prompt("gateway/outside")
    return dump_messages(
        [
            make_user_message(f"{label}\n\n{lines}"),
            ModelResponse(parts=[TextPart(content=read_prompt("gateway/noted"))]),
        ]
    )


CHARS_PER_TOKEN = 3  # estimate for text without a tokenizer
HASHES_PER_QUERY = 400  # hashes per query
RECENT_SESSIONS = 20  # of one person, searched for an interrupted session
RETRY_WINDOW = timedelta(seconds=60)  # after the end of a turn; a later request is a new message
RUNNING_WINDOW = timedelta(days=1)  # no turn is retried for longer
# Only the newest message of a session can have lost its answer. The run of a held call is not a message.
SELECT_RETRIED = """
SELECT id, session_id, text, request FROM turns
WHERE user_id = :user AND channel = :channel AND received > :day AND (finished IS NULL OR finished > :recent
    AND NOT EXISTS (SELECT 1 FROM turns AS later WHERE later.session_id = turns.session_id
        AND later.number > turns.number AND coalesce(json_extract(later.request, '$.held'), '') = ''))
AND state NOT IN ('stopped', 'failed')
AND json_extract(request, '$.request.token') = :token AND json_extract(request, '$.request.digest') = :digest
ORDER BY number DESC LIMIT 1"""
NEWEST_COLUMNS = ("session", "turn", "text", "reply", "finished", "beginning")
SELECT_NEWEST_TURNS = f"""
SELECT sessions.id, turns.id, turns.text, turns.reply, turns.finished, json_extract(turns.request, '$.beginning')
FROM (SELECT id, used FROM sessions WHERE {WHERE_SESSION_KEY} ORDER BY used DESC LIMIT {RECENT_SESSIONS}) AS sessions
JOIN turns ON turns.number = (SELECT max(number) FROM turns WHERE session_id = sessions.id)
ORDER BY sessions.used DESC"""


@frozen
class SessionMatch:
    """The session of a message."""

    session: Session
    new: bool = False
    turn: str = ""
    """The turn that the same message became earlier, if any."""


@frozen
class NewestTurn:
    """The newest turn of a session."""

    session: str
    turn: str
    text: str
    reply: str | None
    finished: str | None
    beginning: str | None
    """Hash of the conversation that the client sent before the message."""


def find_session(state: sqlite3.Connection, incoming: RoutedMessage, lane: Lane, now: datetime) -> SessionMatch | None:
    """Find the session of a message without writing; return None if a session must be created."""
    if known := find_duplicate(state, incoming, lane, now):
        return known
    if incoming.session:
        return SessionMatch(session=find_session_by_id(state, incoming.session, lane))
    current = find_current_session(state, lane) if incoming.before is None and is_identifiable(lane) else None
    return SessionMatch(session=current) if current else None


def find_or_create_session(
    state: sqlite3.Connection, incoming: RoutedMessage, lane: Lane, now: datetime
) -> SessionMatch:
    """Find the session of a message, or create one."""
    if found := find_session(state, incoming, lane, now):
        return found
    if incoming.before is not None:
        return find_session_by_history(
            state, incoming.before, lane, incoming.situation, now, known=is_identifiable(lane)
        )
    return SessionMatch(session=add_session(state, lane, incoming.situation, now), new=True)


def find_session_model(state: sqlite3.Connection, incoming: RoutedMessage, lane: Lane, now: datetime) -> str:
    """Find the model chosen for the session of a message, without a write; empty for the agent's model."""
    if found := find_session(state, incoming, lane, now):
        return found.session.model
    if incoming.before is None or not is_identifiable(lane):
        return ""
    session, _, length = find_longest_prefix(state, incoming.before, lane)
    if incoming.before[length:] and (interrupted := find_interrupted(state, incoming.before, lane)):
        return interrupted.model
    return session.model if session else ""


def is_identifiable(lane: Lane) -> bool:
    """Return whether a session key identifies a person or a named room; anonymous sessions cannot be found again."""
    return bool(lane.user or (lane.room and not lane.room.startswith("(")))


def make_idempotency_key(incoming: RoutedMessage) -> str | None:
    """Build the idempotency key of a message, unique across channels, rooms and people."""
    if not incoming.key:
        return None
    if incoming.origin:
        written = f"{incoming.channel}\x00{incoming.origin}\x00{incoming.key}"
        return written.encode("utf-8", "backslashreplace").decode()
    return f"{incoming.channel}\x00{incoming.room}\x00{incoming.user}\x00{incoming.key}"


def find_duplicate(
    state: sqlite3.Connection, incoming: RoutedMessage, lane: Lane, now: datetime
) -> SessionMatch | None:
    """Find the turn of a message that was sent before.

    Raise NotFound if its session is above the current clearance. Raise KeyReused if the same key comes with a different
    message, which must not get the first reply.
    """
    row = None
    if incoming.key:
        asked = "SELECT id, session_id, text, request FROM turns WHERE key = ?"
        row = state.execute(asked, (make_idempotency_key(incoming),)).fetchone()
    elif incoming.request.retry:
        row = find_retried(state, incoming, now)
    session = get_session(state, row[1]) if row else None
    if row is None or session is None:
        return None
    if session.lane.clearance > lane.clearance:
        raise NotFound("turn")
    if incoming.key and (row[2] != incoming.text or read_digest(row[3]) != incoming.request.digest):
        raise KeyReused("this idempotency key was used for a different request")
    return SessionMatch(session=session, turn=row[0])


def find_retried(state: sqlite3.Connection, incoming: RoutedMessage, now: datetime) -> tuple[str, str, str, str] | None:
    """Find the turn of the first attempt: same request, same token, running or finished within the retry window."""
    wanted = {
        "user": incoming.user,
        "channel": incoming.channel,
        "token": incoming.request.token,
        "digest": incoming.request.digest,
        "day": format_moment(now - RUNNING_WINDOW),
        "recent": format_moment(now - RETRY_WINDOW),
    }
    row: tuple[str, str, str, str] | None = state.execute(SELECT_RETRIED, wanted).fetchone()
    return row


def read_digest(request: str) -> str:
    """Read the request hash of a stored turn."""
    return str(json.loads(request).get("request", {}).get("digest", ""))


def find_session_by_id(state: sqlite3.Connection, identifier: str, lane: Lane) -> Session:
    """Find a session by its id; raise the same NotFound for a foreign session as for a missing one."""
    session = get_session(state, identifier)
    if session is None or session.lane.user != lane.user or session.lane.room != lane.room:
        raise NotFound("session")
    if not lane.user and (not lane.room or session.lane.channel != lane.channel):
        raise NotFound("session")  # anonymous sessions cannot be named, and rooms of two channels may share a name
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


def find_session_by_history(
    state: sqlite3.Connection, before: Sequence[Message], lane: Lane, situation: str, now: datetime, *, known: bool
) -> SessionMatch:
    """Find the session with the longest common beginning; fork it where its history continues differently."""
    session, position, length = find_longest_prefix(state, before, lane) if known else (None, 0, 0)
    rest = before[length:]
    if session and not rest and position == find_last_position(state, session):
        return SessionMatch(session=session)
    if known and rest and (interrupted := find_interrupted(state, before, lane)):
        return SessionMatch(session=interrupted)
    made = add_session(state, lane, situation, now, session)
    if session:
        copy_history(state, session.id, position, made.id)
        copy_ledger(state, session.id, made.id, whole=position == find_last_position(state, session))
    if rest:
        weight = sum(len(message.text) for message in rest) // CHARS_PER_TOKEN
        append_piece(
            state, made.id, HistoryPiece(kind=HistoryKind.OUTSIDE, messages=write_client_history(rest), tokens=weight)
        )
    return SessionMatch(session=made, new=True)


def find_interrupted(state: sqlite3.Connection, before: Sequence[Message], lane: Lane) -> Session | None:
    """Find a session whose newest message the client repeats with no answer, or with the beginning of one.

    The client disconnected or stopped the turn. Some chat UIs then drop the partial answer and others send it again.
    """
    lengths = {EMPTY_HASH: 0} | {beginning: number for number, beginning in enumerate(hash_prefixes(before), 1)}
    for row in state.execute(SELECT_NEWEST_TURNS, lane.key).fetchall():
        newest = NewestTurn(**dict(zip(NEWEST_COLUMNS, row, strict=True)))
        if newest.beginning in lengths and repeats_turn(state, newest, before[lengths[newest.beginning] :]):
            return get_session(state, newest.session)
    return None


def repeats_turn(state: sqlite3.Connection, newest: NewestTurn, messages: Sequence[Message]) -> bool:
    """Return whether messages repeat a turn, with a complete, partial or missing answer.

    The client's answer is only compared; the stored history stays unchanged. A running turn has no answer to compare
    with.
    """
    asked = Message(role="user", text=newest.text.strip())
    match [Message(role=message.role, text=message.text.strip()) for message in messages]:
        case [first]:
            return first == asked
        case [first, Message(role="assistant", text=answer)]:
            running = newest.finished is None
            return first == asked and (
                running or any(text.startswith(answer) for text in list_shown_answers(state, newest))
            )
        case _:
            return False


def list_shown_answers(state: sqlite3.Connection, newest: NewestTurn) -> list[str]:
    """List the answers that a client may have been shown: the reply alone, or all text of the turn."""
    row = state.execute(
        "SELECT messages FROM history WHERE session_id = ? AND turn_id = ? AND kind = ?",
        (newest.session, newest.turn, str(HistoryKind.TURN)),
    ).fetchone()
    answers = read_answers(load_messages(row[0])) if row else []
    spoken = (SEPARATOR.join(filter(None, texts)) for texts in (answers, [strip_calls(text) for text in answers]))
    return [text.strip() for text in (newest.reply or "", *spoken)]


def find_longest_prefix(
    state: sqlite3.Connection, before: Sequence[Message], lane: Lane
) -> tuple[Session | None, int, int]:
    """Find the session with the longest common beginning; return it, the position where that ends, and its messages."""
    lengths = {beginning: number for number, beginning in enumerate(hash_prefixes(before), 1)}
    hashes = list(lengths)
    for start in range(len(hashes), 0, -HASHES_PER_QUERY):
        part = hashes[max(0, start - HASHES_PER_QUERY) : start]
        found = state.execute(
            "SELECT history.session_id, history.position, history.beginning FROM history"
            " JOIN sessions ON sessions.id = history.session_id"
            f" WHERE history.beginning IN ({', '.join('?' * len(part))}) AND {WHERE_SESSION_KEY}"
            " ORDER BY sessions.current DESC, sessions.used DESC, history.position DESC",
            (*part, *lane.key),
        ).fetchall()
        if found:
            best = max(found, key=lambda row: lengths[row[2]])  # the first of equal ones was used last
            return get_session(state, best[0]), best[1], lengths[best[2]]
    return None, 0, 0


def find_last_position(state: sqlite3.Connection, session: Session) -> int:
    """Return the last position in the history of a session; -1 while a turn is unfinished."""
    asked = "SELECT 1 FROM turns WHERE session_id = ? AND finished IS NULL LIMIT 1"
    if state.execute(asked, (session.id,)).fetchone():
        return -1
    (last,) = state.execute("SELECT max(position) FROM history WHERE session_id = ?", (session.id,)).fetchone()
    return last or 0


def hash_history(before: Sequence[Message] | None) -> str | None:
    """Hash the conversation before a message, for the row of its turn."""
    if before is None:
        return None
    beginning = EMPTY_HASH
    for beginning in hash_prefixes(before):  # noqa: B007 - the last one counts
        pass
    return beginning


def make_event_context(session: Session, incoming: RoutedMessage) -> Context:
    """Return the event context of a message: who reads its events."""
    lane = session.lane
    return Context(
        trust=lane.clearance,
        session=session.id,
        agent=lane.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        schedule=incoming.errand.schedule if incoming.errand else "",
    )


def begin_trace(trace: Tracer, incoming: RoutedMessage) -> TraceStep:
    """Begin the trace of a message from a person or a schedule."""
    if (errand := incoming.errand) and not incoming.held:
        late = {"late": errand.late} if errand.late else {}
        return trace.step(EventType.SCHEDULE_FIRED, name=errand.schedule, **late)
    request = incoming.request
    told = {
        "request_id": request.id,
        "client_tools_ignored": request.client_tools,
        "caller_trace": trace.place.caller,
    }
    return trace.step(
        EventType.MESSAGE_RECEIVED,
        length=len(incoming.text),
        **{name: value for name, value in told.items() if value},
    )


@frozen
class ResolvedKey:
    """A session key, and the decision that explains its clearance."""

    lane: Lane
    clearance: Clearance


def resolve_session_key(incoming: RoutedMessage, config: Config) -> ResolvedKey:
    """Find the session key of a message under the current configuration."""
    agent = incoming.agent or next(iter(config.agents))
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    turn = Turn(
        agent=agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        ceiling=incoming.errand.ceiling if incoming.errand else None,
    )
    clearance = resolve_trust(turn, config)
    return ResolvedKey(
        lane=Lane(
            agent=agent,
            # Each schedule has its own session.
            channel=f"{incoming.channel}:{incoming.errand.schedule}" if incoming.errand else incoming.channel,
            # A group without a name cannot be recognised later: its session is one person's, not their private chat.
            room=incoming.room or (f"({incoming.situation})" if has_other_readers(turn) else ""),
            clearance=clearance.level,
            user="" if incoming.room else incoming.user,
        ),
        clearance=clearance,
    )
