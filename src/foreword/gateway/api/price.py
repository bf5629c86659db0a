"""Prices: what an edit of a file would cost one's sessions, and what the owner decides about one."""

import asyncio
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field

from foreword.errors import InputError
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import LONGEST_TEXT, Asked, Name, Told, answers
from foreword.gateway.editing import Edit, find_edit, find_place, foresee, leave_closed
from foreword.gateway.pricing import is_open, price, read_known
from foreword.gateway.quoting import tell_pricing
from foreword.gateway.session import Session
from foreword.store.ledgers import decide_edit, list_edits, undo_edit
from foreword.store.state import use_state
from foreword.words import Policy, Trust

router = APIRouter(prefix="/api", tags=["price"])
Policies = Literal["now", "append", "cold", "next-session", "auto"]
SAYS = "The text that the file would have; else the one that it has."


class PriceRequest(Asked):
    """An edit, made or not."""

    path: Name = Field(description="A file, relative to the workspace.")
    text: str | None = Field(None, max_length=LONGEST_TEXT, description=SAYS)
    session: Name | None = Field(None, description="One session only; else all that were used in the last day.")


class EditRequest(Asked):
    """What is decided about one edit."""

    path: Name = Field(description="A file, relative to the workspace.")
    policy: Policies = Field(description="When it reaches sessions that go on; auto takes a decision back.")
    text: str | None = Field(None, max_length=LONGEST_TEXT, description=SAYS)


class OfferShape(Told):
    """What an edit costs under one policy."""

    policy: Policies
    again: int = Field(description="Tokens that the next call bills again.")
    more: int = Field(description="Tokens that every further call has more, or fewer.")
    once: float = Field(description="What the next call costs more.")
    each: float = Field(description="What each further call costs more.")
    calls: int = Field(description="The further calls that are expected.")
    total: float
    unit: Literal["usd", "tokens"] = Field(description="Tokens of input where no price is known.")
    allowed: bool = Field(
        description="Whether it may be done: safety travels in no user's message, and what is gone cannot wait."
    )


class QuoteShape(Told):
    """What an edit costs under each policy."""

    sections: list[str]
    best: Policies | None = Field(description="The cheapest that takes effect with the next message.")
    offers: list[OfferShape]


class SessionPrice(QuoteShape):
    """What an edit costs one session."""

    session: str
    agent: str
    channel: str
    room: str | None
    user: str | None
    model: str
    warm: int = Field(description="Tokens that the provider still has in its cache; 0 where that is cold.")
    deed: Literal["reuse", "append", "rebase", "hold"] = Field(description="What the next message would do about it.")
    reason: str


class FreshShape(Told):
    """What a session costs that begins with the edit."""

    agent: str
    user: str | None
    model: str
    tokens: int
    prefix: int
    own: int = Field(description="Tokens that are there because of the file.")
    cold_usd: float | None
    warm_usd: float | None


class PriceAnswer(Told):
    """What an edit costs, in the sessions that one may know of."""

    path: str
    sha256: str | None = Field(description="The name of the edit, for who may read the file itself.")
    saved: bool
    sessions: list[SessionPrice]
    all: QuoteShape
    spared: dict[str, int] = Field(description="Sessions without a price: same, apart, passing and over.")
    idle: int = Field(description="Sessions that were not used for a day.")
    fresh: FreshShape | None


class EditShape(Told):
    """A decision about one edit."""

    path: str
    policy: Policies
    sha256: str
    decided: str


class Edits(Told):
    """The decisions about single edits, the newest first."""

    edits: list[EditShape]


@router.post("/price", operation_id="price", response_model=PriceAnswer, responses=answers())
async def show_price(asked: PriceRequest, desk: AtDesk) -> dict[str, Any]:
    """Price an edit in one's own sessions, or in all of them for the owner; nothing is changed."""
    return await asyncio.to_thread(ask, desk, asked)


@router.get("/edits", operation_id="listEdits", responses=answers())
async def show_edits(desk: AtDesk) -> Edits:
    """List what was decided about single edits; for the owner."""
    admit(desk)
    return await asyncio.to_thread(read_edits, desk)


@router.put("/edits", operation_id="decideEdit", responses=answers())
async def decide(asked: EditRequest, desk: AtDesk) -> Edits:
    """Decide when one edit reaches the sessions that go on; for the owner."""
    admit(desk)
    return await asyncio.to_thread(write_edit, desk, asked)


def ask(desk: Desk, asked: PriceRequest) -> dict[str, Any]:
    """Ask what an edit costs those sessions that a person may know of; a file above their clearance is not opened."""
    workspace, now = desk.gateway.workspace, desk.now
    workspace.refresh()
    clearance, everything = desk.find_clearance(), is_owner(desk)
    if everything:
        edit = find_edit(workspace, asked.path, desk.user, asked.text)
    else:
        edit = leave_closed(workspace, asked.path, asked.text)

    def sees(session: Session) -> bool:
        return everything or (session.lane.user == desk.user and session.lane.clearance <= clearance)

    with use_state(desk.folder) as state:
        known = read_known(state, now, asked.session or "", sees, desk.make_reader())
    if asked.session and not known.going:
        raise missing("session")
    place = find_place(edit.path, desk.config) if everything else desk.make_turn()
    pricing = price(workspace, known, edit, now)
    return tell_pricing(pricing, edit, foresee(workspace, edit, place, known.calibrations, now))


def is_owner(desk: Desk) -> bool:
    """Whether it is the owner who asks, and nothing lowers what they may see."""
    return desk.user == desk.config.owner and desk.find_clearance() is Trust.FULL


def admit(desk: Desk) -> None:
    """Let nobody in but the owner: an edit reaches everybody's sessions."""
    if not is_owner(desk):
        raise missing("route")


def read_edits(desk: Desk) -> Edits:
    """Read what was decided."""
    with use_state(desk.folder) as state:
        found = list_edits(state)
    return Edits(
        edits=[
            EditShape.model_validate(
                {"path": one.path, "policy": str(one.policy), "sha256": one.sha256, "decided": one.decided}
            )
            for one in found
        ]
    )


def write_edit(desk: Desk, asked: EditRequest) -> Edits:
    """Decide about an edit, or take that back."""
    workspace = desk.gateway.workspace
    workspace.refresh()
    edit: Edit = find_edit(workspace, asked.path, desk.user, asked.text)
    policy = Policy(asked.policy)
    if edit.text is None and policy is not Policy.AUTO:
        raise missing("file")
    with use_state(desk.folder) as state:
        if policy is Policy.AUTO:
            undo_edit(state, edit.path)
        elif is_open(price(workspace, read_known(state, desk.now), edit, desk.now), edit, policy):
            decide_edit(state, edit.path, edit.sha256, policy)
        else:
            raise InputError(f"nothing differs by {edit.path} for a session that goes on, so nothing is decided")
    return read_edits(desk)
