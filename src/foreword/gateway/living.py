"""What a turn is told of what goes on around it, as the state has it now; and what is learned from its message."""

import asyncio
import sqlite3
from contextlib import suppress

from foreword.gateway.inbox import Claimed
from foreword.gateway.lane import Lane
from foreword.gateway.session import Session
from foreword.gateway.writer import Writer
from foreword.store.bulletins import read_bulletins
from foreword.store.profiles import learn, read_profile
from foreword.store.tasks import read_tasks
from foreword.store.workflows import find_workflow
from foreword.turn import Communication, State
from foreword.words import Trust

UNATTENDED = "system"  # the situation in which nobody writes: what is said there is no message of a person's own


def read_state(state: sqlite3.Connection, session: Session, policy: str) -> State:
    """Read what goes on around a session, as far as its clearance may know of it under the policy of memory now."""
    lane = session.lane
    known = lane.clearance > Trust.PUBLIC
    return State(
        workflow=find_workflow(state, session.id),
        tasks=read_tasks(state, session.id),
        communication=find_manner(state, lane),
        bulletins=read_bulletins(state, lane.agent, lane.clearance, policy) if known else (),
    )


def find_manner(state: sqlite3.Connection, lane: Lane) -> Communication | None:
    """Find how the person of a lane writes; in company that is nobody's affair, and it is not opened."""
    return read_profile(state, lane.user, lane.clearance) if is_own(lane) else None


def is_own(lane: Lane) -> bool:
    """Whether a lane is one known person's alone."""
    return lane.user != "" and lane.room == "" and lane.clearance > Trust.PUBLIC


class Learning:
    """Learns how people write from the messages of turns that have ended, beside what the gateway does next."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._under_way: set[asyncio.Task[None]] = set()

    def take_note(self, claimed: Claimed) -> None:
        """Take note of a message that has had its turn, if it is a person's own and nobody else's to read."""
        incoming = claimed.incoming
        if not is_own(claimed.session.lane) or incoming.errand or incoming.situation == UNATTENDED:
            return
        task = asyncio.create_task(self._learn(claimed))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _learn(self, claimed: Claimed) -> None:
        lane, text = claimed.session.lane, claimed.incoming.text
        with suppress(sqlite3.Error):  # one message less shows in no profile
            await self._writer.do(lambda state: learn(state, lane.user, lane.clearance, text))

    async def close(self) -> None:
        """Let what was begun come to its end."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
