"""Notifications: messages that an agent added to a conversation without being asked, such as scheduled replies."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from foreword.frozen import frozen
from foreword.gateway.moment import read_moment
from foreword.gateway.schedule.schedules import shorten_title
from foreword.runtime.stretch import Stretch
from foreword.words import Trust

# The turn of a notification belongs to another session; the note about a held call has a turn of its session.
FOUND = """
SELECT history.rowid, history.session_id, history.position, history.messages, sessions.agent, turns.finished,
    json_extract(turns.request, '$.errand.schedule'), schedules.name, schedules.say
FROM history JOIN sessions ON sessions.id = history.session_id LEFT JOIN turns ON turns.id = history.turn_id
LEFT JOIN schedules ON schedules.id = json_extract(turns.request, '$.errand.schedule')
WHERE history.kind = 'room' AND turns.session_id IS NOT history.session_id
AND (sessions.room = '' OR json_extract(turns.request, '$.errand') IS NOT NULL)"""
OF_SESSION = f"""{FOUND} AND history.session_id = ?1 AND history.position > (SELECT coalesce(max(position), 0)
FROM history AS spoken WHERE spoken.session_id = ?1 AND spoken.kind != 'room') ORDER BY history.position"""
# A fork has a copy of every row of its parent; a copy is no new notification. A run that was added to several
# conversations is one notification, in the conversation with the highest clearance.
OF_PERSON = f"""{FOUND} AND history.rowid > ?1 AND sessions.user_id = ?2 AND sessions.room = ''
AND sessions.channel = ?3 AND sessions.clearance <= ?4 AND NOT EXISTS (SELECT 1 FROM history AS original
    WHERE original.session_id = sessions.parent AND original.position = history.position
    AND original.kind = 'room' AND original.messages = history.messages)
AND NOT EXISTS (SELECT 1 FROM history AS other JOIN sessions AS higher ON higher.id = other.session_id
    WHERE other.turn_id = history.turn_id AND other.kind = 'room' AND higher.user_id = ?2 AND higher.room = ''
    AND higher.channel = ?3 AND higher.clearance > sessions.clearance AND higher.clearance <= ?4)
ORDER BY history.rowid"""
NEWEST_ROW = "SELECT coalesce(max(rowid), 0) FROM history"


@frozen(eq=True)
class Notification:
    """One message that an agent sent without being asked."""

    number: int
    """The number of its row; newer rows have higher numbers."""
    session: str
    position: int
    agent: str
    text: str
    schedule: str = ""
    """The id of its schedule, if any."""
    title: str = ""
    """The name of that schedule, or its first words."""
    moment: datetime | None = None
    """The time at which it was sent."""

    @property
    def key(self) -> str:
        """Unique key."""
        return f"{self.session} {self.position}"

    @property
    def label(self) -> str:
        """Where it comes from."""
        return f"scheduled: {self.title or self.schedule}" if self.schedule else "sent by the agent"


def list_of_session(state: sqlite3.Connection, session: str) -> list[Notification]:
    """List the notifications in a session since its last turn, the oldest first."""
    return [read_row(row) for row in state.execute(OF_SESSION, (session,))]


def list_of_person(
    state: sqlite3.Connection, user: str, channel: str, clearance: Trust, after: int = 0
) -> tuple[list[Notification], int]:
    """List the notifications in a person's private conversations on a channel, the oldest first.

    Only rows behind the cursor `after` are read. The second value is the cursor for the next call.
    """
    (newest,) = state.execute(NEWEST_ROW).fetchone()
    if not user or newest == after:
        return [], newest
    # An erasure can remove the newest rows, whose numbers are then given again.
    given = (min(after, newest), user, channel, int(clearance))
    found = [read_row(row) for row in state.execute(OF_PERSON, given)]
    return found, max([newest, *(one.number for one in found)])


def read_row(row: Sequence[object]) -> Notification:
    """Make a notification from its row."""
    number, session, position, messages, agent, finished, schedule, name, say = row
    said = Stretch(bytes(messages)).told if isinstance(messages, bytes) else ()
    return Notification(
        number=int(str(number)),
        session=str(session),
        position=int(str(position)),
        agent=str(agent),
        text=said[-1].text if said else "",
        schedule=str(schedule or ""),
        title=str(name or "") or shorten_title(str(say or "")),
        moment=read_moment(str(finished)) if finished else None,
    )
