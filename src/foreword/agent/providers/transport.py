"""Replaces the prompt in a request that a provider library wrote with our own bytes.

The library serializes model answers, tool calls and tool results in the provider's shape; those stay. The system
prompt, the tools and the user messages are ours. Cache breakpoints are set last.

Provider cache diagnostics: requests the reason of a cache miss and reads it from the answer. Response formats: how
each provider is asked for JSON, and which models support it. The HTTP transport of the provider libraries: every
request carries our prompt, byte for byte.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import httpx2

from foreword.envelope import Envelope, write_request
from foreword.errors import ForewordError, UnknownName
from foreword.types import frozen

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

    from foreword.agent.providers.model_clients import OpenModel


Body = Mapping[str, Any]
MAX_STREAM_LINE_BYTES = 1_000_000  # bytes of one line of a stream; longer lines are skipped


def request_diagnosis(shape: str, request: Body, previous: str) -> Body:
    """Add a request for diagnostics that compares with the request behind `previous`; the first one only opts in."""
    if shape == "anthropic":
        return {**request, "diagnostics": {"previous_message_id": previous or None}}
    if shape == "responses" and previous:
        options = {**request.get("prompt_cache_options", {}), "comparison_response_id": previous}
        return {**request, "prompt_cache_options": options}
    return request


def read_diagnosis(event: Body) -> str:
    """Return the reason of a cache miss from one stream event; empty if it has none."""
    answer = event.get("message") or event.get("response") or {}
    theirs = (answer.get("diagnostics") or {}).get("cache_miss_reason") or {}
    other = answer.get("prompt_cache_diagnostics") or {}
    return str(theirs.get("type") or other.get("reason") or "")


class DiagnosisStream(httpx2.AsyncByteStream):
    """Passes a stream through unchanged and reports the diagnosis in it."""

    def __init__(self, inner: httpx2.AsyncByteStream, report: Callable[[str], None]) -> None:
        self._inner = inner
        self._report = report
        self._rest = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._search(piece)
            yield piece

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._inner.aclose()

    def _search(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest if len(self._rest) < MAX_STREAM_LINE_BYTES else b""
        for line in lines:
            if line.startswith(b"data:") and b"diagnostics" in line:
                with suppress(ValueError):
                    event = json.loads(line[5:])
                    if isinstance(event, dict) and (word := read_diagnosis(event)):
                        self._report(word)


FORMAT_CAPABILITIES = {"json_object": "supports_json_object_output", "json_schema": "supports_json_schema_output"}


def find_unsupported_format(opened: "OpenModel", wanted: str, model: str, *, tools: bool) -> str:
    """Return why a model does not support a format; empty if it does."""
    kind = str(json.loads(wanted)["type"])
    profile: ModelProfile = opened.model.profile
    if opened.shape == "anthropic" and kind == "json_object":
        return f"{model} takes response_format json_schema, and not json_object"
    if not profile.get(FORMAT_CAPABILITIES[kind], False):
        return f"{model} does not take response_format {kind}"
    if opened.shape == "gemini" and tools and not profile.get("google_supports_tool_combination", False):
        return f"{model} does not take response_format together with tools, and the agent has tools"
    return ""


def add_response_format(shape: str, request: Body, written: str) -> Body:
    """Add a format to a finished request, in the provider's wire shape."""
    wanted = json.loads(written)
    schema = wanted.get("json_schema", {})  # its name and its schema; empty for `json_object`
    if shape == "openai":
        return {**request, "response_format": wanted}
    if shape == "responses":
        return {**request, "text": {**request.get("text", {}), "format": {"type": wanted["type"], **schema}}}
    if shape == "anthropic":
        output = {"type": "json_schema", "schema": schema["schema"]}
        return {**request, "output_config": {**request.get("output_config", {}), "format": output}}
    own = {"responseMimeType": "application/json"} | ({"responseJsonSchema": schema["schema"]} if schema else {})
    return {**request, "generationConfig": {**request.get("generationConfig", {}), **own}}


SYSTEM_ROLES = ("system", "developer")  # the roles of system messages


@frozen(eq=True)
class UserMessage:
    """One user message, and the system message that follows it."""

    texts: tuple[str, ...]
    """Its texts, in the form first sent."""
    system: str = ""


UserMessages = tuple[UserMessage, ...]
"""The user messages of a conversation."""


class ForeignRequest(ForewordError):
    """A request does not carry our prompt; it is not sent."""


@frozen
class OwnRequest:
    """A request with our prompt in it."""

    shape: str
    request: Body
    places: tuple[int, ...] = ()
    """The index of each user message in the conversation, counted after its opening."""


def serialize_request(owned: OwnRequest) -> bytes:
    """Serialize a request without cache breakpoints."""
    return write_request(owned.shape, owned.request)


@frozen
class OutgoingPrompt:
    """The parts of the next request that are ours: prompt, user messages, token limit and cache options."""

    envelope: Envelope
    user_messages: UserMessages
    max_tokens: int
    cache_key: str = ""
    """An opaque key of the conversation, for providers that cache per key."""
    write: Callable[[OwnRequest], bytes] = serialize_request
    """Serializes the finished request with its history and cache breakpoints."""
    system_messages: bool = True
    """Whether the model accepts system messages within a conversation. If not, those of an earlier model are left out:
    the prompt contains their text."""
    response_format: str = ""
    report_diagnosis: Callable[[str], None] | None = None
    """Called with the provider's cache diagnosis, if one was requested."""

    @property
    def keyed(self) -> dict[str, str]:
        """The cache key as a field of OpenAI requests."""
        return {"prompt_cache_key": self.cache_key} if self.cache_key else {}


InsertedRequest = tuple[Body, list[int]]
"""A request with our prompt, and the index of each user message in its conversation."""


def insert_prompt(body: Body, sending: OutgoingPrompt) -> OwnRequest:
    """Return the request with our prompt in it."""
    shape = sending.envelope.shape
    if shape not in INSERTERS:
        raise UnknownName("shape of a request", shape, INSERTERS)
    request, places = INSERTERS[shape](body, sending)
    if sending.response_format:
        request = add_response_format(shape, request, sending.response_format)
    return OwnRequest(shape=shape, request=request, places=tuple(places))


def insert_into_anthropic(body: Body, sending: OutgoingPrompt) -> InsertedRequest:
    """Put our prompt into the body of POST /v1/messages."""
    request = sending.envelope.request
    conversation = (message for message in body["messages"] if message["role"] not in SYSTEM_ROLES)
    messages, places = fill_user_messages(sending, conversation, is_user_text, {"type": "text"})
    rest = omit_fields(body, "model", "system", "tools", "tool_choice", "messages", "max_tokens", "cache_control")
    return {**request, "messages": messages, "max_tokens": sending.max_tokens, **rest}, places


def insert_into_chat(body: Body, sending: OutgoingPrompt) -> InsertedRequest:
    """Put our prompt into the body of POST /v1/chat/completions."""
    request = sending.envelope.request
    system = [message for message in request["messages"][:1] if message["role"] == "system"]
    conversation = (message for message in body["messages"] if message["role"] not in SYSTEM_ROLES)
    messages, places = fill_user_messages(
        sending, conversation, lambda message: message["role"] == "user", {"type": "text"}
    )
    limit = "max_tokens" if "max_tokens" in body else "max_completion_tokens"  # the library's choice for this server
    rest = omit_fields(body, "model", "tools", "tool_choice", "messages", limit)
    whole = {**request, "messages": [*system, *messages], limit: sending.max_tokens, **sending.keyed, **rest}
    return whole, places


def insert_into_responses(body: Body, sending: OutgoingPrompt) -> InsertedRequest:
    """Put our prompt into the body of POST /v1/responses."""
    request = sending.envelope.request
    system = [item for item in request["input"][:1] if item["role"] == "system"]
    conversation = (item for item in body["input"] if item.get("role") not in SYSTEM_ROLES)
    items, places = fill_user_messages(
        sending, conversation, lambda item: item.get("role") == "user", {"type": "input_text"}
    )
    # The library requests cache diagnostics by default; here the configuration decides.
    ours = ("model", "instructions", "tools", "tool_choice", "input", "max_output_tokens", "prompt_cache_options")
    rest = omit_fields(body, *ours)
    limit = {"max_output_tokens": sending.max_tokens}
    return {**request, "input": [*system, *items], **limit, **sending.keyed, **rest}, places


def insert_into_gemini(body: Body, sending: OutgoingPrompt) -> InsertedRequest:
    """Put our prompt into the body of generateContent; write `role` before `parts`, unlike Google's library."""
    conversation = ({"role": content.get("role"), "parts": content["parts"]} for content in body["contents"])
    contents, places = fill_user_messages(sending, conversation, is_user_content, {}, "parts")
    settings = {**body.get("generationConfig", {}), "maxOutputTokens": sending.max_tokens}
    rest = omit_fields(
        body, "systemInstruction", "tools", "toolConfig", "contents", "cachedContent", "generationConfig"
    )
    return {**sending.envelope.request, "contents": contents, "generationConfig": settings, **rest}, places


def is_user_text(message: Body) -> bool:
    """Return whether a message of Anthropic's shape is a user message with text, not with tool results."""
    content = message["content"]
    parts = () if isinstance(content, str) else content
    return message["role"] == "user" and not any(part.get("type") == "tool_result" for part in parts)


def is_user_content(content: Body) -> bool:
    """Return whether a content of Gemini's shape is a user message with text, not with tool results."""
    return content["role"] == "user" and not any("functionResponse" in part for part in content["parts"])


def fill_user_messages(
    sending: OutgoingPrompt,
    messages: Iterable[Body],
    is_said: Callable[[Body], bool],
    part: Mapping[str, str],
    field: str = "content",
) -> tuple[list[Body], list[int]]:
    """Replace each user message with ours; return the messages, and the indexes of ours.

    Raise ForeignRequest if the number of user messages differs.
    """
    said, filled, places = iter(sending.user_messages), list[Body](), list[int]()
    for message in messages:
        if not is_said(message):
            filled.append(message)
            continue
        ours = next(said, None)
        if ours is None:
            raise ForeignRequest("the request has an unknown user message; it was not sent")
        places.append(len(filled))
        filled.append({"role": "user", field: [{**part, "text": text} for text in ours.texts]})
        if ours.system and sending.system_messages:
            filled.append({"role": "system", field: [{**part, "text": ours.system}]})
    if next(said, None) is not None:
        raise ForeignRequest("the request lacks a user message; it was not sent")
    return filled, places


def omit_fields(body: Body, *names: str) -> dict[str, Any]:
    """Return a body without these fields."""
    return {name: value for name, value in body.items() if name not in names}


INSERTERS: Mapping[str, Callable[[Body, OutgoingPrompt], InsertedRequest]] = {
    "anthropic": insert_into_anthropic,
    "openai": insert_into_chat,
    "responses": insert_into_responses,
    "gemini": insert_into_gemini,
}


_SENDING: ContextVar[Sequence[OutgoingPrompt]] = ContextVar("foreword_sending", default=())
FRAMING_HEADERS = ("content-length", "transfer-encoding")


@contextmanager
def use_prompt(what: OutgoingPrompt) -> Iterator[None]:
    """Set the prompt for requests inside this block; each task has its own."""
    held = [what]
    token = _SENDING.set(held)
    try:
        yield
    finally:
        held.clear()  # a pooled connection keeps its context alive; it must not keep message text
        _SENDING.reset(token)


class PromptTransport(httpx2.AsyncBaseTransport):
    """Puts our prompt into each request and sends it."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with our prompt; raise ForeignRequest if none is set."""
        what = next(iter(_SENDING.get()), None)
        if what is None:
            raise ForeignRequest("a model was called without an assembled prompt; the request was not sent")
        content = what.write(insert_prompt(json.loads(await request.aread()), what))
        left_out = (
            (*FRAMING_HEADERS, "accept-encoding") if what.report_diagnosis else FRAMING_HEADERS
        )  # diagnoses need an uncompressed stream
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in left_out]
        response = await self._inner.handle_async_request(
            httpx2.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
        )
        if what.report_diagnosis and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = DiagnosisStream(response.stream, what.report_diagnosis)
        return response

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()
