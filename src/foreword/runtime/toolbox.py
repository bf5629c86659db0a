"""The toolbox: everything that an agent can call, in one place, and where each call goes.

toolbox = Toolbox(workspace, servers, (Further(tools=TASKS, runs=tasks),))
tools, extensions = await toolbox.find("reid")
turn = Turn(agent="reid", tools=tools, extensions=extensions, …)
loop = Loop(workspace, models, listeners, tools=toolbox)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foreword.assembly import Assembly
from foreword.config.schema import Directory
from foreword.frozen import frozen
from foreword.runtime.acting import BuiltIn, Tools
from foreword.runtime.servers import Servers
from foreword.tools import Answer, Reading
from foreword.tools.equipped import find_own
from foreword.turn import Extension, Toolset
from foreword.workspace import Workspace

MAX_TOOLSETS = 256  # that are the same object again


@frozen
class Further:
    """Tools beside the built-in ones, and who runs them."""

    tools: Toolset
    runs: Tools


class Toolbox:
    """The tools of every agent of a workspace."""

    def __init__(self, workspace: Workspace, servers: Servers | None = None, further: Sequence[Further] = ()) -> None:
        self._workspace = workspace
        self._servers = servers
        self._further = further
        self._built_in = BuiltIn(workspace)
        self._made: dict[Toolset, Toolset] = {}

    async def find(
        self, agent: str, directories: Sequence[str] = (), session: str = ""
    ) -> tuple[Toolset, tuple[Extension, ...]]:
        """Find the tools of an agent, and what its servers say of theirs; a turn may bring directories of its own.

        As long as nothing changes it is the same object, so that what a prompt is made of is not computed again. A
        session keeps the tools of servers that it was begun with.
        """
        given = (*self._workspace.config.agents[agent].folders, *(Directory(path=path) for path in directories))
        own = [*find_own(given).tools]
        own += [tool for one in self._further for tool in one.tools.tools]
        extensions: tuple[Extension, ...] = ()
        if self._servers:
            theirs, extensions = await self._servers.list(agent, frozenset(tool.name for tool in own), session)
            own += theirs
        found = Toolset(own)
        if found not in self._made and len(self._made) >= MAX_TOOLSETS:
            self._made.clear()
        return self._made.setdefault(found, found), extensions

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        """Run one tool at the clearance of its turn."""
        for one in self._further:
            if name in one.tools:
                return await one.runs.call(assembly, name, arguments)
        if self._servers and self._servers.runs(assembly.turn.agent, name):
            return await self._servers.call(assembly, name, arguments)
        return await self._built_in.call(assembly, name, arguments)
