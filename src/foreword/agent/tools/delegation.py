"""The delegation tool, which runs a subagent on a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from foreword.agent.tools.declaration import ToolRun, list_tools, tool
from foreword.assembly import Assembly
from foreword.errors import InputError, ToolError, UnknownName
from foreword.turn import ToolAnswer, Toolset, Turn
from foreword.types import Mode, Trust

if TYPE_CHECKING:
    from pydantic import Field

    from foreword.workspace import Workspace

EXCLUDED_KINDS = ("tasks", "workflow", "delegation")  # a subagent has no tools of these kinds


class Delegation:
    """Runs subagents with the minimal prompt, the caller's clearance and no history.

    The subagent's steps appear below the tool call in the trace, and its cost counts towards the turn. It has the tools
    of its agent, except those that change something, the caller's tasks and workflow, and delegation itself.
    """

    def __init__(
        self,
        workspace: Workspace,
        choose: Callable[[str], Awaitable[str]],
        assemble: Callable[[Turn], Awaitable[Assembly]],
    ) -> None:
        self._workspace = workspace
        self._choose = choose
        self._assemble = assemble

    @tool(kind="delegation", trust=Trust.FAMILIAR, seconds=600)
    async def delegate(
        self, run: ToolRun, task: Annotated[str, Field(min_length=1)], agent: str = "", **_: object
    ) -> ToolAnswer:
        """Give a self-contained piece of work to a helper agent, and get its report.

        Args:
            task: Everything the helper has to know; it sees nothing of this conversation.
            agent: Which agent helps; left out, one like yourself.
        """
        from foreword.agent.agent_events import TurnEnd
        from foreword.agent.loop import TurnInput, finish

        caller, agents, loop = run.turn, self._workspace.config.agents, run.loop
        agent = agent or caller.agent
        if not task.strip():
            raise InputError("'task' is blank; say what is to be done")
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        if loop is None or loop.toolbox is None or run.node is None:
            raise InputError(f"{run.name} works within a turn only")
        tools, extensions = await loop.toolbox.find(agent)
        turn = Turn(
            agent=agent,
            user=caller.user,
            channel=caller.channel,
            room=caller.room,
            situation=caller.situation,
            ceiling=caller.ceiling,
            session=caller.session,
            message=task.strip(),
            mode=Mode.MINIMAL,
            now=caller.now,
            model=await self._choose(agent),
            tools=Toolset(one for one in tools.tools if not one.changes and one.kind not in EXCLUDED_KINDS),
            extensions=extensions,
        )
        sub = await self._assemble(turn)
        work = TurnInput(assembly=sub, is_side_request=True, spending=run.spending)
        outcome = await finish(loop.run(work, run.node))
        if outcome.end is not TurnEnd.ANSWERED:
            raise ToolError(f"the helper came to no end: {outcome.text}")
        return run.answer(outcome.text)


DELEGATION_TOOLS = Toolset(list_tools(Delegation))
