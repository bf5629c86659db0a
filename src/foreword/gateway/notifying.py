"""Notices: an agent tells a person something in private, wherever it was when it found out."""

import sqlite3
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.events.trace import make_id
from foreword.gateway.lane import Lane
from foreword.gateway.letter import Letter, post
from foreword.gateway.schedule.destination import clear, find_address
from foreword.gateway.schedule.schedules import Destination
from foreword.gateway.telling import tell_there
from foreword.gateway.writer import Writer
from foreword.runtime.acting import HERE
from foreword.tools import NOTIFYING, Answer
from foreword.tools.scheduling import LONGEST_NOTICE
from foreword.workspace import Workspace

MOST = 10  # notices to one person in an hour
PERIOD = timedelta(hours=1)


class Notifying:
    """Runs the tool."""

    def __init__(
        self, workspace: Workspace, writer: Writer, clock: Callable[[], datetime], channels: Collection[str]
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._clock = clock
        self._channels = channels

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Post a notice to the person of the turn."""
        if name not in assembly.terms.tools or name not in NOTIFYING:
            raise UnknownName("tool", name, assembly.terms.tools.names & NOTIFYING.names)
        text = str(arguments.get("text", "")).strip()
        if not text or len(text) > LONGEST_NOTICE:
            raise InputError(f"a notice has 1 to {LONGEST_NOTICE:,} characters")
        said = await self._writer.seal(lambda state: self._post(state, assembly, text))
        return Answer(text=said, tokens=assembly.terms.meter.count(said))

    def _post(self, state: sqlite3.Connection, assembly: Assembly, text: str) -> str:
        user, config, now = assembly.turn.user, self._workspace.config, self._clock()
        found = find_address(state, config, user, self._channels)
        if found is None:
            raise InputError("there is no address at which this person can be reached")
        channel, address = found
        if clear(user, Destination(channel=channel, address=address), config) < assembly.clearance.level:
            raise Forbidden("what is known here may not be told in this person's private chat")
        start = f"notice\x00{user}\x00"
        asked = "SELECT count(*) FROM outbox WHERE key >= ? AND key < ? AND due > ?"
        since = (now - PERIOD).timestamp()
        if state.execute(asked, (start, f"{start}\x7f", since)).fetchone()[0] >= MOST:
            raise Forbidden(f"{MOST} notices an hour are the most; put the rest into the reply")
        turn = HERE.get().trace.id if HERE.get(None) else ""
        letter = Letter(key=start + make_id(128), channel=channel, address=address, text=text, turn=turn)
        post(state, letter, now)
        place = Lane(agent=assembly.turn.agent, channel=channel, room="", clearance=assembly.clearance.level, user=user)
        tell_there(state, place, turn, text)
        return f"The notice is on its way to {user} on {channel}."
