"""The tool declarations of an agent in a gateway, available without a running gateway.

The built-in tools: reading, memory, session state, files, skills, schedules and the event log. Events of the memory
tools: store, and number of passages or entries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from foreword.agent.tools.file_tools import FILE_TOOLS
from foreword.agent.tools.gateway_tools import (
    CREATE_SCHEDULE,
    DELEGATION_TOOLS,
    NOTIFICATION_TOOLS,
    NOTIFY_USER,
    SCHEDULE_TOOLS,
)
from foreword.agent.tools.log_tools import LOG_TOOLS
from foreword.agent.tools.memory_tools import MEMORY_TOOLS
from foreword.agent.tools.reading_tools import READING_TOOLS, SKILL_TOOLS
from foreword.agent.tools.state_tools import INSTRUCTIONS_TOOLS, RESPONSIBILITY_TOOLS, TASK_TOOLS, WORKFLOW_TOOLS
from foreword.assembly import Assembly
from foreword.config.schema import Directory
from foreword.events.event import EventType
from foreword.events.tracer import TraceNode
from foreword.turn import Tool, ToolAnswer, Toolset
from foreword.types import Trust

BUILT_IN = Toolset([*READING_TOOLS.tools, *MEMORY_TOOLS.tools])
WITH_LOG = Toolset([*BUILT_IN.tools, *LOG_TOOLS.tools])  # for agents with an event log
STATE_TOOLSETS = (INSTRUCTIONS_TOOLS, TASK_TOOLS, WORKFLOW_TOOLS, RESPONSIBILITY_TOOLS)
WITH_STATE = Toolset(
    [*WITH_LOG.tools, *(tool for one in STATE_TOOLSETS for tool in one.tools)]
)  # for agents with sessions


GATEWAY_TOOLSETS = (DELEGATION_TOOLS, SCHEDULE_TOOLS, NOTIFICATION_TOOLS)
"""The tools that the gateway runs."""


def find_workspace_tools(given: Iterable[Directory]) -> Toolset:
    """Return the workspace tools of an agent with these directories; equal toolsets are the same object."""
    return make_workspace_tools(tuple(sorted({one.trust for one in given})))


def find_gateway_tools(given: Iterable[Directory]) -> Toolset:
    """Return all gateway tools of an agent with these directories, except those of MCP servers."""
    return Toolset([*find_workspace_tools(given).tools, *(tool for one in GATEWAY_TOOLSETS for tool in one.tools)])


@lru_cache(maxsize=16)
def make_workspace_tools(levels: tuple[Trust, ...]) -> Toolset:
    """Make the workspace tools; file tools need the lowest trust level of the directories, and exist only with one."""
    files = [raise_trust(tool, levels[0]) for tool in FILE_TOOLS.tools] if levels else []
    return Toolset([*WITH_STATE.tools, *SKILL_TOOLS.tools, *files])


def raise_trust(tool: Tool, least: Trust) -> Tool:
    """Return a file tool with the trust level that a directory needs, if it is higher."""
    return replace(tool, trust=max(tool.trust, least))


def give_built_in_tools(assembly: Assembly) -> Assembly:
    """Replace the tools of a turn with the built-in tools that the person's clearance allows."""
    allowed = BUILT_IN.allowed(assembly.clearance.level)
    toolkit = replace(assembly.terms.toolkit, tools=allowed)
    return replace(assembly, terms=replace(assembly.terms, toolkit=toolkit))


def find_unusable_tools(*, known: bool, planned: bool, reached: bool) -> frozenset[str]:
    """Return the names of the tools that have no effect in a turn.

    Unknown people have no schedules, scheduled runs cannot create schedules, and notices need an address other than
    that of the reply.
    """
    if not known:
        return SCHEDULE_TOOLS.names | NOTIFICATION_TOOLS.names
    return frozenset([*([CREATE_SCHEDULE] if planned else []), *([] if reached else [NOTIFY_USER])])


@lru_cache(maxsize=256)
def remove_tools(tools: Toolset, names: frozenset[str]) -> Toolset:
    """Remove tools by name; equal arguments return the same object, so that prompts stay cached."""
    return Toolset.in_order(tool for tool in tools.tools if tool.name not in names) if names else tools


NO_ARGUMENTS: Mapping[str, Any] = {}
MEMORY_EVENTS = {
    "memory_search": EventType.MEMORY_SEARCH,
    "save_memory": EventType.MEMORY_WRITE,
    "share_memory": EventType.MEMORY_WRITE,
    "forget_memory": EventType.MEMORY_WRITE,
    "update_instructions": EventType.MEMORY_WRITE,
}


def record_memory_event(
    teller: TraceNode, name: str, answer: object, arguments: Mapping[str, Any] = NO_ARGUMENTS
) -> None:
    """Record an event for a tool that searches or changes memory, without its text.

    `arguments` contains the arguments of the call if the configuration records them, else nothing.
    """
    if name in MEMORY_EVENTS and isinstance(answer, ToolAnswer):
        teller.tell(MEMORY_EVENTS[name], store=answer.store, count=answer.count, **arguments)
