"""Operations on sessions: list, create, resume, fork, and change their settings.

Reads the results of turns.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from foreword.agent.conversation import list_results
from foreword.errors import InputError
from foreword.events.event import Usage
from foreword.gateway.history import HistoryKind, HistoryRow, copy_history, load_history
from foreword.gateway.inbox import ClaimedTurn, TurnResult
from foreword.gateway.messages import Exchange, NotFound, TurnReply, TurnState
from foreword.gateway.notifications import Notification, list_of_person, list_of_session
from foreword.storage.database import parse_moment
from foreword.storage.ledgers import copy_ledger
from foreword.storage.sessions import (
    SESSION_COLUMNS,
    WHERE_SESSION_KEY,
    Lane,
    Session,
    add_session,
    find_current_session,
    get_session,
    read_session,
)
from foreword.storage.tasks import (
    PlanState,
    SessionPlan,
    copy_tasks,
    copy_workflow,
    find_newest_plan,
    list_plans,
    read_tasks,
    set_plan_state,
)
from foreword.storage.writer import Writer
from foreword.turn import Task
from foreword.types import Trust

REPLY_COLUMNS = (
    "turns.id, turns.session_id, sessions.agent, turns.user_id, turns.state, turns.reply, turns.received,"
    " turns.finished, turns.usage, turns.cost_usd, turns.prompt_hash, turns.cut"
)
TURNS_AND_SESSIONS = "turns JOIN sessions ON sessions.id = turns.session_id"


def find_reply(state: sqlite3.Connection, turn: str) -> TurnReply | None:
    """Find the current result of a turn."""
    row = state.execute(f"SELECT {REPLY_COLUMNS} FROM {TURNS_AND_SESSIONS} WHERE turns.id = ?", (turn,)).fetchone()
    return read_reply(row) if row else None


def list_unfinished(state: sqlite3.Connection, session: str) -> list[Exchange]:
    """List the unfinished messages of a session, the oldest first."""
    which = "turns.session_id = ? AND turns.finished IS NULL ORDER BY turns.number"
    found = state.execute(f"SELECT turns.text, {REPLY_COLUMNS} FROM {TURNS_AND_SESSIONS} WHERE {which}", (session,))
    return [Exchange(asked=asked, reply=read_reply(tuple(row))) for asked, *row in found]


def list_missed(state: sqlite3.Connection, session: str, most: int) -> list[Exchange]:
    """List the results that came after the last message of a session, and always the newest answer.

    The writer of the last message may have left before the others were answered. The oldest comes first. Stopped turns
    are left out.
    """
    ended = "turns.session_id = ?1 AND turns.finished IS NOT NULL AND turns.state != 'stopped'"
    later = "turns.finished > (SELECT max(received) FROM turns WHERE session_id = ?1)"
    newest = f"turns.number = (SELECT max(number) FROM turns WHERE {ended})"
    asked = (
        f"SELECT turns.text, {REPLY_COLUMNS} FROM {TURNS_AND_SESSIONS} WHERE {ended} AND ({later} OR {newest})"
        " ORDER BY turns.number DESC LIMIT ?2"
    )
    found = state.execute(asked, (session, most)).fetchall()
    return [Exchange(asked=asked, reply=read_reply(tuple(row))) for asked, *row in reversed(found)]


def make_reply(claimed: ClaimedTurn, ending: TurnResult) -> TurnReply:
    """Make the reply of a turn that is not stored yet."""
    return TurnReply(
        turn=claimed.turn,
        session=claimed.session.id,
        agent=claimed.session.lane.agent,
        user=claimed.incoming.user,
        state=ending.state,
        text=ending.text,
        received=claimed.received,
        finished=ending.now if ending.state.ended else None,
        usage=ending.spent.usage,
        cost_usd=ending.spent.cost_usd,
        prompt_hash=ending.prompt_hash,
        cut=ending.cut,
    )


def read_reply(row: tuple[object, ...]) -> TurnReply:
    """Make a reply from its row."""
    turn, session, agent, user, state, text, received, finished, usage, cost, prompt, cut = row
    return TurnReply(
        turn=str(turn),
        session=str(session),
        agent=str(agent),
        user=str(user),
        state=TurnState(state),
        text=str(text or ""),
        received=parse_moment(str(received)),
        finished=parse_moment(str(finished)) if finished else None,
        usage=Usage(**json.loads(str(usage))) if usage else Usage(),
        cost_usd=float(str(cost)) if cost is not None else (None if usage else 0.0),
        prompt_hash=str(prompt or ""),
        cut=bool(cut),
    )


MAX_LISTED_SESSIONS = 200  # sessions in one list
MAX_MISSED_ANSWERS = 20  # answers that are shown again


class SessionManager:
    """The sessions of the state."""

    def __init__(self, writer: Writer, clock: Callable[[], datetime]) -> None:
        self._writer = writer
        self._clock = clock

    async def list(self, user: str, limit: int = MAX_LISTED_SESSIONS) -> Sequence[Session]:
        """List the private sessions of a person, the most recently used first."""

        def work(state: sqlite3.Connection) -> list[Session]:
            asked = (
                f"SELECT {SESSION_COLUMNS} FROM sessions WHERE user_id = ? AND user_id != '' ORDER BY used DESC LIMIT ?"
            )
            return [read_session(row) for row in state.execute(asked, (user, min(limit, MAX_LISTED_SESSIONS)))]

        return await self._writer.do(work)

    async def list_lane(self, lane: Lane) -> Sequence[Session]:
        """List the sessions of one session key, the most recently used first."""

        def work(state: sqlite3.Connection) -> list[Session]:
            asked = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE {WHERE_SESSION_KEY} ORDER BY used DESC LIMIT ?"
            return [read_session(row) for row in state.execute(asked, (*lane.key, MAX_LISTED_SESSIONS))]

        return await self._writer.do(work)

    async def find(self, identifier: str) -> Session | None:
        """Find a session by its id."""
        return await self._writer.do(lambda state: get_session(state, identifier))

    async def find_current(self, lane: Lane) -> Session | None:
        """Find the current session of a session key."""
        return await self._writer.do(lambda state: find_current_session(state, lane))

    async def begin(self, lane: Lane, situation: str) -> Session:
        """Create a session and make it the current one of its session key."""
        return await self._writer.write_durable(lambda state: add_session(state, lane, situation, self._clock()))

    async def resume(self, identifier: str) -> Session:
        """Make an earlier session the current one of its session key."""

        def work(state: sqlite3.Connection) -> Session:
            session = get_session(state, identifier)
            if session is None:
                raise NotFound("session")
            state.execute(
                f"UPDATE sessions SET current = 0 WHERE {WHERE_SESSION_KEY} AND current = 1", session.lane.key
            )
            state.execute("UPDATE sessions SET current = 1 WHERE id = ?", (identifier,))
            return session

        return await self._writer.do(work)

    async def fork(self, identifier: str, turns: int | None = None) -> Session:
        """Fork a session after a number of turns, or at its end, and make the fork the current session."""

        def work(state: sqlite3.Connection) -> Session:
            session = get_session(state, identifier)
            if session is None:
                raise NotFound("session")
            found = state.execute(
                "SELECT position FROM history WHERE session_id = ? AND kind = ? ORDER BY position",
                (identifier, str(HistoryKind.TURN)),
            ).fetchall()
            count = len(found) if turns is None else turns
            if not 0 <= count <= len(found):
                raise InputError(f"this session has {len(found)} turns, so it cannot be forked after {turns}")
            made = add_session(state, session.lane, session.situation, self._clock(), session)
            copy_history(state, identifier, found[count - 1][0] if count else 0, made.id)
            copy_ledger(state, identifier, made.id, whole=count == len(found))
            if count == len(found):  # tasks and workflow exist in their current state only
                copy_tasks(state, identifier, made.id)
                copy_workflow(state, identifier, made.id)
            return made

        return await self._writer.do(work)

    async def read(self, identifier: str) -> Sequence[HistoryRow]:
        """Read the active history of a session."""
        return await self._writer.do(lambda state: load_history(state, identifier))

    async def list_results(self, identifier: str) -> Sequence[tuple[str, str]]:
        """List the tool results in the active history of a session, each with the name of its tool."""
        rows = await self.read(identifier)
        return [result for row in rows for result in list_results(row.stretch.messages)]

    async def list_unfinished(self, identifier: str) -> Sequence[Exchange]:
        """List the unfinished messages of a session, the oldest first."""
        return await self._writer.do(lambda state: list_unfinished(state, identifier))

    async def list_missed(self, identifier: str, limit: int = MAX_MISSED_ANSWERS) -> Sequence[Exchange]:
        """List the answers that the last writer may have missed, and always the newest answer; the oldest first."""
        return await self._writer.do(lambda state: list_missed(state, identifier, limit))

    async def list_notifications(self, identifier: str) -> Sequence[Notification]:
        """List the messages that an agent added to a session since a person last wrote in it."""
        return await self._writer.look(lambda state: list_of_session(state, identifier))

    async def list_notifications_of(
        self, user: str, channel: str, clearance: Trust, after: int = 0
    ) -> tuple[Sequence[Notification], int]:
        """List the notifications of a person on a channel after a cursor; also return the next cursor."""
        return await self._writer.look(lambda state: list_of_person(state, user, channel, clearance, after))

    async def find_newest_turn(self, identifier: str) -> str:
        """Return the id of the newest turn of a session in any state; empty if there is none."""

        def work(state: sqlite3.Connection) -> str:
            asked = "SELECT id FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
            row = state.execute(asked, (identifier,)).fetchone()
            return str(row[0]) if row else ""

        return await self._writer.do(work)

    async def set_plan(self, identifier: str, *, on: bool) -> None:
        """Switch plan mode on or off; switching it off drops a plan that was not accepted."""
        await self._writer.do(lambda state: switch_plan(state, identifier, on=on))

    async def set_model(self, identifier: str, model: str) -> None:
        """Choose a model for this session; an empty one selects the agent's model."""
        await self._writer.do(lambda state: set_field(state, identifier, "model", model))

    async def set_project(self, identifier: str, project: str) -> None:
        """Set the project of a session; an empty one closes it."""
        await self._writer.do(lambda state: set_field(state, identifier, "project", project))

    async def list_plans(self, identifier: str) -> Sequence[SessionPlan]:
        """List the plans of a session, the newest first."""
        return await self._writer.do(lambda state: list_plans(state, identifier))

    async def settle_plan(self, identifier: str, became: PlanState) -> SessionPlan:
        """Mark the newest plan of a session; accepting it ends plan mode."""
        return await self._writer.do(lambda state: settle_plan(state, identifier, became))

    async def list_tasks(self, identifier: str) -> Sequence[Task]:
        """List the tasks of a session."""
        return await self._writer.do(lambda state: read_tasks(state, identifier))


def switch_plan(state: sqlite3.Connection, session: str, *, on: bool) -> None:
    """Switch plan mode on or off; switching it off drops a plan that was not accepted."""
    set_field(state, session, "plan", int(on))
    newest = None if on else find_newest_plan(state, session)
    if newest and newest.state is PlanState.PROPOSED:
        set_plan_state(state, newest.id, PlanState.DROPPED)


def settle_plan(state: sqlite3.Connection, session: str, became: PlanState) -> SessionPlan:
    """Mark the newest plan of a session; accepting it ends plan mode."""
    plan = find_newest_plan(state, session)
    if plan is None:
        raise InputError("this session has no plan yet; turn plan mode on and ask for one")
    set_plan_state(state, plan.id, became)
    if became is PlanState.ACCEPTED:
        set_field(state, session, "plan", 0)
    return replace(plan, state=became)


def set_field(
    state: sqlite3.Connection, session: str, name: Literal["plan", "model", "project"], value: str | int
) -> None:
    """Change a setting of a session."""
    if state.execute(f"UPDATE sessions SET {name} = ? WHERE id = ?", (value, session)).rowcount != 1:
        raise NotFound("session")
