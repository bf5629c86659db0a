"""Turns: a message in, its reply out, whole or as it is spoken; and what became of one."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response

from foreword.events.prompts import read_prompt
from foreword.events.sent import Sent
from foreword.events.span import clean_traceparent
from foreword.events.visible import reads_words
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.device import Languages, read_device
from foreword.gateway.api.faults import KEY, SESSION, Fault, missing
from foreword.gateway.api.retries import make_key, read_client_request
from foreword.gateway.api.shapes import (
    Cache,
    Decided,
    Decision,
    RecordedTurn,
    Stopped,
    Tokens,
    TurnAnswer,
    TurnRequest,
    answers,
)
from foreword.gateway.api.stream import ALIVE, SSE, keep_alive, write_event
from foreword.gateway.api.waiters import TurnStream, Waiters
from foreword.gateway.channels.fetched import hand_in
from foreword.gateway.channels.web import Web
from foreword.gateway.lane import Lane
from foreword.gateway.message import Accepted, Reply, State
from foreword.runtime.ears import Anew, Asking, Calling, Delta, Recalled, Returned, Words
from foreword.words import Trust

ENDINGS = {State.REFUSED: 402, State.FAILED: 502, State.STOPPED: 409}
STREAMED = {
    "description": "The reply; as events where the client accepts them.",
    "content": {SSE: {"schema": {"type": "string"}}},
}
Turn = Annotated[str, Path(max_length=64, description="The id of a turn.")]
Key = Annotated[
    str | None,
    Header(alias=KEY, max_length=200, description="Sent twice under one key of one token, a message is one turn."),
]

router = APIRouter(prefix="/api/turns", tags=["turns"])


@router.post(
    "",
    operation_id="say",
    response_model=TurnAnswer,
    responses={
        200: STREAMED,
        202: {"model": TurnAnswer, "description": "It is kept, and answered later."},
        **answers(402, 409, 502),
    },
)
async def say(
    asked: TurnRequest,
    desk: AtDesk,
    *,
    request: Request,
    response: Response,
    key: Key = None,
    languages: Languages = None,
) -> Any:
    """Say something to an agent, and wait for the reply; without a client the turn goes on, unless configured."""
    streamed = SSE in request.headers.get("accept", "")
    heard = Web(desk.user).hear(
        asked.text,
        agent=asked.agent or "",
        situation=desk.choose_situation(asked.situation),
        session=asked.session or "",
        client=read_device(asked.client, languages),
        key=make_key(desk, key),
        asks=streamed,
        plan=asked.plan,
        project=desk.open_project(asked.project, asked.agent, asked.situation),
        traceparent=clean_traceparent(request.headers.getlist("traceparent")),
        request=await read_client_request(request, desk, streamed=streamed),
    )
    accepted = await hand_in(desk.gateway.receive, heard)
    if heard.project and not accepted.repeated:
        await desk.gateway.sessions.set_project(accepted.session, heard.project)
    waiters, stops = find_waiters(request), desk.config.server.on_disconnect == "stop"
    if streamed:
        headers = {SESSION: accepted.session}
        return TurnStream(tell(desk, accepted), headers, accepted.turn, waiters if stops else None)
    reply = await waiters.wait(request, accepted.turn, desk.gateway.wait(accepted.turn), stops=stops)
    if reply.state in ENDINGS:
        raise find_fault(reply)
    response.status_code = 200 if reply.state is State.ANSWERED else 202
    return show_reply(reply)


def find_waiters(request: Request) -> Waiters:
    """Find who counts the clients that wait for turns."""
    waiters: Waiters = request.app.state.waiters
    return waiters


async def tell(desk: Desk, accepted: Accepted) -> AsyncIterator[str]:
    """Tell a turn as events, from its acceptance to its end."""
    about = {"turn": accepted.turn, "session": accepted.session, "repeated": accepted.repeated}
    yield write_event(about, "accepted")
    async for delta in keep_alive(desk.gateway.hear(accepted.turn)):
        yield ALIVE if delta is None else show_delta(delta)
    reply = await desk.gateway.wait(accepted.turn)
    if reply.state in ENDINGS:
        fault = find_fault(reply)
        fault.more["request_id"] = desk.request_id
        yield write_event(fault.to_dict(), "error")
    else:
        yield write_event(
            show_reply(reply).model_dump(mode="json"), "done" if reply.state is State.ANSWERED else "queued"
        )


def show_delta(delta: Delta) -> str:
    """Show one piece of a running turn as an event."""
    match delta:
        case Words():
            return write_event({"text": delta.text}, "words")
        case Anew():
            return write_event({}, "anew")
        case Recalled():
            return write_event({"passages": [one.to_dict() for one in delta.passages]}, "recalled")
        case Calling():
            return write_event({"name": delta.name, "state": "begun"}, "tool")
        case Returned():
            return write_event({"name": delta.name, "state": "done" if delta.done else "failed"}, "tool")
        case Asking():
            return write_event({"id": delta.id, "name": delta.name, "question": delta.question}, "ask")


def find_fault(reply: Reply) -> Fault:
    """Say why a turn has no answer, in the words for the person."""
    message = reply.text or "the turn was stopped"
    return Fault(ENDINGS[reply.state], message, code=str(reply.state), turn=reply.turn, session=reply.session)


def show_reply(reply: Reply) -> TurnAnswer:
    """Show what came of a turn."""
    return TurnAnswer(**describe(reply))


def describe(reply: Reply) -> dict[str, Any]:
    """Describe what came of a turn by the names of its shape."""
    usage = reply.usage
    return {
        "turn": reply.turn,
        "session": reply.session,
        "agent": reply.agent,
        "state": str(reply.state),
        "reply": reply.text,
        "tokens": Tokens(input=usage.tokens_in, output=usage.tokens_out),
        "cost_usd": reply.cost_usd,
        "cut": reply.cut,
        "silent": reply.silent,
        "cache": Cache(read=usage.cache_read, write=usage.cache_write),
        "received": reply.received,
        "finished": reply.finished,
    }


@router.get("/{turn}", operation_id="showTurn", responses=answers())
async def show(turn: Turn, desk: AtDesk) -> RecordedTurn:
    """Show a turn: how far it is, and what its model was told; one's own, or any at full trust.

    The reply and the prompt of a private turn are shown to its person alone.
    """
    reply, lane = await find_open(desk, turn)
    if reply.user != desk.user and desk.find_clearance() is not Trust.FULL:
        raise missing("turn")
    if not reads_words(desk.make_reader(), lane.person):
        return RecordedTurn(**{**describe(reply), "reply": ""}, prompts=[])
    sent = await find_sent(desk, reply)
    return RecordedTurn(**describe(reply), prompts=[sent.to_dict()] if sent else [])


async def find_sent(desk: Desk, reply: Reply) -> Sent | None:
    """Find what the model of a turn was told, as far as it is recorded."""
    if not reply.prompt_hash:
        return None
    reader, prompts = desk.make_reader(), desk.gateway.listeners.prompts

    def find(log: Any) -> Sent | None:
        if prompts:
            prompts.flush()  # what was sent a moment ago may still be on its way into the log
        return read_prompt(log, reader, reply.prompt_hash)

    return await desk.ask(find)


async def find_open(desk: Desk, turn: str) -> tuple[Reply, Lane]:
    """Find a turn that was not held above what this person may see now, whoever's it is, and its place."""
    reply = await desk.gateway.find(turn)
    session = await desk.gateway.sessions.find(reply.session) if reply else None
    if reply is None or session is None or session.lane.clearance > desk.find_clearance():
        raise missing("turn")
    return reply, session.lane


async def find_own(desk: Desk, turn: str) -> Reply:
    """Find a turn that this person may act on: their own, and nobody else's at any trust."""
    reply, _ = await find_open(desk, turn)
    if reply.user != desk.user:
        raise missing("turn")
    return reply


@router.delete("/{turn}", operation_id="stopTurn", responses=answers())
async def stop(turn: Turn, desk: AtDesk) -> Stopped:
    """Stop one's own turn; the session can be used afterwards. One that has ended stays as it is."""
    await find_own(desk, turn)
    return Stopped(turn=turn, stopped=await desk.gateway.stop(turn))


@router.post("/{turn}/answers", operation_id="answerQuestion", responses=answers(409))
async def decide(turn: Turn, decision: Decision, desk: AtDesk) -> Decided:
    """Answer what a tool asks before it changes something; without an answer it does not."""
    await find_own(desk, turn)
    if not desk.gateway.decide(turn, decision.question, allowed=decision.allowed):
        raise Fault(409, "this turn does not wait for an answer to that", param="question")
    return Decided(turn=turn, question=decision.question, allowed=decision.allowed)
