"""Responses of POST /v1/responses.

Responses of POST /v1/messages. Responses of POST /v1/chat/completions. Responses of generateContent and
streamGenerateContent. The four wire shapes, each with its validation rules and responses.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from foreword.promptcache.rules import Body
from foreword.testing.request_rules import (
    check_anthropic,
    check_chat,
    check_gemini,
    check_gemini_format,
    check_responses,
)
from foreword.testing.script import (
    FakeAnswer,
    ScriptedError,
    parse_call_arguments,
    report_openai_cache,
    split_chunks,
    write_sse,
)
from foreword.types import frozen


def report_anthropic_usage(speech: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    counted = speech.counted
    return {
        "input_tokens": counted.fresh,
        "cache_read_input_tokens": counted.read,
        "cache_creation_input_tokens": counted.write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": counted.write - counted.hour,
            "ephemeral_1h_input_tokens": counted.hour,
        },
        "output_tokens": speech.out,
    }


def find_anthropic_stop(speech: FakeAnswer) -> str:
    """Return the stop reason."""
    return "max_tokens" if speech.cut else "tool_use" if speech.calls else "end_turn"


def open_anthropic_message(speech: FakeAnswer) -> dict[str, Any]:
    """Make a message without its content."""
    return {
        "id": f"msg_{speech.number}",
        "type": "message",
        "role": "assistant",
        "model": speech.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**report_anthropic_usage(speech), "output_tokens": 1},
        "diagnostics": {"cache_miss_reason": {"type": speech.diagnosis}} if speech.diagnosis else None,
    }


def answer_anthropic(speech: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    texts = [{"type": "text", "text": speech.text}] if speech.text else []
    calls = [
        {"type": "tool_use", "id": key, "name": call.name, "input": parse_call_arguments(call.written)}
        for key, call in speech.calls
    ]
    done = {
        "content": [*texts, *calls],
        "stop_reason": find_anthropic_stop(speech),
        "usage": report_anthropic_usage(speech),
    }
    return open_anthropic_message(speech) | done


def stream_anthropic(speech: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""
    yield write_anthropic_event("message_start", message=open_anthropic_message(speech))
    if speech.text:
        yield write_anthropic_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in split_chunks(speech.text):
            yield write_anthropic_event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield write_anthropic_event("content_block_stop", index=0)
    for at, (key, call) in enumerate(speech.calls, bool(speech.text)):
        block = {"type": "tool_use", "id": key, "name": call.name, "input": {}}
        yield write_anthropic_event("content_block_start", index=at, content_block=block)
        for piece in split_chunks(call.written):
            yield write_anthropic_event(
                "content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": piece}
            )
        yield write_anthropic_event("content_block_stop", index=at)
    delta = {"stop_reason": find_anthropic_stop(speech), "stop_sequence": None}
    yield write_anthropic_event("message_delta", delta=delta, usage=report_anthropic_usage(speech))
    yield write_anthropic_event("message_stop")


def write_anthropic_event(kind: str, **fields: Any) -> str:
    """Write one event of a stream."""
    return write_sse({"type": kind, **fields}, kind)


def report_chat_usage(speech: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    return {
        "prompt_tokens": speech.counted.total,
        "completion_tokens": speech.out,
        "total_tokens": speech.counted.total + speech.out,
        "prompt_tokens_details": report_openai_cache(speech.counted),
    }


def find_chat_stop(speech: FakeAnswer) -> str:
    """Return the stop reason."""
    return "length" if speech.cut else "tool_calls" if speech.calls else "stop"


def open_chat_answer(speech: FakeAnswer, kind: str) -> dict[str, Any]:
    """Return a response or a chunk without its choices."""
    return {"id": f"chatcmpl-{speech.number}", "object": kind, "created": 1, "model": speech.model}


def write_chat_calls(speech: FakeAnswer) -> list[dict[str, Any]]:
    """Return the tool calls."""
    return [
        {"id": key, "type": "function", "function": {"name": call.name, "arguments": call.written}}
        for key, call in speech.calls
    ]


def answer_chat(speech: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    message: dict[str, Any] = {"role": "assistant", "content": speech.text or None}
    if speech.calls:
        message["tool_calls"] = write_chat_calls(speech)
    choice = {"index": 0, "message": message, "finish_reason": find_chat_stop(speech)}
    return {**open_chat_answer(speech, "chat.completion"), "choices": [choice], "usage": report_chat_usage(speech)}


def stream_chat(speech: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events, the usage last."""
    head = open_chat_answer(speech, "chat.completion.chunk")

    def tell(delta: dict[str, Any], stop: str | None = None) -> str:
        return write_sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]})

    yield tell({"role": "assistant", "content": ""})
    for piece in split_chunks(speech.text):
        yield tell({"content": piece})
    for at, shown in enumerate(write_chat_calls(speech)):
        name, written = shown["function"]["name"], shown["function"]["arguments"]
        yield tell({"tool_calls": [{**shown, "index": at, "function": {"name": name, "arguments": ""}}]})
        for piece in split_chunks(written):
            yield tell({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield tell({}, find_chat_stop(speech))
    yield write_sse({**head, "choices": [], "usage": report_chat_usage(speech)})
    yield write_sse("[DONE]")


def report_gemini_usage(speech: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    total = speech.counted.total
    used = {"promptTokenCount": total, "candidatesTokenCount": speech.out, "totalTokenCount": total + speech.out}
    return used | ({"cachedContentTokenCount": speech.counted.read} if speech.counted.read else {})


def find_gemini_stop(speech: FakeAnswer) -> str:
    """Return the stop reason."""
    return "MAX_TOKENS" if speech.cut else "STOP"


def write_gemini_calls(speech: FakeAnswer) -> list[dict[str, Any]]:
    """Return the tool calls."""
    return [
        {"functionCall": {"id": key, "name": call.name, "args": parse_call_arguments(call.written)}}
        for key, call in speech.calls
    ]


def write_gemini_answer(speech: FakeAnswer, parts: list[dict[str, Any]], stop: str = "") -> dict[str, Any]:
    """Return a response or a chunk."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    head = {"modelVersion": speech.model, "responseId": f"r{speech.number}"}
    if stop:
        return {
            "candidates": [{**candidate, "finishReason": stop}],
            "usageMetadata": report_gemini_usage(speech),
            **head,
        }
    return {"candidates": [candidate], **head}


def answer_gemini(speech: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    texts = [{"text": speech.text}] if speech.text else []
    return write_gemini_answer(speech, [*texts, *write_gemini_calls(speech)], find_gemini_stop(speech))


def stream_gemini(speech: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""
    for piece in split_chunks(speech.text):
        yield write_sse(write_gemini_answer(speech, [{"text": piece}]))
    yield write_sse(write_gemini_answer(speech, write_gemini_calls(speech) or [{"text": ""}], find_gemini_stop(speech)))


def report_responses_usage(speech: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    return {
        "input_tokens": speech.counted.total,
        "input_tokens_details": report_openai_cache(speech.counted),
        "output_tokens": speech.out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": speech.counted.total + speech.out,
    }


def open_response(speech: FakeAnswer) -> dict[str, Any]:
    """Return a response in progress."""
    return {
        "id": f"resp_{speech.number}",
        "object": "response",
        "created_at": 1,
        "model": speech.model,
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def make_text_item(speech: FakeAnswer) -> dict[str, Any]:
    """Return the output item with the text."""
    content = [{"type": "output_text", "text": speech.text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{speech.number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def list_output_items(speech: FakeAnswer) -> list[dict[str, Any]]:
    """List the output items."""
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{key}",
            "call_id": key,
            "name": call.name,
            "arguments": call.written,
            "status": "completed",
        }
        for key, call in speech.calls
    ]
    return [*([make_text_item(speech)] if speech.text else []), *calls]


def answer_responses(speech: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    done: dict[str, Any] = {
        "status": "completed",
        "output": list_output_items(speech),
        "usage": report_responses_usage(speech),
    }
    if speech.diagnosis:
        missed = {"type": "cache_miss", "reason": speech.diagnosis, "cache_missed_tokens": speech.counted.fresh}
        done |= {"prompt_cache_diagnostics": missed}
    if speech.cut:
        done |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return open_response(speech) | done


def stream_responses(speech: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""
    numbers = count()

    def tell(kind: str, **fields: Any) -> str:
        return write_sse({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield tell("response.created", response=open_response(speech))
    yield tell("response.in_progress", response=open_response(speech))
    for at, item in enumerate(list_output_items(speech)):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            yield tell(
                "response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []}
            )
            words = {**place, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield tell("response.content_part.added", **words, part=empty)
            for piece in split_chunks(speech.text):
                yield tell("response.output_text.delta", **words, delta=piece, logprobs=[])
            yield tell("response.output_text.done", **words, text=speech.text, logprobs=[])
            yield tell("response.content_part.done", **words, part=item["content"][0])
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield tell("response.output_item.added", output_index=at, item=begun)
            for piece in split_chunks(item["arguments"]):
                yield tell("response.function_call_arguments.delta", **place, delta=piece)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield tell("response.function_call_arguments.done", **place, **done)
        yield tell("response.output_item.done", output_index=at, item=item)
    ending = "response.incomplete" if speech.cut else "response.completed"
    yield tell(ending, response=answer_responses(speech))


@frozen
class FakeShape:
    """One wire shape."""

    name: str
    judge: Callable[[Body], Iterator[str]]
    answer: Callable[[FakeAnswer], dict[str, Any]]
    stream: Callable[[FakeAnswer], Iterator[str]]


ANTHROPIC = FakeShape(
    name="anthropic",
    judge=check_anthropic,
    answer=answer_anthropic,
    stream=stream_anthropic,
)
CHAT = FakeShape(name="openai", judge=check_chat, answer=answer_chat, stream=stream_chat)
RESPONSES = FakeShape(
    name="responses",
    judge=check_responses,
    answer=answer_responses,
    stream=stream_responses,
)
GEMINI = FakeShape(name="gemini", judge=check_gemini, answer=answer_gemini, stream=stream_gemini)
SHAPES = {
    "/messages": ANTHROPIC,
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    ":generateContent": GEMINI,
    ":streamGenerateContent": GEMINI,
}


def find_request_errors(shape: FakeShape, body: Body, model: str) -> Iterable[str]:
    """Return the errors of a request; a malformed request is an error itself."""
    try:
        return [*shape.judge(body), *(check_gemini_format(body, model) if shape is GEMINI else ())]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        return [f"the request is malformed: {type(error).__name__}: {error}"]


def find_requested_model(path: str, body: Body) -> str:
    """Return the requested model; Gemini has it in the path."""
    return str(body.get("model") or path.rpartition("/")[2].partition(":")[0])


def write_error_body(shape: FakeShape, line: ScriptedError) -> dict[str, Any]:
    """Return the error body of a provider of this shape."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(line.status, "api_error")
    if shape is GEMINI:
        return {"error": {"code": line.status, "message": line.message, "status": kind.upper()}}
    error = {"type": kind, "message": line.message}
    return {"type": "error", "error": error} if shape is ANTHROPIC else {"error": {**error, "code": None}}
