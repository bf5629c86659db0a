"""The prompt of SPEC-010 as one function: no workspace, no files, everything handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from foreword.assemble import assemble
from foreword.blueprint import Blueprint
from foreword.blueprint import load as load_blueprint
from foreword.config.schema import Agent, Config, Identity, User
from foreword.shipped import read_blueprint
from foreword.sources import SOURCES
from foreword.sources.ground import Ground
from foreword.sources.nowhere import Nowhere
from foreword.tokens import Counter, Meter, find
from foreword.turn import Client, Tool, Toolset, Turn
from foreword.words import Mode, Trust, Vocabulary

NAME = "spec010"
AGENT, USER = "assistant", "user"


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

    Without a soul the agent is a helpful assistant, without an identity that section is left out, an unknown channel is
    treated like the web, and a time zone that is not known is UTC.
    """
    turn = Turn(
        agent=AGENT,
        user=USER,
        situation="dm",
        channel=channel or "",
        instructions=user_instructions or "",
        client=Client(zone=timezone or ""),
        tools=Toolset.in_order([Tool(name=name, trust=Trust.PUBLIC) for name in dict.fromkeys(tool_names or ())]),
        mode=Mode.FULL,
        now=now or datetime.now(UTC),
    )
    agent = Agent(blueprint=NAME, soul=soul or "", identity=read_identity(identity))
    config = Config(owner=USER, agents={AGENT: agent}, users={USER: User(trust=Trust.FULL)})
    ground = Ground(config=config, files=Nowhere(), measure=measure)
    return assemble(turn, ground, read_own_blueprint()).prompt.text.strip()


def read_identity(identity: Mapping[str, str] | None) -> Identity | None:
    """Take the fields that an identity may have; none at all is no identity."""
    if not identity:
        return None
    return Identity(**{name: str(identity.get(name) or "") for name in ("name", "vibe", "description")})


@cache
def read_own_blueprint() -> Blueprint:
    """Load the blueprint, once."""
    return load_blueprint(read_blueprint(NAME) or "", f"blueprints/{NAME}.yaml", SOURCES)


@cache
def measure(model: str) -> Meter:
    """Make the meter; a prompt by itself is counted as for a model that is not named, and no schemas travel with it."""
    return Meter(replace(find(model, {}), native_tools=False), Counter(Vocabulary.O200K))
