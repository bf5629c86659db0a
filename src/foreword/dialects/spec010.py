"""The prompt function of SPEC-010: without a workspace, with every text as an argument."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from foreword.config.schema import Agent
from foreword.dialects import build_prompt, make_identity, make_tools
from foreword.errors import InputError
from foreword.host import find_host_zone
from foreword.turn import Client, Turn

SPEC010 = "spec010"
SPEC010_IDENTITY = ("name", "vibe", "description")


def build_agent_prompt(  # noqa: PLR0917 - the specification defines the signature
    soul: str,
    identity: Mapping[str, str] | None,
    channel: str,
    user_instructions: str | None,
    timezone: str | None = None,
    tool_names: Sequence[str] | None = None,
    *,
    now: datetime | None = None,
) -> str:
    """Assemble the prompt of an agent from its soul, its identity, the channel, the user's instructions and its tools.

    Without a soul the agent is a helpful assistant; without an identity that section is left out. An unknown channel is
    treated like the web. Without a time zone the server's is used; an unknown one becomes UTC. Raise BudgetError if a
    section does not fit.
    """
    if isinstance(tool_names, str):
        raise InputError(f"tool_names must be a list of names, not {tool_names!r}; use [{tool_names!r}]")
    turn = Turn(
        channel=channel or "",
        instructions=user_instructions or "",
        client=Client(zone=timezone or find_host_zone()),
        tools=make_tools(tool_names),
        now=now,
    )
    return build_prompt(SPEC010, turn, Agent(soul=soul or "", identity=make_identity(identity, SPEC010_IDENTITY)))
