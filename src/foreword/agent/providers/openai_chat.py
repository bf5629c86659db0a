"""The wire shape of OpenAI's chat completions, which Ollama, llama.cpp, vLLM, OpenRouter and most others offer."""

import json
from collections.abc import Iterator
from typing import Any

from foreword.agent.agent_events import TextDelta, ThinkingDelta
from foreword.agent.conversation import (
    Answer,
    CallPart,
    HistoryMessage,
    InlineImage,
    TextPart,
    ThinkingPart,
    ToolResults,
    write_compact,
)
from foreword.agent.providers.provider import (
    AnswerDraft,
    Body,
    RequestOptions,
    WireShape,
    make_provider_error,
    read_count,
    write_data_url,
    write_error_object,
)
from foreword.events.event import Usage

THINKING_FIELDS = ("reasoning_content", "reasoning")
OPENING_TAG, CLOSING_TAG = "<think>", "</think>"


class TaggedThought:
    """Separates a thought between tags, with which answers of local models begin, from the text after it."""

    def __init__(self) -> None:
        self._held = ""
        """The end of the text so far, while it may be a part of a tag."""
        self._tag = OPENING_TAG
        """The tag that may come next; empty after the thought."""
        self._begun = False
        """Whether the text has begun."""

    def feed(self, piece: str, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """Take a piece; yield what is known of it, each time as `thinking` or `text`."""
        self._held += piece
        if self._tag == OPENING_TAG:
            text = self._held.lstrip()
            if text.startswith(OPENING_TAG):
                self._held, self._tag = text.removeprefix(OPENING_TAG), CLOSING_TAG
            elif last or not OPENING_TAG.startswith(text):
                self._tag, self._begun = "", True
            else:
                return
        if self._tag == CLOSING_TAG:
            thought, closing, rest = self._held.partition(CLOSING_TAG)
            if closing:
                self._held, self._tag = rest, ""
            else:
                end = len(thought) if last else max(0, len(thought) - len(CLOSING_TAG) + 1)
                thought, self._held = thought[:end], thought[end:]
            yield "thinking", thought
        if not self._tag:
            text, self._held = self._held if self._begun else self._held.lstrip(), ""
            self._begun = self._begun or bool(text)
            yield "text", text


class ChatDraft(AnswerDraft):
    """An answer of a chat completion."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False
        self._tagged = TaggedThought()
        self._calls: dict[Any, Any] = {}
        """The newest call of each index."""

    def read(self, event: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take one chunk; a chunk after the stop reason can only bring the usage."""
        if event.get("error"):
            raise make_provider_error(event)
        self.response_id = event.get("id") or self.response_id
        if used := event.get("usage"):
            self.usage = read_chat_usage(used)
        for choice in event.get("choices") or ():
            if self._stopped:
                return
            delta = choice.get("delta") or {}
            for field in THINKING_FIELDS:
                if isinstance(thought := delta.get(field), str) and thought:
                    yield from self.add("thinking", "thinking", thought, id=field)
                    break
            if text := delta.get("content") or delta.get("refusal"):
                yield from self._read_text(text)
            for call in delta.get("tool_calls") or ():
                yield from self._read_call(call)
            if reason := choice.get("finish_reason"):
                self._stopped, self.cut = True, reason == "length"

    def end(self) -> Iterator[TextDelta | ThinkingDelta]:
        """End the stream; without a stop reason it is incomplete."""
        self.done = self._stopped
        yield from self._read_text("", last=True)

    def _read_text(self, piece: str, *, last: bool = False) -> Iterator[TextDelta | ThinkingDelta]:
        for kind, text in self._tagged.feed(piece, last=last):
            if text:
                yield from self.add("text" if kind == "text" else "tagged", kind, text)

    def _read_call(self, call: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take a piece of a call.

        The first piece has the name and the id. Some servers number no calls, others number them all 0.
        """
        at, function = call.get("index"), call.get("function") or {}
        own, name, key = call.get("id") or "", function.get("name") or "", self._calls.get(call.get("index"))
        is_new = key is None or (name and (at is None or own not in ("", self.parts[key].known.get("id", own))))
        if is_new:
            key = self._calls[at] = ("call", len(self.parts))
        given = function.get("arguments") or ""
        known = {"id": own, "name": name} if is_new else {}
        yield from self.add(key, "call", given if isinstance(given, str) else write_compact(given), **known)


def read_chat_usage(used: Body) -> Usage:
    """Read a usage report; DeepSeek has a field of its own for cache reads."""
    details = used.get("prompt_tokens_details") or {}
    return Usage(
        tokens_in=read_count(used.get("prompt_tokens")),
        tokens_out=read_count(used.get("completion_tokens")),
        cache_read=read_count(details.get("cached_tokens")) or read_count(used.get("prompt_cache_hit_tokens")),
        cache_write=read_count(details.get("cache_write_tokens")),
    )


class OpenAIChat(WireShape):
    """POST /chat/completions."""

    name = "openai"
    drafts = ChatDraft

    def __init__(self, limit: str) -> None:
        self._limit = limit
        """The field of the token limit: `max_completion_tokens` at OpenAI, `max_tokens` at most other servers."""

    def find_url(self, base_url: str, model: str) -> str:  # noqa: ARG002 - the request names the model
        """Return the address for requests."""
        return f"{base_url}/chat/completions"

    def authorize(self, key: str) -> dict[str, str]:
        """Return the header of the API key."""
        return {"authorization": f"Bearer {key}"}

    def write_message(self, message: HistoryMessage, provider: str) -> list[Body]:
        """Write a message."""
        if isinstance(message, ToolResults):
            return [
                {
                    "role": "tool",
                    "tool_call_id": part.id,
                    "content": write_error_object(part.text) if part.failed else part.text,
                }
                for part in message.parts
            ]
        if isinstance(message, Answer):
            return self._write_answer(message, provider)
        return self.write_user_message(message, "text")

    def write_image(self, image: InlineImage) -> Body:
        """Write an image."""
        return {"type": "image_url", "image_url": {"url": write_data_url(image)}}

    def _write_answer(self, answer: Answer, provider: str) -> list[Body]:
        texts = [part.text for part in answer.parts if isinstance(part, TextPart)]
        calls = [part for part in answer.parts if isinstance(part, CallPart)]
        if not texts and not calls:
            return []
        written: dict[str, Any] = {"role": "assistant"}
        for part in answer.parts:
            # Servers that think in a field of its own want it back; a thought between tags is not repeated.
            if isinstance(part, ThinkingPart) and part.id in THINKING_FIELDS and answer.provider == provider:
                written[part.id] = part.text
        written["content"] = "\n\n".join(texts) if texts else None
        if calls:
            written["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": write_compact(call.read_arguments())},
                }
                for call in calls
            ]
        return [written]

    def split_reply(self, reply: Body) -> Iterator[Body]:
        """Yield the events of a stream that brings the same answer as a whole reply."""
        choices = [{**choice, "delta": choice["message"]} for choice in reply["choices"][:1]]
        yield {**reply, "choices": choices}

    def complete(self, request: Body, options: RequestOptions) -> Body:
        """Add the token limit and the options."""
        whole = {**request, self._limit: options.max_tokens}
        if options.cache_key:
            whole["prompt_cache_key"] = options.cache_key
        whole |= {"stream": True, "stream_options": {"include_usage": True}} if options.stream else {}
        if options.response_format:
            whole["response_format"] = json.loads(options.response_format)
        return whole


class AzureChat(OpenAIChat):
    """Chat completions of an Azure OpenAI resource, at the address that the portal shows."""

    def __init__(self) -> None:
        super().__init__("max_completion_tokens")

    def find_url(self, base_url: str, model: str) -> str:
        """Return the address for requests; an address without a path gets that of the API."""
        versioned = base_url if base_url.partition("://")[2].count("/") else f"{base_url}/openai/v1"
        return super().find_url(versioned, model)

    def authorize(self, key: str) -> dict[str, str]:
        """Return the header of the API key."""
        return {"api-key": key}
