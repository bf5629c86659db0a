"""The prompt of SPEC-010 as one function: no workspace, no files, everything handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from foreword.assemble import assemble
from foreword.blueprint import Blueprint
from foreword.blueprint import load as load_blueprint
from foreword.config.people import User
from foreword.config.schema import Agent, Config, Identity
from foreword.errors import BudgetError, InputError
from foreword.shipped import read_blueprint
from foreword.sources import SOURCES
from foreword.sources.ground import Ground
from foreword.sources.nowhere import Nowhere
from foreword.tokens import Counter, Meter, find
from foreword.turn import Client, Tool, Toolset, Turn
from foreword.words import Mode, Trust, Verdict, Vocabulary

NAME = "spec010"
AGENT, USER = "assistant", "user"
WINDOW = 2_000_000  # no model is named here, so what is handed in is cut for none


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
    treated like the web, and a time zone that is not known is UTC. What does not fit is a BudgetError.
    """
    turn = Turn(
        agent=AGENT,
        user=USER,
        situation="dm",
        channel=channel or "",
        instructions=user_instructions or "",
        client=Client(zone=timezone or ""),
        tools=name_tools(tool_names),
        mode=Mode.FULL,
        now=now or datetime.now(UTC),
    )
    agent = Agent(blueprint=NAME, soul=soul or "", identity=read_identity(identity))
    config = Config(owner=USER, agents={AGENT: agent}, users={USER: User(trust=Trust.FULL)})
    ground = Ground(config=config, files=Nowhere(), measure=measure)
    assembly = assemble(turn, ground, read_own_blueprint())
    if lost := [f"{row.id}: {row.reason}" for row in assembly.rows(Trust.FULL) if row.verdict is Verdict.DROPPED]:
        raise BudgetError(f"the prompt has no room for {'; '.join(lost)}")
    return assembly.prompt.text.strip()


def name_tools(names: Sequence[str] | None) -> Toolset:
    """Make tools of their names, each once, in the order that was given."""
    if isinstance(names, str):
        raise InputError(f"tool_names is a list of names, not {names!r}; a single one is [{names!r}]")
    return Toolset.in_order([Tool(name=name, trust=Trust.PUBLIC) for name in dict.fromkeys(names or ())])


def read_identity(identity: Mapping[str, str] | None) -> Identity | None:
    """Take the fields that an identity may have; none at all is no identity."""
    if not identity:
        return None
    if not isinstance(identity, Mapping):
        raise InputError(f"identity is a mapping with name, vibe and description, not {identity!r}")
    return Identity(**{name: str(identity.get(name) or "") for name in ("name", "vibe", "description")})


@cache
def read_own_blueprint() -> Blueprint:
    """Load the blueprint, once, with half of a large window for what is handed in."""
    blueprint = load_blueprint(read_blueprint(NAME) or "", f"blueprints/{NAME}.yaml", SOURCES)
    return replace(blueprint, budget=replace(blueprint.budget, system=WINDOW // 2, window_share=0.5))


@cache
def measure(model: str) -> Meter:
    """Make the meter; a prompt by itself is counted for a large window, and no schemas travel with it."""
    return Meter(replace(find(model, {}), window=WINDOW, native_tools=False), Counter(Vocabulary.O200K))
