"""Delegation: a piece of work for a subagent, with the minimal prompt, the asker's clearance and nothing of the past.

What it does stands below the call in the trace, and its cost is part of the turn's. It has the tools of the agent that
it is, but none that changes something, the asker's tasks and workflow among it, and none to delegate further.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName
from foreword.frozen import frozen
from foreword.runtime.acting import HERE
from foreword.runtime.failing import ToolFailed
from foreword.runtime.loop import Loop, Work
from foreword.runtime.outcome import End
from foreword.runtime.toolbox import Toolbox
from foreword.tools import DELEGATE, TASKS, WORKFLOWS, Answer
from foreword.turn import Extension, Toolset, Turn
from foreword.words import Mode
from foreword.workspace import Workspace


@frozen
class Means:
    """What subagents are run with."""

    loop: Loop
    toolbox: Toolbox
    assemble: Callable[[Turn], Awaitable[Assembly]]


class Delegating:
    """Runs subagents."""

    def __init__(self, workspace: Workspace, choose: Callable[[str], Awaitable[str]]) -> None:
        self._workspace = workspace
        self._choose = choose
        self.means: Means | None = None
        """What runs them; set once it is made, since it runs this tool, too."""

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Have a subagent do a piece of work, and return its report."""
        task, agents = str(arguments["task"]).strip(), self._workspace.config.agents
        agent = str(arguments.get("agent") or assembly.turn.agent)
        if not task:
            raise InputError("say what is to be done")
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        means = self.means
        if means is None or HERE.get(None) is None:
            raise InputError(f"{name} works within a turn only")
        turn = replace(make_subturn(assembly, agent, task), model=await self._choose(agent))
        sub = await means.assemble(equip(turn, *await means.toolbox.find(agent)))
        outcome = await means.loop.run(Work(assembly=sub, apart=True), HERE.get())
        if outcome.end is not End.ANSWERED:
            raise ToolFailed(f"the helper came to no end: {outcome.text}")
        return Answer(text=outcome.text, tokens=assembly.terms.meter.count(outcome.text))


def equip(turn: Turn, tools: Toolset, extensions: tuple[Extension, ...]) -> Turn:
    """Give a subagent the tools of its agent, as far as they change nothing."""
    kept = {*TASKS.names, *WORKFLOWS.names, DELEGATE}
    harmless = [tool for tool in tools.tools if not tool.changes and tool.name not in kept]
    return replace(turn, tools=Toolset(harmless), extensions=extensions)


def make_subturn(assembly: Assembly, agent: str, task: str) -> Turn:
    """Make the turn of a subagent: the same person in the same place, and nothing of what was said."""
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
