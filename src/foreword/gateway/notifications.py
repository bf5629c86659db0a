"""Notifications: what an agent added to a conversation by itself, such as the reply of a scheduled run."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from foreword.frozen import frozen
from foreword.gateway.moment import read_moment
from foreword.gateway.schedule.schedules import shorten_title
from foreword.runtime.stretch import Stretch
from foreword.words import Trust

FOUND = """
SELECT history.session_id, history.position, history.messages, sessions.agent, turns.finished,
    json_extract(turns.request, '$.errand.schedule'), schedules.name, schedules.say
FROM history JOIN sessions ON sessions.id = history.session_id LEFT JOIN turns ON turns.id = history.turn_id
LEFT JOIN schedules ON schedules.id = json_extract(turns.request, '$.errand.schedule')
WHERE history.kind = 'room' AND (sessions.room = '' OR json_extract(turns.request, '$.errand') IS NOT NULL)"""
OF_SESSION = f"{FOUND} AND history.session_id = ? ORDER BY history.position"
OF_PERSON = f"""{FOUND} AND sessions.user_id = ? AND sessions.room = '' AND sessions.channel = ?
AND sessions.clearance <= ? ORDER BY turns.finished, history.position"""
LAST_SPOKEN = "SELECT max(position) FROM history WHERE session_id = ? AND kind != 'room'"


@frozen(eq=True)
class Notification:
    """One message that an agent sent by itself."""

    session: str
    position: int
    agent: str
    text: str
    schedule: str = ""
    """The id of the schedule that it comes from, if any."""
    title: str = ""
    """What that schedule is known by."""
    moment: datetime | None = None
    """When it was sent."""

    @property
    def key(self) -> str:
        """What it is told apart by."""
        return f"{self.session} {self.position}"

    @property
    def label(self) -> str:
        """Where it comes from, in words."""
        return f"scheduled: {self.title or self.schedule}" if self.schedule else "sent by itself"


def list_of_session(state: sqlite3.Connection, session: str) -> list[Notification]:
    """List what was added to a session since a person last spoke in it, the oldest first."""
    (last,) = state.execute(LAST_SPOKEN, (session,)).fetchone()
    return [one for row in state.execute(OF_SESSION, (session,)) if (one := read_row(row)).position > (last or 0)]


def list_of_person(state: sqlite3.Connection, user: str, channel: str, clearance: Trust) -> list[Notification]:
    """List what was added to the private conversations of a person on a channel, the oldest first."""
    return [read_row(row) for row in state.execute(OF_PERSON, (user, channel, int(clearance)))] if user else []


def read_row(row: Sequence[object]) -> Notification:
    """Read a row."""
    session, position, messages, agent, finished, schedule, name, say = row
    told = Stretch(bytes(messages)).told if isinstance(messages, bytes) else ()
    return Notification(
        session=str(session),
        position=int(str(position)),
        agent=str(agent),
        text=told[-1].text if told else "",
        schedule=str(schedule or ""),
        title=str(name or "") or shorten_title(str(say or "")),
        moment=read_moment(str(finished)) if finished else None,
    )
