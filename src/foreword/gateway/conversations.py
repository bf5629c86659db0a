"""Past conversations as a reader may see them: a list with first words, and what was said in one.

A reader sees a session that was not held above their current clearance. At full trust in private they see every
message of it; anybody else sees their own messages and the replies to them, in a room only those of that room.
"""

import sqlite3
from collections.abc import Sequence

from foreword.events.event import Reader
from foreword.events.visible import sees_all
from foreword.frozen import frozen
from foreword.gateway.message import State
from foreword.gateway.session import COLUMNS, Session, read_session
from foreword.gateway.transcript import Remark, read_exchange

MAX_SESSIONS = 200
TITLE_CHARS = 60
MIN_ID_CHARS = 4
# A fork has the turns of the session that it was made from in its history; a failed or waiting turn is in none.
SAID = """
SELECT turns.id AS turn, turns.number AS place, NULL AS beside FROM turns WHERE turns.session_id = ?1
UNION
SELECT turns.id, turns.number, iif(history.kind = 'room', history.messages, NULL) FROM history
JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room') WHERE history.session_id = ?1"""
SHOWN = f"""
SELECT said.beside, turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM ({SAID}) AS said JOIN turns ON turns.id = said.turn
WHERE ?2 = '' OR turns.user_id = ?2 AND said.beside IS NULL ORDER BY said.place"""


@frozen
class Conversation:
    """A session and what its reader may see of it."""

    session: Session
    remarks: tuple[tuple[State, Remark], ...]
    """What was said, with the state of each turn, the oldest first."""

    @property
    def people(self) -> tuple[str, ...]:
        """Who wrote in it."""
        return tuple(dict.fromkeys(one.user for _, one in self.remarks if one.user)) or (self.session.lane.user,)

    @property
    def messages(self) -> int:
        """How many messages it has: those of people, and those of the agent."""
        return sum(bool(text) for _, one in self.remarks for text in (one.text, one.reply))

    @property
    def title(self) -> str:
        """The first words that were said in it, on one line."""
        first = next((text for _, one in self.remarks if (text := " ".join((one.text or one.reply).split()))), "")
        return first if len(first) <= TITLE_CHARS else f"{first[: TITLE_CHARS - 1].rstrip()}…"


def list_conversations(state: sqlite3.Connection, reader: Reader, limit: int) -> list[Conversation]:
    """List the conversations that a reader may see, those used last first."""
    found = (read_conversation(state, reader, one) for one in list_readable(state, reader))
    return [one for one, _ in zip((one for one in found if one.remarks), range(min(limit, MAX_SESSIONS)), strict=False)]


def find_conversations(state: sqlite3.Connection, reader: Reader, beginning: str) -> list[Conversation]:
    """Find the conversations whose session id begins so; what a reader may not see is like what does not exist."""
    named = [one for one in list_readable(state, reader) if one.id.startswith(beginning.lower())]
    found = [read_conversation(state, reader, one) for one in named]
    return [one for one in found if one.remarks or sees_all(reader) or one.session.lane.user == reader.user]


def list_readable(state: sqlite3.Connection, reader: Reader) -> Sequence[Session]:
    """List the sessions that a reader may know of, those used last first."""
    asked = f"""
    SELECT {COLUMNS} FROM sessions WHERE clearance <= ?1 AND (?2 = '' OR room = ?2)
        AND (?3 OR ?4 != '' AND (user_id = ?4
            OR EXISTS (SELECT 1 FROM turns WHERE turns.session_id = sessions.id AND turns.user_id = ?4)))
    ORDER BY used DESC, id"""
    given = (int(reader.clearance), reader.room, sees_all(reader), reader.user)
    return [read_session(row) for row in state.execute(asked, given)]


def read_conversation(state: sqlite3.Connection, reader: Reader, session: Session) -> Conversation:
    """Read what a reader may see of a session: all of it, or their own messages and the replies to them."""
    own = session.lane.user == reader.user and not reader.room
    only = "" if own or sees_all(reader) else reader.user or "\x00"
    rows = state.execute(SHOWN, (session.id, only)).fetchall()
    return Conversation(session=session, remarks=tuple((State(row[4]), read_exchange(row)) for row in rows))
