"""`/api/price` and `/api/edits`: the cost of editing a file in running sessions, and when an edit takes effect.

`POST /api/explain`: the prompt that a message would produce, without sending it. `POST /api/reload`: re-read the
workspace and report changes and errors. Only for the owner.
"""

import asyncio
from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from foreword.errors import ConfigError, InputError
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.edit_price import (
    FileEdit,
    describe_prices,
    estimate_new_session,
    find_edit,
    find_typical_turn,
    make_unopened_edit,
    needs_decision,
    price_edit,
    read_pricing_inputs,
)
from foreword.gateway.messages import RoutedMessage
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import AcceptLanguage, ClientDevice, ContextDep, RequestContext, read_client
from foreword.http.schemas import (
    MAX_TEXT_CHARS,
    NameField,
    PathField,
    RequestModel,
    ResponseModel,
    list_error_responses,
)
from foreword.storage.database import use_state
from foreword.storage.ledgers import decide_edit, delete_edit_decision, list_edits
from foreword.storage.sessions import Session
from foreword.types import EditPolicy, Trust

explain_router = APIRouter(prefix="/api", tags=["explain"])


class ExplainRequest(RequestModel):
    """A message that is not sent."""

    text: str = Field("", max_length=MAX_TEXT_CHARS, description="The message.")
    agent: NameField | None = Field(None, description="The agent; default: the first one in foreword.yaml.")
    session: NameField | None = Field(None, description="The session of the message; default: a new one.")
    situation: NameField | None = Field(None, description="A situation with a lower clearance than a private chat.")
    client: ClientDevice | None = Field(None, description="Values reported by the user's device.")
    plan: bool | None = Field(None, description="Whether plan mode is on; default: the session's setting.")
    project: PathField | None = Field(None, description="The project's directory, within the agent's directories.")


class Explanation(ResponseModel):
    """An assembly in the schema `foreword/1`, and the table of `foreword explain`."""

    model_config = ConfigDict(extra="allow")
    schema_: str = Field(alias="schema")
    clearance: dict[str, Any]
    text: str
    tokens: int
    sections: list[dict[str, Any]]
    blocks: list[dict[str, Any]]
    table: str


@explain_router.post("/explain", operation_id="explain", response_model=Explanation, responses=list_error_responses())
async def explain_message(asked: ExplainRequest, desk: ContextDep, languages: AcceptLanguage = None) -> dict[str, Any]:
    """Assemble and explain the prompt of a message without sending it. Sections above your clearance are left out."""
    incoming = RoutedMessage(
        text=asked.text,
        user=desk.user,
        channel=WEB_CHANNEL,
        agent=asked.agent or "",
        situation=desk.choose_situation(asked.situation),
        session=asked.session or "",
        client=read_client(asked.client, languages),
        plan=asked.plan,
        project=desk.open_project(asked.project, asked.agent, asked.situation),
    )
    assembly = await desk.gateway.foresee(incoming)
    return {**assembly.to_dict(), "table": assembly.explain()}


price_router = APIRouter(prefix="/api", tags=["price"])
PolicyName = Literal["now", "append", "cold", "next-session", "auto"]
TEXT_DESCRIPTION = "The new text of the file; default: its current text."


class PriceRequest(RequestModel):
    """An edit, saved or planned."""

    path: NameField = Field(description="A file, relative to the workspace.")
    text: str | None = Field(None, max_length=MAX_TEXT_CHARS, description=TEXT_DESCRIPTION)
    session: NameField | None = Field(None, description="One session; default: all sessions used in the last day.")


class EditRequest(RequestModel):
    """A decision about one edit."""

    path: NameField = Field(description="A file, relative to the workspace.")
    policy: PolicyName = Field(description="When the edit reaches existing sessions; auto withdraws the decision.")
    text: str | None = Field(None, max_length=MAX_TEXT_CHARS, description=TEXT_DESCRIPTION)


class OfferShape(ResponseModel):
    """The cost of an edit under one policy."""

    policy: PolicyName
    again: int = Field(description="Tokens billed again by the next call.")
    more: int = Field(description="Change in tokens of each later call.")
    once: float = Field(description="Additional cost of the next call.")
    each: float = Field(description="Additional cost of each later call.")
    calls: int = Field(description="Expected number of later calls.")
    total: float
    unit: Literal["usd", "tokens"] = Field(description="Input tokens if no price is known.")
    allowed: bool = Field(
        description="Whether the policy applies: safety sections are not appended, deleted sections cannot be deferred."
    )


class QuoteShape(ResponseModel):
    """The cost of an edit under each policy."""

    sections: list[str]
    best: PolicyName | None = Field(description="The cheapest policy that takes effect with the next message.")
    offers: list[OfferShape]


class SessionPrice(QuoteShape):
    """The cost of an edit in one session."""

    session: str
    agent: str
    channel: str
    room: str | None
    user: str | None
    model: str
    warm: int = Field(description="Tokens still in the provider's cache; 0 if the cache is cold.")
    deed: Literal["reuse", "append", "rebase", "hold"] = Field(description="The action with the next message.")
    reason: str


class NewSessionPrice(ResponseModel):
    """The cost of a new session with the edit."""

    agent: str
    user: str | None
    model: str
    tokens: int
    prefix: int
    own: int = Field(description="Tokens that come from the file.")
    cold_usd: float | None
    warm_usd: float | None


class PriceAnswer(ResponseModel):
    """The cost of an edit in the sessions that you may see."""

    path: str
    sha256: str | None = Field(description="The hash of the edited text; null if you may not read the file.")
    saved: bool
    sessions: list[SessionPrice]
    all: QuoteShape
    spared: dict[str, int] = Field(
        description="Number of sessions without a cost, by reason: same, apart, passing and over."
    )
    idle: int = Field(description="Number of sessions not used in the last day.")
    fresh: NewSessionPrice | None


class EditShape(ResponseModel):
    """A decision about one edit."""

    path: str
    policy: PolicyName
    sha256: str
    decided: str


class EditList(ResponseModel):
    """The decisions about single edits, newest first."""

    edits: list[EditShape]


@price_router.post("/price", operation_id="price", response_model=PriceAnswer, responses=list_error_responses())
async def get_price(asked: PriceRequest, desk: ContextDep) -> dict[str, Any]:
    """Compute the cost of an edit in your sessions, or in all sessions for the owner. Nothing is changed."""
    return await asyncio.to_thread(compute_price, desk, asked)


@price_router.get("/edits", operation_id="listEdits", responses=list_error_responses())
async def list_decided_edits(desk: ContextDep) -> EditList:
    """List the decisions about single edits. Only for the owner."""
    require_owner(desk)
    return await asyncio.to_thread(read_edits, desk)


@price_router.put("/edits", operation_id="decideEdit", responses=list_error_responses())
async def decide_edit_policy(asked: EditRequest, desk: ContextDep) -> EditList:
    """Decide when an edit reaches existing sessions. Only for the owner."""
    require_owner(desk)
    return await asyncio.to_thread(write_edit, desk, asked)


def compute_price(desk: RequestContext, asked: PriceRequest) -> dict[str, Any]:
    """Compute the cost in the sessions that the caller may see; a file above their clearance is not opened."""
    workspace, now = desk.gateway.workspace, desk.now
    workspace.refresh()
    clearance, everything = desk.find_clearance(), is_owner(desk)
    if everything:
        edit = find_edit(workspace, asked.path, desk.user, asked.text)
    else:
        edit = make_unopened_edit(workspace, asked.path, asked.text)

    def sees(session: Session) -> bool:
        return everything or (session.lane.user == desk.user and session.lane.clearance <= clearance)

    with use_state(desk.folder) as state:
        known = read_pricing_inputs(state, now, asked.session or "", sees, desk.make_reader())
    if asked.session and not known.going:
        raise make_not_found("session")
    place = find_typical_turn(edit.path, desk.config) if everything else desk.make_turn()
    pricing = price_edit(workspace, known, edit, now)
    return describe_prices(pricing, edit, estimate_new_session(workspace, edit, place, known.calibrations, now))


def is_owner(desk: RequestContext) -> bool:
    """Return whether the caller is the owner at full trust."""
    return desk.user == desk.config.owner and desk.find_clearance() is Trust.FULL


def require_owner(desk: RequestContext) -> None:
    """Raise a 404 unless the caller is the owner at full trust."""
    if not is_owner(desk):
        raise make_not_found("route")


def read_edits(desk: RequestContext) -> EditList:
    """Read the decisions."""
    with use_state(desk.folder) as state:
        found = list_edits(state)
    return EditList(edits=[EditShape.model_validate({**asdict(one), "policy": str(one.policy)}) for one in found])


def write_edit(desk: RequestContext, asked: EditRequest) -> EditList:
    """Store or withdraw the decision about an edit."""
    workspace = desk.gateway.workspace
    workspace.refresh()
    edit: FileEdit = find_edit(workspace, asked.path, desk.user, asked.text)
    policy = EditPolicy(asked.policy)
    if edit.text is None and policy is not EditPolicy.AUTO:
        raise make_not_found("file")
    with use_state(desk.folder) as state:
        if policy is EditPolicy.AUTO:
            delete_edit_decision(state, edit.path)
        elif needs_decision(price_edit(workspace, read_pricing_inputs(state, desk.now), edit, desk.now), edit, policy):
            decide_edit(state, edit.path, edit.sha256, policy)
        else:
            raise InputError(f"no existing session is affected by {edit.path}; nothing to decide")
    return read_edits(desk)


reload_router = APIRouter(prefix="/api", tags=["reload"])


class ReloadAnswer(ResponseModel):
    """The result of a reload."""

    changed: list[str] = Field(description="The parts of foreword.yaml that changed since the last reload.")
    restart: list[str] = Field(description="Changed settings that need a restart, such as server.port.")
    faults: list[str] = Field(description="Errors in files; the previous version or a built-in text stays in effect.")


@reload_router.post("/reload", operation_id="reload", responses=list_error_responses())
async def reload_workspace(desk: ContextDep) -> ReloadAnswer:
    """Re-read the workspace now. Only for the owner."""
    require_owner(desk)
    found = desk.gateway.reloading.look(now=True)
    workspace = desk.gateway.workspace
    faults = [*workspace.faults.values()]
    words = [str(one) for fault in faults for one in (fault.faults if isinstance(fault, ConfigError) else [fault])]
    spoiled = {**workspace.files.losses, **workspace.files.faults}
    words += [f"{path} {trouble.reason}" for path, trouble in sorted(spoiled.items())]
    return ReloadAnswer(changed=list(found.changed), restart=list(found.restart), faults=words)
