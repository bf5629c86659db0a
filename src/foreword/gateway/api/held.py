"""Held calls: a person's tool calls that wait for approval."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field

from foreword.errors import InputError
from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.faults import Fault, missing
from foreword.gateway.api.shapes import Asked, Told, answers
from foreword.gateway.held_calls import HeldCall
from foreword.gateway.message import NotFound

Named = Annotated[str, Path(max_length=64, description="The id of a held call.")]

router = APIRouter(prefix="/api/held", tags=["held calls"])


class HeldDecision(Asked):
    """The decision of the person who asked."""

    allowed: bool = Field(description="True runs the call once; false drops it.")


class HeldShape(Told):
    """A tool call that waits for approval; it has not run."""

    held: str
    turn: str = Field(description="The newest turn that made the call.")
    session: str
    agent: str
    channel: str
    name: str = Field(description="The tool.")
    arguments: dict[str, Any] = Field(description="The arguments of the call if it is allowed.")
    created: datetime
    expires: datetime = Field(description="When it is dropped without a decision.")


class HeldList(Told):
    """The calls that wait, the oldest first."""

    held: list[HeldShape]


class HeldDecided(Told):
    """A held call that was decided about."""

    held: str
    allowed: bool
    turn: str | None = Field(description="The turn that runs the call and reports its result; null if it was denied.")


def describe(held: HeldCall) -> HeldShape:
    """Describe a held call."""
    return HeldShape(
        held=held.id,
        turn=held.turn,
        session=held.session,
        agent=held.agent,
        channel=held.channel,
        name=held.name,
        arguments=dict(held.arguments),
        created=held.created,
        expires=held.expires,
    )


@router.get("", operation_id="listHeldCalls", responses=answers())
async def list_held(desk: AtDesk) -> HeldList:
    """List one's tool calls that wait for approval."""
    found = await desk.gateway.held.list(desk.user, desk.find_clearance())
    return HeldList(held=[describe(one) for one in found])


@router.post(
    "/{held}",
    operation_id="decideHeldCall",
    responses={202: {"model": HeldDecided, "description": "It is allowed; the turn runs it."}, **answers(409)},
)
async def decide(held: Named, decision: HeldDecision, desk: AtDesk, response: Response) -> HeldDecided:
    """Allow or deny one's own held call; an allowed call runs once, however often it is allowed."""
    clearance = desk.find_clearance()
    try:
        if not decision.allowed:
            dropped = await desk.gateway.held.deny(desk.user, clearance, held)
            return HeldDecided(held=dropped.id, allowed=False, turn=None)
        accepted = await desk.gateway.held.allow(desk.user, clearance, held)
    except NotFound:
        raise missing("held call") from None
    except InputError as error:
        raise Fault(409, str(error), param="held") from error
    response.status_code = 202
    return HeldDecided(held=held, allowed=True, turn=accepted.turn)
