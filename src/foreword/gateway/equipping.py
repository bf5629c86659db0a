"""Equips a turn: its tools and its model, and the facts of the place it works in."""

import asyncio
from collections.abc import Callable

from foreword.gateway.choices import Choices
from foreword.gateway.inbox import Claimed
from foreword.gateway.offering import Offering
from foreword.gateway.preparing import Equipment
from foreword.gateway.projects import find_project, list_roots
from foreword.gateway.repository import Repositories
from foreword.runtime.toolbox import Toolbox
from foreword.turn import Git, Host, Sandbox
from foreword.words import Trust
from foreword.workspace import Workspace

PLACED = Trust.INNER  # the least clearance that is told of a project and of the machine


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(
        self,
        workspace: Workspace,
        choices: Choices,
        toolbox: Toolbox,
        offering: Offering,
        *,
        place: Callable[[], tuple[Host | None, Sandbox | None]] = lambda: (None, None),
        repositories: Repositories | None = None,
    ) -> None:
        self._workspace = workspace
        self._choices = choices
        self._toolbox = toolbox
        self._offering = offering
        self._place = place
        self._placed = False
        self._repositories = repositories or Repositories()

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        session = claimed.session
        model = await self._choices.choose(session.lane.agent, session.model)
        tools, extensions = await self._toolbox.find(session.lane.agent, session=session.id)
        offered = await self._offering.offer(claimed, tools)
        lane, named = session.lane, claimed.incoming.project or session.project
        project = find_project(named, claimed.incoming.channel, lane.agent, lane.clearance, self._workspace)
        git = await self._find_git(claimed, project.path)
        # The first look may try a program; the answer is remembered.
        host, sandbox = self._place() if self._placed else await asyncio.to_thread(self._place)
        self._placed = True
        return Equipment(
            tools=offered, extensions=extensions, model=model, project=project, git=git, host=host, sandbox=sandbox
        )

    async def _find_git(self, claimed: Claimed, project: str) -> Git | None:
        """Find the state of the repository that the turn works in, for people who may know of it."""
        lane = claimed.session.lane
        if lane.clearance < PLACED:
            return None
        roots = list_roots(lane.agent, lane.clearance, self._workspace.config, self._workspace.files.root)
        place = project or claimed.incoming.cwd or next(iter(roots), "")
        return await self._repositories.find(place) if place else None
