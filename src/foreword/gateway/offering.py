"""Which tools a turn is not offered, because they could do nothing in it."""

import sqlite3
from collections.abc import Collection

from foreword.gateway.inbox import Claimed
from foreword.gateway.schedule.destination import find_address
from foreword.gateway.writer import Writer
from foreword.tools.equipped import find_useless, leave_out
from foreword.turn import Toolset
from foreword.workspace import Workspace


class Offering:
    """Finds what a turn is offered of the tools of its agent."""

    def __init__(self, workspace: Workspace, writer: Writer, channels: Collection[str]) -> None:
        self._workspace = workspace
        self._writer = writer
        self._channels = channels

    async def offer(self, claimed: Claimed, tools: Toolset) -> Toolset:
        """Leave out what is of no use: notices that arrive where the reply does or nowhere, and plans for nobody."""
        return leave_out(tools, await self._writer.look(lambda state: self._find_useless(state, claimed)))

    def _find_useless(self, state: sqlite3.Connection, claimed: Claimed) -> frozenset[str]:
        incoming, config = claimed.incoming, self._workspace.config
        known = incoming.user in config.users
        address = find_address(state, config, incoming.user, self._channels) if known else None
        reached = address not in (None, (incoming.through or incoming.channel, incoming.address))
        return find_useless(known=known, planned=bool(incoming.errand), reached=reached)
