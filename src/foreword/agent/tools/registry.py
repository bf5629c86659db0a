"""The registry of tools: toolsets, the declarations of the gateway's tools, and the dispatch to built-in tools."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from foreword.agent.tools import file_tools, log_tools, memory_tools, reading_tools, state_tools
from foreword.agent.tools.built_in import (
    TextExcerpt,
    ToolFamily,
    ToolFunction,
    ToolRun,
    validate_arguments,
)
from foreword.assembly import Assembly
from foreword.config.schema import Directory
from foreword.errors import InputError, UnknownName
from foreword.events.event import EventType
from foreword.events.tracer import TraceNode
from foreword.turn import Tool, ToolAnswer, Toolset
from foreword.types import Delivery, Trust

if TYPE_CHECKING:
    from foreword.workspace import Workspace

DELEGATE_TOOL, CREATE_SCHEDULE, NOTIFY_USER = "delegate", "schedule_create", "notify_user"
LIST_SCHEDULES, CANCEL_SCHEDULE = "schedule_list", "schedule_cancel"
MAX_SAY_CHARS, MAX_NOTICE_CHARS, MAX_SCHEDULE_NAME_CHARS = 4_000, 2_000, 60  # characters

# The tools that the gateway runs. Those for schedules and notices need no approval: they act for the calling person
# only, and scheduled runs hold calls that need approval.
DELEGATION = ToolFamily("delegation", Trust.FAMILIAR, 600.0)
DELEGATION.declare(
    DELEGATE_TOOL,
    "Give a self-contained piece of work to a helper agent, and get its report.",
    {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "Everything the helper has to know; it sees nothing of this conversation.",
        },
        "agent": {"type": "string", "description": "Which agent helps; left out, one like yourself."},
    },
    ("task",),
)
SCHEDULES = ToolFamily("schedule", Trust.FAMILIAR, 20)
SCHEDULES.declare(
    CREATE_SCHEDULE,
    "Plan a later run of yourself for this person, once or again and again: you are told the text at that "
    "time, and your reply is delivered here. Give either cron or at.",
    {
        "say": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_SAY_CHARS,
            "description": "What you will be told; you will know nothing else of this conversation.",
        },
        "cron": {"type": "string", "description": "Minute, hour, day, month and weekday, such as 0 8 * * 1-5."},
        "at": {"type": "string", "description": "Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00."},
        "zone": {"type": "string", "description": "The time zone; the person's own if left out."},
        "name": {"type": "string", "maxLength": MAX_SCHEDULE_NAME_CHARS, "description": "What it is known by."},
        "delivery": {
            "type": "string",
            "enum": [str(delivery) for delivery in Delivery],
            "description": "What happens with the reply; always if left out.",
        },
    },
    ("say",),
    closed=True,
    changes=True,
    confirm=False,
)
SCHEDULES.declare(
    LIST_SCHEDULES,
    "List this person's schedules, with their ids and when each is due next.",
    {},
    None,
    closed=True,
)
SCHEDULES.declare(
    CANCEL_SCHEDULE,
    "Cancel one of this person's schedules.",
    {"schedule": {"type": "string", "description": "Its id, as schedule_list gives it."}},
    ("schedule",),
    closed=True,
    changes=True,
    confirm=False,
)
NOTIFICATIONS = ToolFamily("messages", Trust.FAMILIAR, 20)
NOTIFICATIONS.declare(
    NOTIFY_USER,
    "Send this person a short notice in private, at the address they used last.",
    {"text": {"type": "string", "minLength": 1, "maxLength": MAX_NOTICE_CHARS}},
    ("text",),
    closed=True,
    changes=True,
    confirm=False,
)
DELEGATION_TOOLS = DELEGATION.toolset
SCHEDULE_TOOLS = SCHEDULES.toolset
NOTIFICATION_TOOLS = NOTIFICATIONS.toolset

STATE_FAMILIES = (state_tools.INSTRUCTIONS, state_tools.TASKS, state_tools.WORKFLOW, state_tools.RESPONSIBILITIES)
FAMILIES = (reading_tools.READING, reading_tools.SKILLS, memory_tools.MEMORY, file_tools.FILES, *STATE_FAMILIES)
FUNCTIONS: Mapping[str, ToolFunction] = {
    name: function for family in FAMILIES for name, function in family.functions.items()
}
BUILT_IN = Toolset([*reading_tools.READING_TOOLS.tools, *memory_tools.MEMORY_TOOLS.tools])
WITH_LOG = Toolset([*BUILT_IN.tools, *log_tools.LOG_TOOLS.tools])
"""For agents with an event log."""
WITH_STATE = Toolset([*WITH_LOG.tools, *(tool for family in STATE_FAMILIES for tool in family.toolset.tools)])
"""For agents with sessions."""
GATEWAY_TOOLSETS = (DELEGATION_TOOLS, SCHEDULE_TOOLS, NOTIFICATION_TOOLS)
"""The tools that the gateway runs."""
MEMORY_EVENTS = {
    "memory_search": EventType.MEMORY_SEARCH,
    "save_memory": EventType.MEMORY_WRITE,
    "share_memory": EventType.MEMORY_WRITE,
    "forget_memory": EventType.MEMORY_WRITE,
    "update_instructions": EventType.MEMORY_WRITE,
}


def call_built_in_tool(
    workspace: "Workspace", assembly: Assembly, name: str, arguments: Mapping[str, Any]
) -> TextExcerpt | ToolAnswer:
    """Run a built-in tool that the turn offers, after a check of its arguments."""
    offered = {tool.name: tool for tool in assembly.tools.tools}
    function = find_function(offered[name]) if name in offered else None
    if function is None:
        raise UnknownName("tool", name, [tool.name for tool in offered.values() if find_function(tool)])
    if fault := validate_arguments(offered[name].parameters, arguments):
        raise InputError(fault)
    return function(ToolRun(workspace=workspace, assembly=assembly, name=name, arguments=arguments))


def find_function(tool: Tool) -> ToolFunction | None:
    """Return the function of a built-in tool; a blueprint may name the log tools differently."""
    return log_tools.run_log_tool if tool.kind == log_tools.LOG_TOOL_KIND else FUNCTIONS.get(tool.name)


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


def find_gateway_tools(given: Iterable[Directory]) -> Toolset:
    """Return all gateway tools of an agent with these directories, except those of MCP servers."""
    return Toolset([*find_workspace_tools(given).tools, *(tool for one in GATEWAY_TOOLSETS for tool in one.tools)])


def give_built_in_tools(assembly: Assembly) -> Assembly:
    """Replace the tools of a turn with the built-in tools that the person's clearance allows."""
    toolkit = replace(assembly.inputs.toolkit, tools=BUILT_IN.allowed(assembly.clearance.level))
    return replace(assembly, inputs=replace(assembly.inputs, toolkit=toolkit))


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


def record_memory_event(node: TraceNode, name: str, answer: object, **arguments: Any) -> None:
    """Record an event for a tool that searches or changes memory, without its text.

    The arguments of the call are given only if the configuration records them.
    """
    if name in MEMORY_EVENTS and isinstance(answer, ToolAnswer):
        node.emit(MEMORY_EVENTS[name], store=answer.store, count=answer.count, **arguments)
