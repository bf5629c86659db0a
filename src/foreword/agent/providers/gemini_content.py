"""The wire shape of Google's Gemini API."""

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
    IMAGE_TYPES,
    AnswerDraft,
    Body,
    RequestOptions,
    WireShape,
    make_provider_error,
    read_count,
)
from foreword.events.event import Usage

DUMMY_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""What Google documents for a first call without a signature, base64 of `skip_thought_signature_validator`."""
OLD_MODELS = ("gemini-1", "gemini-2")  # they take a response format or tools, not both


class GeminiDraft(AnswerDraft):
    """An answer of the Gemini API."""

    def read(self, event: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take one chunk."""
        if event.get("error"):
            raise make_provider_error(event)
        self.response_id = event.get("responseId") or self.response_id
        if used := event.get("usageMetadata"):
            self.usage = Usage(
                tokens_in=read_count(used.get("promptTokenCount")),
                tokens_out=read_count(used.get("candidatesTokenCount")) + read_count(used.get("thoughtsTokenCount")),
                cache_read=read_count(used.get("cachedContentTokenCount")),
            )
        for candidate in (event.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._read_part(part)
            if reason := candidate.get("finishReason"):
                self.done, self.cut = True, reason == "MAX_TOKENS"
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self.done = True

    def _read_part(self, part: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take a part; text continues the part before it, unless one of them has a signature."""
        signature = part.get("thoughtSignature") or ""
        if call := part.get("functionCall"):
            known = {"id": call.get("id") or "", "name": call["name"], "signature": signature}
            yield from self.add(len(self.parts), "call", write_compact(call.get("args") or {}), **known)
        elif part.get("text") is not None:
            kind = "thinking" if part.get("thought") else "text"
            last = self.parts.get(len(self.parts) - 1)
            continues = last is not None and last.kind == kind and not signature and "signature" not in last.known
            key = len(self.parts) - continues
            if part["text"] or signature:
                yield from self.add(key, kind, part["text"], signature=signature)


class GeminiContent(WireShape):
    """POST /models/MODEL:streamGenerateContent."""

    name = "gemini"
    drafts = GeminiDraft
    image_types = IMAGE_TYPES - {"image/gif"}

    def find_url(self, base_url: str, model: str) -> str:
        """Return the address for requests to a model; an address without a path gets the version of the API."""
        versioned = base_url if base_url.partition("://")[2].count("/") else f"{base_url}/v1"
        return f"{versioned}/models/{model}:streamGenerateContent?alt=sse"

    def authorize(self, key: str) -> dict[str, str]:
        """Return the header of the API key."""
        return {"x-goog-api-key": key}

    def write_message(self, message: HistoryMessage, provider: str) -> list[Body]:
        """Write a message; a system message in a conversation has no place in this shape."""
        if isinstance(message, ToolResults):
            results = [
                {
                    "functionResponse": {
                        "id": part.id,
                        "name": part.name,
                        "response": {"error" if part.failed else "return_value": part.text},
                    }
                }
                for part in message.parts
            ]
            return [{"role": "user", "parts": results}]
        if isinstance(message, Answer):
            parts = list(self._write_parts(message, own=message.provider == provider))
            return [{"role": "model", "parts": parts}] if parts else []
        parts = [
            self.write_image(part) if isinstance(part, InlineImage) else {"text": part.text}
            for part in message.parts
            if isinstance(part, TextPart | InlineImage)
        ]
        return [{"role": "user", "parts": parts}]

    def write_image(self, image: InlineImage) -> Body:
        """Write an image."""
        return {"inlineData": {"mimeType": image.media_type, "data": image.base64}}

    def _write_parts(self, answer: Answer, *, own: bool) -> Iterator[Body]:
        """Write the parts of an answer; the first call needs a signature."""
        first = True
        for part in answer.parts:
            signed = {"thoughtSignature": part.signature} if part.signature and own else {}
            if isinstance(part, CallPart):
                call: dict[str, Any] = {"id": part.id, "args": part.read_arguments(), "name": part.name}
                missing = {"thoughtSignature": DUMMY_SIGNATURE} if first else {}
                yield {"functionCall": call, **(signed or missing)}
                first = False
            elif isinstance(part, ThinkingPart):
                if own and (part.text or signed):
                    yield {"text": part.text, "thought": True, **signed}
            elif part.text or signed:
                yield {"text": part.text, **signed}

    def split_reply(self, reply: Body) -> Iterator[Body]:
        """Yield the events of a stream that brings the same answer as a whole reply."""
        yield reply

    def complete(self, request: Body, options: RequestOptions) -> Body:
        """Add the token limit and the options."""
        settings: dict[str, Any] = {"maxOutputTokens": options.max_tokens, "responseModalities": ["TEXT"]}
        if options.response_format:
            wanted = json.loads(options.response_format)
            settings["responseMimeType"] = "application/json"
            if schema := wanted.get("json_schema", {}).get("schema"):
                settings["responseJsonSchema"] = schema
        return {**request, "generationConfig": settings}

    def find_unsupported_format(self, model: str, kind: str, *, tools: bool) -> str:
        """Return why a model does not take a response format."""
        if tools and model.partition(":")[2].startswith(OLD_MODELS):
            return f"{model} does not take response_format together with tools, and the agent has tools"
        return super().find_unsupported_format(model, kind, tools=tools)
