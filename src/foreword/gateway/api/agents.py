"""Soul and identity of agents, as the store keeps them: read and set at full trust."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from foreword.config.schema import Identity
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import LONGEST_NAME, Asked, Told, answers
from foreword.store.agents import LONGEST, find_character, set_character
from foreword.store.state import use_state
from foreword.words import Trust

Named = Annotated[str, Path(max_length=LONGEST_NAME, description="An agent of foreword.yaml.")]
Text = Annotated[str, StringConstraints(max_length=LONGEST)]

router = APIRouter(prefix="/api/agents", tags=["agents"])


class IdentityShape(Told):
    """Who an agent is, as fields."""

    name: str = ""
    emoji: str = ""
    creature: str = ""
    vibe: str = ""
    description: str = ""


class AgentShape(Told):
    """What the store keeps of an agent; what is null or empty is taken from its files or from foreword.yaml."""

    agent: str
    soul: str
    identity: IdentityShape | str | None


class SoulRequest(Asked):
    """A soul for an agent."""

    soul: Text = Field(description="The character of the agent; it wins over its files. An empty one takes it away.")


class IdentityFields(Asked):
    """Who an agent is, as fields."""

    name: Text = ""
    emoji: Text = ""
    creature: Text = ""
    vibe: Text = ""
    description: Text = ""


class IdentityRequest(Asked):
    """An identity for an agent."""

    identity: IdentityFields | Text = Field(description="Fields, or a text. An empty one takes it away.")


@router.get("/{agent}", operation_id="readAgent", responses=answers())
async def show(agent: Named, desk: AtDesk) -> AgentShape:
    """Show the soul and the identity that the store keeps of an agent; needs full trust."""
    check(desk, agent)
    return await change(desk, agent)


@router.put("/{agent}/soul", operation_id="setSoul", responses=answers())
async def set_soul(agent: Named, asked: SoulRequest, desk: AtDesk) -> AgentShape:
    """Keep a soul for an agent, in force from its next message on; needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, soul=asked.soul))


@router.delete("/{agent}/soul", operation_id="clearSoul", responses=answers())
async def clear_soul(agent: Named, desk: AtDesk) -> AgentShape:
    """Take the kept soul away; the agent's file or foreword.yaml counts again. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, soul=""))


@router.put("/{agent}/identity", operation_id="setIdentity", responses=answers())
async def set_identity(agent: Named, asked: IdentityRequest, desk: AtDesk) -> AgentShape:
    """Keep an identity for an agent, in force from its next message on; needs full trust."""
    check(desk, agent)
    given = asked.identity
    identity = given if isinstance(given, str) else Identity(**given.model_dump())
    return await change(desk, agent, lambda state: set_character(state, agent, identity=identity))


@router.delete("/{agent}/identity", operation_id="clearIdentity", responses=answers())
async def clear_identity(agent: Named, desk: AtDesk) -> AgentShape:
    """Take the kept identity away; the agent's file or foreword.yaml counts again. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, identity=""))


def check(desk: Desk, agent: str) -> None:
    """Refuse everybody below full trust, to whom there is no such route, and agents that do not exist."""
    if desk.find_clearance() is not Trust.FULL:
        raise missing("route")
    if agent not in desk.config.agents:
        raise missing("agent")


async def change(desk: Desk, agent: str, work: Callable[[sqlite3.Connection], None] | None = None) -> AgentShape:
    """Change what the store keeps of an agent, if anything is to be changed, and return it."""

    def find() -> AgentShape:
        with use_state(desk.folder) as state:
            if work:
                work(state)
            kept = find_character(state, agent)
        identity = kept.identity
        shown = IdentityShape(**vars_of(identity)) if isinstance(identity, Identity) else identity
        return AgentShape(agent=agent, soul=kept.soul, identity=shown)

    return await asyncio.to_thread(find)


def vars_of(identity: Identity) -> dict[str, str]:
    """Return the fields of an identity."""
    return {name: getattr(identity, name) for name in IdentityShape.model_fields}
