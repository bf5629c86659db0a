"""The tools that ask the event log: status, logs, the trace of a turn, and cost.

`foreword.tools.inquiry` runs them and is imported with the first call.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from foreword.events.kinds import KINDS
from foreword.turn import Tool, Toolset
from foreword.words import Trust

KIND = "introspection"
FEW = 20  # events of one answer, unless the model says how many
TEXT: Mapping[str, Any] = {"type": "string"}
SINCE = {**TEXT, "description": "From when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30."}
UNTIL = {**TEXT, "description": "Up to when, written as since; a day is meant whole."}


def make_tool(name: str, description: str, needed: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> Tool:
    """Make a tool for everyone with familiar trust."""
    parameters = {"type": "object", "properties": properties, "required": list(needed)}
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        trust=Trust.FAMILIAR,
        kind=KIND,
        seconds=20,
    )


@lru_cache(maxsize=16)
def make_log_tools(prefix: str) -> Toolset:
    """Make the tools under names that begin with a prefix."""
    return Toolset(
        [
            make_tool(
                f"{prefix}_status",
                "Say how things are: channels with their last message and errors, sessions, memory, the newest errors.",
            ),
            make_tool(
                f"{prefix}_logs",
                "Find recorded events, the newest first, to see what happened or went wrong.",
                session_id={**TEXT, "description": "One session only."},
                level={**TEXT, "enum": ["info", "warn", "error"], "description": "This level and above."},
                event_type={**TEXT, "description": "One type only, such as api_error, tool_error or message_received."},
                user={**TEXT, "description": "One person only."},
                channel={**TEXT, "description": "One channel only."},
                since=SINCE,
                until=UNTIL,
                limit={"type": "integer", "minimum": 1, "description": f"How many events; {FEW} if left out."},
            ),
            make_tool(
                f"{prefix}_trace",
                "Show everything that one turn did, as a tree with times, tokens, cost and errors.",
                ("turn",),
                turn={**TEXT, "description": f"The id that {prefix}_logs shows as turn=…."},
            ),
            make_tool(
                f"{prefix}_cost",
                "Say what was spent: in all, on average for a turn, and by day, session, user, agent, channel "
                "and so on.",
                by={**TEXT, "enum": list(KINDS), "description": "What to sum by; day if left out."},
                since={**SINCE, "description": f"{SINCE['description']} today if left out."},
                until=UNTIL,
            ),
        ]
    )


INTROSPECTION = make_log_tools("foreword")


@lru_cache(maxsize=256)
def name_log_tools(tools: Toolset, prefix: str) -> Toolset:
    """Give the tools that ask the event log the names of a blueprint; the same arguments return the same object.

    A name that another tool of the turn has already is not taken.
    """
    renamed = {ours.name: theirs for ours, theirs in pair_log_tools(prefix) if theirs.name not in tools}
    if not renamed.keys() & tools.names:
        return tools
    return Toolset(renamed.get(tool.name, tool) for tool in tools.tools)


def is_log_tool(tools: Toolset, name: str) -> bool:
    """Whether a tool of a turn is one of these, under whichever name."""
    return any(tool.name == name and tool.kind == KIND for tool in tools.tools)


def pair_log_tools(prefix: str) -> Iterator[tuple[Tool, Tool]]:
    """Pair each tool with the same one under other names."""
    return zip(INTROSPECTION.tools, make_log_tools(prefix).tools, strict=True)
