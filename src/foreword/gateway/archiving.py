"""Archiving: a conversation that has ended is kept as a Markdown file, where the owner wants that.

One has ended when another begins in its lane, when it was folded, or when nobody has said anything for a day; should it
go on, its file is written anew. A session has one file, whatever crashed in between, and its clearance is kept in the
state: `sources.archived` says who may read it.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.event import NOBODY, EventType, Recorder
from foreword.events.trace import Timepiece, Trace, describe_error
from foreword.gateway.archive import describe_archive, find_folder, find_other, show, write_file
from foreword.gateway.moment import write_moment
from foreword.gateway.overheard import is_kept_too_long, let_go
from foreword.gateway.session import COLUMNS, Session, read_session
from foreword.gateway.transcript import SAID, read_transcript
from foreword.gateway.writer import Writer
from foreword.store.archives import reserve, settle
from foreword.store.state import open_state
from foreword.workspace import Workspace

EVERY = 5.0  # seconds between two looks
IDLE = timedelta(days=1)  # after which a conversation that nobody goes on with has ended
SLACK = timedelta(hours=1)  # by which clocks of several processes may differ
DUE = f"""
SELECT {", ".join(f"sessions.{name.strip()}" for name in COLUMNS.split(","))}
FROM sessions LEFT JOIN archives ON archives.session_id = sessions.id
WHERE sessions.used >= ? AND (sessions.user_id != '' OR sessions.room != '')
    AND (SELECT max(position) FROM {SAID} WHERE history.session_id = sessions.id) > coalesce(archives.upto, 0)
    AND (sessions.current = 0 OR sessions.used < ? OR EXISTS (
        SELECT 1 FROM history
        WHERE session_id = sessions.id AND folded = 1 AND position > coalesce(archives.upto, 0)))
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = sessions.id AND finished IS NULL)
ORDER BY sessions.used"""


class Archiving:
    """Writes transcripts of the sessions of a workspace."""

    def __init__(self, workspace: Workspace, writer: Writer, recorder: Recorder, clock: Callable[[], datetime]) -> None:
        self._workspace = workspace
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._since = ""
        """Sessions that were last used before are archived, or never will be."""
        self._failed: set[str] = set()

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Look at every session again where the owner wants transcripts from now on, or for others."""
        if after.archive and (not before.archive or before.users != after.users):
            self._since = ""
        return ()

    async def keep(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Write what is due, and let go of what was overheard long ago; what goes wrong is told, and tried again."""
        try:
            await self._let_go()
            await self.archive()
        except sqlite3.Error:
            pass  # a disk that is full or busy now is looked at again
        except Exception as error:  # noqa: BLE001 - conversations go on, whatever is wrong with their transcripts
            self._tell("archive", error)

    async def _let_go(self) -> None:
        now = self._clock()
        if await self._writer.look(lambda state: is_kept_too_long(state, now)):
            await self._writer.do(lambda state: let_go(state, now))

    async def archive(self) -> int:
        """Write the transcripts that are due, and return how many."""
        if not self._workspace.config.archive:
            return 0
        now, written, failed = self._clock(), 0, False
        for session in await asyncio.to_thread(self._find_due, now):
            try:
                written += await self._archive(session)
            except (OSError, InputError) as error:
                failed = True
                self._tell(session.id, error)
        if not failed:
            self._since = write_moment(now - IDLE - SLACK)
        return written

    def _find_due(self, now: datetime) -> list[Session]:
        """Find the sessions that have ended and whose transcript does not have all of them; in a thread."""
        config = self._workspace.config
        with closing(open_state(self._workspace.state).connection) as state:
            state.execute("PRAGMA query_only=ON")
            found = state.execute(DUE, (self._since, write_moment(now - IDLE))).fetchall()
        return [session for row in found if find_folder((session := read_session(row)).lane, config)]

    async def _archive(self, session: Session) -> bool:
        """Write the transcript of a session: a row that reserves its path, the file, and then that it is there."""
        config, root = self._workspace.config, self._workspace.files.root
        transcript = await self._writer.look(lambda state: read_transcript(state, session))
        if not transcript.exchanges:
            return False
        archive = describe_archive(transcript, config)
        path = await self._writer.do(lambda state: reserve(state, archive, find_other(transcript, config)))
        archive = replace(archive, path=path)
        await asyncio.to_thread(write_file, root, path, show(transcript, config))
        await self._writer.do(lambda state: settle(state, archive, write_moment(self._clock())))
        return True

    def _tell(self, what: str, error: Exception) -> None:
        """Tell a fault, once for each session."""
        if what not in self._failed:
            self._failed.add(what)
            said = {**describe_error(error), "transcript": what}
            Trace(self._recorder, NOBODY, Timepiece(now=self._clock)).tell(EventType.CHANNEL_ERROR, **said)
