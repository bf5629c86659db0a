"""The messages of a session: their types, their JSON in the state, and how a turn adds to them.

The messages of a turn are the user's message, then model answers and tool results in order. They are recorded after
every step, so a turn can resume after the last one. Every provider shape writes them in its own way; storage, erasure,
transcripts and compaction read this one form:

    [{"role": "user", "parts": [{"type": "text", "text": "Is it warm?"}]},
     {"role": "assistant", "parts": [{"type": "call", "id": "c1", "name": "weather", "arguments": "{}"}]},
     {"role": "tool", "parts": [{"type": "result", "id": "c1", "name": "weather", "text": "12 °C"}]},
     {"role": "assistant", "parts": [{"type": "text", "text": "No."}], "provider": "anthropic"}]
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

from foreword.errors import InputError
from foreword.turn import Message
from foreword.types import frozen


@frozen(eq=True)
class TextPart:
    """Text of a person or of the model."""

    text: str = ""
    id: str = ""
    """The provider's id of the text, for providers that give one."""
    signature: str = ""
    """A signature that its provider wants back with the text."""


@frozen(eq=True)
class ImagePart:
    """An image of a person, by reference: the file is in the workspace's state folder under its hash."""

    media_type: str = ""
    sha256: str = ""
    width: int = 0
    height: int = 0


@frozen(eq=True)
class InlineImage:
    """An image with its bytes, as a wire shape writes it; it is never stored."""

    media_type: str
    base64: str


@frozen(eq=True)
class ThinkingPart:
    """What the model thought; only the provider that wrote it gets it back."""

    text: str = ""
    id: str = ""
    """The provider's id of the thought, or the name of the field that carried it."""
    signature: str = ""
    """Its signature or its encrypted form."""
    redacted: bool = False
    """Whether the provider sent only the encrypted form in place of the text."""


@frozen(eq=True)
class CallPart:
    """A tool call of the model."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    """The arguments as the model wrote them: JSON, if the model made no mistake."""
    item: str = ""
    """The provider's id of the item, for providers that have one beside the id of the call."""
    signature: str = ""
    """A signature that its provider wants back with the call."""

    def read_arguments(self) -> dict[str, Any]:
        """Return the arguments as an object; providers accept nothing else, so a text that is none is wrapped."""
        try:
            value = json.loads(self.arguments or "{}", strict=False)
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {"INVALID_JSON": self.arguments}


@frozen(eq=True)
class ResultPart:
    """The result of a tool call."""

    id: str = ""
    name: str = ""
    text: str = ""
    failed: bool = False


@frozen(eq=True)
class UserMessage:
    """A message of a person, or results that a model without native tools gets as text."""

    role: ClassVar[str] = "user"
    parts: tuple[TextPart | ImagePart | InlineImage, ...] = ()
    system: str = ""
    """A system message that follows it."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the message."""
        return tuple(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The references to its images, which follow the texts."""
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


@frozen(eq=True)
class Answer:
    """An answer of the model."""

    role: ClassVar[str] = "assistant"
    parts: tuple[TextPart | ThinkingPart | CallPart, ...] = ()
    cut: bool = False
    """Whether it was truncated at its token limit."""
    provider: str = ""
    """The provider that wrote it: ids, signatures and thoughts go back to no other."""
    drops_thinking: bool = False
    """Whether the provider was asked to ignore thoughts that followed another prompt; later requests must ask too."""

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> list[CallPart]:
        """The tool calls of the answer."""
        return [part for part in self.parts if isinstance(part, CallPart)]


@frozen(eq=True)
class ToolResults:
    """The results of the tool calls of one answer."""

    role: ClassVar[str] = "tool"
    parts: tuple[ResultPart, ...] = ()


HistoryMessage = UserMessage | Answer | ToolResults
Messages = tuple[HistoryMessage, ...]

MESSAGE_TYPES: Mapping[str, type[HistoryMessage]] = {kind.role: kind for kind in (UserMessage, Answer, ToolResults)}
PART_TYPES: Mapping[str, Any] = {
    "text": TextPart,
    "image": ImagePart,
    "thinking": ThinkingPart,
    "call": CallPart,
    "result": ResultPart,
}
TYPE_NAMES = {kind: name for name, kind in PART_TYPES.items()}


def dump_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a message or a part that differ from their defaults."""
    return {
        field.name: own
        for field in fields(value)
        if field.name != "parts" and (own := getattr(value, field.name)) != field.default
    }


def dump_messages(messages: Sequence[HistoryMessage]) -> bytes:
    """Serialize messages as JSON for storage."""
    shown = [
        {
            "role": message.role,
            "parts": [{"type": TYPE_NAMES[type(part)], **dump_fields(part)} for part in message.parts],
            **dump_fields(message),
        }
        for message in messages
    ]
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


class DamagedHistory(InputError, ValueError):
    """Stored messages that cannot be read; nothing can be sent of their session."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"the stored messages of this session are damaged ({type(error).__name__}); start a new session"
        )


def load_messages(stored: bytes | str) -> Messages:
    """Parse stored messages; raise DamagedHistory if they are damaged."""
    try:
        messages: list[dict[str, Any]] = json.loads(stored)
        return tuple(
            MESSAGE_TYPES[shown.pop("role")](
                parts=tuple(PART_TYPES[part.pop("type")](**part) for part in shown.pop("parts")), **shown
            )
            for shown in messages[:]  # only a list has a slice
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedHistory(error) from error


def replace_invalid_characters(text: str) -> str:
    """Replace characters that cannot be encoded as UTF-8; one of them in the history would break every later turn."""
    return text.encode("utf-8", "replace").decode()


def make_user_message(*texts: str, system: str = "", images: Iterable[ImagePart] = ()) -> UserMessage:
    """Make a user message with one part per text and image, followed by an optional system message."""
    parts = (TextPart(text=replace_invalid_characters(text)) for text in texts)
    return UserMessage(parts=(*parts, *images), system=replace_invalid_characters(system))


def make_answer(text: str) -> Answer:
    """Make an answer that no provider wrote."""
    return Answer(parts=(TextPart(text=text),))


def read_answers(messages: Iterable[HistoryMessage]) -> list[str]:
    """Return the text of each model answer, in order."""
    return [message.text for message in messages if isinstance(message, Answer)]


def find_answer(messages: Sequence[HistoryMessage]) -> Answer | None:
    """Find the newest model answer."""
    return next((message for message in reversed(messages) if isinstance(message, Answer)), None)


def list_unanswered_calls(messages: Sequence[HistoryMessage]) -> list[CallPart]:
    """List the calls of the newest answer that have no result yet."""
    answer = find_answer(messages)
    last = messages[-1] if messages else None
    answered = {part.id for part in last.parts} if isinstance(last, ToolResults) else ()
    return [call for call in answer.calls if call.id not in answered] if answer else []


def count_fenced_results(messages: Sequence[HistoryMessage]) -> int:
    """Count the results that the fenced calls of the newest answer have so far."""
    last = messages[-1] if find_answer(messages) else None
    return len(last.texts) if isinstance(last, UserMessage) else 0


def add_result(messages: Messages, call: CallPart, text: str, *, failed: bool = False) -> Messages:
    """Add the result of a tool call to the results of the same answer.

    A failed result reaches the provider as an error: `is_error` for Anthropic, the key `error` for Gemini, and an
    object with that key for providers without such a field.
    """
    part = ResultPart(id=call.id, name=call.name, text=replace_invalid_characters(text), failed=failed)
    last = messages[-1]
    if isinstance(last, ToolResults):
        return (*messages[:-1], ToolResults(parts=(*last.parts, part)))
    return (*messages, ToolResults(parts=(part,)))


def add_fenced_result(messages: Messages, text: str) -> Messages:
    """Add the result of a fenced call; the results of one answer share one message, a part each."""
    last = messages[-1]
    if isinstance(last, UserMessage):
        return (*messages[:-1], make_user_message(*last.texts, text))
    return (*messages, make_user_message(text))


def close_turn(messages: Sequence[HistoryMessage], words: str) -> Messages:
    """Close a turn that ended early: give every call a result and end with an answer, so the next turn can follow."""
    closed = tuple(messages)
    while closed and isinstance(last := closed[-1], Answer) and not (last.text.strip() or last.calls):
        closed = closed[:-1]  # providers reject messages without content
    if not closed:
        return closed
    for call in list_unanswered_calls(closed):
        closed = add_result(closed, call, f"(not run: {words})")
    return closed if isinstance(closed[-1], Answer) else (*closed, make_answer(f"({words})"))


def convert_to_texts(messages: Sequence[HistoryMessage]) -> tuple[Message, ...]:
    """Return a history as plain texts, for token counting."""
    converted: list[Message] = []
    for message in messages:
        role = "assistant" if isinstance(message, Answer) else "user"
        text = "\n\n".join(filter(None, render_parts(message)))
        if converted and converted[-1].role == role:
            converted[-1] = replace(converted[-1], text=f"{converted[-1].text}\n\n{text}")
        elif text:
            converted.append(Message(role="assistant" if role == "assistant" else "user", text=text))
    return tuple(converted)


def render_parts(message: HistoryMessage) -> Iterator[str]:
    """Yield the parts of a message as texts."""
    for part in message.parts:
        if isinstance(part, CallPart):
            yield f"{part.name}({write_compact(part.read_arguments())})"
        elif isinstance(part, ResultPart):
            yield write_compact({"error": part.text}) if part.failed else part.text
        elif isinstance(part, TextPart):
            yield part.text
    if isinstance(message, UserMessage):
        yield message.system


def write_compact(value: Any) -> str:
    """Serialize a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def list_images(messages: Iterable[HistoryMessage]) -> tuple[ImagePart, ...]:
    """List the references to the images of a history."""
    return tuple(image for message in messages if isinstance(message, UserMessage) for image in message.images)


def list_results(messages: Iterable[HistoryMessage]) -> Iterator[tuple[str, str]]:
    """List the results of successful tool calls, each with its tool name."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ResultPart) and not part.failed:
                yield part.name, part.text
