"""The shapes of OpenAI's chat completions, as far as they can be kept, and what of them is refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from foreword.gateway.api.faults import OWN_TOOLS, Fault
from foreword.gateway.api.shapes import LONGEST_NAME, LONGEST_TEXT, Told
from foreword.turn import Message

MOST = 2_000  # messages of one request


class Taken(BaseModel):
    """What a request holds; whatever else a client sends is ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


Words = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]


class TextPart(Taken):
    """A part of a message; only text is understood."""

    type: Literal["text"]
    text: Words


Content = Words | list[TextPart]


class Spoken(Taken):
    """A message of a conversation; only the last one is taken at its word, and the others are text from outside."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None


class StreamOptions(Taken):
    """How a stream ends."""

    include_usage: bool | None = None


class ChatRequest(Taken):
    """A conversation whose last message is the person's."""

    model: Annotated[str, StringConstraints(max_length=LONGEST_NAME)] = Field(description="The agent.")
    messages: list[Spoken] = Field(min_length=1, max_length=MOST)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = Field(None, description=f"Refused: {OWN_TOOLS}.")
    functions: Annotated[list[Any], Field(max_length=0)] | None = Field(None, description="Refused, as `tools`.")
    tool_choice: Literal["none", "auto"] | None = None
    function_call: Literal["none", "auto"] | None = None
    modalities: list[Literal["text"]] | None = None
    audio: None = None
    logprobs: Literal[False] | None = None


def read_content(content: Content | None) -> str:
    """Read the words of a message."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content)


def read_conversation(messages: list[Spoken]) -> tuple[str, tuple[Message, ...]]:
    """Read what the person says, and what the client claims was said before."""
    *before, last = messages
    text = read_content(last.content)
    if last.role != "user":
        raise Fault(422, "the last message has to be the person's, with the role 'user'", param="messages")
    if not text.strip():
        raise Fault(422, "the last message says nothing", param="messages")
    return text, tuple(message for one in before if (message := read_message(one)).text.strip())


def read_message(message: Spoken) -> Message:
    """Read a message that the client repeats; a role that is not the person's or the agent's is named in it."""
    text = read_content(message.content)
    match message.role:
        case "user" | "assistant" as role:
            return Message(role=role, text=text)
        case role:
            return Message(role="user", text=f"[{role}] {text}" if text.strip() else "")


class PromptDetails(Told):
    """What of the input came from the provider's cache."""

    cached_tokens: int


class Usage(Told):
    """What the calls of a turn used, all of them together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Answered(Told):
    """What the agent says."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(Told):
    """The one answer there is."""

    index: Literal[0] = 0
    message: Answered
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class Foreword(Told):
    """What only we say: the turn, the session, how far it is, and what it cost."""

    turn: str
    session: str
    state: str
    cost_usd: float | None


class Completion(Told):
    """An answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    foreword: Foreword


class Model(Told):
    """An agent, as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(Told):
    """The agents."""

    object: Literal["list"] = "list"
    data: list[Model]
