"""The sessions of people: listed, looked at, begun anew, forked, and what each is set to."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from foreword.errors import InputError
from foreword.gateway.lane import Lane
from foreword.gateway.message import Exchange, NotFound
from foreword.gateway.notifications import Notification, list_of_person, list_of_session
from foreword.gateway.past import Kind, Row, copy_past, read_past
from foreword.gateway.replies import list_missed, list_unfinished
from foreword.gateway.session import COLUMNS, OF_LANE, Session, add_session, find_current, get_session, read_session
from foreword.gateway.writer import Writer
from foreword.runtime.history import list_results
from foreword.store.ledgers import copy_ledger
from foreword.store.plans import Plan, PlanState, find_newest, list_plans, mark_plan
from foreword.store.tasks import copy_tasks, read_tasks
from foreword.store.workflows import copy_workflow
from foreword.turn import Task
from foreword.words import Trust

MOST = 200  # sessions of one list
MISSED = 20  # answers that are shown again


class Sessions:
    """The sessions that the state holds."""

    def __init__(self, writer: Writer, clock: Callable[[], datetime]) -> None:
        self._writer = writer
        self._clock = clock

    async def list(self, user: str, limit: int = MOST) -> Sequence[Session]:
        """List the private sessions of a person, those used last first."""

        def work(state: sqlite3.Connection) -> list[Session]:
            asked = f"SELECT {COLUMNS} FROM sessions WHERE user_id = ? AND user_id != '' ORDER BY used DESC LIMIT ?"
            return [read_session(row) for row in state.execute(asked, (user, min(limit, MOST)))]

        return await self._writer.do(work)

    async def list_lane(self, lane: Lane) -> Sequence[Session]:
        """List the sessions of one place at one clearance, those used last first."""

        def work(state: sqlite3.Connection) -> list[Session]:
            asked = f"SELECT {COLUMNS} FROM sessions WHERE {OF_LANE} ORDER BY used DESC LIMIT ?"
            return [read_session(row) for row in state.execute(asked, (*lane.key, MOST))]

        return await self._writer.do(work)

    async def find(self, identifier: str) -> Session | None:
        """Find a session by its id."""
        return await self._writer.do(lambda state: get_session(state, identifier))

    async def find_current(self, lane: Lane) -> Session | None:
        """Find the session that a lane goes on with."""
        return await self._writer.do(lambda state: find_current(state, lane))

    async def begin(self, lane: Lane, situation: str) -> Session:
        """Begin a session anew; the lane goes on with it."""
        return await self._writer.seal(lambda state: add_session(state, lane, situation, self._clock()))

    async def resume(self, identifier: str) -> Session:
        """Have a lane go on with one of its earlier sessions."""

        def work(state: sqlite3.Connection) -> Session:
            session = get_session(state, identifier)
            if session is None:
                raise NotFound("session")
            state.execute(f"UPDATE sessions SET current = 0 WHERE {OF_LANE} AND current = 1", session.lane.key)
            state.execute("UPDATE sessions SET current = 1 WHERE id = ?", (identifier,))
            return session

        return await self._writer.do(work)

    async def fork(self, identifier: str, turns: int | None = None) -> Session:
        """Fork a session after so many of its turns, or at its end; the lane goes on with the fork."""

        def work(state: sqlite3.Connection) -> Session:
            session = get_session(state, identifier)
            if session is None:
                raise NotFound("session")
            found = state.execute(
                "SELECT position FROM history WHERE session_id = ? AND kind = ? ORDER BY position",
                (identifier, str(Kind.TURN)),
            ).fetchall()
            count = len(found) if turns is None else turns
            if not 0 <= count <= len(found):
                raise InputError(f"this session has {len(found)} turns, so it cannot be forked after {turns}")
            made = add_session(state, session.lane, session.situation, self._clock(), session)
            copy_past(state, identifier, found[count - 1][0] if count else 0, made.id)
            copy_ledger(state, identifier, made.id, whole=count == len(found))
            if count == len(found):  # what it set out to do stands as it is now, not as it stood before
                copy_tasks(state, identifier, made.id)
                copy_workflow(state, identifier, made.id)
            return made

        return await self._writer.do(work)

    async def read(self, identifier: str) -> Sequence[Row]:
        """Read what a session goes on from."""
        return await self._writer.do(lambda state: read_past(state, identifier))

    async def list_results(self, identifier: str) -> Sequence[tuple[str, str]]:
        """List the results of tools in what a session goes on from, each with the name of its tool."""
        rows = await self.read(identifier)
        return [result for row in rows for result in list_results(row.stretch.messages)]

    async def list_unfinished(self, identifier: str) -> Sequence[Exchange]:
        """List the messages of a session that something more will come of, the oldest first."""
        return await self._writer.do(lambda state: list_unfinished(state, identifier))

    async def list_missed(self, identifier: str, limit: int = MISSED) -> Sequence[Exchange]:
        """List the answers that whoever wrote last may have missed, the newest answer among them, the oldest first."""
        return await self._writer.do(lambda state: list_missed(state, identifier, limit))

    async def list_notifications(self, identifier: str) -> Sequence[Notification]:
        """List what an agent added to a session by itself since a person last spoke in it."""
        return await self._writer.look(lambda state: list_of_session(state, identifier))

    async def list_notifications_of(
        self, user: str, channel: str, clearance: Trust, after: int = 0
    ) -> tuple[Sequence[Notification], int]:
        """List the notifications of a person on a channel behind a cursor; also return the next cursor."""
        return await self._writer.look(lambda state: list_of_person(state, user, channel, clearance, after))

    async def find_newest_turn(self, identifier: str) -> str:
        """Find the id of the newest turn of a session, whatever became of it; empty if there is none."""

        def work(state: sqlite3.Connection) -> str:
            asked = "SELECT id FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
            row = state.execute(asked, (identifier,)).fetchone()
            return str(row[0]) if row else ""

        return await self._writer.do(work)

    async def set_plan(self, identifier: str, *, on: bool) -> None:
        """Have the agent only plan in this session, or let it act, which drops a plan that nobody has accepted."""
        await self._writer.do(lambda state: switch_plan(state, identifier, on=on))

    async def set_model(self, identifier: str, model: str) -> None:
        """Choose another model for this session; nothing goes back to the agent's own."""

        def work(state: sqlite3.Connection) -> None:
            if state.execute("UPDATE sessions SET model = ? WHERE id = ?", (model, identifier)).rowcount != 1:
                raise NotFound("session")

        await self._writer.do(work)

    async def set_project(self, identifier: str, project: str) -> None:
        """Set the project of a session; an empty one closes it."""
        await self._writer.do(lambda state: set_project(state, identifier, project))

    async def list_plans(self, identifier: str) -> Sequence[Plan]:
        """List the plans of a session, the newest first."""
        return await self._writer.do(lambda state: list_plans(state, identifier))

    async def settle_plan(self, identifier: str, became: PlanState) -> Plan:
        """Say what becomes of the newest plan; one that is accepted lets the agent act."""
        return await self._writer.do(lambda state: settle_plan(state, identifier, became))

    async def list_tasks(self, identifier: str) -> Sequence[Task]:
        """List the tasks of a session."""
        return await self._writer.do(lambda state: read_tasks(state, identifier))


def switch_plan(state: sqlite3.Connection, session: str, *, on: bool) -> None:
    """Switch plan mode on or off; switching it off drops a plan that was not accepted."""
    if state.execute("UPDATE sessions SET plan = ? WHERE id = ?", (int(on), session)).rowcount != 1:
        raise NotFound("session")
    newest = None if on else find_newest(state, session)
    if newest and newest.state is PlanState.PROPOSED:
        mark_plan(state, newest.id, PlanState.DROPPED)


def settle_plan(state: sqlite3.Connection, session: str, became: PlanState) -> Plan:
    """Mark the newest plan of a session; accepting it ends plan mode."""
    plan = find_newest(state, session)
    if plan is None:
        raise InputError("this session has no plan yet; turn plan mode on and ask for one")
    mark_plan(state, plan.id, became)
    if became is PlanState.ACCEPTED:
        state.execute("UPDATE sessions SET plan = 0 WHERE id = ?", (session,))
    return replace(plan, state=became)


def set_project(state: sqlite3.Connection, session: str, project: str) -> None:
    """Set the project of a session; an empty one closes it."""
    if state.execute("UPDATE sessions SET project = ? WHERE id = ?", (project, session)).rowcount != 1:
        raise NotFound("session")
