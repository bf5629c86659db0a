"""What a provider is: it takes the finished envelope of a request and yields what the model answers.

A wire shape is the protocol of a provider's API: how messages are written, what a request carries beside the prompt,
and how the stream is read. One module per shape; this one has what they share.
"""

import json
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from foreword.agent.agent_events import ProviderError, TextDelta, ThinkingDelta
from foreword.agent.conversation import (
    Answer,
    CallPart,
    HistoryMessage,
    InlineImage,
    TextPart,
    ThinkingPart,
    UserMessage,
    replace_invalid_characters,
    write_compact,
)
from foreword.engine.sources.documents import join_lines
from foreword.envelope import Envelope
from foreword.errors import InputError
from foreword.events.event import Usage
from foreword.types import frozen

Body = Mapping[str, Any]

MAX_ANSWER_CHARS = 10_000_000  # characters of a whole answer; a file that a tool writes may have millions
UNREADABLE = "the answer of the provider cannot be read"
INTERRUPTED = "the connection to the provider broke: its answer has no end"
SYSTEM_TEXT = "system"


@frozen(eq=True)
class AnswerBegan:
    """The provider has begun to answer; from here on the call costs money."""


@frozen
class AnswerDone:
    """The whole answer, once the provider has finished it."""

    answer: Answer
    usage: Usage | None
    """None if the provider reported no usage."""
    response_id: str = ""
    diagnosis: str = ""
    """The provider's reason for a cache miss, if it was asked."""


ProviderEvent = AnswerBegan | TextDelta | ThinkingDelta | AnswerDone


class Provider(Protocol):
    """Sends finished requests."""

    def stream(self, envelope: Envelope) -> AsyncGenerator[ProviderEvent]:
        """Send the bytes of an envelope and yield the answer as it arrives; raise ProviderError if there is none."""


@frozen
class RequestOptions:
    """What a request asks for beside its prompt."""

    max_tokens: int
    cache_key: str = ""
    """An opaque key of the conversation, for providers that cache per key."""
    response_format: str = ""
    """The required format of the answer, as OpenAI's `response_format`; empty for plain text."""
    drops_thinking: bool = False
    """Whether the provider shall ignore thoughts of answers that followed another prompt, instead of refusing them."""
    diagnosis_of: str | None = None
    """The id of the answer to compare the cache with; empty to opt in to diagnoses, None to ask for none."""
    stream: bool = True
    """Whether the answer shall arrive as a stream of events."""


IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class WireShape(ABC):
    """The protocol of one API."""

    image_types: frozenset[str] = IMAGE_TYPES
    """The media types of the images that it takes, for models that take images."""

    name: str
    """The name of its envelope."""
    drafts: type["AnswerDraft"]
    """Reads its streams."""

    @abstractmethod
    def find_url(self, base_url: str, model: str) -> str:
        """Return the address for requests to a model."""

    @abstractmethod
    def authorize(self, key: str) -> dict[str, str]:
        """Return the headers that carry the API key."""

    @abstractmethod
    def write_message(self, message: HistoryMessage, provider: str) -> list[Body]:
        """Write a message; ids, signatures and thoughts of an answer go only to the provider that wrote it."""

    @abstractmethod
    def write_image(self, image: InlineImage) -> Body:
        """Write an image as a part of a message."""

    def write_user_message(self, message: UserMessage, text_type: str) -> list[Body]:
        """Write a person's message with typed parts, and the system message that follows it."""
        parts = [
            {"type": text_type, "text": part.text} if isinstance(part, TextPart) else self.write_image(part)
            for part in message.parts
            if isinstance(part, TextPart | InlineImage)
        ]
        said: list[Body] = [{"role": "user", "content": parts}]
        if message.system:
            said.append({"role": "system", "content": [{"type": text_type, "text": message.system}]})
        return said

    @abstractmethod
    def complete(self, request: Body, options: RequestOptions) -> Body:
        """Add to a request what it asks for beside the prompt."""

    @abstractmethod
    def split_reply(self, reply: Body) -> Iterator[Body]:
        """Yield the events of a stream that brings the same answer as a whole reply."""

    def read_reply(self, reply: Body, provider: str) -> AnswerDone:
        """Read a whole reply; raise InputError if it is not one of this API."""
        draft = self.drafts()
        try:
            for event in self.split_reply(reply):
                deque(draft.read(event), 0)
            deque(draft.end(), 0)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise InputError(f"the reply cannot be read ({type(error).__name__}: {error})") from None
        if not draft.done:
            raise InputError("the reply has no end: give the whole reply of the provider, not a part of a stream")
        return draft.finish(provider)

    def find_unsupported_format(self, model: str, kind: str, *, tools: bool) -> str:  # noqa: ARG002 - see subclasses
        """Return why a model does not take a response format; empty if it does."""
        return ""


class PartDraft:
    """A part of an answer while it arrives."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.texts: list[str] = []
        self.known: dict[str, str] = {}
        """Its other fields, as far as the provider has sent them."""
        self.redacted = False

    @property
    def text(self) -> str:
        """The text so far; the arguments of a call."""
        return "".join(self.texts)


class AnswerDraft(ABC):
    """An answer while it arrives: takes the events of a stream, and becomes an `AnswerDone`."""

    def __init__(self) -> None:
        self.parts: dict[Any, PartDraft] = {}
        """The parts by their key in the stream, in order."""
        self.size = 0
        """The characters so far."""
        self.usage: Usage | None = None
        self.cut = False
        self.done = False
        """Whether the provider has finished the answer."""
        self.response_id = ""
        self.diagnosis = ""

    @abstractmethod
    def read(self, event: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take one event; unknown ones mean nothing. Raise ProviderError for an error of the provider."""

    def end(self) -> Iterator[TextDelta | ThinkingDelta]:
        """End the stream; yield what was held back."""
        yield from ()

    def add(self, key: Any, kind: str, piece: str = "", **known: str) -> Iterator[TextDelta | ThinkingDelta]:
        """Add a piece to a part, or begin the part; yield what is shown of it."""
        draft = self.parts.setdefault(key, PartDraft(kind))
        draft.known |= {name: replace_invalid_characters(value) for name, value in known.items() if value}
        if piece:
            piece = replace_invalid_characters(piece)
            self.size += len(piece)
            if self.size > MAX_ANSWER_CHARS:
                raise ProviderError(f"{UNREADABLE} (it has more than {MAX_ANSWER_CHARS:,} characters)", passing=False)
            draft.texts.append(piece)
            if draft.kind == "text":
                yield TextDelta(text=piece)
            elif draft.kind == "thinking":
                yield ThinkingDelta(text=piece)

    def finish(self, provider: str) -> AnswerDone:
        """Return the whole answer."""
        parts = tuple(part for draft in self.parts.values() if (part := make_part(draft)))
        answer = Answer(parts=separate_ids(parts), cut=self.cut, provider=provider)
        return AnswerDone(answer=answer, usage=self.usage, response_id=self.response_id, diagnosis=self.diagnosis)


def make_part(draft: PartDraft) -> TextPart | ThinkingPart | CallPart | None:
    """Return the finished part; None if it is empty. Raise ValueError for a call that names no tool."""
    if draft.kind == "call":
        if "name" not in draft.known:
            raise ValueError("a call names no tool")  # providers would refuse every later request that repeats it
        return CallPart(**{"id": f"call_{secrets.token_hex(8)}", **draft.known}, arguments=draft.text)
    if draft.kind == "thinking":
        known = draft.known
        return ThinkingPart(text=draft.text, redacted=draft.redacted, **known) if draft.text or known else None
    return TextPart(text=draft.text, **draft.known) if draft.text or "signature" in draft.known else None


def separate_ids(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give each call an id of its own: two calls with one id could not be told apart, and providers refuse them."""
    taken: set[str] = set()

    def separate(part: Any) -> Any:
        if not isinstance(part, CallPart):
            return part
        name, number = part.id, 2
        while name in taken:
            name, number = f"{part.id}_{number}", number + 1
        taken.add(name)
        return replace(part, id=name)

    return tuple(map(separate, parts))


def read_count(value: object) -> int:
    """Return a number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and value > 0 else 0


def write_data_url(image: InlineImage) -> str:
    """Write an image as a data: URL."""
    return f"data:{image.media_type};base64,{image.base64}"


def write_error_object(text: str) -> str:
    """Write a failed result for a provider that has no field for failures."""
    return write_compact({"error": text})


TOO_LARGE_STATUS = 413  # a request with many images has more bytes than a provider takes
TRANSIENT_STATUSES = (408, 409, 425, 429)  # transient statuses below 500
ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": TOO_LARGE_STATUS,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status of an error that arrives inside a stream, by its type or code."""
QUOTA_ERRORS = ("insufficient_quota", "billing_error")  # waiting does not help
TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size_error")
TOO_LONG_MESSAGES = (
    "prompt is too long",
    "maximum context length",
    "reduce the length of the messages",
    "input token count",
    "number of tokens allowed",
    "input is too long",
    "exceeds the context window",
    "request payload size exceeds",
)
STALE_THINKING_MESSAGE = "The block is bound to a different conversation"
MAX_ERROR_CHARS = 500  # characters of a provider's message
MAX_ERROR_DEPTH = 6  # levels of nested error bodies
MESSAGE_KEYS = ("message", "error", "detail", "msg")


def make_provider_error(body: object, status: int | None = None, wait: float | None = None) -> ProviderError:
    """Make the error for an error body; the status of one inside a stream follows from its type."""
    body = read_json(body)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    fields = inner if isinstance(inner, Mapping) else {}
    names = [name for field in ("type", "status", "code") if isinstance(name := fields.get(field), str)]
    if status is None:
        code = fields.get("code")
        known = code if isinstance(code, int) else None
        status = known or next((ERROR_STATUSES[name] for name in names if name in ERROR_STATUSES), None)
    message = find_message(inner)
    too_long = (
        status == TOO_LARGE_STATUS
        or any(name in TOO_LONG_CODES for name in names)
        or any(words in message.lower() for words in TOO_LONG_MESSAGES)
    )
    helps = status is None or status in TRANSIENT_STATUSES or status >= 500
    return ProviderError(
        describe_error_body(names, message),
        status,
        wait,
        passing=helps and not too_long and not any(name in QUOTA_ERRORS for name in names),
        too_long=too_long,
        stale_thinking=STALE_THINKING_MESSAGE in message,
    )


def describe_error_body(names: list[str], message: str) -> str:
    """Return the provider's error type and message; never quote a body that has no message."""
    words = message or "no message in the provider's answer"
    return f"{names[0]}: {words}"[:MAX_ERROR_CHARS] if names else words[:MAX_ERROR_CHARS]


def find_message(value: object, depth: int = MAX_ERROR_DEPTH) -> str:
    """Find the message in an error body; proxies nest the JSON of one error in the message of another."""
    value = read_json(value)
    if isinstance(value, str):
        return "" if value.lstrip()[:1] in ("{", "[", "<") else join_lines(value)
    if isinstance(value, Mapping):
        inner = [value[name] for name in MESSAGE_KEYS if name in value]
    else:
        inner = list(value) if isinstance(value, list) else []
    return next(filter(None, (find_message(one, depth - 1) for one in inner)), "") if depth else ""


def read_json(body: object) -> object:
    """Parse a JSON text; return any other value unchanged."""
    if not isinstance(body, str) or body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body
