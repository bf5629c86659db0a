"""The request and the responses of `/v1/chat/completions` and `/v1/models`, in OpenAI's form."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from foreword.agent.images import IMAGE_MARKER
from foreword.gateway.messages import MAX_MESSAGE_CHARS
from foreword.http import request_context as shared
from foreword.http import turn_routes
from foreword.http.request_context import ResponseModel

MAX_MESSAGES = 2_000
TEXT_PART_TYPES = ("text", "input_text", "output_text", "refusal")
IMAGE_PART_TYPE = "image_url"
ATTACHMENT_NAMES = {
    IMAGE_PART_TYPE: "image",
    "input_image": "image",
    "input_audio": "audio",
    "video_url": "video",
    "file": "file",
    "input_file": "file",
}


class OpenAIRequestModel(BaseModel):
    """Base of request models; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


MessageText = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARS)]


class MessagePart(OpenAIRequestModel):
    """A part of a message: a text, a refusal, an image, or an attachment of any other type."""

    type: shared.NameField
    text: MessageText | None = None
    refusal: MessageText | None = None
    image_url: Any = Field(
        None,
        description="For the type `image_url`: an object whose `url` is the image itself as a `data:` URL in base64:"
        " PNG, JPEG, GIF or WebP of at most 5 MB. Nothing is fetched: any other URL is rejected.",
    )

    @property
    def url(self) -> str:
        """The URL of an image; empty if there is none."""
        url = self.image_url.get("url") if isinstance(self.image_url, dict) else None
        return url if isinstance(url, str) else ""

    @property
    def attachment(self) -> str:
        """The kind of the attachment; empty for text."""
        return "" if self.type in TEXT_PART_TYPES else ATTACHMENT_NAMES.get(self.type, "attachment")

    def write(self, *, images: bool) -> str:
        """Return the text, or what stands for an attachment: a marker for an image of a person, else a note."""
        if images and self.type == IMAGE_PART_TYPE:
            return IMAGE_MARKER
        if self.attachment:
            return f"[{self.attachment} left out: not read here]"
        return (self.refusal if self.type == "refusal" else self.text) or ""


MessageContent = MessageText | list[MessagePart]


class ChatMessage(OpenAIRequestModel):
    """A message of a conversation; only the last one is the user's, earlier ones are untrusted text."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: MessageContent | None = None
    tool_call_id: shared.NameField | None = Field(
        None, description="The call that a message of the role `tool` answers."
    )


class StreamOptions(OpenAIRequestModel):
    """Options of a stream."""

    include_usage: bool | None = None


class JsonSchema(OpenAIRequestModel):
    """The JSON Schema of the answer."""

    name: shared.NameField
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class PlainFormat(OpenAIRequestModel):
    """An answer without a schema: text, or any JSON object."""

    type: Literal["text", "json_object"]


class SchemaFormat(OpenAIRequestModel):
    """An answer in JSON that matches a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")]


class ChatRequest(OpenAIRequestModel):
    """A conversation whose last message is the user's."""

    model: shared.NameField = Field(description="The agent.")
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    tools: list[Any] | None = Field(
        None,
        description="Client tools. `server.client_tools` decides whether the model sees them; a call ends the reply"
        " with `tool_calls`.",
    )
    functions: list[Any] | None = Field(None, description="Deprecated form of `tools`.")
    tool_choice: Any = Field(None, description="`none` or `auto`; a forced call is rejected.")
    function_call: Any = Field(None, description="Deprecated form of `tool_choice`.")
    response_format: ResponseFormat | None = Field(
        None, description="Rejected if the agent's model does not support it."
    )
    max_tokens: Any = Field(None, description="Limits the answer to a housekeeping request; ignored otherwise.")
    max_completion_tokens: Any = Field(None, description="Same as `max_tokens`.")
    max_output_tokens: Any = Field(None, description="Same as `max_tokens`.")
    metadata: Any = Field(None, description="Ignored except `task`, which names a housekeeping request of a chat UI.")
    modalities: list[Literal["text"]] | None = None
    audio: None = None
    logprobs: Literal[False] | None = None

    @property
    def client_tools(self) -> int:
        """The number of tools that the client sent."""
        return len(self.tools or ()) + len(self.functions or ())

    @property
    def format_json(self) -> str:
        """The response format as JSON; empty for plain text."""
        wanted = self.response_format
        if wanted is None or wanted.type == "text":
            return ""
        return json.dumps(wanted.model_dump(by_alias=True, exclude_none=True), ensure_ascii=False)

    @property
    def wants_usage(self) -> bool:
        """Whether the stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)


class PromptDetails(ResponseModel):
    """Input tokens read from the provider's cache."""

    cached_tokens: int


class CompletionUsage(ResponseModel):
    """Total usage of the turn's model calls."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class CalledFunction(ResponseModel):
    """The name and the arguments of a call."""

    name: str
    arguments: str = Field(description="The arguments as JSON.")


class CompletionCall(ResponseModel):
    """A call that the client is to run."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AssistantMessage(ResponseModel):
    """The agent's message."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    tool_calls: list[CompletionCall] | None = Field(None, description="Calls of client tools, if there are any.")


class CompletionChoice(ResponseModel):
    """The only choice of a completion."""

    index: Literal[0] = 0
    message: AssistantMessage
    finish_reason: Literal["stop", "length", "tool_calls"]
    logprobs: None = None


class ForewordField(ResponseModel):
    """Foreword's own fields: turn, session, state, cost and held calls."""

    turn: str
    session: str
    state: str
    cost_usd: float | None
    held: list[turn_routes.HeldShape] = Field(default=[], description="The turn's calls that wait for approval.")


class Completion(ResponseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage
    foreword: ForewordField


class ModelEntry(ResponseModel):
    """An agent, in OpenAI's format of a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(ResponseModel):
    """The agents."""

    object: Literal["list"] = "list"
    data: list[ModelEntry]
