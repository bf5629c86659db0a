"""The wire shape of Anthropic's Messages API."""

import json
from collections.abc import Iterator
from typing import Any

from foreword.agent.agent_events import TextDelta, ThinkingDelta
from foreword.agent.conversation import Answer, CallPart, HistoryMessage, InlineImage, ThinkingPart, ToolResults
from foreword.agent.providers.provider import (
    AnswerDraft,
    Body,
    RequestOptions,
    WireShape,
    make_provider_error,
    read_count,
)
from foreword.events.event import Usage

API_VERSION = "2026-10-21"
CUT_REASONS = ("max_tokens", "model_context_window_exceeded")
JSON_SCHEMA_MODELS = (
    "claude-haiku-4-5",
    "claude-haiku-5",
    "claude-sonnet-4-5",
    "claude-sonnet-4-6",
    "claude-sonnet-5",
    "claude-opus-4-1",
    "claude-opus-4-5",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-fable-5",
    "claude-mythos-5",
)
"""The first letters of the models that take a JSON schema."""
DROP_STALE_THINKING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


class AnthropicDraft(AnswerDraft):
    """An answer of the Messages API."""

    def read(self, event: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take one event."""
        kind, at = event.get("type"), event.get("index")
        if kind == "message_start":
            message = event["message"]
            self.response_id = message.get("id") or ""
            self._read_usage(message.get("usage") or {})
            self._read_diagnosis(message)
        elif kind == "content_block_start":
            yield from self._begin(at, event["content_block"])
        elif kind == "content_block_delta" and at in self.parts:
            yield from self._continue(at, event["delta"])
        elif kind == "message_delta":
            self.cut = event["delta"].get("stop_reason") in CUT_REASONS
            self._read_usage(event.get("usage") or {})
            self._read_diagnosis(event["delta"])
        elif kind == "message_stop":
            self.done = True
        elif kind == "error":
            raise make_provider_error(event)

    def _begin(self, at: Any, block: Body) -> Iterator[TextDelta | ThinkingDelta]:
        if at in self.parts:
            return
        kind = block["type"]
        if kind == "text":
            yield from self.add(at, "text", block.get("text", ""))
        elif kind == "thinking":
            yield from self.add(at, "thinking", block.get("thinking", ""), signature=block.get("signature", ""))
        elif kind == "redacted_thinking":
            yield from self.add(at, "thinking", signature=block["data"])
            self.parts[at].redacted = True
        elif kind == "tool_use":
            given = json.dumps(block["input"], ensure_ascii=False) if block.get("input") else ""
            yield from self.add(at, "call", given, id=block["id"], name=block["name"])

    def _continue(self, at: Any, delta: Body) -> Iterator[TextDelta | ThinkingDelta]:
        kind = delta["type"]
        if kind == "text_delta":
            yield from self.add(at, "text", delta["text"])
        elif kind == "thinking_delta":
            yield from self.add(at, "thinking", delta["thinking"])
        elif kind == "signature_delta":
            yield from self.add(at, "thinking", signature=delta["signature"])
        elif kind == "input_json_delta":
            yield from self.add(at, "call", delta["partial_json"])

    def _read_usage(self, used: Body) -> None:
        """Take a usage report; a later one replaces the fields that it has."""
        if not used:
            return
        known = self.usage or Usage()

        def read(name: str, before: int) -> int:
            return before if used.get(name) is None else read_count(used[name])

        hit = read("cache_read_input_tokens", known.cache_read)
        written = read("cache_creation_input_tokens", known.cache_write)
        fresh = read("input_tokens", known.tokens_in - known.cache_read - known.cache_write)
        self.usage = Usage(
            tokens_in=fresh + hit + written,
            tokens_out=read("output_tokens", known.tokens_out),
            cache_read=hit,
            cache_write=written,
        )

    def _read_diagnosis(self, message: Body) -> None:
        reason = (message.get("diagnostics") or {}).get("cache_miss_reason") or {}
        self.diagnosis = str(reason.get("type") or self.diagnosis)


class AnthropicMessages(WireShape):
    """POST /v1/messages."""

    name = "anthropic"
    drafts = AnthropicDraft

    def find_url(self, base_url: str, model: str) -> str:  # noqa: ARG002 - the request names the model
        """Return the address for requests."""
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def authorize(self, key: str) -> dict[str, str]:
        """Return the headers of the API key and the version."""
        return {"x-api-key": key, "anthropic-version": API_VERSION}

    def write_message(self, message: HistoryMessage, provider: str) -> list[Body]:
        """Write a message."""
        if isinstance(message, ToolResults):
            results = [
                {
                    "tool_use_id": part.id,
                    "type": "tool_result",
                    "content": [{"text": part.text, "type": "text"}] if part.text else [],
                    "is_error": part.failed,
                }
                for part in message.parts
            ]
            return [{"role": "user", "content": results}]
        if isinstance(message, Answer):
            content = [block for part in message.parts if (block := self._write_part(part, message, provider))]
            return [{"role": "assistant", "content": content}] if content else []
        return self.write_user_message(message, "text")

    def write_image(self, image: InlineImage) -> Body:
        """Write an image."""
        source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
        return {"type": "image", "source": source}

    def _write_part(self, part: Any, answer: Answer, provider: str) -> Body | None:
        if isinstance(part, CallPart):
            return {"id": part.id, "type": "tool_use", "name": part.name, "input": part.read_arguments()}
        if not isinstance(part, ThinkingPart):
            return {"text": part.text, "type": "text"} if part.text else None
        if answer.provider != provider or not part.signature:
            return None
        if part.redacted:
            return {"data": part.signature, "type": "redacted_thinking"}
        return {"thinking": part.text, "signature": part.signature, "type": "thinking"}

    def split_reply(self, reply: Body) -> Iterator[Body]:
        """Yield the events of a stream that brings the same answer as a whole reply."""
        yield {"type": "message_start", "message": reply}
        for at, block in enumerate(reply["content"]):
            yield {"type": "content_block_start", "index": at, "content_block": block}
        yield {"type": "message_delta", "delta": reply, "usage": reply.get("usage")}
        if reply.get("stop_reason"):
            yield {"type": "message_stop"}

    def complete(self, request: Body, options: RequestOptions) -> Body:
        """Add the token limit and the options."""
        whole = {**request, "max_tokens": options.max_tokens, **({"stream": True} if options.stream else {})}
        if options.drops_thinking:
            whole["thinking"] = DROP_STALE_THINKING
        if options.response_format:
            schema = json.loads(options.response_format)["json_schema"]["schema"]
            whole["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if options.diagnosis_of is not None:
            whole["diagnostics"] = {"previous_message_id": options.diagnosis_of or None}
        return whole

    def find_unsupported_format(self, model: str, kind: str, *, tools: bool) -> str:  # noqa: ARG002 - both together work
        """Return why a model does not take a response format."""
        if kind == "json_object":
            return f"{model} takes response_format json_schema, and not json_object"
        known = model.partition(":")[2].startswith(JSON_SCHEMA_MODELS)
        return "" if known else f"{model} does not take response_format {kind}"
