"""Chat completions as OpenAI has them: any client or chat window that speaks to OpenAI can speak to an agent."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request, Response

from foreword.errors import UnknownName
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.device import Languages, read_device
from foreword.gateway.api.faults import missing
from foreword.gateway.api.openai import (
    Answered,
    ChatRequest,
    Choice,
    Completion,
    Foreword,
    PromptDetails,
    Usage,
    read_conversation,
)
from foreword.gateway.api.shapes import LONGEST_NAME, answers
from foreword.gateway.api.spoken import Spoken
from foreword.gateway.api.stream import ALIVE, keep_alive, stream, write_event
from foreword.gateway.api.turns import ENDINGS, STREAMED, Key, find_fault
from foreword.gateway.channels.fetched import hand_in
from foreword.gateway.channels.web import OPENAI, Web
from foreword.gateway.message import Accepted, Reply, State
from foreword.runtime.ears import Anew, Calling, Words

SESSION = "X-Foreword-Session"
AGAIN = "\n\n"  # between words that a tool or another try stands between

Named = Annotated[
    str | None, Header(alias=SESSION, max_length=LONGEST_NAME, description="The session; else it is found.")
]
ECHO = {SESSION: {"description": "The session of the turn.", "schema": {"type": "string"}}}

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
    """Say the last message to an agent; what stands before it finds the session, or is text from outside."""
    if asked.model not in desk.config.agents:
        raise UnknownName("agent", asked.model, desk.config.agents)
    text, before = read_conversation(asked.messages)
    spoken: Spoken = request.app.state.spoken
    told = None if session else spoken.restore(desk.user, before)
    device = read_device(None, languages)
    web = Web(desk.user, OPENAI)
    heard = web.hear(text, before=told, agent=asked.model, session=session or "", key=key or "", client=device)
    accepted = await hand_in(desk.gateway.receive, heard)
    telling = Telling(desk, accepted, asked)
    if asked.stream:
        usage = bool(asked.stream_options and asked.stream_options.include_usage)
        return stream(telling.tell(spoken, usage=usage), {SESSION: accepted.session})
    async for _ in telling.listen():
        pass
    reply = await telling.find_reply()
    if reply.state in ENDINGS:
        raise find_fault(reply)
    response.headers[SESSION] = reply.session
    return telling.complete(reply)


class Telling:
    """Tells one turn to a client of OpenAI."""

    def __init__(self, desk: Desk, accepted: Accepted, asked: ChatRequest) -> None:
        self._desk = desk
        self._accepted = accepted
        self._model = asked.model
        self._created = int(desk.now.timestamp())
        self._heard: list[str] = []
        self._apart = False

    async def listen(self) -> AsyncIterator[str | None]:
        """Pass on the words, and None for a while without any."""
        async for delta in keep_alive(self._desk.gateway.hear(self._accepted.turn)):
            if delta is None:
                yield None
            elif isinstance(delta, Words):
                text = AGAIN + delta.text if self._apart and self._heard else delta.text
                self._apart = False
                self._heard.append(text)
                yield text
            elif isinstance(delta, Anew | Calling):
                self._apart = True

    async def find_reply(self) -> Reply:
        """Find what came of the turn."""
        reply = await self._desk.gateway.wait(self._accepted.turn)
        if reply is None:
            raise missing("turn")
        return reply

    async def tell(self, spoken: Spoken, *, usage: bool) -> AsyncIterator[str]:
        """Tell the turn as a stream of chunks."""
        yield self._write({"role": "assistant", "content": ""})
        async for text in self.listen():
            yield ALIVE if text is None else self._write({"content": text})
        reply = await self.find_reply()
        if reply.state in ENDINGS:
            yield write_event(find_fault(reply).to_dict())
            return
        heard = "".join(self._heard)
        if reply.state is not State.ANSWERED or not heard.strip():
            # Nobody has heard the words yet: the turn is kept for later, or was answered before.
            told = f"{AGAIN}{reply.text}" if heard else reply.text
            heard += told
            yield self._write({"content": told})
        spoken.remember(self._desk.user, heard, reply.text)
        yield self._write({}, find_reason(reply), reply)
        if usage:
            yield write_event({**self._head(reply), "choices": [], "usage": show_usage(reply).model_dump()})
        yield write_event("[DONE]")

    def complete(self, reply: Reply) -> Completion:
        """Tell the turn as one answer."""
        return Completion(
            id=f"chatcmpl-{reply.turn}",
            created=self._created,
            model=self._model,
            choices=[Choice(message=Answered(content=reply.text), finish_reason=find_reason(reply))],
            usage=show_usage(reply),
            foreword=show_own(reply),
        )

    def _head(self, reply: Reply | None = None) -> dict[str, Any]:
        own = {"foreword": show_own(reply).model_dump()} if reply else {}
        return {
            "id": f"chatcmpl-{self._accepted.turn}",
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            **own,
        }

    def _write(self, delta: dict[str, Any], finish: str | None = None, reply: Reply | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return write_event({**self._head(reply), "choices": [choice]})


def show_usage(reply: Reply) -> Usage:
    """Show what a turn used, under OpenAI's names."""
    usage = reply.usage
    return Usage(
        prompt_tokens=usage.tokens_in,
        completion_tokens=usage.tokens_out,
        total_tokens=usage.tokens_in + usage.tokens_out,
        prompt_tokens_details=PromptDetails(cached_tokens=usage.cache_read),
    )


def show_own(reply: Reply) -> Foreword:
    """Show what OpenAI has no name for."""
    return Foreword(turn=reply.turn, session=reply.session, state=str(reply.state), cost_usd=reply.cost_usd)


def find_reason(reply: Reply) -> Literal["stop", "length"]:
    """Find why an answer ends, in OpenAI's words."""
    return "length" if reply.cut else "stop"
