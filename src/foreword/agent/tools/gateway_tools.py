"""The schedule tools and the notification tool. The gateway runs them.

The delegate tool: gives work to a helper agent. The gateway runs it.
"""

from foreword.turn import Tool, Toolset
from foreword.types import Delivery, Trust

DELEGATE_TOOL = "delegate"
DELEGATION_TOOLS = Toolset(
    [
        Tool(
            name=DELEGATE_TOOL,
            description="Give a self-contained piece of work to a helper agent, and get its report.",
            parameters={
                "type": "object",
                "properties": {
                    "task": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Everything the helper has to know; it sees nothing of this conversation.",
                    },
                    "agent": {"type": "string", "description": "Which agent helps; left out, one like yourself."},
                },
                "required": ["task"],
            },
            trust=Trust.FAMILIAR,
            kind="delegation",
            seconds=600.0,
        )
    ]
)


CREATE_SCHEDULE, LIST_SCHEDULES, CANCEL_SCHEDULE, NOTIFY_USER = (
    "schedule_create",
    "schedule_list",
    "schedule_cancel",
    "notify_user",
)
MAX_SAY_CHARS, MAX_NOTICE_CHARS, MAX_SCHEDULE_NAME_CHARS = 4_000, 2_000, 60  # characters

SCHEDULE_TOOLS = Toolset(
    [
        Tool(
            name=CREATE_SCHEDULE,
            description=(
                "Plan a later run of yourself for this person, once or again and again: you are told the text at that "
                "time, and your reply is delivered here. Give either cron or at."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "say": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_SAY_CHARS,
                        "description": "What you will be told; you will know nothing else of this conversation.",
                    },
                    "cron": {
                        "type": "string",
                        "description": "Minute, hour, day, month and weekday, such as 0 8 * * 1-5.",
                    },
                    "at": {
                        "type": "string",
                        "description": "Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00.",
                    },
                    "zone": {"type": "string", "description": "The time zone; the person's own if left out."},
                    "name": {
                        "type": "string",
                        "maxLength": MAX_SCHEDULE_NAME_CHARS,
                        "description": "What it is known by.",
                    },
                    "delivery": {
                        "type": "string",
                        "enum": [str(one) for one in Delivery],
                        "description": "What happens with the reply; always if left out.",
                    },
                },
                "required": ["say"],
                "additionalProperties": False,
            },
            trust=Trust.FAMILIAR,
            kind="schedule",
            changes=True,
            confirm=False,  # it acts for the calling person only, and its runs hold calls that need approval
            seconds=20,
        ),
        Tool(
            name=LIST_SCHEDULES,
            description="List this person's schedules, with their ids and when each is due next.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
            trust=Trust.FAMILIAR,
            kind="schedule",
            seconds=20,
        ),
        Tool(
            name=CANCEL_SCHEDULE,
            description="Cancel one of this person's schedules.",
            parameters={
                "type": "object",
                "properties": {"schedule": {"type": "string", "description": "Its id, as schedule_list gives it."}},
                "required": ["schedule"],
                "additionalProperties": False,
            },
            trust=Trust.FAMILIAR,
            kind="schedule",
            changes=True,
            confirm=False,  # it acts for the calling person only, and its runs hold calls that need approval
            seconds=20,
        ),
    ]
)
NOTIFICATION_TOOLS = Toolset(
    [
        Tool(
            name=NOTIFY_USER,
            description="Send this person a short notice in private, at the address they used last.",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": MAX_NOTICE_CHARS}},
                "required": ["text"],
                "additionalProperties": False,
            },
            trust=Trust.FAMILIAR,
            kind="messages",
            changes=True,
            confirm=False,  # it reaches the calling person only
            seconds=20,
        )
    ]
)
