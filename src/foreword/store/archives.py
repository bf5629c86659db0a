"""Archives: which file of the workspace holds the transcript of which session.

    for archive in list_archives("assistant", "bob"):
        print(archive.path, archive.clearance, archive.is_own)

The rows are what decides who may read a transcript. A row is there before its file, so that a crash leaves no file that
is written twice under two names.
"""

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from foreword.frozen import frozen
from foreword.sources.archived import Archived
from foreword.store.state import STATE_FILE, open_state
from foreword.words import Trust

FOLDER = ".foreword"
COLUMNS = "path, session_id, agent, channel, room, user_id, clearance, people, upto"
SPEAKING = (
    f"SELECT {COLUMNS} FROM archives WHERE user_id = ?"  # noqa: S608 - our own words
    " OR EXISTS (SELECT 1 FROM json_each(people) WHERE value = ?) ORDER BY path"
)
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


def list_archives(root: str, user: str) -> list[Archive]:
    """List the transcripts of a workspace in which a person speaks: their own, and those of rooms."""
    folder = os.path.join(root, FOLDER)
    if not os.path.exists(os.path.join(folder, STATE_FILE)):
        return []
    with closing(open_state(folder).connection) as state:
        return find_archives(state, user)


def find_archives(state: sqlite3.Connection, user: str) -> list[Archive]:
    """Find the transcripts in which a person speaks."""
    found = state.execute(SPEAKING, (user, user))
    return [read_archive(row) for row in found]


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
