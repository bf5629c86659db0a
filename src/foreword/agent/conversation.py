"""The messages of a session as pydantic-ai types: reading, appending, closing turns, and their stored segments.

The messages of a turn are the user's message, then model answers and tool results in order. They are recorded after
every step, so a turn can resume after the last one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from foreword.agent.providers.transport import Body, ForeignRequest, OwnRequest, UserMessage, UserMessages
from foreword.envelope import Segment, write_segment
from foreword.promptcache.rules import REQUEST_SHAPES
from foreword.tokens.count import Meter
from foreword.turn import Message
from foreword.types import frozen

Messages = tuple[ModelMessage, ...]


def replace_invalid_characters(text: str) -> str:
    """Replace characters that cannot be encoded as UTF-8; one of them in the history would break every later turn."""
    return text.encode("utf-8", "replace").decode()


def make_user_message(*texts: str, system: str = "") -> ModelRequest:
    """Make a user message with one part per text, followed by an optional system message."""
    said = UserPromptPart(content=[replace_invalid_characters(text) for text in texts])
    return ModelRequest(
        parts=[said, SystemPromptPart(content=replace_invalid_characters(system))] if system else [said]
    )


def list_user_texts(part: UserPromptPart) -> tuple[str, ...]:
    """List the texts of a user message."""
    if isinstance(part.content, str):
        return (part.content,)
    return tuple(text for text in part.content if isinstance(text, str))


def list_user_messages(messages: Sequence[ModelMessage]) -> UserMessages:
    """List the user messages in their sent form."""
    return tuple(
        UserMessage(
            texts=list_user_texts(part),
            system="".join(other.content for other in message.parts if isinstance(other, SystemPromptPart)),
        )
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )


def read_text(response: ModelResponse) -> str:
    """Return the text of an answer."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def read_answers(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the text of each model answer, in order."""
    return [read_text(message) for message in messages if isinstance(message, ModelResponse)]


def list_tool_calls(response: ModelResponse) -> list[ToolCallPart]:
    """List the tool calls of an answer."""
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def find_answer(messages: Sequence[ModelMessage]) -> ModelResponse | None:
    """Find the newest model answer."""
    return next((message for message in reversed(messages) if isinstance(message, ModelResponse)), None)


def list_unanswered_calls(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """List the calls of the newest answer that have no result yet."""
    answer = find_answer(messages)
    last = messages[-1] if messages else None
    results = last.parts if isinstance(last, ModelRequest) else ()
    answered = {part.tool_call_id for part in results if isinstance(part, ToolReturnPart)}
    return [call for call in list_tool_calls(answer) if call.tool_call_id not in answered] if answer else []


def count_fenced_results(messages: Sequence[ModelMessage]) -> int:
    """Count the results that the fenced calls of the newest answer have so far."""
    last = messages[-1] if find_answer(messages) else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return sum(len(list_user_texts(part)) for part in parts if isinstance(part, UserPromptPart))


def add_result(messages: Messages, call: ToolCallPart, text: str, *, failed: bool = False) -> Messages:
    """Add the result of a tool call to the results of the same answer.

    A failed result reaches the provider as an error: `is_error` for Anthropic, the key `error` for Gemini, and an
    object with that key for providers without such a field.
    """
    part = ToolReturnPart(
        tool_name=call.tool_name,
        content=replace_invalid_characters(text),
        tool_call_id=call.tool_call_id,
        outcome="failed" if failed else "success",
    )
    last = messages[-1]
    if isinstance(last, ModelRequest):
        return (*messages[:-1], replace(last, parts=[*last.parts, part]))
    return (*messages, ModelRequest(parts=[part]))


def add_fenced_result(messages: Messages, text: str) -> Messages:
    """Add the result of a fenced call; the results of one answer share one message, a part each."""
    last = messages[-1]
    if isinstance(last, ModelResponse):
        return (*messages, make_user_message(text))
    texts = [each for part in last.parts if isinstance(part, UserPromptPart) for each in list_user_texts(part)]
    return (*messages[:-1], make_user_message(*texts, text))


def close_turn(messages: Sequence[ModelMessage], words: str) -> Messages:
    """Close a turn that ended early: give every call a result and end with an answer, so the next turn can follow."""
    closed = tuple(messages)
    while (
        closed
        and isinstance(last := closed[-1], ModelResponse)
        and not (read_text(last).strip() or list_tool_calls(last))
    ):
        closed = closed[:-1]  # providers reject messages without content
    if not closed:
        return closed
    for call in list_unanswered_calls(closed):
        closed = add_result(closed, call, f"(not run: {words})")
    if isinstance(closed[-1], ModelRequest):
        closed = (*closed, ModelResponse(parts=[TextPart(content=f"({words})")]))
    return closed


def convert_to_texts(messages: Sequence[ModelMessage]) -> tuple[Message, ...]:
    """Return a history as plain texts, for token counting."""
    converted: list[Message] = []
    for message in messages:
        role = "assistant" if isinstance(message, ModelResponse) else "user"
        text = "\n\n".join(filter(None, render_parts(message)))
        if converted and converted[-1].role == role:
            converted[-1] = replace(converted[-1], text=f"{converted[-1].text}\n\n{text}")
        elif text:
            converted.append(Message(role="assistant" if role == "assistant" else "user", text=text))
    return tuple(converted)


def render_parts(message: ModelMessage) -> Iterator[str]:
    """Yield the parts of a message as texts."""
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield "\n\n".join(list_user_texts(part))
        elif isinstance(part, TextPart | SystemPromptPart):
            yield part.content
        elif isinstance(part, ToolCallPart):
            yield f"{part.tool_name}({part.args_as_json_str()})"
        elif isinstance(part, ToolReturnPart):
            yield part.model_response_str()


def list_results(messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    """List the results of successful tool calls, each with its tool name."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.outcome == "success":
                yield part.tool_name, part.model_response_str()


def dump_messages(messages: Sequence[ModelMessage]) -> bytes:
    """Serialize messages as JSON for storage."""
    return ModelMessagesTypeAdapter.dump_json(list(messages))


def load_messages(stored: bytes | str) -> Messages:
    """Parse stored messages."""
    return tuple(ModelMessagesTypeAdapter.validate_json(stored))


@frozen
class SerializedSegment:
    """A history segment as serialized in one wire shape, counted by one meter."""

    shape: str
    meter: Meter
    segment: Segment
    binds: bool
    """Whether a library serializes later messages differently because of this segment."""


class HistorySegment:
    """One or more stored turns, with their cached derived forms."""

    __slots__ = ("_messages", "_texts", "_written", "stored")

    def __init__(self, stored: bytes) -> None:
        self.stored = stored
        self._messages: Messages | None = None
        self._texts: tuple[Message, ...] | None = None
        self._written: SerializedSegment | None = None

    @property
    def messages(self) -> Messages:
        """The messages as library objects; they are large, so they are cached only until they are serialized."""
        if self._written:
            return load_messages(self.stored)
        if self._messages is None:
            self._messages = load_messages(self.stored)
        return self._messages

    @property
    def texts(self) -> tuple[Message, ...]:
        """The messages as plain texts."""
        if self._texts is None:
            self._texts = convert_to_texts(self.messages)
        return self._texts

    def find(self, shape: str, meter: Meter, start: int) -> SerializedSegment | None:
        """Return the serialized form for a request with `start` messages before the segment, if it is known."""
        known = self._written
        fits = known and known.shape == shape and known.meter is meter and known.segment.start == start
        return known if fits else None

    def cache(self, written: SerializedSegment) -> None:
        """Store the serialized form."""
        self._written, self._messages = written, None


def make_segments(messages: Messages) -> tuple[HistorySegment, ...]:
    """Make a history of messages that were not stored; empty if there are none."""
    return (HistorySegment(dump_messages(messages)),) if messages else ()


def convert_segments_to_texts(history: Sequence[HistorySegment]) -> tuple[Message, ...]:
    """Return a history as plain texts; consecutive messages of one role become one message."""
    texts = [one.texts for one in history if one.texts]
    if any(one[-1].role == other[0].role for one, other in pairwise(texts)):
        return convert_to_texts([message for one in history for message in one.messages])
    return tuple(chain.from_iterable(texts))


class SegmentedHistory:
    """The history before a turn; segments that are already serialized are not serialized again."""

    def __init__(self, history: Sequence[HistorySegment], shape: str, meter: Meter, opening: int) -> None:
        self._history = tuple(history)
        self._shape = shape
        self._meter = meter
        self._opening = opening
        self._known: list[Segment] = []
        self._counts: list[int] = []

    def list_unwritten(self) -> Messages:
        """List the messages that a library must serialize; libraries read the newest answer, so always include it."""
        self._known, at = [], self._opening
        for one in self._history[:-1]:
            written = one.find(self._shape, self._meter, at)
            if written is None or written.binds:
                break
            self._known.append(written.segment)
            at = written.segment.end
        rest = [one.messages for one in self._history[len(self._known) :]]
        # A segment that does not start with a user message cannot be separated from the one before it.
        cut = all(messages and list_user_messages(messages[:1]) for messages in rest)
        self._counts = [len(list_user_messages(messages)) for messages in rest] if cut else []
        return tuple(message for messages in rest for message in messages)

    def take(self, owned: OwnRequest) -> tuple[Body, tuple[Segment, ...]]:
        """Split a serialized request into the current turn and its history, and store the history's serialized form."""
        field = REQUEST_SHAPES[self._shape].field
        said = owned.request[field][self._opening :]
        fresh = self._history[len(self._known) :] if self._counts else ()
        at, begin, segments = 0, 0, list(self._known)
        for one, count in zip(fresh, self._counts, strict=bool(fresh)):
            at += count
            if at >= len(owned.places):
                raise ForeignRequest("the request lacks a user message; it was not sent")
            end = owned.places[at]
            start = segments[-1].end if segments else self._opening
            written = one.find(self._shape, self._meter, start)
            if written is None:
                written = self._write(one, said[begin:end], start)
                one.cache(written)
            segments.append(written.segment)
            begin = end
        opening = owned.request[field][: self._opening]
        return {**owned.request, field: [*opening, *said[begin:]]}, tuple(segments)

    def _write(self, one: HistorySegment, messages: Sequence[Body], start: int) -> SerializedSegment:
        segment = write_segment(self._shape, messages, start, self._meter.facts.cache, self._meter.count)
        binds = any(is_binding(self._shape, message) for message in one.messages)
        return SerializedSegment(shape=self._shape, meter=self._meter, segment=segment, binds=binds)


def is_binding(shape: str, message: ModelMessage) -> bool:
    """Return whether Pydantic AI reads an earlier answer to serialize what follows it.

    For chat completions it takes the field of a tool call from the thinking parts; Anthropic models that dropped
    thinking parts must get that information in every later request.
    """
    if not isinstance(message, ModelResponse):
        return False
    if shape == "anthropic":
        return "input_transformations" in (message.provider_details or {})
    return shape == "openai" and any(isinstance(part, ThinkingPart) for part in message.parts)
