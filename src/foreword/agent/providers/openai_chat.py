"""The wire shape of OpenAI's chat completions, which Ollama, llama.cpp, vLLM, OpenRouter and most others offer."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from foreword.agent.agent_events import TextDelta, ThinkingDelta
from foreword.agent.conversation import (
    Answer,
    CallPart,
    HistoryMessage,
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
    write_error_object,
)
from foreword.events.event import Usage

THINKING_FIELDS = ("reasoning_content", "reasoning")
OPENING_TAG, CLOSING_TAG = "<think>", "</think>"


class ChatDraft(AnswerDraft):
    """An answer of a chat completion."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False
        self._tagged: str | None = ""
        """The text while it may begin with a tagged thought; None once it does not."""

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
            yield from self._read_text(delta.get("content") or delta.get("refusal") or "")
            for call in delta.get("tool_calls") or ():
                yield from self._read_call(call)
            if reason := choice.get("finish_reason"):
                self._stopped, self.cut = True, reason == "length"

    def end(self) -> Iterator[TextDelta | ThinkingDelta]:
        """End the stream; without a stop reason it is incomplete."""
        self.done = self._stopped
        if self._tagged:
            text, self._tagged = self._tagged, None
            yield from self._show(text)

    def _read_text(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """Take a piece of the text; thoughts of local models arrive between tags at its beginning."""
        if self._tagged is None or not piece:
            yield from self._show(piece)
            return
        self._tagged += piece
        text = self._tagged.lstrip()
        if not text.startswith(OPENING_TAG):
            if not OPENING_TAG.startswith(text):
                whole, self._tagged = self._tagged, None
                yield from self._show(whole)
            return
        thought, closing, rest = text.removeprefix(OPENING_TAG).partition(CLOSING_TAG)
        if closing:
            self._tagged = None
            yield from self.add("tagged", "thinking", thought.strip())
            yield from self._show(rest.lstrip())

    def _show(self, text: str) -> Iterator[TextDelta | ThinkingDelta]:
        if text:
            yield from self.add("text", "text", text)

    def _read_call(self, call: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take a piece of a call; some servers number no calls, but send each one whole."""
        at = call.get("index")
        key = ("call", len(self.parts) if at is None else at)
        function: Mapping[str, Any] = call.get("function") or {}
        known = {"id": call.get("id") or "", "name": function.get("name") or ""}
        if key in self.parts:  # the name and the id came with the first piece
            known = {}
        given = function.get("arguments") or ""
        yield from self.add(key, "call", given if isinstance(given, str) else write_compact(given), **known)


def read_chat_usage(used: Body) -> Usage:
    """Read a usage report; DeepSeek has a field of its own for cache reads."""
    details = used.get("prompt_tokens_details") or {}
    return Usage(
        tokens_in=used.get("prompt_tokens") or 0,
        tokens_out=used.get("completion_tokens") or 0,
        cache_read=details.get("cached_tokens") or used.get("prompt_cache_hit_tokens") or 0,
        cache_write=details.get("cache_write_tokens") or 0,
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
        said: list[Body] = [{"role": "user", "content": [{"type": "text", "text": text} for text in message.texts]}]
        if message.system:
            said.append({"role": "system", "content": [{"type": "text", "text": message.system}]})
        return said

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
