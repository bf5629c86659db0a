"""Puts our prompt into a finished request: what a library wrote about it goes, and our bytes take its place.

A library writes the conversation in its provider's shape: what the model answered, its calls and their results. That
stays. The system part, the tools and the words of people are ours, and so are the cache marks, placed at the end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from foreword.errors import ForewordError, UnknownName
from foreword.frozen import frozen
from foreword.runtime.response_format import add_format
from foreword.wire import Envelope, write_request

Body = Mapping[str, Any]
SYSTEM = ("system", "developer")  # the roles of what is told and not said


@frozen(eq=True)
class Spoken:
    """One message of a person, and what the model was told right behind it."""

    texts: tuple[str, ...]
    """Its texts, as they were sent first."""
    told: str = ""
    """What stands behind it as a system message of its own; nothing where there is none."""


Said = tuple[Spoken, ...]
"""The words of people in a conversation, message by message."""


class NotOurs(ForewordError):
    """A request is about to leave that is not the one we made; it is not sent."""


@frozen
class Owned:
    """A request with our prompt in it."""

    shape: str
    request: Body
    said: tuple[int, ...] = ()
    """Where each message of a person stands in its conversation, behind what opens that."""


def write_owned(owned: Owned) -> bytes:
    """Write a request as it is, for a cache that takes no marks."""
    return write_request(owned.shape, owned.request)


@frozen
class Sending:
    """What belongs to the next request: the prompt, what people said so far, and how long the answer may be."""

    envelope: Envelope
    said: Said
    max_tokens: int
    cache_key: str = ""
    """Which conversation it belongs to, for a provider that keeps a cache for each; says nothing to anybody else."""
    write: Callable[[Owned], bytes] = write_owned
    """Writes the finished request, with what was said before it and the marks of the provider's cache."""
    told: bool = True
    """Whether the model takes system messages in the middle of a conversation. Where it does not, those that another
    one was told are left out: what they said is in its prompt."""
    response_format: str = ""
    """The format that the answer must have; nothing for plain text."""
    hear: Callable[[str], None] | None = None
    """Hears why the provider's cache missed, where it was asked."""

    @property
    def keyed(self) -> dict[str, str]:
        """The key as OpenAI's requests have it."""
        return {"prompt_cache_key": self.cache_key} if self.cache_key else {}


def own(body: Body, sending: Sending) -> Owned:
    """Return the request with our prompt in it."""
    shape = sending.envelope.shape
    if shape not in OWNERS:
        raise UnknownName("shape of a request", shape, OWNERS)
    request, said = OWNERS[shape](body, sending)
    if sending.response_format:
        request = add_format(shape, request, sending.response_format)
    return Owned(shape=shape, request=request, said=tuple(said))


def own_anthropic(body: Body, sending: Sending) -> tuple[Body, list[int]]:
    """Own the body of POST /v1/messages."""
    request = sending.envelope.request
    words = Words(sending, lambda text: {"type": "text", "text": text})
    kept = (message for message in body["messages"] if message["role"] not in SYSTEM)
    messages = words.fill(kept, lambda message: is_said(message, "tool_result"))
    rest = leave_out(body, "model", "system", "tools", "tool_choice", "messages", "max_tokens", "cache_control")
    return {**request, "messages": messages, "max_tokens": sending.max_tokens, **rest}, words.places


def own_chat(body: Body, sending: Sending) -> tuple[Body, list[int]]:
    """Own the body of POST /v1/chat/completions."""
    request = sending.envelope.request
    words = Words(sending, lambda text: {"type": "text", "text": text})
    system = [message for message in request["messages"][:1] if message["role"] == "system"]
    kept = (message for message in body["messages"] if message["role"] not in SYSTEM)
    messages = words.fill(kept, lambda message: message["role"] == "user")
    limit = "max_tokens" if "max_tokens" in body else "max_completion_tokens"  # as the library knows this address
    rest = leave_out(body, "model", "tools", "tool_choice", "messages", limit)
    whole = {**request, "messages": [*system, *messages], limit: sending.max_tokens, **sending.keyed, **rest}
    return whole, words.places


def own_responses(body: Body, sending: Sending) -> tuple[Body, list[int]]:
    """Own the body of POST /v1/responses."""
    request = sending.envelope.request
    words = Words(sending, lambda text: {"type": "input_text", "text": text})
    system = [item for item in request["input"][:1] if item["role"] == "system"]
    kept = (item for item in body["input"] if item.get("role") not in SYSTEM)
    items = words.fill(kept, lambda item: item.get("role") == "user")
    # A library asks by itself why a cache was not read; whether that is asked is the owner's choice.
    ours = ("model", "instructions", "tools", "tool_choice", "input", "max_output_tokens", "prompt_cache_options")
    rest = leave_out(body, *ours)
    limit = {"max_output_tokens": sending.max_tokens}
    return {**request, "input": [*system, *items], **limit, **sending.keyed, **rest}, words.places


def own_gemini(body: Body, sending: Sending) -> tuple[Body, list[int]]:
    """Own the body of generateContent; Google's library puts parts before the role, and we the role before them."""
    request = sending.envelope.request
    words = Words(sending, lambda text: {"text": text}, "parts")
    kept = ({"role": content.get("role"), "parts": content["parts"]} for content in body["contents"])
    contents = words.fill(
        kept,
        lambda content: content["role"] == "user" and not any("functionResponse" in part for part in content["parts"]),
    )
    settings = {**body.get("generationConfig", {}), "maxOutputTokens": sending.max_tokens}
    rest = leave_out(body, "systemInstruction", "tools", "toolConfig", "contents", "cachedContent", "generationConfig")
    return {**request, "contents": contents, "generationConfig": settings, **rest}, words.places


class Words:
    """Hands out what people said, message by message, and notices when there are more or fewer than were written."""

    def __init__(self, sending: Sending, part: Callable[[str], dict[str, str]], field: str = "content") -> None:
        self._said = iter(sending.said)
        self._told = sending.told
        self._part = part
        self._field = field
        self.places: list[int] = []
        """Where each of them stands among the messages that were filled."""

    def fill(self, messages: Iterable[Body], is_said: Callable[[Body], bool]) -> list[Body]:
        """Put their words in the place of each message that is theirs; nothing may be left over."""
        filled: list[Body] = []
        for message in messages:
            if is_said(message):
                self.places.append(len(filled))
                filled += self._take()
            else:
                filled.append(message)
        if next(self._said, None) is not None:
            raise NotOurs("the request has lost a message of the user; it was not sent")
        return filled

    def _take(self) -> Iterator[Body]:
        """Take the next message, and what the model was told behind it."""
        spoken = next(self._said, None)
        if spoken is None:
            raise NotOurs("the request has a message of the user that nobody said; it was not sent")
        yield {"role": "user", self._field: [self._part(text) for text in spoken.texts]}
        if spoken.told and self._told:
            yield {"role": "system", self._field: [self._part(spoken.told)]}


def is_said(message: Body, result: str) -> bool:
    """Whether a message of the user holds words, and not the results of tools."""
    content = message["content"]
    parts = () if isinstance(content, str) else content
    return message["role"] == "user" and not any(part.get("type") == result for part in parts)


def leave_out(body: Body, *names: str) -> dict[str, Any]:
    """Return what a body has beside these names."""
    return {name: value for name, value in body.items() if name not in names}


OWNERS: Mapping[str, Callable[[Body, Sending], tuple[Body, list[int]]]] = {
    "anthropic": own_anthropic,
    "openai": own_chat,
    "responses": own_responses,
    "gemini": own_gemini,
}
