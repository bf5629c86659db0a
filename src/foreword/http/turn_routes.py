"""`/api/turns`: send a message, wait for or stream the reply, show and stop turns, answer approval questions.

`/api/held`: tool calls of the user that wait for approval.
"""

from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import Field

from foreword.agent.agent_events import (
    AgentEvent,
    ApprovalNeeded,
    CallRestarted,
    PassagesRecalled,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from foreword.errors import InputError
from foreword.events.event import may_read_text
from foreword.events.otlp import clean_traceparent
from foreword.events.sent_prompts import SentPrompt, read_prompt
from foreword.gateway.channels.pull_channel import WebChannel, submit_message
from foreword.gateway.held_calls import HeldCall
from foreword.gateway.messages import AcceptedTurn, NotFound, TurnReply, TurnState
from foreword.http.error_responses import IDEMPOTENCY_HEADER, SESSION_HEADER, HttpError, make_not_found
from foreword.http.request_context import (
    AcceptLanguage,
    ClientDevice,
    ContextDep,
    RequestContext,
    make_idempotency_key,
    read_client,
    read_client_request,
)
from foreword.http.schemas import NameField, PathField, RequestModel, ResponseModel, TextField, list_error_responses
from foreword.http.sse import KEEP_ALIVE_COMMENT, SSE_MEDIA_TYPE, TurnStream, WaitingClients, keep_alive, write_event
from foreword.storage.sessions import Lane
from foreword.types import Trust

HeldPath = Annotated[str, Path(max_length=64, description="The id of a held call.")]

held_call_router = APIRouter(prefix="/api/held", tags=["held calls"])


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


@held_call_router.get("", operation_id="listHeldCalls", responses=list_error_responses())
async def list_held_calls(desk: ContextDep) -> HeldList:
    """List your tool calls that wait for approval."""
    found = await desk.gateway.held.list(desk.user, desk.find_clearance())
    return HeldList(held=[describe_held_call(one) for one in found])


@held_call_router.post(
    "/{held}",
    operation_id="decideHeldCall",
    responses={
        202: {"model": HeldResult, "description": "The call is allowed; the turn runs it."},
        **list_error_responses(409),
    },
)
async def decide_held_call(held: HeldPath, decision: HeldDecision, desk: ContextDep, response: Response) -> HeldResult:
    """Allow or deny one of your held calls. An allowed call runs once, even if it is allowed again."""
    clearance = desk.find_clearance()
    try:
        if not decision.allowed:
            dropped = await desk.gateway.held.deny(desk.user, clearance, held)
            return HeldResult(held=dropped.id, allowed=False, turn=None)
        accepted = await desk.gateway.held.allow(desk.user, clearance, held)
    except NotFound:
        raise make_not_found("held call") from None
    except InputError as error:
        raise HttpError(409, str(error), param="held") from error
    response.status_code = 202
    return HeldResult(held=held, allowed=True, turn=accepted.turn)


FAILURE_STATUSES = {TurnState.REFUSED: 402, TurnState.FAILED: 502, TurnState.STOPPED: 409}
REPLY_RESPONSE = {
    "description": "The reply; a stream of events if the client accepts events.",
    "content": {SSE_MEDIA_TYPE: {"schema": {"type": "string"}}},
}
TurnPath = Annotated[str, Path(max_length=64, description="The id of a turn.")]
IdempotencyKey = Annotated[
    str | None,
    Header(alias=IDEMPOTENCY_HEADER, max_length=200, description="Requests with the same key and token are one turn."),
]

TurnStateName = Literal["waiting", "running", "queued", "answered", "refused", "failed", "stopped"]

turn_router = APIRouter(prefix="/api/turns", tags=["turns"])


class TurnRequest(RequestModel):
    """A message to an agent."""

    text: TextField = Field(description="The message.")
    session: NameField | None = Field(None, description="The session; default: the one used last.")
    agent: NameField | None = Field(None, description="The agent; default: the first one in foreword.yaml.")
    situation: NameField | None = Field(None, description="A situation with a lower clearance than a private chat.")
    client: ClientDevice | None = Field(None, description="Values reported by the user's device.")
    plan: bool | None = Field(None, description="Whether plan mode is on; default: the session's setting.")
    project: PathField | None = Field(
        None, description="The project's directory, within the agent's directories; stored with the session."
    )


class QuestionDecision(RequestModel):
    """The user's answer to a tool's approval question."""

    question: NameField = Field(description="The id of the question, from the event `ask`.")
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
    asked: TurnRequest,
    desk: ContextDep,
    *,
    request: Request,
    response: Response,
    key: IdempotencyKey = None,
    languages: AcceptLanguage = None,
) -> Any:
    """Send a message to an agent and wait for the reply. If the client disconnects, `server.on_disconnect` applies."""
    streamed = SSE_MEDIA_TYPE in request.headers.get("accept", "")
    heard = WebChannel(desk.user).hear(
        asked.text,
        agent=asked.agent or "",
        situation=desk.choose_situation(asked.situation),
        session=asked.session or "",
        client=read_client(asked.client, languages),
        key=make_idempotency_key(desk, key),
        asks=streamed,
        plan=asked.plan,
        project=desk.open_project(asked.project, asked.agent, asked.situation),
        traceparent=clean_traceparent(request.headers.getlist("traceparent")),
        request=await read_client_request(request, desk, streamed=streamed),
    )
    accepted = await submit_message(desk.gateway.receive, heard)
    if heard.project and not accepted.repeated:
        await desk.gateway.sessions.set_project(accepted.session, heard.project)
    waiters, stops = get_waiters(request), desk.config.server.on_disconnect == "stop"
    if streamed:
        headers = {SESSION_HEADER: accepted.session}
        return TurnStream(stream_turn(desk, accepted), headers, accepted.turn, waiters if stops else None)
    reply = await waiters.wait(request, accepted.turn, desk.gateway.wait(accepted.turn), stops=stops)
    if reply.state in FAILURE_STATUSES:
        raise make_turn_error(reply)
    response.status_code = 200 if reply.state is TurnState.ANSWERED else 202
    return convert_reply(reply)


def get_waiters(request: Request) -> WaitingClients:
    """Return the registry of waiting clients."""
    waiters: WaitingClients = request.app.state.waiters
    return waiters


async def stream_turn(desk: RequestContext, accepted: AcceptedTurn) -> AsyncIterator[str]:
    """Yield the server-sent events of a turn, from acceptance to the end."""
    about = {"turn": accepted.turn, "session": accepted.session, "repeated": accepted.repeated}
    yield write_event(about, "accepted")
    async for delta in keep_alive(desk.gateway.hear(accepted.turn)):
        yield KEEP_ALIVE_COMMENT if delta is None else write_delta(delta)
    reply = await desk.gateway.wait(accepted.turn)
    if reply.state in FAILURE_STATUSES:
        fault = make_turn_error(reply)
        fault.more["request_id"] = desk.request_id
        yield write_event(fault.to_dict(), "error")
    else:
        yield write_event(
            convert_reply(reply).model_dump(mode="json"), "done" if reply.state is TurnState.ANSWERED else "queued"
        )


def write_delta(delta: AgentEvent) -> str:
    """Convert one delta of a running turn to a server-sent event."""
    match delta:
        case TextDelta():
            return write_event({"text": delta.text}, "words")
        case CallRestarted():
            return write_event({}, "anew")
        case PassagesRecalled():
            return write_event({"passages": [one.to_dict() for one in delta.passages]}, "recalled")
        case ToolStarted():
            return write_event({"name": delta.name, "state": "begun"}, "tool")
        case ToolFinished():
            return write_event({"name": delta.name, "state": "done" if delta.done else "failed"}, "tool")
        case ApprovalNeeded():
            return write_event({"id": delta.id, "name": delta.name, "question": delta.question}, "ask")


def make_turn_error(reply: TurnReply) -> HttpError:
    """Return the error for a turn without an answer."""
    message = reply.text or "the turn was stopped"
    return HttpError(
        FAILURE_STATUSES[reply.state], message, code=str(reply.state), turn=reply.turn, session=reply.session
    )


def convert_reply(reply: TurnReply) -> TurnAnswer:
    """Convert a reply."""
    return TurnAnswer(**describe_reply(reply))


def describe_reply(reply: TurnReply) -> dict[str, Any]:
    """Return the fields of `TurnAnswer` for a reply."""
    usage = reply.usage
    return {
        "turn": reply.turn,
        "session": reply.session,
        "agent": reply.agent,
        "state": str(reply.state),
        "reply": reply.text,
        "tokens": TurnTokens(input=usage.tokens_in, output=usage.tokens_out),
        "cost_usd": reply.cost_usd,
        "cut": reply.cut,
        "silent": reply.silent,
        "cache": TurnCache(read=usage.cache_read, write=usage.cache_write),
        "received": reply.received,
        "finished": reply.finished,
    }


@turn_router.get("/{turn}", operation_id="showTurn", responses=list_error_responses())
async def get_turn(turn: TurnPath, desk: ContextDep) -> RecordedTurn:
    """Return the state and the recorded prompt of a turn: one of your own, or any at full trust.

    Only the user of a private turn sees its reply and prompt.
    """
    reply, lane = await find_visible_turn(desk, turn)
    if reply.user != desk.user and desk.find_clearance() is not Trust.FULL:
        raise make_not_found("turn")
    if not may_read_text(desk.make_reader(), lane.person):
        return RecordedTurn(**{**describe_reply(reply), "reply": ""}, prompts=[])
    sent = await find_recorded_prompt(desk, reply)
    return RecordedTurn(**describe_reply(reply), prompts=[sent.to_dict()] if sent else [])


async def find_recorded_prompt(desk: RequestContext, reply: TurnReply) -> SentPrompt | None:
    """Find the recorded prompt of a turn."""
    if not reply.prompt_hash:
        return None
    reader, log = desk.make_reader(), desk.gateway.listeners.log

    def find(connection: Any) -> SentPrompt | None:
        if log:
            log.flush()  # recent prompts may not be written yet
        return read_prompt(connection, reader, reply.prompt_hash)

    return await desk.ask(find)


async def find_visible_turn(desk: RequestContext, turn: str) -> tuple[TurnReply, Lane]:
    """Find a turn of any user at or below the caller's clearance, and its session key; raise a 404 otherwise."""
    reply = await desk.gateway.find(turn)
    session = await desk.gateway.sessions.find(reply.session) if reply else None
    if reply is None or session is None or session.lane.clearance > desk.find_clearance():
        raise make_not_found("turn")
    return reply, session.lane


async def find_own_turn(desk: RequestContext, turn: str) -> TurnReply:
    """Find a turn of the caller; turns of other users raise a 404 at any trust."""
    reply, _ = await find_visible_turn(desk, turn)
    if reply.user != desk.user:
        raise make_not_found("turn")
    return reply


@turn_router.delete("/{turn}", operation_id="stopTurn", responses=list_error_responses())
async def stop_turn(turn: TurnPath, desk: ContextDep) -> StopResult:
    """Stop one of your turns. The session stays usable; a finished turn does not change."""
    await find_own_turn(desk, turn)
    return StopResult(turn=turn, stopped=await desk.gateway.stop(turn))


@turn_router.post("/{turn}/answers", operation_id="answerQuestion", responses=list_error_responses(409))
async def answer_question(turn: TurnPath, decision: QuestionDecision, desk: ContextDep) -> QuestionResult:
    """Answer the approval question of a tool; without approval the tool does not run."""
    await find_own_turn(desk, turn)
    if not desk.gateway.decide(turn, decision.question, allowed=decision.allowed):
        raise HttpError(409, "the turn is not waiting for an answer to this question", param="question")
    return QuestionResult(turn=turn, question=decision.question, allowed=decision.allowed)
