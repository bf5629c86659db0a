"""Stored soul and identity of agents: read and set at full trust."""

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
    """An identity as fields."""

    name: str = ""
    emoji: str = ""
    creature: str = ""
    vibe: str = ""
    description: str = ""


class AgentShape(Told):
    """The stored soul and identity. An empty or null one comes from the agent's file or foreword.yaml."""

    agent: str
    soul: str
    identity: IdentityShape | str | None


class SoulRequest(Asked):
    """A soul for an agent."""

    soul: Text = Field(description="The soul; it takes precedence over the agent's file. An empty one deletes it.")


class IdentityFields(Asked):
    """An identity as fields."""

    name: Text = ""
    emoji: Text = ""
    creature: Text = ""
    vibe: Text = ""
    description: Text = ""


class IdentityRequest(Asked):
    """An identity for an agent."""

    identity: IdentityFields | Text = Field(description="Fields, or a text. An empty one deletes it.")


@router.get("/{agent}", operation_id="readAgent", responses=answers())
async def show(agent: Named, desk: AtDesk) -> AgentShape:
    """Return the stored soul and identity of an agent. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent)


@router.put("/{agent}/soul", operation_id="setSoul", responses=answers())
async def set_soul(agent: Named, asked: SoulRequest, desk: AtDesk) -> AgentShape:
    """Store a soul for an agent; it applies from the next message. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, soul=asked.soul))


@router.delete("/{agent}/soul", operation_id="clearSoul", responses=answers())
async def clear_soul(agent: Named, desk: AtDesk) -> AgentShape:
    """Delete the stored soul; the agent falls back to its file or foreword.yaml. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, soul=""))


@router.put("/{agent}/identity", operation_id="setIdentity", responses=answers())
async def set_identity(agent: Named, asked: IdentityRequest, desk: AtDesk) -> AgentShape:
    """Store an identity for an agent; it applies from the next message. Needs full trust."""
    check(desk, agent)
    given = asked.identity
    identity = given if isinstance(given, str) else Identity(**given.model_dump())
    return await change(desk, agent, lambda state: set_character(state, agent, identity=identity))


@router.delete("/{agent}/identity", operation_id="clearIdentity", responses=answers())
async def clear_identity(agent: Named, desk: AtDesk) -> AgentShape:
    """Delete the stored identity; the agent falls back to its file or foreword.yaml. Needs full trust."""
    check(desk, agent)
    return await change(desk, agent, lambda state: set_character(state, agent, identity=""))


def check(desk: Desk, agent: str) -> None:
    """Answer 404 below full trust, as for a missing route, and for an agent that does not exist."""
    if desk.find_clearance() is not Trust.FULL:
        raise missing("route")
    if agent not in desk.config.agents:
        raise missing("agent")


async def change(desk: Desk, agent: str, work: Callable[[sqlite3.Connection], None] | None = None) -> AgentShape:
    """Apply a change to the stored soul and identity of an agent, and return both."""

    def find() -> AgentShape:
        with use_state(desk.folder) as state:
            if work:
                work(state)
            stored = find_character(state, agent)
        identity = stored.identity
        shown = IdentityShape(**vars_of(identity)) if isinstance(identity, Identity) else identity
        return AgentShape(agent=agent, soul=stored.soul, identity=shown)

    return await asyncio.to_thread(find)


def vars_of(identity: Identity) -> dict[str, str]:
    """Return the fields of an identity."""
    return {name: getattr(identity, name) for name in IdentityShape.model_fields}
