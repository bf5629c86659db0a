"""Chat completions as OpenAI has them: any client or chat window that speaks to OpenAI can speak to an agent."""

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request, Response

from foreword.errors import UnknownName
from foreword.events.event import Usage as Used
from foreword.events.span import clean_traceparent
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.device import Languages, read_device
from foreword.gateway.api.faults import SESSION, Fault, missing
from foreword.gateway.api.held import HeldShape, describe
from foreword.gateway.api.openai import (
    Answered,
    ChatRequest,
    Choice,
    Completion,
    Foreword,
    PromptDetails,
    Usage,
    check_tools,
    read_conversation,
    read_request,
    write_format,
)
from foreword.gateway.api.retries import make_key, read_client_request
from foreword.gateway.api.shapes import LONGEST_NAME, answers
from foreword.gateway.api.stream import ALIVE, keep_alive, stream, write_event
from foreword.gateway.api.turns import ENDINGS, STREAMED, Key, find_fault, find_waiters
from foreword.gateway.api.waiters import TurnStream
from foreword.gateway.channels.fetched import hand_in
from foreword.gateway.channels.web import OPENAI, Web
from foreword.gateway.housekeeping import Task, recognise
from foreword.gateway.message import Accepted, Reply, State
from foreword.gateway.spoken import SEPARATOR, Spoken
from foreword.runtime.outcome import End, Ended

CLIENT_TOOLS = "Foreword-Client-Tools"
HOUSEKEEPING = "Foreword-Housekeeping"
HELD = "Foreword-Held"
CHUNK = "chat.completion.chunk"

Named = Annotated[
    str | None, Header(alias=SESSION, max_length=LONGEST_NAME, description="The session; else it is found.")
]
ECHO = {
    SESSION: {"description": "The session of the turn.", "schema": {"type": "string"}},
    CLIENT_TOOLS: {
        "description": "What became of the client's own tools, such as `ignored; count=36`.",
        "schema": {"type": "string"},
    },
    HOUSEKEEPING: {
        "description": "What a request of the chat UI itself was taken for, such as `title`.",
        "schema": {"type": "string"},
    },
    HELD: {
        "description": "The ids of the calls of the turn that wait for approval; not in a stream.",
        "schema": {"type": "string"},
    },
}

router = APIRouter(prefix="/v1/chat", tags=["openai"])


@router.post(
    "/completions",
    operation_id="complete",
    response_model=Completion,
    responses={200: {**STREAMED, "headers": ECHO}, **answers(402, 409, 502)},
)
async def complete(
    asked: ChatRequest,
    desk: AtDesk,
    *,
    request: Request,
    response: Response,
    session: Named = None,
    key: Key = None,
    languages: Languages = None,
) -> Any:
    """Say the last message to an agent; the messages before it find the session, or are text from outside."""
    if asked.model not in desk.config.agents:
        raise UnknownName("agent", asked.model, desk.config.agents)
    check_tools(asked, desk.config.server.client_tools)
    wanted = write_format(asked.response_format)
    chore = read_request(asked)
    if name := recognise(chore, desk.config.server.housekeeping):
        task = Task(
            name=name,
            agent=asked.model,
            channel=OPENAI,
            user=desk.user,
            request=chore,
            clearance=desk.find_clearance(),
            request_id=desk.request_id,
            response_format=wanted,
        )
        await check_format(desk, asked.model, wanted)
        done, headers = await answer_housekeeping(desk, asked, task), {HOUSEKEEPING: name, **describe_tools(asked)}
        response.headers.update(headers)
        return stream(stream_completion(done, usage=wants_usage(asked)), headers) if asked.stream else done
    text, before = read_conversation(asked.messages)
    sent = await read_client_request(
        request, desk, streamed=bool(asked.stream), client_tools=asked.client_tools, response_format=wanted
    )
    heard = Web(desk.user, OPENAI).hear(
        text,
        before=None if session else before,
        agent=asked.model,
        session=session or "",
        key=make_key(desk, key),
        client=read_device(None, languages),
        request=sent,
        traceparent=clean_traceparent(request.headers.getlist("traceparent")),
    )
    accepted = await hand_in(desk.gateway.receive, heard)
    headers = {SESSION: accepted.session, **describe_tools(asked)}
    telling = Telling(desk, accepted, asked)
    waiters, stops = find_waiters(request), desk.config.server.on_disconnect == "stop"
    if asked.stream:
        events = telling.tell(usage=wants_usage(asked))
        return TurnStream(events, headers, accepted.turn, waiters if stops else None)
    reply = await waiters.wait(request, accepted.turn, telling.find_reply(), stops=stops)
    if reply.state in ENDINGS:
        raise find_fault(reply)
    held = await telling.list_held()
    response.headers.update(headers | ({HELD: ", ".join(one.held for one in held)} if held else {}))
    return telling.complete(reply, held)


async def answer_housekeeping(desk: Desk, asked: ChatRequest, task: Task) -> Completion:
    """Answer what a chat UI asks for itself."""
    try:
        answer = await desk.gateway.housekeeping.answer(task)
    except Ended as error:
        if error.end is End.REFUSED:
            raise Fault(402, error.told) from error
        raise Fault(502, "the model failed; the request was not stored") from error
    return Completion(
        id=f"chatcmpl-{answer.id}",
        created=int(desk.now.timestamp()),
        model=asked.model,
        choices=[Choice(message=Answered(content=answer.text), finish_reason="stop")],
        usage=show_usage(answer.usage),
        foreword=Foreword(turn=answer.id, session="", state=str(State.ANSWERED), cost_usd=answer.cost_usd),
    )


async def stream_completion(done: Completion, *, usage: bool) -> AsyncIterator[str]:
    """Write a whole answer as a stream of chunks."""
    whole = done.model_dump()
    head = {**{name: whole[name] for name in ("id", "created", "model", "foreword")}, "object": CHUNK}
    for delta, finish in (({"role": "assistant", "content": done.choices[0].message.content}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        yield write_event({**head, "choices": [choice]})
    if usage:
        yield write_event({**head, "choices": [], "usage": whole["usage"]})
    yield write_event("[DONE]")


def describe_tools(asked: ChatRequest) -> dict[str, str]:
    """Make the header that says what became of the client's tools; none where it sent none."""
    return {CLIENT_TOOLS: f"ignored; count={asked.client_tools}"} if asked.client_tools else {}


def wants_usage(asked: ChatRequest) -> bool:
    """Return whether a stream ends with what was used."""
    return bool(asked.stream_options and asked.stream_options.include_usage)


async def check_format(desk: Desk, agent: str, wanted: str) -> None:
    """Refuse a format that the agent's model does not take for housekeeping; the gateway checks that of a session."""
    if wanted and (refusal := await desk.gateway.judge_format(agent, wanted, tools=False)):
        raise Fault(400, refusal, param="response_format")


class Telling:
    """Tells one turn to a client of OpenAI."""

    def __init__(self, desk: Desk, accepted: Accepted, asked: ChatRequest) -> None:
        self._desk = desk
        self._accepted = accepted
        self._model = asked.model
        self._created = int(desk.now.timestamp())

    async def find_reply(self) -> Reply:
        """Find what came of the turn."""
        reply = await self._desk.gateway.wait(self._accepted.turn)
        if reply is None:
            raise missing("turn")
        return reply

    async def tell(self, *, usage: bool) -> AsyncIterator[str]:
        """Tell the turn as a stream of chunks."""
        yield self._write({"role": "assistant", "content": ""})
        spoken = Spoken()
        async for delta in keep_alive(self._desk.gateway.hear(self._accepted.turn)):
            if delta is None:
                yield ALIVE
            elif text := spoken.add(delta):
                yield self._write({"content": text})
        reply = await self.find_reply()
        if reply.state in ENDINGS:
            fault = find_fault(reply)
            fault.more["request_id"] = self._desk.request_id
            yield write_event(fault.to_dict())
            return
        if reply.state is not State.ANSWERED or not spoken.text.strip():
            # The client has not got the words yet: the turn is kept for later, or was answered before.
            yield self._write({"content": f"{SEPARATOR}{reply.text}" if spoken.text else reply.text})
        own = {"foreword": show_own(reply, await self.list_held()).model_dump(mode="json")}
        yield self._write({}, find_reason(reply), own)
        if usage:
            yield write_event({**self._head(), **own, "choices": [], "usage": show_usage(reply.usage).model_dump()})
        yield write_event("[DONE]")

    async def list_held(self) -> list[HeldShape]:
        """List the calls of the turn that wait for approval."""
        return [describe(one) for one in await self._desk.gateway.held.list_of_turn(self._accepted.turn)]

    def complete(self, reply: Reply, held: list[HeldShape]) -> Completion:
        """Tell the turn as one answer."""
        return Completion(
            id=f"chatcmpl-{reply.turn}",
            created=self._created,
            model=self._model,
            choices=[Choice(message=Answered(content=reply.text), finish_reason=find_reason(reply))],
            usage=show_usage(reply.usage),
            foreword=show_own(reply, held),
        )

    def _head(self) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._accepted.turn}",
            "object": CHUNK,
            "created": self._created,
            "model": self._model,
        }

    def _write(self, delta: dict[str, Any], finish: str | None = None, own: Mapping[str, Any] | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return write_event({**self._head(), **(own or {}), "choices": [choice]})


def show_usage(usage: Used) -> Usage:
    """Show what a turn used, under OpenAI's names."""
    return Usage(
        prompt_tokens=usage.tokens_in,
        completion_tokens=usage.tokens_out,
        total_tokens=usage.tokens_in + usage.tokens_out,
        prompt_tokens_details=PromptDetails(cached_tokens=usage.cache_read),
    )


def show_own(reply: Reply, held: list[HeldShape]) -> Foreword:
    """Return the fields of an answer that OpenAI does not have."""
    return Foreword(turn=reply.turn, session=reply.session, state=str(reply.state), cost_usd=reply.cost_usd, held=held)


def find_reason(reply: Reply) -> Literal["stop", "length"]:
    """Find why an answer ends, in OpenAI's words."""
    return "length" if reply.cut else "stop"
