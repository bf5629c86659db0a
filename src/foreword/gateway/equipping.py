"""Equips a turn: its tools and its model."""

from foreword.gateway.choices import Choices
from foreword.gateway.inbox import Claimed
from foreword.gateway.offering import Offering
from foreword.gateway.preparing import Equipment
from foreword.runtime.toolbox import Toolbox


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(self, choices: Choices, toolbox: Toolbox, offering: Offering) -> None:
        self._choices = choices
        self._toolbox = toolbox
        self._offering = offering

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        session = claimed.session
        model = await self._choices.choose(session.lane.agent, session.model)
        tools, extensions = await self._toolbox.find(session.lane.agent)
        tools = await self._offering.offer(claimed, tools)
        return Equipment(tools=tools, extensions=extensions, model=model)
