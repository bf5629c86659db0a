"""The registry of tools: the toolsets of this package, and those of each agent of a workspace."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from foreword.agent.tools import file_tools, log_tools, memory_tools, reading_tools, state_tools
from foreword.agent.tools.declaration import PythonFunction, ToolRun
from foreword.assembly import Assembly
from foreword.config.schema import Directory
from foreword.errors import UnknownName
from foreword.events.event import EventType
from foreword.events.tracer import TraceNode
from foreword.turn import Extension, Tool, ToolAnswer, Toolset
from foreword.types import Trust

if TYPE_CHECKING:
    from foreword.agent.mcp_servers import McpServers
    from foreword.workspace import Workspace

MAX_TOOLSETS = 256  # interned toolsets
BUILT_IN = Toolset([*reading_tools.READING_TOOLS.tools, *memory_tools.MEMORY_TOOLS.tools])
WITH_LOG = Toolset([*BUILT_IN.tools, *log_tools.LOG_TOOLS.tools])
"""For agents with an event log."""
WITH_STATE = Toolset([*WITH_LOG.tools, *state_tools.STATE_TOOLS.tools])
"""For agents with sessions."""
MEMORY_EVENTS = {
    "memory_search": EventType.MEMORY_SEARCH,
    "save_memory": EventType.MEMORY_WRITE,
    "share_memory": EventType.MEMORY_WRITE,
    "forget_memory": EventType.MEMORY_WRITE,
    "update_instructions": EventType.MEMORY_WRITE,
}


class Toolbox:
    """The tools of every agent of a workspace: the built-in ones, further ones, and those of MCP servers."""

    def __init__(
        self, workspace: "Workspace", servers: "McpServers | None" = None, further: Iterable[Tool] = ()
    ) -> None:
        self._workspace = workspace
        self._servers = servers
        self._further = tuple(further)
        Toolset([*make_workspace_tools(Trust.FULL).tools, *self._further])  # refuses two tools with one name
        self._made: dict[Toolset, Toolset] = {}

    async def find(
        self, agent: str, directories: Sequence[str] = (), session: str = ""
    ) -> tuple[Toolset, tuple[Extension, ...]]:
        """Return the tools of an agent and the instructions of its MCP servers; a turn may add directories.

        Equal toolsets are the same object, so that derived prompt parts are not computed again. A session keeps the
        MCP tools that it started with.
        """
        given = (*self._workspace.config.agents[agent].folders, *(Directory(path=path) for path in directories))
        own = [*find_workspace_tools(given).tools, *self._further]
        extensions: tuple[Extension, ...] = ()
        if self._servers:
            theirs, extensions = await self._servers.list(agent, frozenset(tool.name for tool in own), session)
            own += theirs
        found = Toolset(own)
        if found not in self._made and len(self._made) >= MAX_TOOLSETS:
            self._made.clear()
        return self._made.setdefault(found, found), extensions


def call_built_in_tool(
    workspace: "Workspace", assembly: Assembly, name: str, arguments: Mapping[str, Any]
) -> ToolAnswer:
    """Run a tool that the turn offers and that needs no event loop, after a check of its arguments."""
    runnable = {tool.name: tool.function for tool in assembly.tools.tools if isinstance(tool.function, PythonFunction)}
    tool, function = assembly.tools.find(name), runnable.get(name)
    if tool is None or function is None or function.is_async:
        raise UnknownName("tool", name, [one for one, runs in runnable.items() if not runs.is_async])
    values = function.read(tool, arguments)
    return function.call_now(ToolRun(workspace=workspace, assembly=assembly, name=name), values)


def find_workspace_tools(given: Iterable[Directory]) -> Toolset:
    """Return the workspace tools of an agent with these directories; equal toolsets are the same object."""
    return make_workspace_tools(min((one.trust for one in given), default=None))


@lru_cache
def make_workspace_tools(least: Trust | None) -> Toolset:
    """Make the workspace tools; file tools exist only with a directory, and need at least its trust."""
    files: Iterable[Tool] = ()
    if least is not None:
        files = (replace(tool, trust=max(tool.trust, least)) for tool in file_tools.FILE_TOOLS.tools)
    return Toolset([*WITH_STATE.tools, *reading_tools.SKILL_TOOLS.tools, *files])


def give_built_in_tools(assembly: Assembly) -> Assembly:
    """Replace the tools of a turn with the built-in tools that the person's clearance allows."""
    toolkit = replace(assembly.inputs.toolkit, tools=BUILT_IN.allowed(assembly.clearance.level))
    return replace(assembly, inputs=replace(assembly.inputs, toolkit=toolkit))


@lru_cache(maxsize=256)
def remove_tools(tools: Toolset, names: frozenset[str]) -> Toolset:
    """Remove tools by name; equal arguments return the same object, so that prompts stay cached."""
    return Toolset.in_order(tool for tool in tools.tools if tool.name not in names) if names else tools


def record_memory_event(node: TraceNode, name: str, answer: ToolAnswer, **arguments: Any) -> None:
    """Record an event for a tool that searches or changes memory, without its text.

    The arguments of the call are given only if the configuration records them.
    """
    if name in MEMORY_EVENTS:
        node.emit(MEMORY_EVENTS[name], store=answer.store, count=answer.count, **arguments)
