"""`/api/turns`: send a message, wait for or stream the reply, show and stop turns, answer approval questions.

`/api/held`: tool calls of the user that wait for approval.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field

from foreword.agent import agent_events
from foreword.errors import InputError
from foreword.events.event import may_read_text
from foreword.events.sent_prompts import read_prompt
from foreword.events.tracer import clean_traceparent
from foreword.gateway.channel import InboundMessage
from foreword.gateway.channels.pull_channel import WEB_CHANNEL, submit_message
from foreword.gateway.messages import AcceptedTurn, NotFound
from foreword.http import request_context as shared
from foreword.http import sse
from foreword.http.error_responses import SESSION_HEADER, HttpError, list_error_responses, make_not_found
from foreword.http.request_context import ContextDep, RequestContext, RequestModel, ResponseModel
from foreword.storage.sessions import SessionKey
from foreword.storage.turns import HeldCall, TurnReply, TurnState
from foreword.types import Trust

FAILURE_STATUSES = {TurnState.REFUSED: 402, TurnState.FAILED: 502, TurnState.STOPPED: 409}
REPLY_RESPONSE = {
    "description": "The reply; a stream of events if the client accepts events.",
    "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}}},
}
HeldPath = Annotated[str, Path(max_length=64, description="The id of a held call.")]
TurnPath = Annotated[str, Path(max_length=64, description="The id of a turn.")]
TurnStateName = Literal["waiting", "running", "queued", "answered", "refused", "failed", "stopped"]

turn_router = APIRouter(prefix="/api/turns", tags=["turns"])
held_call_router = APIRouter(prefix="/api/held", tags=["held calls"])


class TurnRequest(RequestModel):
    """A message to an agent."""

    text: shared.TextField = Field(description="The message.")
    session: shared.NameField | None = Field(None, description="The session; default: the one used last.")
    agent: shared.AgentField = None
    situation: shared.SituationField = None
    client: shared.ClientField = None
    plan: shared.PlanField = None
    project: shared.PathField | None = Field(
        None, description="The project's directory, within the agent's directories; stored with the session."
    )


class QuestionDecision(RequestModel):
    """The user's answer to a tool's approval question."""

    question: shared.NameField = Field(description="The id of the question, from the event `ask`.")
    allowed: bool


class TurnTokens(ResponseModel):
    """Total usage of the turn's model calls."""

    input: int = Field(description="All input tokens, cached ones included.")
    output: int


class TurnCache(ResponseModel):
    """Tokens read from the provider's cache and written to it."""

    read: int
    write: int


class TurnAnswer(ResponseModel):
    """A turn and its result so far."""

    turn: str
    session: str
    agent: str
    state: TurnStateName
    reply: str = Field(description="The reply, or a message for the user if there is none.")
    tokens: TurnTokens
    cost_usd: float | None = Field(description="US dollars; null if the price is unknown.")
    cut: bool = Field(description="Whether the reply was cut off at the length limit.")
    silent: bool = Field(description="Whether the agent suppressed its reply; `reply` is empty.")
    cache: TurnCache
    received: datetime
    finished: datetime | None


class RecordedTurn(TurnAnswer):
    """A turn with its recorded prompts."""

    prompts: list[dict[str, Any]] = Field(description="Each distinct prompt of the turn, in the schema `foreword/1`.")


class StopResult(ResponseModel):
    """Whether a turn was stopped."""

    turn: str
    stopped: bool


class QuestionResult(ResponseModel):
    """An answered question."""

    turn: str
    question: str
    allowed: bool


@turn_router.post(
    "",
    operation_id="say",
    response_model=TurnAnswer,
    responses={
        200: REPLY_RESPONSE,
        202: {"model": TurnAnswer, "description": "The message is stored and answered later."},
        **list_error_responses(402, 409, 502),
    },
)
async def create_turn(
    body: TurnRequest,
    context: ContextDep,
    response: Response,
    key: shared.IdempotencyKey = None,
    languages: shared.AcceptLanguage = None,
) -> Any:
    """Send a message to an agent and wait for the reply. If the client disconnects, `server.on_disconnect` applies."""
    is_streamed = sse.accepts_events(context.request)
    message = InboundMessage(
        channel=WEB_CHANNEL,
        sender=context.user,
        text=body.text,
        agent=body.agent or "",
        situation=context.choose_situation(body.situation),
        session=body.session or "",
        client=shared.read_client(body.client, languages),
        key=context.make_idempotency_key(key),
        asks=is_streamed,
        plan=body.plan,
        project=context.open_project(body.project, body.agent, body.situation),
        traceparent=clean_traceparent(context.request.headers.getlist("traceparent")),
        request=await context.read_client_request(streamed=is_streamed),
    )
    accepted = await submit_message(context.gateway.receive, message)
    if message.project and not accepted.repeated:
        await context.gateway.sessions.set_project(accepted.session, message.project)
    if is_streamed:
        headers, waiters = {SESSION_HEADER: accepted.session}, context.request.app.state.waiters
        return sse.TurnStream(stream_turn(context, accepted), headers, accepted.turn, waiters)
    reply = await wait_for_answer(context, accepted.turn)
    response.status_code = 200 if reply.state is TurnState.ANSWERED else 202
    return describe_reply(reply)


async def wait_for_answer(context: RequestContext, turn: str) -> TurnReply:
    """Wait for the reply to a turn; raise an error for a turn without an answer."""
    reply: TurnReply = await context.request.app.state.waiters.wait(context.request, turn)
    if reply.state in FAILURE_STATUSES:
        raise make_turn_error(reply)
    return reply


async def stream_turn(context: RequestContext, accepted: AcceptedTurn) -> AsyncIterator[str]:
    """Yield the server-sent events of a turn, from acceptance to the end."""
    yield sse.write_event(asdict(accepted), "accepted")
    async for delta in sse.keep_alive(context.gateway.hear(accepted.turn)):
        yield sse.KEEP_ALIVE_COMMENT if delta is None else write_delta(delta)
    reply = await context.gateway.wait(accepted.turn)
    if reply.state in FAILURE_STATUSES:
        yield sse.write_event(make_turn_error(reply).to_dict(context.request_id), "error")
    else:
        answer = TurnAnswer(**describe_reply(reply)).model_dump(mode="json")
        yield sse.write_event(answer, "done" if reply.state is TurnState.ANSWERED else "queued")


def write_delta(delta: agent_events.ShownEvent) -> str:
    """Convert one delta of a running turn to a server-sent event."""
    data: dict[str, Any]
    match delta:
        case agent_events.TextDelta():
            name, data = "words", {"text": delta.text}
        case agent_events.CallRestarted():
            name, data = "anew", {}
        case agent_events.PassagesRecalled():
            name, data = "recalled", {"passages": [passage.to_dict() for passage in delta.passages]}
        case agent_events.ToolStarted():
            name, data = "tool", {"name": delta.name, "state": "begun"}
        case agent_events.ToolFinished():
            name, data = "tool", {"name": delta.name, "state": "done" if delta.done else "failed"}
        case agent_events.ApprovalNeeded():
            name, data = "ask", {"id": delta.id, "name": delta.name, "question": delta.question}
    return sse.write_event(data, name)


def make_turn_error(reply: TurnReply) -> HttpError:
    """Return the error for a turn without an answer."""
    status, message = FAILURE_STATUSES[reply.state], reply.text or "the turn was stopped"
    return HttpError(status, message, code=str(reply.state), turn=reply.turn, session=reply.session)


def describe_reply(reply: TurnReply) -> dict[str, Any]:
    """Return the fields of `TurnAnswer` for a reply."""
    usage, same = reply.usage, ("turn", "session", "agent", "cost_usd", "cut", "silent", "received", "finished")
    return {
        **{name: getattr(reply, name) for name in same},
        "state": str(reply.state),
        "reply": reply.text,
        "tokens": TurnTokens(input=usage.tokens_in, output=usage.tokens_out),
        "cache": TurnCache(read=usage.cache_read, write=usage.cache_write),
    }


@turn_router.get("/{turn}", operation_id="showTurn")
async def get_turn(turn: TurnPath, context: ContextDep) -> RecordedTurn:
    """Return the state and the recorded prompt of a turn: one of your own, or any at full trust.

    Only the user of a private turn sees its reply and prompt.
    """
    reply, session_key = await find_visible_turn(context, turn)
    if reply.user != context.user and context.find_clearance() is not Trust.FULL:
        raise make_not_found("turn")
    reader, log = context.make_reader(), context.gateway.listeners.log
    if not may_read_text(reader, session_key.person):
        return RecordedTurn(**{**describe_reply(reply), "reply": ""}, prompts=[])
    if reply.prompt_hash and log:
        await asyncio.to_thread(log.flush)  # recent prompts may not be written yet
    found = await context.use_log(lambda log: read_prompt(log, reader, reply.prompt_hash))
    return RecordedTurn(**describe_reply(reply), prompts=[found.to_dict()] if found else [])


async def find_visible_turn(context: RequestContext, turn: str) -> tuple[TurnReply, SessionKey]:
    """Find a turn of any user at or below the caller's clearance, and its session key; raise a 404 otherwise."""
    reply = await context.gateway.find(turn)
    session = await context.gateway.sessions.find(reply.session) if reply else None
    if reply is None or session is None or session.key.clearance > context.find_clearance():
        raise make_not_found("turn")
    return reply, session.key


async def check_own_turn(context: RequestContext, turn: str) -> None:
    """Raise a 404 for a turn of another user, at any trust."""
    reply, _ = await find_visible_turn(context, turn)
    if reply.user != context.user:
        raise make_not_found("turn")


@turn_router.delete("/{turn}", operation_id="stopTurn")
async def stop_turn(turn: TurnPath, context: ContextDep) -> StopResult:
    """Stop one of your turns. The session stays usable; a finished turn does not change."""
    await check_own_turn(context, turn)
    return StopResult(turn=turn, stopped=await context.gateway.stop(turn))


@turn_router.post("/{turn}/answers", operation_id="answerQuestion", responses=list_error_responses(409))
async def answer_question(turn: TurnPath, decision: QuestionDecision, context: ContextDep) -> QuestionResult:
    """Answer the approval question of a tool; without approval the tool does not run."""
    await check_own_turn(context, turn)
    if not context.gateway.decide(turn, decision.question, allowed=decision.allowed):
        raise HttpError(409, "the turn is not waiting for an answer to this question", param="question")
    return QuestionResult(turn=turn, question=decision.question, allowed=decision.allowed)


class HeldDecision(RequestModel):
    """The decision of the user."""

    allowed: bool = Field(description="True runs the call once; false discards it.")


class HeldShape(ResponseModel):
    """A tool call that waits for approval and has not run."""

    held: str
    turn: str = Field(description="The newest turn that made the call.")
    session: str
    agent: str
    channel: str
    name: str = Field(description="The tool.")
    arguments: dict[str, Any] = Field(description="The arguments of the call.")
    created: datetime
    expires: datetime = Field(description="When the call is discarded if there is no decision.")


class HeldList(ResponseModel):
    """The waiting calls, oldest first."""

    held: list[HeldShape]


class HeldResult(ResponseModel):
    """A decided call."""

    held: str
    allowed: bool
    turn: str | None = Field(
        description="The turn that runs the call and reports its result; null if the call was denied."
    )


def describe_held_call(held: HeldCall) -> HeldShape:
    """Describe a held call."""
    return HeldShape(held=held.id, **asdict(held))


@held_call_router.get("", operation_id="listHeldCalls")
async def list_held_calls(context: ContextDep) -> HeldList:
    """List your tool calls that wait for approval."""
    calls = await context.gateway.held.list(context.user, context.find_clearance())
    return HeldList(held=[describe_held_call(call) for call in calls])


@held_call_router.post(
    "/{held}",
    operation_id="decideHeldCall",
    responses={
        202: {"model": HeldResult, "description": "The call is allowed; the turn runs it."},
        **list_error_responses(409),
    },
)
async def decide_held_call(
    held: HeldPath, decision: HeldDecision, context: ContextDep, response: Response
) -> HeldResult:
    """Allow or deny one of your held calls. An allowed call runs once, even if it is allowed again."""
    clearance, calls = context.find_clearance(), context.gateway.held
    try:
        if not decision.allowed:
            denied = await calls.deny(context.user, clearance, held)
            return HeldResult(held=denied.id, allowed=False, turn=None)
        accepted = await context.gateway.allow_held(context.user, clearance, held)
    except NotFound:
        raise make_not_found("held call") from None
    except InputError as error:
        raise HttpError(409, str(error), param="held") from error
    response.status_code = 202
    return HeldResult(held=held, allowed=True, turn=accepted.turn)
