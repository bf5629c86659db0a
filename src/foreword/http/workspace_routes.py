"""`POST /api/explain`: the prompt that a message would produce, without sending it.

`/api/price` and `/api/edits`: the cost of editing a file in running sessions, and when an edit takes effect.
`POST /api/reload`: re-read the workspace and report changes and errors; only for the owner.
"""

import asyncio
import sqlite3
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from foreword.errors import ConfigError, InputError
from foreword.gateway import edit_price
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.messages import MAX_MESSAGE_CHARS, RoutedMessage
from foreword.http import request_context as shared
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import ContextDep, RequestContext, RequestModel, ResponseModel
from foreword.storage import ledgers
from foreword.storage.database import use_state
from foreword.storage.sessions import Session
from foreword.types import EditPolicy

PolicyName = Literal["now", "append", "cold", "next-session", "auto"]
FileField = Annotated[shared.NameField, Field(description="A file, relative to the workspace.")]
FileTextField = Annotated[
    str | None, Field(max_length=MAX_MESSAGE_CHARS, description="The new text of the file; default: its current text.")
]

explain_router = APIRouter(prefix="/api", tags=["explain"])
price_router = APIRouter(prefix="/api", tags=["price"])
reload_router = APIRouter(prefix="/api", tags=["reload"])


class ExplainRequest(RequestModel):
    """A message that is not sent."""

    text: shared.MessageField = ""
    agent: shared.AgentField = None
    session: shared.NameField | None = Field(None, description="The session of the message; default: a new one.")
    situation: shared.SituationField = None
    client: shared.ClientField = None
    plan: shared.PlanField = None
    project: shared.ProjectField = None


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


@explain_router.post("/explain", operation_id="explain", response_model=Explanation)
async def explain_message(
    body: ExplainRequest, context: ContextDep, languages: shared.AcceptLanguage = None
) -> dict[str, Any]:
    """Assemble and explain the prompt of a message without sending it. Sections above your clearance are left out."""
    message = RoutedMessage(
        text=body.text,
        user=context.user,
        channel=WEB_CHANNEL,
        agent=body.agent or "",
        situation=context.choose_situation(body.situation),
        session=body.session or "",
        client=shared.read_client(body.client, languages),
        plan=body.plan,
        project=context.open_project(body.project, body.agent, body.situation),
    )
    assembly = await context.gateway.foresee(message)
    return {**assembly.to_dict(), "table": assembly.explain()}


class PriceRequest(RequestModel):
    """An edit, saved or planned."""

    path: FileField
    text: FileTextField = None
    session: shared.NameField | None = Field(
        None, description="One session; default: all sessions used in the last day."
    )


class EditRequest(RequestModel):
    """A decision about one edit."""

    path: FileField
    policy: PolicyName = Field(description="When the edit reaches existing sessions; auto withdraws the decision.")
    text: FileTextField = None


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


@price_router.post("/price", operation_id="price", response_model=PriceAnswer)
async def get_price(body: PriceRequest, context: ContextDep) -> dict[str, Any]:
    """Compute the cost of an edit in your sessions, or in all sessions for the owner. Nothing is changed."""
    return await asyncio.to_thread(compute_price, context, body)


@price_router.get("/edits", operation_id="listEdits")
async def list_decided_edits(context: ContextDep) -> EditList:
    """List the decisions about single edits. Only for the owner."""
    context.require_owner()
    return await context.use_state(read_edits)


@price_router.put("/edits", operation_id="decideEdit")
async def decide_edit_policy(body: EditRequest, context: ContextDep) -> EditList:
    """Decide when an edit reaches existing sessions. Only for the owner."""
    context.require_owner()
    return await context.use_state(lambda state: write_edit(state, context, body))


def compute_price(context: RequestContext, body: PriceRequest) -> dict[str, Any]:
    """Compute the cost in the sessions that the caller may see; a file above their clearance is not opened."""
    workspace, now = context.gateway.workspace, context.now
    workspace.refresh()
    is_owner, clearance = context.is_owner, context.find_clearance()
    if is_owner:
        edit = edit_price.find_edit(workspace, body.path, context.user, body.text)
    else:
        edit = edit_price.make_unopened_edit(workspace, body.path, body.text)

    def is_visible(session: Session) -> bool:
        return is_owner or (session.key.user == context.user and session.key.clearance <= clearance)

    with use_state(context.folder) as state:
        inputs = edit_price.read_pricing_inputs(state, now, body.session or "", is_visible, context.make_reader())
    if body.session and not inputs.sessions:
        raise make_not_found("session")
    turn = edit_price.find_typical_turn(edit.path, context.config) if is_owner else context.make_turn()
    costs = edit_price.price_edit(workspace, inputs, edit, now)
    new_session = edit_price.estimate_new_session(workspace, edit, turn, inputs.calibrations, now)
    return edit_price.describe_prices(costs, edit, new_session)


def read_edits(state: sqlite3.Connection) -> EditList:
    """Read the decisions."""
    edits = [{**asdict(edit), "policy": str(edit.policy)} for edit in ledgers.list_edits(state)]
    return EditList(edits=[EditShape.model_validate(edit) for edit in edits])


def write_edit(state: sqlite3.Connection, context: RequestContext, body: EditRequest) -> EditList:
    """Store or withdraw the decision about an edit."""
    workspace, now, policy = context.gateway.workspace, context.now, EditPolicy(body.policy)
    workspace.refresh()
    edit = edit_price.find_edit(workspace, body.path, context.user, body.text)
    if edit.text is None and policy is not EditPolicy.AUTO:
        raise make_not_found("file")
    if policy is EditPolicy.AUTO:
        ledgers.delete_edit_decision(state, edit.path)
    else:
        costs = edit_price.price_edit(workspace, edit_price.read_pricing_inputs(state, now), edit, now)
        if not edit_price.needs_decision(costs, edit, policy):
            raise InputError(f"no existing session is affected by {edit.path}; nothing to decide")
        ledgers.decide_edit(state, edit.path, edit.sha256, policy)
    return read_edits(state)


class ReloadAnswer(ResponseModel):
    """The result of a reload."""

    changed: list[str] = Field(description="The parts of foreword.yaml that changed since the last reload.")
    restart: list[str] = Field(description="Changed settings that need a restart, such as server.port.")
    faults: list[str] = Field(description="Errors in files; the previous version or a built-in text stays in effect.")


@reload_router.post("/reload", operation_id="reload")
async def reload_workspace(context: ContextDep) -> ReloadAnswer:
    """Re-read the workspace now. Only for the owner."""
    context.require_owner()
    reloaded = context.gateway.reloading.look(now=True)
    workspace = context.gateway.workspace
    problems: list[str] = []
    for fault in workspace.faults.values():
        problems += [str(part) for part in (fault.faults if isinstance(fault, ConfigError) else [fault])]
    unreadable = {**workspace.files.losses, **workspace.files.faults}
    problems += [f"{path} {problem.reason}" for path, problem in sorted(unreadable.items())]
    return ReloadAnswer(changed=list(reloaded.changed), restart=list(reloaded.restart), faults=problems)
