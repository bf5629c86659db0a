"""Equips a turn: its tools, its model, and the tasks of its session."""

import asyncio
from collections.abc import Sequence

from foreword.frozen import frozen
from foreword.gateway.inbox import Claimed
from foreword.gateway.preparing import Equipment
from foreword.runtime.acting import Beside, BuiltIn, Tools
from foreword.runtime.loop import Finds
from foreword.tools import WITH_LOG
from foreword.turn import Tool, Toolset
from foreword.workspace import Workspace


@frozen
class Extra:
    """A tool of one's own, and what runs it."""

    tool: Tool
    runs: Tools


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(self, workspace: Workspace, models: Finds, extras: Sequence[Extra] = ()) -> None:
        self._workspace = workspace
        self._models = models
        self._found: set[str] = set()
        self._toolset = Toolset([*WITH_LOG.tools, *(extra.tool for extra in extras)])
        self.tools: Tools = Beside({extra.tool.name: extra.runs for extra in extras}, BuiltIn(workspace))

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        agent = self._workspace.config.agents[claimed.session.lane.agent]
        model = claimed.session.model or agent.model
        if model not in self._found:  # a provider's client takes seconds to import
            await asyncio.to_thread(self._models.find, model)
            self._found.add(model)
        return Equipment(tools=self._toolset, model=model)
