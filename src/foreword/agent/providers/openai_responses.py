"""The wire shape of OpenAI's Responses API."""

import json
from collections.abc import Iterator
from typing import Any

from foreword.agent.agent_events import TextDelta, ThinkingDelta
from foreword.agent.conversation import (
    Answer,
    CallPart,
    HistoryMessage,
    InlineImage,
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

REASONING_MODELS = ("o1", "o3", "o4", "gpt-5", "gpt-6")
PLAIN_MODELS = ("gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat")  # models among these that do not reason
DELTA_EVENTS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.function_call_arguments.delta": "call",
    "response.reasoning_summary_text.delta": "thinking",
}
"""The events that continue a part, and its kind."""
ERROR_EVENTS = ("response.failed", "error")
ENDED_STATUSES = ("completed", "incomplete")
END_EVENTS = ("response.completed", "response.incomplete")


class ResponsesDraft(AnswerDraft):
    """An answer of the Responses API."""

    def __init__(self) -> None:
        super().__init__()
        self._last: Body = {}

    def read(self, event: Body) -> Iterator[TextDelta | ThinkingDelta]:
        """Take one event; a repeated one has the same number and the same content."""
        if event == self._last and "sequence_number" in event:
            return
        self._last = event
        kind, at = event.get("type"), event.get("output_index")
        if kind == "response.created":
            self.response_id = event["response"].get("id") or ""
        elif kind == "response.output_item.added":
            yield from self._begin(at, event["item"])
        elif kind in DELTA_EVENTS:
            yield from self.add(at, DELTA_EVENTS[kind], event["delta"])
        elif kind == "response.output_item.done" and event["item"].get("type") == "reasoning":
            item = event["item"]
            yield from self.add(at, "thinking", id=item["id"], signature=item.get("encrypted_content") or "")
        elif kind in END_EVENTS:
            self._finish(event["response"])
        elif kind in ERROR_EVENTS:
            raise make_provider_error(event.get("response") or {"error": event.get("error") or event})

    def _begin(self, at: Any, item: Body) -> Iterator[TextDelta | ThinkingDelta]:
        kind = item.get("type")
        if kind == "message":
            yield from self.add(at, "text", id=item.get("id", ""))
        elif kind == "reasoning":
            yield from self.add(at, "thinking", id=item["id"])
        elif kind == "function_call":
            yield from self.add(at, "call", id=item["call_id"], name=item["name"], item=item.get("id") or "")

    def _finish(self, response: Body) -> None:
        self.done = True
        self.response_id = response.get("id") or self.response_id
        self.cut = (response.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
        self.diagnosis = str((response.get("prompt_cache_diagnostics") or {}).get("reason") or "")
        if used := response.get("usage"):
            details = used.get("input_tokens_details") or {}
            self.usage = Usage(
                tokens_in=read_count(used.get("input_tokens")),
                tokens_out=read_count(used.get("output_tokens")),
                cache_read=read_count(details.get("cached_tokens")),
                cache_write=read_count(details.get("cache_write_tokens")),
            )


class OpenAIResponses(WireShape):
    """POST /responses."""

    name = "responses"
    drafts = ResponsesDraft

    def find_url(self, base_url: str, model: str) -> str:  # noqa: ARG002 - the request names the model
        """Return the address for requests."""
        return f"{base_url}/responses"

    def authorize(self, key: str) -> dict[str, str]:
        """Return the header of the API key."""
        return {"authorization": f"Bearer {key}"}

    def write_message(self, message: HistoryMessage, provider: str) -> list[Body]:
        """Write a message as items."""
        if isinstance(message, ToolResults):
            return [
                {
                    "type": "function_call_output",
                    "call_id": part.id,
                    "output": write_error_object(part.text) if part.failed else part.text,
                }
                for part in message.parts
            ]
        if isinstance(message, Answer):
            own = message.provider == provider
            return [item for part in message.parts if (item := self._write_part(part, own=own))]
        return self.write_user_message(message, "input_text")

    def write_image(self, image: InlineImage) -> Body:
        """Write an image."""
        return {"type": "input_image", "image_url": write_data_url(image)}

    def _write_part(self, part: Any, *, own: bool) -> Body | None:
        if isinstance(part, CallPart):
            call: dict[str, Any] = {
                "name": part.name,
                "arguments": write_compact(part.read_arguments()),
                "call_id": part.id,
                "type": "function_call",
            }
            return {**call, "id": part.item} if part.item and own else call
        if isinstance(part, ThinkingPart):
            if not (own and part.id and part.signature):
                return None
            summary = [{"text": part.text, "type": "summary_text"}] if part.text else []
            return {"id": part.id, "summary": summary, "encrypted_content": part.signature, "type": "reasoning"}
        if part.id and own:
            content = [{"text": part.text, "type": "output_text", "annotations": []}]
            return {"role": "assistant", "id": part.id, "content": content, "type": "message", "status": "completed"}
        return {"role": "assistant", "content": part.text}

    def split_reply(self, reply: Body) -> Iterator[Body]:
        """Yield the events of a stream that brings the same answer as a whole reply."""
        for at, item in enumerate(reply["output"]):
            place = {"output_index": at}
            yield {**place, "type": "response.output_item.added", "item": item}
            kind = item.get("type")
            if kind == "message":
                for part in item["content"]:
                    text = part.get("text") or part.get("refusal") or ""
                    yield {**place, "type": "response.output_text.delta", "delta": text}
            elif kind == "function_call":
                yield {**place, "type": "response.function_call_arguments.delta", "delta": item["arguments"]}
            elif kind == "reasoning":
                for part in item.get("summary") or ():
                    yield {**place, "type": "response.reasoning_summary_text.delta", "delta": part["text"]}
                yield {**place, "type": "response.output_item.done", "item": item}
        if reply.get("status") in ENDED_STATUSES:
            yield {"type": "response.completed", "response": reply}

    def complete(self, request: Body, options: RequestOptions) -> Body:
        """Add the token limit and the options."""
        whole = {**request, "max_output_tokens": options.max_tokens}
        if options.cache_key:
            whole["prompt_cache_key"] = options.cache_key
        if options.stream:
            whole["stream"] = True
        model = request["model"]
        if model.startswith(REASONING_MODELS) and not model.startswith(PLAIN_MODELS):
            whole["include"] = ["reasoning.encrypted_content"]
        if options.response_format:
            wanted = json.loads(options.response_format)
            whole["text"] = {"format": {"type": wanted["type"], **wanted.get("json_schema", {})}}
        if options.diagnosis_of:
            given = request.get("prompt_cache_options", {})
            whole["prompt_cache_options"] = {**given, "comparison_response_id": options.diagnosis_of}
        return whole
