"""Past conversations as a reader may see them: a list with titles, and the messages of one.

A reader sees sessions at or below their current clearance. A private session is shown to its person alone. At full
trust in private a reader sees every message of a room. Any other reader sees their messages and the replies to them;
in a room, only those of that room.
"""

import sqlite3
from collections.abc import Sequence

from foreword.events.event import Reader
from foreword.events.visible import reads_words, sees_all
from foreword.frozen import frozen
from foreword.gateway.message import State
from foreword.gateway.session import COLUMNS, Session, read_session
from foreword.gateway.transcript import Remark, read_exchange

MAX_SESSIONS = 200
TITLE_CHARS = 60
MIN_ID_CHARS = 4
# The history of a fork has the turns of its parent. A failed or waiting turn is in no history.
SAID = """
SELECT turns.id AS turn, turns.number AS place, NULL AS added FROM turns WHERE turns.session_id = ?1
UNION
SELECT turns.id, turns.number, iif(history.kind = 'room', history.messages, NULL) FROM history
JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room') WHERE history.session_id = ?1"""
SHOWN = f"""
SELECT said.added, turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM ({SAID}) AS said JOIN turns ON turns.id = said.turn
WHERE ?2 = '' OR turns.user_id = ?2 AND said.added IS NULL ORDER BY said.place"""


@frozen
class Conversation:
    """A session, and the part of it that its reader may see."""

    session: Session
    remarks: tuple[tuple[State, Remark], ...]
    """The messages and replies, with the state of each turn, the oldest first."""

    @property
    def people(self) -> tuple[str, ...]:
        """The people who wrote in it."""
        return tuple(dict.fromkeys(one.user for _, one in self.remarks if one.user)) or (self.session.lane.user,)

    @property
    def messages(self) -> int:
        """The number of messages, those of the agent included."""
        return sum(bool(text) for _, one in self.remarks for text in (one.text, one.reply))

    @property
    def title(self) -> str:
        """The beginning of its first message, on one line."""
        first = next((text for _, one in self.remarks if (text := " ".join((one.text or one.reply).split()))), "")
        return first if len(first) <= TITLE_CHARS else f"{first[: TITLE_CHARS - 1].rstrip()}…"


def list_conversations(state: sqlite3.Connection, reader: Reader, limit: int) -> list[Conversation]:
    """List the conversations that a reader may see, the most recently used first."""
    found = (read_conversation(state, reader, one) for one in list_readable(state, reader))
    return [one for one, _ in zip((one for one in found if one.remarks), range(min(limit, MAX_SESSIONS)), strict=False)]


def find_conversations(state: sqlite3.Connection, reader: Reader, beginning: str) -> list[Conversation]:
    """Find conversations by the beginning of their session id; those above the reader are left out."""
    named = [one for one in list_readable(state, reader) if one.id.startswith(beginning.lower())]
    found = [read_conversation(state, reader, one) for one in named]
    return [one for one in found if one.remarks or sees_all(reader) or one.session.lane.user == reader.user]


def list_readable(state: sqlite3.Connection, reader: Reader) -> Sequence[Session]:
    """List the sessions that a reader may know of, the most recently used first."""
    asked = f"""
    SELECT {COLUMNS} FROM sessions WHERE clearance <= ?1 AND (?2 = '' OR room = ?2)
        AND (?3 OR ?4 != '' AND (user_id = ?4
            OR EXISTS (SELECT 1 FROM turns WHERE turns.session_id = sessions.id AND turns.user_id = ?4)))
    ORDER BY used DESC, id"""
    given = (int(reader.clearance), reader.room, sees_all(reader), reader.user)
    found = map(read_session, state.execute(asked, given))
    return [one for one in found if reads_words(reader, one.lane.person)]


def read_conversation(state: sqlite3.Connection, reader: Reader, session: Session) -> Conversation:
    """Read the messages of a session that a reader may see: all, or theirs and the replies to them."""
    own = session.lane.user == reader.user and not reader.room
    only = "" if own or sees_all(reader) else reader.user or "\x00"
    rows = state.execute(SHOWN, (session.id, only)).fetchall()
    return Conversation(session=session, remarks=tuple((State(row[4]), read_exchange(row)) for row in rows))
