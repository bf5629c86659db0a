"""Sessions of people: the key that selects them, the lookup for a message, and operations such as forking.

Agent, place, clearance and person are the session key. A message belongs to the session that it names, to the session
whose history the client sends, or to the current session of its key. The history that a client sends is shown to the
model as labelled external text, never as its own messages.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from foreword.agent.conversation import list_results, load_messages, read_answers
from foreword.agent.images import IMAGE_MARKER
from foreword.agent.reply_stream import SEPARATOR, strip_calls
from foreword.config.schema import Config
from foreword.engine.sources.documents import read_prompt
from foreword.engine.trust import Clearance, has_other_readers, resolve_trust
from foreword.errors import InputError, UnknownName
from foreword.events.event import Context, EventType
from foreword.events.tracer import Tracer, TraceStep
from foreword.gateway.client_tools import make_client_tools
from foreword.gateway.messages import KeyReused, NotFound, RoutedMessage, WrongSession
from foreword.gateway.notifications import CHARS_PER_TOKEN, Notification, make_note, make_notification
from foreword.gateway.session_state import HistoryRow, load_history
from foreword.storage import history, sessions, turns
from foreword.storage.history import EMPTY_HASH, HistoryKind
from foreword.storage.ledgers import copy_ledger
from foreword.storage.sessions import (
    PlanState,
    Session,
    SessionKey,
    SessionPlan,
    add_session,
    find_current_session,
    get_session,
)
from foreword.storage.turns import Exchange, NewestTurn, TurnMatch
from foreword.storage.writer import Writer
from foreword.turn import Message, Task, Turn
from foreword.types import Trust, frozen

MAX_LISTED_SESSIONS = 200
MAX_MISSED_ANSWERS = 20  # answers that are shown again
EARLIER_IMAGE = "[image left out: only images of a new message are read]"


@frozen
class ResolvedKey:
    """A session key, and the decision that explains its clearance."""

    key: SessionKey
    clearance: Clearance


@frozen
class SessionMatch:
    """The session of a message."""

    session: Session
    new: bool = False
    turn: str = ""
    """The turn that the same message became earlier, if any."""


def resolve_session_key(incoming: RoutedMessage, config: Config) -> ResolvedKey:
    """Find the session key of a message under the current configuration."""
    agent, run = incoming.agent or next(iter(config.agents)), incoming.scheduled_run
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    turn = Turn(
        agent=agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        ceiling=run.ceiling if run else None,
    )
    clearance = resolve_trust(turn, config)
    key = SessionKey(
        agent=agent,
        channel=f"{incoming.channel}:{run.schedule}" if run else incoming.channel,  # each has its own session
        # A group without a name cannot be recognised later: its session is one person's, not their private chat.
        room=incoming.room or (f"({incoming.situation})" if has_other_readers(turn) else ""),
        clearance=clearance.level,
        user="" if incoming.room else incoming.user,
    )
    return ResolvedKey(key=key, clearance=clearance)


def is_identifiable(key: SessionKey) -> bool:
    """Return whether a session key identifies a person or a named room; anonymous sessions cannot be found again."""
    return bool(key.user or (key.room and not key.room.startswith("(")))


def make_idempotency_key(incoming: RoutedMessage) -> str | None:
    """Build the idempotency key of a message, unique across channels, rooms and people."""
    if not incoming.key:
        return None
    if incoming.origin:
        key = f"{incoming.channel}\x00{incoming.origin}\x00{incoming.key}"
        return key.encode("utf-8", "backslashreplace").decode()
    return f"{incoming.channel}\x00{incoming.room}\x00{incoming.user}\x00{incoming.key}"


def find_session(
    state: sqlite3.Connection, incoming: RoutedMessage, key: SessionKey, now: datetime
) -> SessionMatch | None:
    """Find the session of a message without writing; return None if a session must be created."""
    if known := find_duplicate(state, incoming, key, now):
        return known
    if incoming.session:
        return SessionMatch(session=find_session_by_id(state, incoming.session, key))
    current = find_current_session(state, key) if incoming.before is None and is_identifiable(key) else None
    return SessionMatch(session=current) if current else None


def find_or_create_session(
    state: sqlite3.Connection, incoming: RoutedMessage, key: SessionKey, now: datetime
) -> SessionMatch:
    """Find the session of a message, or create one."""
    if found := find_session(state, incoming, key, now):
        return found
    if incoming.before is not None:
        return find_session_by_history(state, incoming.before, key, incoming.situation, now)
    return SessionMatch(session=add_session(state, key, incoming.situation, now), new=True)


def find_session_model(state: sqlite3.Connection, incoming: RoutedMessage, key: SessionKey, now: datetime) -> str:
    """Find the model chosen for the session of a message, without a write; empty for the agent's model."""
    if found := find_session(state, incoming, key, now):
        return found.session.model
    if incoming.before is None:
        return ""
    session, _, length = find_longest_prefix(state, incoming.before, key)
    rest = incoming.before[length:]
    session = (find_interrupted(state, incoming.before, key) if rest else None) or session
    return session.model if session else ""


def find_duplicate(
    state: sqlite3.Connection, incoming: RoutedMessage, key: SessionKey, now: datetime
) -> SessionMatch | None:
    """Find the turn of a message that was sent before.

    Raise NotFound if its session is above the current clearance. Raise KeyReused if the same key comes with a different
    message, which must not get the first reply.
    """
    match = find_first_delivery(state, incoming, now)
    session = get_session(state, match.session) if match else None
    if match is None or session is None:
        return None
    if session.key.clearance > key.clearance:
        raise NotFound("turn")
    digest = json.loads(match.request).get("request", {}).get("digest", "")
    if incoming.key and (match.text, digest) != (incoming.text, incoming.request.digest):
        raise KeyReused("this idempotency key was used for a different request")
    return SessionMatch(session=session, turn=match.turn)


def find_first_delivery(state: sqlite3.Connection, incoming: RoutedMessage, now: datetime) -> TurnMatch | None:
    """Find the turn with the key of a message or, for a marked retry without a key, the turn of the same request."""
    if incoming.key:
        return turns.find_by_key(state, make_idempotency_key(incoming))
    request = incoming.request
    if not request.retry:
        return None
    return turns.find_retried(
        state, now, user=incoming.user, channel=incoming.channel, token=request.token, digest=request.digest
    )


def find_session_by_id(state: sqlite3.Connection, identifier: str, key: SessionKey) -> Session:
    """Find a session by its id; raise the same NotFound for a foreign session as for a missing one."""
    session = get_session(state, identifier)
    if session is None or session.key.user != key.user or session.key.room != key.room:
        raise NotFound("session")
    own = session.key
    if not key.user and (not key.room or own.channel != key.channel):
        raise NotFound("session")  # anonymous sessions cannot be named, and rooms of two channels may share a name
    if own.clearance > key.clearance:
        raise NotFound("session")
    if own.clearance < key.clearance:
        raise WrongSession(
            f"this session has {own.clearance} clearance and you now have {key.clearance}; start a new session"
        )
    if (own.agent, own.channel) != (key.agent, key.channel):
        raise WrongSession(f"this session is with {own.agent} on {own.channel}, not {key.agent} on {key.channel}")
    return session


def find_session_by_history(
    state: sqlite3.Connection, before: Sequence[Message], key: SessionKey, situation: str, now: datetime
) -> SessionMatch:
    """Find the session with the longest common beginning; fork it where its history continues differently."""
    session, position, length = find_longest_prefix(state, before, key)
    rest = before[length:]
    whole = session is not None and (
        position == history.find_last_position(state, session.id)
        and turns.find_first_unfinished(state, session.id) is None
    )
    if session and whole and not rest:
        return SessionMatch(session=session)
    if rest and (interrupted := find_interrupted(state, before, key)):
        return SessionMatch(session=interrupted)
    made = add_session(state, key, situation, now, session)
    if session:
        history.copy_history(state, session.id, position, made.id)
        copy_ledger(state, session.id, made.id, whole=whole)
    if rest:
        history.append_piece(state, made.id, make_client_history(rest))
    return SessionMatch(session=made, new=True)


def make_client_history(messages: Sequence[Message]) -> history.HistoryPiece:
    """Write a claimed history as one labelled message and an acknowledging answer; images in it are left out."""
    lines = "\n\n".join(f"> {message.role}: " + message.text.replace("\n", "\n> ") for message in messages)
    lines = lines.replace(IMAGE_MARKER, EARLIER_IMAGE)
    question, answer = f"{read_prompt('gateway/outside')}\n\n{lines}", read_prompt("gateway/noted")
    tokens = sum(len(message.text) for message in messages) // CHARS_PER_TOKEN
    return replace(make_note(question, answer, kind=HistoryKind.OUTSIDE), tokens=tokens)


def find_longest_prefix(
    state: sqlite3.Connection, before: Sequence[Message], key: SessionKey
) -> tuple[Session | None, int, int]:
    """Find the session with the longest common beginning; return it, the position where that ends, and its messages."""
    found = history.find_longest_prefix(state, before, key) if is_identifiable(key) else None
    return (get_session(state, found[0]), *found[1:]) if found else (None, 0, 0)


def find_interrupted(state: sqlite3.Connection, before: Sequence[Message], key: SessionKey) -> Session | None:
    """Find a session whose newest message the client repeats with no answer, or with the beginning of one.

    The client disconnected or stopped the turn. Some chat UIs then drop the partial answer and others send it again.
    """
    if not is_identifiable(key):
        return None
    hashes = (EMPTY_HASH, *history.hash_prefixes(before))
    lengths = {beginning: number for number, beginning in enumerate(hashes)}
    for newest in turns.list_newest(state, key):
        if newest.beginning in lengths and repeats_turn(state, newest, before[lengths[newest.beginning] :]):
            return get_session(state, newest.session)
    return None


def repeats_turn(state: sqlite3.Connection, newest: NewestTurn, messages: Sequence[Message]) -> bool:
    """Return whether messages repeat a turn, with a complete, partial or missing answer.

    The client's answer is only compared; the stored history stays unchanged. A running turn has no answer to compare
    with.
    """
    question = Message(role="user", text=newest.text.strip())
    match [Message(role=message.role, text=message.text.strip()) for message in messages]:
        case [first]:
            return first == question
        case [first, Message(role="assistant", text=answer)]:
            running = newest.finished is None
            return first == question and (
                running or any(text.startswith(answer) for text in list_shown_answers(state, newest))
            )
        case _:
            return False


def list_shown_answers(state: sqlite3.Connection, newest: NewestTurn) -> list[str]:
    """List the answers that a client may have been shown: the reply alone, or all text of the turn."""
    messages = history.find_turn_messages(state, newest.session, newest.turn)
    answers = read_answers(load_messages(messages)) if messages else []
    spoken = (SEPARATOR.join(filter(None, texts)) for texts in (answers, [strip_calls(text) for text in answers]))
    return [text.strip() for text in (newest.reply or "", *spoken)]


def hash_history(before: Sequence[Message] | None) -> str | None:
    """Hash the conversation before a message, for the row of its turn."""
    return None if before is None else [EMPTY_HASH, *history.hash_prefixes(before)][-1]


def make_event_context(session: Session, incoming: RoutedMessage) -> Context:
    """Return the event context of a message: who reads its events."""
    return Context(
        trust=session.key.clearance,
        session=session.id,
        agent=session.key.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        schedule=incoming.scheduled_run.schedule if incoming.scheduled_run else "",
    )


def begin_trace(trace: Tracer, incoming: RoutedMessage) -> TraceStep:
    """Begin the trace of a message from a person or a schedule."""
    if (run := incoming.scheduled_run) and not incoming.held:
        late = {"late": run.late} if run.late else {}
        return trace.step(EventType.SCHEDULE_FIRED, name=run.schedule, **late)
    details = {
        "request_id": incoming.request.id,
        "client_tools_ignored": incoming.request.client_tools,
        "client_tools_passed": len(make_client_tools(incoming.request.tools)),
        "images": len(incoming.images),
        "caller_trace": trace.position.caller,
    }
    details = {name: value for name, value in details.items() if value}
    return trace.step(EventType.MESSAGE_RECEIVED, length=len(incoming.text), **details)


class SessionManager:
    """The sessions of the state."""

    def __init__(self, writer: Writer, clock: Callable[[], datetime]) -> None:
        self._writer = writer
        self._clock = clock

    async def list(self, user: str, limit: int = MAX_LISTED_SESSIONS) -> Sequence[Session]:
        """List the private sessions of a person, the most recently used first."""
        limit = min(limit, MAX_LISTED_SESSIONS)
        return await self._writer.write(lambda state: sessions.list_sessions_of(state, user, limit))

    async def list_of_key(self, key: SessionKey) -> Sequence[Session]:
        """List the sessions of one session key, the most recently used first."""
        return await self._writer.write(lambda state: sessions.list_sessions(state, key, MAX_LISTED_SESSIONS))

    async def find(self, identifier: str) -> Session | None:
        """Find a session by its id."""
        return await self._writer.write(lambda state: get_session(state, identifier))

    async def find_current(self, key: SessionKey) -> Session | None:
        """Find the current session of a session key."""
        return await self._writer.write(lambda state: find_current_session(state, key))

    async def begin(self, key: SessionKey, situation: str) -> Session:
        """Create a session and make it the current one of its session key."""
        return await self._writer.write_durable(lambda state: add_session(state, key, situation, self._clock()))

    async def resume(self, identifier: str) -> Session:
        """Make an earlier session the current one of its session key."""

        def work(state: sqlite3.Connection) -> Session:
            session = require_session(state, identifier)
            sessions.make_current(state, session)
            return session

        return await self._writer.write(work)

    async def fork(self, identifier: str, turns: int | None = None) -> Session:
        """Fork a session after a number of turns, or at its end, and make the fork the current session."""

        def work(state: sqlite3.Connection) -> Session:
            session = require_session(state, identifier)
            positions = history.list_turn_positions(state, identifier)
            count = len(positions) if turns is None else turns
            if not 0 <= count <= len(positions):
                raise InputError(f"this session has {len(positions)} turns, so it cannot be forked after {turns}")
            made = add_session(state, session.key, session.situation, self._clock(), session)
            whole = count == len(positions)
            history.copy_history(state, identifier, positions[count - 1] if count else 0, made.id)
            copy_ledger(state, identifier, made.id, whole=whole)
            if whole:  # tasks and workflow exist in their current state only
                sessions.copy_tasks(state, identifier, made.id)
            return made

        return await self._writer.write(work)

    async def read(self, identifier: str) -> Sequence[HistoryRow]:
        """Read the active history of a session."""
        return await self._writer.write(lambda state: load_history(state, identifier))

    async def list_results(self, identifier: str) -> Sequence[tuple[str, str]]:
        """List the tool results in the active history of a session, each with the name of its tool."""
        return [result for row in await self.read(identifier) for result in list_results(row.segment.messages)]

    async def list_unfinished(self, identifier: str) -> Sequence[Exchange]:
        """List the unfinished messages of a session, the oldest first."""
        return await self._writer.write(lambda state: turns.list_unfinished(state, identifier))

    async def list_missed(self, identifier: str, limit: int = MAX_MISSED_ANSWERS) -> Sequence[Exchange]:
        """List the answers that the last writer may have missed, and always the newest answer; the oldest first."""
        return await self._writer.write(lambda state: turns.list_missed(state, identifier, limit))

    async def list_notifications(self, identifier: str) -> Sequence[Notification]:
        """List the messages that an agent added to a session since a person last wrote in it."""
        rows = await self._writer.read(lambda state: history.list_notifications(state, identifier))
        return [make_notification(row) for row in rows]

    async def list_notifications_of(
        self, user: str, channel: str, clearance: Trust, after: int = 0
    ) -> tuple[Sequence[Notification], int]:
        """List the notifications of a person on a channel after a cursor; also return the next cursor."""
        rows, cursor = await self._writer.read(
            lambda state: history.list_notifications_of(state, user, channel, clearance, after)
        )
        return [make_notification(row) for row in rows], cursor

    async def find_newest_turn(self, identifier: str) -> str:
        """Return the id of the newest turn of a session in any state; empty if there is none."""
        return await self._writer.write(lambda state: turns.find_newest_id(state, identifier))

    async def set_plan(self, identifier: str, *, on: bool) -> None:
        """Switch plan mode on or off; switching it off drops a plan that was not accepted."""
        await self._writer.write(lambda state: switch_plan(state, identifier, on=on))

    async def set_model(self, identifier: str, model: str) -> None:
        """Choose a model for this session; an empty one selects the agent's model."""
        await self._writer.write(lambda state: set_field(state, identifier, "model", model))

    async def set_project(self, identifier: str, project: str) -> None:
        """Set the project of a session; an empty one closes it."""
        await self._writer.write(lambda state: set_field(state, identifier, "project", project))

    async def list_plans(self, identifier: str) -> Sequence[SessionPlan]:
        """List the plans of a session, the newest first."""
        return await self._writer.write(lambda state: sessions.list_plans(state, identifier))

    async def settle_plan(self, identifier: str, became: PlanState) -> SessionPlan:
        """Mark the newest plan of a session; accepting it ends plan mode."""
        return await self._writer.write(lambda state: settle_plan(state, identifier, became))

    async def list_tasks(self, identifier: str) -> Sequence[Task]:
        """List the tasks of a session."""
        return await self._writer.write(lambda state: sessions.read_tasks(state, identifier))


def require_session(state: sqlite3.Connection, identifier: str) -> Session:
    """Return a session by its id, or raise NotFound."""
    session = get_session(state, identifier)
    if session is None:
        raise NotFound("session")
    return session


def switch_plan(state: sqlite3.Connection, session: str, *, on: bool) -> None:
    """Switch plan mode on or off; switching it off drops a plan that was not accepted."""
    set_field(state, session, "plan", int(on))
    newest = None if on else sessions.find_newest_plan(state, session)
    if newest and newest.state is PlanState.PROPOSED:
        sessions.set_plan_state(state, newest.id, PlanState.DROPPED)


def settle_plan(state: sqlite3.Connection, session: str, became: PlanState) -> SessionPlan:
    """Mark the newest plan of a session; accepting it ends plan mode."""
    plan = sessions.find_newest_plan(state, session)
    if plan is None:
        raise InputError("this session has no plan yet; turn plan mode on and ask for one")
    sessions.set_plan_state(state, plan.id, became)
    if became is PlanState.ACCEPTED:
        set_field(state, session, "plan", 0)
    return replace(plan, state=became)


def set_field(state: sqlite3.Connection, session: str, name: sessions.SessionField, value: str | int) -> None:
    """Change a setting of a session, or raise NotFound."""
    if not sessions.set_session_field(state, session, name, value):
        raise NotFound("session")
