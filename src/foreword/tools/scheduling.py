"""The tools by which an agent plans later runs for its user and tells them something; the gateway runs them."""

from foreword.turn import Tool, Toolset
from foreword.words import Delivery, Trust

CREATE, LIST, CANCEL, NOTIFY = "schedule_create", "schedule_list", "schedule_cancel", "notify_user"
LONGEST_SAY, LONGEST_NOTICE, LONGEST_NAME = 4_000, 2_000, 60  # characters

SCHEDULING = Toolset(
    [
        Tool(
            name=CREATE,
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
                        "maxLength": LONGEST_SAY,
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
                    "name": {"type": "string", "maxLength": LONGEST_NAME, "description": "What it is known by."},
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
            confirm=False,  # it acts for the one in whose name it is called, and its runs hold what needs a yes
            seconds=20,
        ),
        Tool(
            name=LIST,
            description="List this person's schedules, with their ids and when each is due next.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
            trust=Trust.FAMILIAR,
            kind="schedule",
            seconds=20,
        ),
        Tool(
            name=CANCEL,
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
            confirm=False,  # it acts for the one in whose name it is called, and its runs hold what needs a yes
            seconds=20,
        ),
    ]
)
NOTIFYING = Toolset(
    [
        Tool(
            name=NOTIFY,
            description="Send this person a short notice in private, at the address they used last.",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": LONGEST_NOTICE}},
                "required": ["text"],
                "additionalProperties": False,
            },
            trust=Trust.FAMILIAR,
            kind="messages",
            changes=True,
            confirm=False,  # it reaches nobody but the one in whose name it is called
            seconds=20,
        )
    ]
)
