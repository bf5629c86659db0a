"""Which tools a turn is not offered, because they could do nothing in it."""

import sqlite3
from collections.abc import Collection
from functools import lru_cache

from foreword.gateway.inbox import Claimed
from foreword.gateway.schedule.destination import find_address
from foreword.gateway.writer import Writer
from foreword.tools import SCHEDULING
from foreword.tools.scheduling import CREATE, NOTIFY
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
        if incoming.user not in config.users:
            return SCHEDULING.names | {NOTIFY}
        useless = {CREATE} if incoming.errand else set()
        address = find_address(state, config, incoming.user, self._channels)
        if address is None or address == (incoming.through or incoming.channel, incoming.address):
            useless.add(NOTIFY)
        return frozenset(useless)


@lru_cache(maxsize=256)
def leave_out(tools: Toolset, names: frozenset[str]) -> Toolset:
    """Leave some tools out; the same ones give the same object, so that no prompt is made anew for it."""
    return Toolset.in_order(tool for tool in tools.tools if tool.name not in names) if names else tools
