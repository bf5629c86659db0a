"""Equips a turn: its tools, its model, and the tasks of its session."""

from foreword.gateway.inbox import Claimed
from foreword.gateway.preparing import Equipment
from foreword.runtime.acting import BuiltIn, Tools
from foreword.tools import WITH_LOG
from foreword.workspace import Workspace


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.tools: Tools = BuiltIn(workspace)

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        agent = self._workspace.config.agents[claimed.session.lane.agent]
        return Equipment(tools=WITH_LOG, model=claimed.session.model or agent.model)
