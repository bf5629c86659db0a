"""Delegation: runs a subagent with the minimal prompt, the caller's clearance and no history.

The subagent's steps appear below the tool call in the trace, and its cost counts towards the turn. It has the tools of
its agent, except those that change something, the caller's tasks and workflow, and delegation itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from foreword.agent.agent_events import TurnEnd
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.tool_calls import CURRENT_CALL, Toolbox
from foreword.agent.tools.registry import DELEGATE_TOOL
from foreword.agent.tools.state_tools import TASK_TOOLS, WORKFLOW_TOOLS
from foreword.assembly import Assembly
from foreword.errors import InputError, ToolError, UnknownName
from foreword.turn import Extension, ToolAnswer, Toolset, Turn
from foreword.types import Mode, frozen
from foreword.workspace import Workspace


@frozen
class SubagentMeans:
    """What subagents run with."""

    loop: AgentLoop
    toolbox: Toolbox
    assemble: Callable[[Turn], Awaitable[Assembly]]


class Delegation:
    """Runs subagents."""

    def __init__(self, workspace: Workspace, choose: Callable[[str], Awaitable[str]]) -> None:
        self._workspace = workspace
        self._choose = choose
        self.means: SubagentMeans | None = None
        """Set after construction, because the loop also runs this tool."""

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run a subagent on a task; return its report."""
        task, agents = str(arguments["task"]).strip(), self._workspace.config.agents
        agent = str(arguments.get("agent") or assembly.turn.agent)
        if not task:
            raise InputError("say what is to be done")
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        means = self.means
        if means is None or CURRENT_CALL.get(None) is None:
            raise InputError(f"{name} works within a turn only")
        turn = replace(make_subturn(assembly, agent, task), model=await self._choose(agent))
        sub = await means.assemble(give_subagent_tools(turn, *await means.toolbox.find(agent)))
        outcome = await means.loop.run(TurnInput(assembly=sub, apart=True), CURRENT_CALL.get())
        if outcome.end is not TurnEnd.ANSWERED:
            raise ToolError(f"the helper came to no end: {outcome.text}")
        return ToolAnswer(text=outcome.text, tokens=assembly.meter.count(outcome.text))


def give_subagent_tools(turn: Turn, tools: Toolset, extensions: tuple[Extension, ...]) -> Turn:
    """Give a subagent the read-only tools of its agent."""
    kept = {*TASK_TOOLS.names, *WORKFLOW_TOOLS.names, DELEGATE_TOOL}
    harmless = [tool for tool in tools.tools if not tool.changes and tool.name not in kept]
    return replace(turn, tools=Toolset(harmless), extensions=extensions)


def make_subturn(assembly: Assembly, agent: str, task: str) -> Turn:
    """Make the turn of a subagent: same person and place, no history."""
    turn = assembly.turn
    return Turn(
        agent=agent,
        user=turn.user,
        channel=turn.channel,
        room=turn.room,
        situation=turn.situation,
        ceiling=turn.ceiling,
        session=turn.session,
        message=task,
        mode=Mode.MINIMAL,
        now=turn.now,
    )
