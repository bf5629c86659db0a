"""Notifications: messages that an agent added to a conversation without being asked, such as scheduled replies.

Adds a message that an agent sent on its own to the conversation at its destination. The notice tool: sends the person
of a turn a private message.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.agent.conversation import HistorySegment, dump_messages, make_user_message
from foreword.agent.tool_calls import CURRENT_CALL
from foreword.agent.tools.registry import MAX_NOTICE_CHARS, NOTIFICATION_TOOLS
from foreword.assembly import Assembly
from foreword.engine.sources.documents import read_prompt
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.events.tracer import make_id
from foreword.gateway.history import HistoryKind, HistoryPiece, append_piece
from foreword.gateway.schedule.destinations import find_address, resolve_destination_clearance
from foreword.gateway.session_lookup import CHARS_PER_TOKEN
from foreword.storage.database import parse_moment
from foreword.storage.schedules import Destination, shorten_title
from foreword.storage.sessions import Lane, OutboundMessage, add_session, find_current_session, post_message
from foreword.storage.writer import Writer
from foreword.turn import ToolAnswer
from foreword.types import Trust, frozen
from foreword.workspace import Workspace

# The turn of a notification belongs to another session; the note about a held call has a turn of its session.
SELECT_NOTIFICATIONS = """
SELECT history.rowid, history.session_id, history.position, history.messages, sessions.agent, turns.finished,
    json_extract(turns.request, '$.errand.schedule'), schedules.name, schedules.say
FROM history JOIN sessions ON sessions.id = history.session_id LEFT JOIN turns ON turns.id = history.turn_id
LEFT JOIN schedules ON schedules.id = json_extract(turns.request, '$.errand.schedule')
WHERE history.kind = 'room' AND turns.session_id IS NOT history.session_id
AND (sessions.room = '' OR json_extract(turns.request, '$.errand') IS NOT NULL)"""
OF_SESSION = f"""{SELECT_NOTIFICATIONS} AND history.session_id = ?1
    AND history.position > (SELECT coalesce(max(position), 0)
FROM history AS spoken WHERE spoken.session_id = ?1 AND spoken.kind != 'room') ORDER BY history.position"""
# A fork has a copy of every row of its parent; a copy is no new notification. A run that was added to several
# conversations is one notification, in the conversation with the highest clearance.
OF_PERSON = f"""{SELECT_NOTIFICATIONS} AND history.rowid > ?1 AND sessions.user_id = ?2 AND sessions.room = ''
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
    return [read_notification(row) for row in state.execute(OF_SESSION, (session,))]


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
    found = [read_notification(row) for row in state.execute(OF_PERSON, given)]
    return found, max([newest, *(one.number for one in found)])


def read_notification(row: Sequence[object]) -> Notification:
    """Make a notification from its row."""
    number, session, position, messages, agent, finished, schedule, name, say = row
    said = HistorySegment(bytes(messages)).texts if isinstance(messages, bytes) else ()
    return Notification(
        number=int(str(number)),
        session=str(session),
        position=int(str(position)),
        agent=str(agent),
        text=said[-1].text if said else "",
        schedule=str(schedule or ""),
        title=str(name or "") or shorten_title(str(say or "")),
        moment=parse_moment(str(finished)) if finished else None,
    )


PRIVATE_SITUATION = "dm"
SELECT_CURRENT_SESSIONS = """
SELECT id FROM sessions WHERE agent = ? AND channel = ? AND room = ? AND user_id = ? AND current = 1
    AND (clearance >= ? OR room != '')"""


def add_to_private_conversation(
    state: sqlite3.Connection, place: Lane, turn: str, text: str, now: datetime, *, home: Trust | None = None
) -> None:
    """Add a sent message to the private conversation of a person, and create the conversation if there is none.

    A new conversation gets the person's own clearance, because their chat does not show conversations below it.
    """
    own = replace(place, clearance=max(place.clearance, home or place.clearance))
    if find_current_session(state, own) is None:
        add_session(state, own, PRIVATE_SITUATION, now)
    add_to_current_conversations(state, place, turn, text)


def make_place_key(place: Lane) -> tuple[str, str, str, str, int]:
    """Return the key of the conversations at a place."""
    return (place.agent, place.channel, place.room, place.user, int(place.clearance))


def add_to_current_conversations(state: sqlite3.Connection, place: Lane, turn: str, text: str) -> None:
    """Add a sent message to the current conversations at a place; in a room, everyone has read it."""
    before = read_prompt("gateway/planned")
    messages = dump_messages([make_user_message(before), ModelResponse(parts=[TextPart(content=text)])])
    piece = HistoryPiece(
        kind=HistoryKind.ROOM, messages=messages, tokens=(len(before) + len(text)) // CHARS_PER_TOKEN, turn=turn or None
    )
    for (session,) in state.execute(SELECT_CURRENT_SESSIONS, make_place_key(place)).fetchall():
        append_piece(state, session, piece)


MAX_NOTICES_PER_HOUR = 10  # notices per person and hour
NOTICE_PERIOD = timedelta(hours=1)


class NoticeTool:
    """Runs the notice tool."""

    def __init__(
        self, workspace: Workspace, writer: Writer, clock: Callable[[], datetime], channels: Collection[str]
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._clock = clock
        self._channels = channels

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Send a notice to the person of the turn."""
        if name not in assembly.terms.tools or name not in NOTIFICATION_TOOLS:
            raise UnknownName("tool", name, assembly.terms.tools.names & NOTIFICATION_TOOLS.names)
        text = str(arguments.get("text", "")).strip()
        if not text or len(text) > MAX_NOTICE_CHARS:
            raise InputError(f"a notice has 1 to {MAX_NOTICE_CHARS:,} characters")
        said = await self._writer.write_durable(lambda state: self._post(state, assembly, text))
        return ToolAnswer(text=said, tokens=assembly.terms.meter.count(said))

    def _post(self, state: sqlite3.Connection, assembly: Assembly, text: str) -> str:
        user, config, now = assembly.turn.user, self._workspace.config, self._clock()
        found = find_address(state, config, user, self._channels)
        if found is None:
            raise InputError("there is no address at which this person can be reached")
        channel, address = found
        if (
            resolve_destination_clearance(user, Destination(channel=channel, address=address), config)
            < assembly.clearance.level
        ):
            raise Forbidden("what is known here may not be told in this person's private chat")
        start = f"notice\x00{user}\x00"
        asked = "SELECT count(*) FROM outbox WHERE key >= ? AND key < ? AND due > ?"
        since = (now - NOTICE_PERIOD).timestamp()
        if state.execute(asked, (start, f"{start}\x7f", since)).fetchone()[0] >= MAX_NOTICES_PER_HOUR:
            raise Forbidden(f"{MAX_NOTICES_PER_HOUR} notices an hour are the most; put the rest into the reply")
        turn = CURRENT_CALL.get().trace.id if CURRENT_CALL.get(None) else ""
        letter = OutboundMessage(key=start + make_id(128), channel=channel, address=address, text=text, turn=turn)
        post_message(state, letter, now)
        place = Lane(agent=assembly.turn.agent, channel=channel, room="", clearance=assembly.clearance.level, user=user)
        add_to_current_conversations(state, place, turn, text)
        return f"The notice is on its way to {user} on {channel}."
