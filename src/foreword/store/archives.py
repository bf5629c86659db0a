"""Archives: which file of the workspace holds the transcript of which session.

The rows are what decides who may read a transcript. A row is there before its file, so that a crash leaves no file that
is written twice under two names.
"""

import json
import sqlite3
from collections.abc import Sequence

from foreword.frozen import frozen
from foreword.sources.archived import Archived
from foreword.words import Trust

COLUMNS = "path, session_id, agent, channel, room, user_id, clearance, people, upto"
RESERVE = f"INSERT OR IGNORE INTO archives ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', 0)"  # noqa: S608 - our own words


@frozen(eq=True)
class Archive:
    """A transcript, and what is known of its session."""

    path: str
    """In the workspace."""
    session: str
    agent: str
    channel: str
    room: str
    user: str
    """Whose session it was; nobody's in a room."""
    clearance: Trust
    people: tuple[str, ...] = ()
    """Who speaks in it."""
    upto: int = 0
    """How much of the session's history it holds."""

    @property
    def is_own(self) -> bool:
        """Whether it is one person's alone, and no room's."""
        return bool(self.user)


def read_archive(row: Sequence[object]) -> Archive:
    """Read a row."""
    path, session, agent, channel, room, user, clearance, people, upto = row
    return Archive(
        path=str(path),
        session=str(session),
        agent=str(agent),
        channel=str(channel),
        room=str(room),
        user=str(user),
        clearance=Trust(int(str(clearance))),
        people=tuple(json.loads(str(people))),
        upto=int(str(upto)),
    )


def find_archived(state: sqlite3.Connection, path: str) -> Archived | None:
    """Find whose transcript a file is; None where the archive did not write it."""
    asked = "SELECT clearance, channel, room, user_id FROM archives WHERE path = ?"
    row = state.execute(asked, (path,)).fetchone()
    if row is None:
        return None
    clearance, channel, room, user = row
    return Archived(clearance=Trust(clearance), channel=channel, room=room, user=user)


def reserve(state: sqlite3.Connection, archive: Archive, other: str) -> str:
    """Reserve the path of a session's transcript, and return it: the one it has, else this one, else the other."""
    for path in (archive.path, other):
        state.execute(
            RESERVE,
            (path, archive.session, archive.agent, archive.channel, archive.room, archive.user, int(archive.clearance)),
        )
        row = state.execute("SELECT path FROM archives WHERE session_id = ?", (archive.session,)).fetchone()
        if row:
            return str(row[0])
    raise sqlite3.IntegrityError(f"no path is free for the transcript of {archive.session}")


def settle(state: sqlite3.Connection, archive: Archive, moment: str) -> None:
    """Note that a transcript is written, how far it goes, and who speaks in it."""
    state.execute(
        "UPDATE archives SET people = ?, upto = ?, written = ? WHERE path = ?",
        (json.dumps(archive.people, ensure_ascii=False), archive.upto, moment, archive.path),
    )


def drop_archive(state: sqlite3.Connection, path: str) -> None:
    """Forget a transcript; its file needs full from now on, until it is removed."""
    state.execute("DELETE FROM archives WHERE path = ?", (path,))
