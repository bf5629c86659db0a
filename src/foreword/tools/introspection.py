"""Tools by which an agent asks what went on: status, logs, the trace of a turn, and cost.

What runs them is in `foreword.tools.inquiry`, which is imported when one of them is called.
"""

from collections.abc import Mapping
from typing import Any

from foreword.events.kinds import KINDS
from foreword.turn import Tool, Toolset
from foreword.words import Trust

FEW = 20  # events of one answer, unless the model says how many
TEXT: Mapping[str, Any] = {"type": "string"}
SINCE = {**TEXT, "description": "From when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30."}
UNTIL = {**TEXT, "description": "Up to when, written as since; a day is meant whole."}


def make_tool(name: str, description: str, needed: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> Tool:
    """Make a tool that everybody may have who is more than a stranger."""
    parameters = {"type": "object", "properties": properties, "required": list(needed)}
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        trust=Trust.FAMILIAR,
        kind="introspection",
        seconds=20,
    )


INTROSPECTION = Toolset(
    [
        make_tool(
            "foreword_status",
            "Say how things are: channels with their last message and errors, sessions, memory, the newest errors.",
        ),
        make_tool(
            "foreword_logs",
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
            "foreword_trace",
            "Show everything that one turn did, as a tree with times, tokens, cost and errors.",
            ("turn",),
            turn={**TEXT, "description": "The id that foreword_logs shows as turn=…."},
        ),
        make_tool(
            "foreword_cost",
            "Say what was spent: in all, on average for a turn, and by day, session, user, agent, channel and so on.",
            by={**TEXT, "enum": list(KINDS), "description": "What to sum by; day if left out."},
            since={**SINCE, "description": f"{SINCE['description']} today if left out."},
            until=UNTIL,
        ),
    ]
)
