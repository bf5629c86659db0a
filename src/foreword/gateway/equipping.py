"""Equips a turn: its tools and its model, and the facts of the place it works in."""

from foreword.gateway.choices import Choices
from foreword.gateway.inbox import Claimed
from foreword.gateway.offering import Offering
from foreword.gateway.preparing import Equipment
from foreword.gateway.repository import Repositories
from foreword.runtime.toolbox import Toolbox
from foreword.turn import Git, Host
from foreword.words import Trust

PLACED = Trust.INNER  # the least clearance that is told of a project and of the machine


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(
        self,
        choices: Choices,
        toolbox: Toolbox,
        offering: Offering,
        *,
        host: Host | None = None,
        repositories: Repositories | None = None,
    ) -> None:
        self._choices = choices
        self._toolbox = toolbox
        self._offering = offering
        self._host = host
        self._repositories = repositories or Repositories()

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        session = claimed.session
        model = await self._choices.choose(session.lane.agent, session.model)
        tools, extensions = await self._toolbox.find(session.lane.agent)
        offered = await self._offering.offer(claimed, tools)
        git = await self._find_git(claimed)
        return Equipment(tools=offered, extensions=extensions, model=model, git=git, host=self._host)

    async def _find_git(self, claimed: Claimed) -> Git | None:
        """Find the state of the project's repository, for who may know of it."""
        project = claimed.incoming.project
        if not project or claimed.session.lane.clearance < PLACED:
            return None
        return await self._repositories.find(project)
