"""`POST /v1/chat/completions`: OpenAI-compatible chat completions, answered by an agent.

`/v1/models`: the configured agents, in OpenAI's list of models.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Response

from foreword.agent.agent_events import TurnEnd, TurnEnded
from foreword.agent.images import MAX_IMAGES, Image, make_image
from foreword.agent.reply_stream import SEPARATOR, StreamedText
from foreword.errors import InputError, UnknownName
from foreword.events.tracer import clean_traceparent
from foreword.gateway import housekeeping
from foreword.gateway.channel import InboundMessage
from foreword.gateway.channels.pull_channel import OPENAI_CHANNEL, submit_message
from foreword.gateway.client_tools import (
    CallReference,
    label_outside,
    make_client_tools,
    read_call_id,
    read_client_tools,
)
from foreword.gateway.messages import AcceptedTurn
from foreword.http import request_context as shared
from foreword.http import sse, turn_routes
from foreword.http.error_responses import ATTACHMENTS, SESSION_HEADER, HttpError, list_error_responses, make_not_found
from foreword.http.openai_models import (
    IMAGE_PART_TYPE,
    AssistantMessage,
    CalledFunction,
    ChatMessage,
    ChatRequest,
    Completion,
    CompletionCall,
    CompletionChoice,
    CompletionUsage,
    ForewordField,
    ModelEntry,
    ModelList,
    PromptDetails,
)
from foreword.http.request_context import MAX_NAME_CHARS, ContextDep, RequestContext
from foreword.storage.turns import TurnReply, TurnState
from foreword.turn import Message

CONTINUE_MESSAGE = "(Continue your last answer from where it stopped.)"
CLIENT_TOOLS_HEADER = "Foreword-Client-Tools"
HOUSEKEEPING_HEADER = "Foreword-Housekeeping"
HELD_HEADER = "Foreword-Held"
HEADER_DESCRIPTIONS = {
    SESSION_HEADER: "The session of the turn.",
    CLIENT_TOOLS_HEADER: "How the client's tools were handled, such as `ignored; count=36`.",
    HOUSEKEEPING_HEADER: "The kind of housekeeping request that was recognised, such as `title`.",
    HELD_HEADER: "The ids of the turn's calls that wait for approval; not set for streams.",
}
RESPONSE_HEADERS = {
    name: {"description": about, "schema": {"type": "string"}} for name, about in HEADER_DESCRIPTIONS.items()
}
STREAMED_STATES = (TurnState.ANSWERED, TurnState.CALLED)  # states whose text was streamed
CHUNK_OBJECT = "chat.completion.chunk"

chat_router = APIRouter(prefix="/v1/chat", tags=["openai"])
model_router = APIRouter(prefix="/v1/models", tags=["openai"])


SESSION_DESCRIPTION = "The session; by default it is found from the messages."
SessionHeader = Annotated[
    str | None, Header(alias=SESSION_HEADER, max_length=MAX_NAME_CHARS, description=SESSION_DESCRIPTION)
]


@chat_router.post(
    "/completions",
    operation_id="complete",
    response_model=Completion,
    responses={200: {**turn_routes.REPLY_RESPONSE, "headers": RESPONSE_HEADERS}, **list_error_responses(402, 409, 502)},
)
async def create_completion(
    body: ChatRequest,
    context: ContextDep,
    *,
    response: Response,
    session: SessionHeader = None,
    key: shared.IdempotencyKey = None,
    languages: shared.AcceptLanguage = None,
) -> Any:
    """Send the last message to an agent. The earlier messages identify the session, or are untrusted text."""
    if body.model not in context.config.agents:
        raise UnknownName("agent", body.model, context.config.agents)
    policy = context.config.server.client_tools
    check_tools(body, policy)
    tools = read_client_tools(body.tools) if policy == "pass" and body.tools and body.tool_choice != "none" else ""
    handled = f"passed; count={len(make_client_tools(tools))}" if tools else f"ignored; count={body.client_tools}"
    headers = {CLIENT_TOOLS_HEADER: handled} if body.client_tools else {}
    chat = read_housekeeping(body)
    if name := housekeeping.recognise_housekeeping(chat, context.config.server.housekeeping):
        completion = await answer_housekeeping(context, body, name, chat)
        headers = {HOUSEKEEPING_HEADER: name, **headers}
        response.headers.update(headers)
        return sse.EventResponse(stream_completion(completion, body), headers) if body.stream else completion
    text, before = read_conversation(body.messages)
    images = await read_images(body.messages[-1], f"messages.{len(body.messages) - 1}.content")
    request = await context.read_client_request(
        streamed=bool(body.stream),
        client_tools=0 if tools else body.client_tools,
        tools=tools,
        response_format=body.format_json,
    )
    message = InboundMessage(
        channel=OPENAI_CHANNEL,
        sender=context.user,
        text=text,
        images=images,
        before=None if session else before,
        agent=body.model,
        session=session or "",
        key=context.make_idempotency_key(key),
        client=shared.read_client(None, languages),
        request=request,
        traceparent=clean_traceparent(context.request.headers.getlist("traceparent")),
    )
    call, results = read_results(body.messages) if policy == "pass" else (None, {})
    if call:
        accepted = await context.gateway.resume(call, results, message)
    else:
        accepted = await submit_message(context.gateway.receive, message)
    headers = {SESSION_HEADER: accepted.session, **headers}
    created = int(context.now.timestamp())
    if body.stream:
        events = stream_reply(context, accepted, body, created)
        return sse.TurnStream(events, headers, accepted.turn, context.request.app.state.waiters)
    reply = await turn_routes.wait_for_answer(context, accepted.turn)
    held = await list_held(context, reply.turn)
    response.headers.update(headers | ({HELD_HEADER: ", ".join(call.held for call in held)} if held else {}))
    return make_completion(body.model, reply, held, created, await list_calls(context, reply))


def read_results(messages: list[ChatMessage]) -> tuple[CallReference | None, dict[int, str]]:
    """Read the results with which a conversation ends, by the place of their calls, and one of these calls."""
    results: dict[int, str] = {}
    newest: CallReference | None = None
    for message in reversed(messages):
        call = read_call_id(message.tool_call_id or "") if message.role == "tool" else None
        if call is None or (newest and (call.turn, call.answers) != (newest.turn, newest.answers)):
            break
        newest, results[call.place] = call, read_text(message)
    return newest, results


async def list_calls(context: RequestContext, reply: TurnReply) -> list[CompletionCall] | None:
    """List the calls that the client is to run; None if there are none."""
    if reply.state is not TurnState.CALLED:
        return None
    return [
        CompletionCall(id=call.id, function=CalledFunction(name=call.name, arguments=call.arguments))
        for call in await context.gateway.list_client_calls(reply.turn)
    ]


def check_tools(body: ChatRequest, policy: str) -> None:
    """Raise a 400 for client tools if the policy is `refuse`, and for a forced tool choice in any case."""
    for name, tools in (("tools", body.tools), ("functions", body.functions)):
        if tools and policy == "refuse":
            raise HttpError(400, f"client tools are disabled on this server; remove {name!r}", param=name)
    for name, choice in (("tool_choice", body.tool_choice), ("function_call", body.function_call)):
        allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
        mode = allowed.get("mode") if isinstance(allowed, dict) else choice
        if mode not in (None, "none", "auto"):
            problem = f"{name} cannot force a client tool. Use 'auto' or 'none'"
            raise HttpError(400, problem, param=name)


def read_conversation(messages: list[ChatMessage]) -> tuple[str, tuple[Message, ...]]:
    """Return the newest message as text, and the earlier messages that the client claims."""
    earlier = messages if messages[-1].role == "assistant" else messages[:-1]
    before = [read_message(one) for at, one in enumerate(earlier) if not continued_turn(messages, at)]
    return read_newest(messages[-1], len(messages) - 1), tuple(message for message in before if message.text.strip())


def continued_turn(messages: list[ChatMessage], at: int) -> bool:
    """Return whether a message is a result with which a turn of ours went on, so that it is part of that turn."""
    after = next((one for one in messages[at:] if one.role != "tool"), None)
    return read_call_id(messages[at].tool_call_id or "") is not None and after is not None and after.role == "assistant"


def read_newest(message: ChatMessage, at: int) -> str:
    """Return the text that the agent answers; a final assistant message asks for a continuation."""
    if message.role == "assistant":
        return CONTINUE_MESSAGE
    if message.role not in ("user", "tool", "function"):
        raise HttpError(422, "the last message must have the role 'user'", param=f"messages.{at}.role")
    field = f"messages.{at}.content"
    for part in message.content if isinstance(message.content, list) else ():
        if part.attachment and not (part.type == IMAGE_PART_TYPE and message.role == "user"):
            problem = f"{field}: the newest message has an attachment ({part.attachment}); {ATTACHMENTS}"
            raise HttpError(400, problem, param=field)
    text = read_text(message)
    if not text.strip():
        raise HttpError(422, "the last message is empty", param=field)
    return text if message.role == "user" else label_outside(text)


def read_message(message: ChatMessage) -> Message:
    """Convert an earlier message; a role other than user or assistant becomes a label in the text."""
    text = read_text(message)
    match message.role:
        case "user" | "assistant" as role:
            return Message(role=role, text=text)
    return Message(role="user", text=f"[{message.role}] {text}" if text.strip() else "")


def read_text(message: ChatMessage) -> str:
    """Return the text of a message, with a marker for each image of a person and a note for any other attachment."""
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.write(images=message.role == "user") for part in content)


async def read_images(message: ChatMessage, field: str) -> tuple[Image, ...]:
    """Return the images of the newest message of a user; raise a 400 that names the wrong one."""
    parts = message.content if message.role == "user" and isinstance(message.content, list) else []
    found = [(at, part) for at, part in enumerate(parts) if part.type == IMAGE_PART_TYPE]
    if len(found) > MAX_IMAGES:
        raise HttpError(400, f"{field}: {len(found)} images; at most {MAX_IMAGES} are accepted", param=field)
    images: list[Image] = []
    for at, part in found:
        try:
            images.append(await asyncio.to_thread(read_image, part.url))
        except InputError as error:
            raise HttpError(400, f"{field}.{at}: {error}", param=f"{field}.{at}.image_url") from None
    return tuple(images)


def read_image(url: str) -> Image:
    """Return the image of a data: URL, whose media type is not trusted; raise InputError for any other URL."""
    head, comma, data = url.partition(",")
    if not (comma and head.lower().startswith("data:") and head.lower().endswith(";base64")):
        raise InputError("an image is sent as a data: URL in base64; the gateway fetches nothing")
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        raise InputError("the data: URL of the image is not valid base64") from None
    return make_image(content)


def read_housekeeping(body: ChatRequest) -> housekeeping.HousekeepingRequest:
    """Extract the fields that identify a housekeeping request of a chat UI."""
    limits = (body.max_tokens, body.max_completion_tokens, body.max_output_tokens)
    task = body.metadata.get("task") if isinstance(body.metadata, dict) else None
    return housekeeping.HousekeepingRequest(
        lines=[housekeeping.ChatLine(role=one.role, text=read_text(one)) for one in body.messages],
        task=task if isinstance(task, str) else "",
        max_tokens=min((limit for limit in limits if type(limit) is int and limit > 0), default=None),
    )


async def answer_housekeeping(
    context: RequestContext, body: ChatRequest, name: str, chat: housekeeping.HousekeepingRequest
) -> Completion:
    """Answer a housekeeping request of a chat UI, such as a request for a title."""
    task = housekeeping.HousekeepingTask(
        name=name,
        agent=body.model,
        channel=OPENAI_CHANNEL,
        user=context.user,
        request=chat,
        clearance=context.find_clearance(),
        request_id=context.request_id,
        response_format=body.format_json,
    )
    choices = context.gateway.choices
    if body.format_json and (refusal := await choices.judge_format(body.model, body.format_json, tools=False)):
        raise HttpError(400, refusal, param="response_format")
    try:
        answer = await context.gateway.housekeeping.answer(task)
    except TurnEnded as error:
        if error.end is TurnEnd.REFUSED:
            raise HttpError(402, error.message) from error
        raise HttpError(502, "the model failed; the request was not stored") from error
    reply = TurnReply(
        turn=answer.id,
        session="",
        agent=body.model,
        user=context.user,
        state=TurnState.ANSWERED,
        text=answer.text,
        received=context.now,
        usage=answer.usage,
        cost_usd=answer.cost_usd,
    )
    return make_completion(body.model, reply, [], int(context.now.timestamp()))


def make_completion(
    model: str,
    reply: TurnReply,
    held: list[turn_routes.HeldShape],
    created: int,
    calls: list[CompletionCall] | None = None,
) -> Completion:
    """Return a reply in OpenAI's format."""
    usage = reply.usage
    message = AssistantMessage(content=reply.text, tool_calls=calls)
    stop: Literal["stop", "length", "tool_calls"] = "tool_calls" if calls else "length" if reply.cut else "stop"
    return Completion(
        id=f"chatcmpl-{reply.turn}",
        created=created,
        model=model,
        choices=[CompletionChoice(message=message, finish_reason=stop)],
        usage=CompletionUsage(
            prompt_tokens=usage.tokens_in,
            completion_tokens=usage.tokens_out,
            total_tokens=usage.tokens_in + usage.tokens_out,
            prompt_tokens_details=PromptDetails(cached_tokens=usage.cache_read),
        ),
        foreword=ForewordField(
            turn=reply.turn, session=reply.session, state=str(reply.state), cost_usd=reply.cost_usd, held=held
        ),
    )


async def stream_completion(completion: Completion, body: ChatRequest) -> AsyncIterator[str]:
    """Write a complete answer as a stream of chunks."""
    fields = completion.model_dump()
    head = {**{name: fields[name] for name in ("id", "created", "model", "foreword")}, "object": CHUNK_OBJECT}
    yield write_chunk(head, {"role": "assistant", "content": completion.choices[0].message.content})
    yield write_ending(head, completion, body)


async def stream_reply(
    context: RequestContext, accepted: AcceptedTurn, body: ChatRequest, created: int
) -> AsyncIterator[str]:
    """Write a turn as a stream of chunks."""
    head: dict[str, Any] = {"id": f"chatcmpl-{accepted.turn}", "object": CHUNK_OBJECT, "created": created}
    head["model"] = body.model
    yield write_chunk(head, {"role": "assistant", "content": ""})
    streamed = StreamedText()
    async for delta in sse.keep_alive(context.gateway.hear(accepted.turn)):
        if delta is None:
            yield sse.KEEP_ALIVE_COMMENT
        elif text := streamed.add(delta):
            yield write_chunk(head, {"content": text})
    reply = await context.gateway.wait(accepted.turn)
    if reply.state in turn_routes.FAILURE_STATUSES:
        yield sse.write_event(turn_routes.make_turn_error(reply).to_dict(context.request_id))
        return
    if reply.state not in STREAMED_STATES or not streamed.text.strip():
        # The text was not streamed yet: the turn is queued, or it was answered before this request.
        yield write_chunk(head, {"content": f"{SEPARATOR}{reply.text}" if streamed.text else reply.text})
    calls = await list_calls(context, reply)
    if calls:
        pieces = [{"index": at, **call.model_dump()} for at, call in enumerate(calls)]
        yield write_chunk(head, {"tool_calls": pieces})
    completion = make_completion(body.model, reply, await list_held(context, reply.turn), created, calls)
    head["foreword"] = completion.foreword.model_dump(mode="json")
    yield write_ending(head, completion, body)


def write_chunk(head: Mapping[str, Any], delta: dict[str, Any], finish: str | None = None) -> str:
    """Write one chunk of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return sse.write_event({**head, "choices": [choice]})


def write_ending(head: Mapping[str, Any], completion: Completion, body: ChatRequest) -> str:
    """Write the end of a stream: the reason of the end, the usage if it is wanted, and the sign of the end."""
    usage = {**head, "choices": [], "usage": completion.usage.model_dump()}
    ending = write_chunk(head, {}, completion.choices[0].finish_reason)
    return ending + (sse.write_event(usage) if body.wants_usage else "") + sse.write_event("[DONE]")


async def list_held(context: RequestContext, turn: str) -> list[turn_routes.HeldShape]:
    """List the turn's calls that wait for approval."""
    return [turn_routes.describe_held_call(call) for call in await context.gateway.held.list_of_turn(turn)]


@model_router.get("", operation_id="listModels")
async def list_models(context: ContextDep) -> ModelList:
    """List the agents; the first one is the default."""
    return ModelList(data=[ModelEntry(id=name, created=0, owned_by="foreword") for name in context.config.agents])


@model_router.get("/{model}", operation_id="showModel")
async def get_model(model: Annotated[str, Path(max_length=MAX_NAME_CHARS)], context: ContextDep) -> ModelEntry:
    """Return one agent."""
    if model not in context.config.agents:
        raise make_not_found("model")
    return ModelEntry(id=model, created=0, owned_by="foreword")
