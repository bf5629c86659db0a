"""The tool by which an agent gives a piece of work to another; the gateway runs it."""

from foreword.turn import Tool, Toolset
from foreword.words import Trust

DELEGATE = "delegate"
DELEGATING = Toolset(
    [
        Tool(
            name=DELEGATE,
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
