"""The history of a session as messages of pydantic-ai: what was said, what is open, and how a turn is closed.

A turn is its own messages: the newest message of the person first, then answers of the model and results of tools in
turn. They are recorded after every step, so whoever has them can go on after the last one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from foreword.runtime.own import Said, Spoken
from foreword.turn import Message

Messages = tuple[ModelMessage, ...]


def clean(text: str) -> str:
    """Replace what cannot be written as UTF-8: one such letter in a history would spoil every later turn."""
    return text.encode("utf-8", "replace").decode()


def say(*texts: str, told: str = "") -> ModelRequest:
    """Make a message of the user in so many parts, and what the model is told right behind it."""
    said = UserPromptPart(content=[clean(text) for text in texts])
    return ModelRequest(parts=[said, SystemPromptPart(content=clean(told))] if told else [said])


def list_texts(part: UserPromptPart) -> tuple[str, ...]:
    """List the texts of a message of the user."""
    if isinstance(part.content, str):
        return (part.content,)
    return tuple(text for text in part.content if isinstance(text, str))


def list_said(messages: Sequence[ModelMessage]) -> Said:
    """List what people said, message by message, as it was sent."""
    return tuple(
        Spoken(texts=list_texts(part), told=find_told(message))
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )


def find_told(message: ModelRequest) -> str:
    """Find what the model was told right behind a message of the user."""
    return "".join(part.content for part in message.parts if isinstance(part, SystemPromptPart))


def read_text(response: ModelResponse) -> str:
    """Read the words of an answer."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def read_answers(messages: Sequence[ModelMessage]) -> list[str]:
    """Read the words of each answer of the model, in order."""
    return [read_text(message) for message in messages if isinstance(message, ModelResponse)]


def list_calls(response: ModelResponse) -> list[ToolCallPart]:
    """List the calls of tools in an answer."""
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def find_answer(messages: Sequence[ModelMessage]) -> ModelResponse | None:
    """Find the newest answer of the model."""
    return next((message for message in reversed(messages) if isinstance(message, ModelResponse)), None)


def list_open(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """List the calls of the newest answer that have no result yet."""
    answer = find_answer(messages)
    last = messages[-1] if messages else None
    results = last.parts if isinstance(last, ModelRequest) else ()
    answered = {part.tool_call_id for part in results if isinstance(part, ToolReturnPart)}
    return [call for call in list_calls(answer) if call.tool_call_id not in answered] if answer else []


def count_told(messages: Sequence[ModelMessage]) -> int:
    """Count the results of fenced calls that the newest answer has so far."""
    last = messages[-1] if find_answer(messages) else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return sum(len(list_texts(part)) for part in parts if isinstance(part, UserPromptPart))


def add_result(messages: Messages, call: ToolCallPart, text: str, *, failed: bool = False) -> Messages:
    """Add the result of a call to those of the same answer.

    A failed one reaches the provider as an error: `is_error` at Anthropic, the key `error` at Gemini, and an object
    with that key where a provider has no field for it.
    """
    part = ToolReturnPart(
        tool_name=call.tool_name,
        content=clean(text),
        tool_call_id=call.tool_call_id,
        outcome="failed" if failed else "success",
    )
    return add_part(messages, part)


def add_part(messages: Messages, part: ToolReturnPart) -> Messages:
    """Add a part to the newest request, or begin one after an answer."""
    last = messages[-1]
    if isinstance(last, ModelRequest):
        return (*messages[:-1], replace(last, parts=[*last.parts, part]))
    return (*messages, ModelRequest(parts=[part]))


def add_told(messages: Messages, text: str) -> Messages:
    """Add the result of a fenced call: all of one answer go back in one message, a part each."""
    last = messages[-1]
    if isinstance(last, ModelResponse):
        return (*messages, say(text))
    told = [each for part in last.parts if isinstance(part, UserPromptPart) for each in list_texts(part)]
    return (*messages[:-1], say(*told, text))


def close(messages: Sequence[ModelMessage], words: str) -> Messages:
    """Close a turn that ended early, so that another can follow: calls get results, and the agent has the last word."""
    closed = tuple(messages)
    while closed and is_empty(closed[-1]):
        closed = closed[:-1]  # a provider takes no message without content
    if not closed:
        return closed
    for call in list_open(closed):
        closed = add_result(closed, call, f"(not run: {words})")
    if isinstance(closed[-1], ModelRequest):
        closed = (*closed, ModelResponse(parts=[TextPart(content=f"({words})")]))
    return closed


def is_empty(message: ModelMessage) -> bool:
    """Whether a message is an answer without words and without a call."""
    return isinstance(message, ModelResponse) and not read_text(message).strip() and not list_calls(message)


def recount(messages: Sequence[ModelMessage]) -> tuple[Message, ...]:
    """Recount a history as plain texts, for a turn that has to weigh it."""
    told: list[Message] = []
    for message in messages:
        role = "assistant" if isinstance(message, ModelResponse) else "user"
        text = "\n\n".join(filter(None, show_parts(message)))
        if told and told[-1].role == role:
            told[-1] = replace(told[-1], text=f"{told[-1].text}\n\n{text}")
        elif text:
            told.append(Message(role="assistant" if role == "assistant" else "user", text=text))
    return tuple(told)


def show_parts(message: ModelMessage) -> Iterator[str]:
    """Show the parts of a message as texts."""
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield "\n\n".join(list_texts(part))
        elif isinstance(part, TextPart | SystemPromptPart):
            yield part.content
        elif isinstance(part, ToolCallPart):
            yield f"{part.tool_name}({part.args_as_json_str()})"
        elif isinstance(part, ToolReturnPart):
            yield part.model_response_str()


def list_results(messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    """List the results of tools that succeeded, each with the name of its tool."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.outcome == "success":
                yield part.tool_name, part.model_response_str()


def dump(messages: Sequence[ModelMessage]) -> bytes:
    """Write messages as JSON, for whoever stores them."""
    return ModelMessagesTypeAdapter.dump_json(list(messages))


def load(stored: bytes | str) -> Messages:
    """Read messages that were stored."""
    return tuple(ModelMessagesTypeAdapter.validate_json(stored))
