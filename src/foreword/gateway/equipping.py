"""Equips a turn: its tools, its model, and the tasks of its session."""

from foreword.gateway.choices import Choices
from foreword.gateway.inbox import Claimed
from foreword.gateway.preparing import Equipment
from foreword.gateway.writer import Writer
from foreword.runtime.toolbox import Toolbox
from foreword.store.tasks import find_bound, read_tasks
from foreword.turn import State


class Equipping:
    """Finds what the turns of a workspace work with."""

    def __init__(self, choices: Choices, toolbox: Toolbox, writer: Writer) -> None:
        self._choices = choices
        self._toolbox = toolbox
        self._writer = writer

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""
        session = claimed.session
        model = await self._choices.choose(session.lane.agent, session.model)
        tools, extensions = await self._toolbox.find(session.lane.agent)
        tasks = await self._writer.do(lambda state: read_tasks(state, session.id))
        return Equipment(
            tools=tools,
            extensions=extensions,
            model=model,
            task=find_bound(tasks),
            state=State(tasks=tasks),
        )
