"""The prompt of SPEC-010 as one function: no workspace, no files, every text an argument."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from foreword.config.schema import Agent
from foreword.errors import InputError
from foreword.facts import find_zone
from foreword.standalone import build_prompt, make_identity, make_tools
from foreword.turn import Client, Turn

NAME = "spec010"
FIELDS = ("name", "vibe", "description")


def build_agent_prompt(  # noqa: PLR0917 - the signature is the specification's own
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
    treated like the web. Without a time zone the server's is used; one that does not exist is UTC. Raise BudgetError
    if a section does not fit.
    """
    if isinstance(tool_names, str):
        raise InputError(f"tool_names is a list of names, not {tool_names!r}; a single one is [{tool_names!r}]")
    turn = Turn(
        channel=channel or "",
        instructions=user_instructions or "",
        client=Client(zone=timezone or find_zone()),
        tools=make_tools(tool_names),
        now=now,
    )
    return build_prompt(NAME, turn, Agent(soul=soul or "", identity=make_identity(identity, FIELDS)))
