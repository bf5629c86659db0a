"""The script of the fake provider, and its responses in the four wire shapes, whole and streamed."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from foreword.promptcache.rules import Body, CacheUsage
from foreword.testing import request_rules
from foreword.types import frozen

CHUNK_CHARS = 7  # characters of one chunk of streamed text
SIGNATURE = "c2lnbmF0dXJl"  # the signature of every thought, or its encrypted form


@frozen
class ScriptedCall:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any] | str = ""
    """The arguments; a text is sent unchanged, even if it is not JSON."""
    id: str = ""
    """The id of the call; generated if empty."""

    @property
    def written(self) -> str:
        """The arguments as sent on the wire."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@frozen
class ScriptedReply:
    """The model answers with text, tool calls, or both."""

    thought: str = ""
    """What it thinks before it answers, with a signature."""
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    cut: bool = False
    """Whether the answer is truncated at the token limit."""


@frozen
class ScriptedError:
    """The provider answers with a status such as 429."""

    status: int = 429
    message: str = "too many requests"
    retry_after: float | None = None
    """The `Retry-After` header in seconds."""


@frozen
class ScriptedHang:
    """The server sends nothing for some seconds, then closes the connection."""

    seconds: float = 30.0
    text: str = ""
    """Text of a streamed answer that is sent before the pause."""


@frozen
class ScriptedGarbage:
    """The provider answers with status 200 and an invalid body."""

    text: str = "<html>Welcome to the proxy</html>"


@frozen
class ScriptedDisconnect:
    """The connection closes in the middle of the answer."""

    text: str = "It was a dark and stormy night, and"


ScriptLine = ScriptedReply | ScriptedError | ScriptedHang | ScriptedGarbage | ScriptedDisconnect


@frozen
class FakeAnswer:
    """One answer to send."""

    model: str
    text: str
    calls: tuple[tuple[str, ScriptedCall], ...]
    """Each call with its id."""
    counted: CacheUsage
    out: int
    """Output tokens."""
    thought: str = ""
    cut: bool = False
    number: int = 1
    """The sequence number of the answer."""
    diagnosis: str = ""
    """The reason of a cache miss, if a diagnosis was requested."""

    def choose_stop(self, cut: str, calls: str, done: str) -> str:
        """Choose the stop reason: truncated, tool calls, or the end of the answer."""
        return cut if self.cut else calls if self.calls else done


def split_chunks(text: str) -> Iterator[str]:
    """Split a text into stream chunks."""
    for start in range(0, len(text), CHUNK_CHARS):
        yield text[start : start + CHUNK_CHARS]


def write_sse(data: Any, name: str = "") -> str:
    """Serialize a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n"


def parse_call_arguments(written: str) -> Any:
    """Parse arguments for shapes that carry them as JSON; wrap invalid JSON in an object."""
    try:
        return json.loads(written or "{}")
    except ValueError:
        return {"malformed": written}


def report_openai_cache(counted: CacheUsage) -> dict[str, int]:
    """Return the cache fields of OpenAI's usage report."""
    return {"cached_tokens": counted.read} | ({"cache_write_tokens": counted.write} if counted.write else {})


def report_anthropic_usage(answer: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    counted = answer.counted
    return {
        "input_tokens": counted.fresh,
        "cache_read_input_tokens": counted.read,
        "cache_creation_input_tokens": counted.write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": counted.write - counted.hour,
            "ephemeral_1h_input_tokens": counted.hour,
        },
        "output_tokens": answer.out,
    }


def open_anthropic_message(answer: FakeAnswer) -> dict[str, Any]:
    """Make a message without its content."""
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**report_anthropic_usage(answer), "output_tokens": 1},
        "diagnostics": {"cache_miss_reason": {"type": answer.diagnosis}} if answer.diagnosis else None,
    }


def answer_anthropic(answer: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    thoughts = [{"type": "thinking", "thinking": answer.thought, "signature": SIGNATURE}] if answer.thought else []
    texts = [{"type": "text", "text": answer.text}] if answer.text else []
    calls = [
        {"type": "tool_use", "id": key, "name": call.name, "input": parse_call_arguments(call.written)}
        for key, call in answer.calls
    ]
    done = {
        "content": [*thoughts, *texts, *calls],
        "stop_reason": answer.choose_stop("max_tokens", "tool_use", "end_turn"),
        "usage": report_anthropic_usage(answer),
    }
    return open_anthropic_message(answer) | done


def stream_anthropic(answer: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""

    def write(kind: str, **fields: Any) -> str:
        return write_sse({"type": kind, **fields}, kind)

    yield write("message_start", message=open_anthropic_message(answer))
    for at, (block, deltas) in enumerate(list_anthropic_blocks(answer)):
        yield write("content_block_start", index=at, content_block=block)
        for delta in deltas:
            yield write("content_block_delta", index=at, delta=delta)
        yield write("content_block_stop", index=at)
    delta = {"stop_reason": answer.choose_stop("max_tokens", "tool_use", "end_turn"), "stop_sequence": None}
    yield write("message_delta", delta=delta, usage=report_anthropic_usage(answer))
    yield write("message_stop")


def list_anthropic_blocks(answer: FakeAnswer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each content block as it begins, with its deltas."""
    if answer.thought:
        deltas = [{"type": "thinking_delta", "thinking": chunk} for chunk in split_chunks(answer.thought)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": c} for c in split_chunks(answer.text)]
    for key, call in answer.calls:
        pieces = [{"type": "input_json_delta", "partial_json": chunk} for chunk in split_chunks(call.written)]
        yield {"type": "tool_use", "id": key, "name": call.name, "input": {}}, pieces


def report_chat_usage(answer: FakeAnswer) -> dict[str, Any]:
    """Return the usage report."""
    return {
        "prompt_tokens": answer.counted.total,
        "completion_tokens": answer.out,
        "total_tokens": answer.counted.total + answer.out,
        "prompt_tokens_details": report_openai_cache(answer.counted),
    }


def open_chat_answer(answer: FakeAnswer, kind: str) -> dict[str, Any]:
    """Return a response or a chunk without its choices."""
    return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": 1, "model": answer.model}


def write_chat_calls(answer: FakeAnswer) -> list[dict[str, Any]]:
    """Return the tool calls."""
    return [
        {"id": key, "type": "function", "function": {"name": call.name, "arguments": call.written}}
        for key, call in answer.calls
    ]


def answer_chat(answer: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.calls:
        message["tool_calls"] = write_chat_calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": answer.choose_stop("length", "tool_calls", "stop")}
    return {**open_chat_answer(answer, "chat.completion"), "choices": [choice], "usage": report_chat_usage(answer)}


def stream_chat(answer: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events, the usage last."""
    head = open_chat_answer(answer, "chat.completion.chunk")

    def write(delta: dict[str, Any], stop: str | None = None) -> str:
        return write_sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]})

    yield write({"role": "assistant", "content": ""})
    for chunk in split_chunks(answer.thought):
        yield write({"reasoning_content": chunk})
    for chunk in split_chunks(answer.text):
        yield write({"content": chunk})
    for at, shown in enumerate(write_chat_calls(answer)):
        name, written = shown["function"]["name"], shown["function"]["arguments"]
        yield write({"tool_calls": [{**shown, "index": at, "function": {"name": name, "arguments": ""}}]})
        for chunk in split_chunks(written):
            yield write({"tool_calls": [{"index": at, "function": {"arguments": chunk}}]})
    yield write({}, answer.choose_stop("length", "tool_calls", "stop"))
    yield write_sse({**head, "choices": [], "usage": report_chat_usage(answer)})
    yield write_sse("[DONE]")


def write_gemini_calls(answer: FakeAnswer) -> list[dict[str, Any]]:
    """Return the tool calls; the first of them, or a last empty text, has the signature of the thought."""
    calls: list[dict[str, Any]] = [
        {"functionCall": {"id": key, "name": call.name, "args": parse_call_arguments(call.written)}}
        for key, call in answer.calls
    ]
    if answer.thought:
        calls = calls or [{"text": ""}]
        calls[0]["thoughtSignature"] = SIGNATURE
    return calls


def write_gemini_answer(answer: FakeAnswer, parts: list[dict[str, Any]], *, done: bool = False) -> dict[str, Any]:
    """Return a response or a chunk; the last chunk has the stop reason and the usage."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    head = {"modelVersion": answer.model, "responseId": f"r{answer.number}"}
    if not done:
        return {"candidates": [candidate], **head}
    stop = answer.choose_stop("MAX_TOKENS", "STOP", "STOP")
    total = answer.counted.total
    used = {"promptTokenCount": total, "candidatesTokenCount": answer.out, "totalTokenCount": total + answer.out}
    used |= {"cachedContentTokenCount": answer.counted.read} if answer.counted.read else {}
    return {"candidates": [{**candidate, "finishReason": stop}], "usageMetadata": used, **head}


def answer_gemini(answer: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    thoughts = [{"text": answer.thought, "thought": True}] if answer.thought else []
    texts = [{"text": answer.text}] if answer.text else []
    return write_gemini_answer(answer, [*thoughts, *texts, *write_gemini_calls(answer)], done=True)


def stream_gemini(answer: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""
    for chunk in split_chunks(answer.thought):
        yield write_sse(write_gemini_answer(answer, [{"text": chunk, "thought": True}]))
    for chunk in split_chunks(answer.text):
        yield write_sse(write_gemini_answer(answer, [{"text": chunk}]))
    yield write_sse(write_gemini_answer(answer, write_gemini_calls(answer) or [{"text": ""}], done=True))


def open_response(answer: FakeAnswer) -> dict[str, Any]:
    """Return a response in progress."""
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 1,
        "model": answer.model,
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def list_output_items(answer: FakeAnswer) -> list[dict[str, Any]]:
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
        for key, call in answer.calls
    ]
    content = [{"type": "output_text", "text": answer.text, "annotations": []}]
    text = {
        "type": "message",
        "id": f"msg_{answer.number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    thought = {
        "type": "reasoning",
        "id": f"rs_{answer.number}",
        "summary": [{"type": "summary_text", "text": answer.thought}],
        "encrypted_content": SIGNATURE,
    }
    return [*([thought] if answer.thought else []), *([text] if answer.text else []), *calls]


def answer_responses(answer: FakeAnswer) -> dict[str, Any]:
    """Return the whole response."""
    done: dict[str, Any] = {
        "status": "completed",
        "output": list_output_items(answer),
        "usage": {
            "input_tokens": answer.counted.total,
            "input_tokens_details": report_openai_cache(answer.counted),
            "output_tokens": answer.out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.counted.total + answer.out,
        },
    }
    if answer.diagnosis:
        missed = {"type": "cache_miss", "reason": answer.diagnosis, "cache_missed_tokens": answer.counted.fresh}
        done |= {"prompt_cache_diagnostics": missed}
    if answer.cut:
        done |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return open_response(answer) | done


def stream_responses(answer: FakeAnswer) -> Iterator[str]:
    """Yield the response as a stream of events."""
    numbers = count()

    def write(kind: str, **fields: Any) -> str:
        return write_sse({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield write("response.created", response=open_response(answer))
    yield write("response.in_progress", response=open_response(answer))
    for at, item in enumerate(list_output_items(answer)):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            yield write(
                "response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []}
            )
            words = {**place, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield write("response.content_part.added", **words, part=empty)
            for chunk in split_chunks(answer.text):
                yield write("response.output_text.delta", **words, delta=chunk, logprobs=[])
            yield write("response.output_text.done", **words, text=answer.text, logprobs=[])
            yield write("response.content_part.done", **words, part=item["content"][0])
        elif item["type"] == "reasoning":
            begun = {**item, "summary": [], "encrypted_content": ""}
            yield write("response.output_item.added", output_index=at, item=begun)
            words = {**place, "summary_index": 0}
            empty = {"type": "summary_text", "text": ""}
            yield write("response.reasoning_summary_part.added", **words, part=empty)
            for chunk in split_chunks(answer.thought):
                yield write("response.reasoning_summary_text.delta", **words, delta=chunk)
            yield write("response.reasoning_summary_text.done", **words, text=answer.thought)
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield write("response.output_item.added", output_index=at, item=begun)
            for chunk in split_chunks(item["arguments"]):
                yield write("response.function_call_arguments.delta", **place, delta=chunk)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield write("response.function_call_arguments.done", **place, **done)
        yield write("response.output_item.done", output_index=at, item=item)
    ending = "response.incomplete" if answer.cut else "response.completed"
    yield write(ending, response=answer_responses(answer))


class FakeShape(NamedTuple):
    """One wire shape: its name, its validation rules, and its responses."""

    name: str
    check: Callable[[Body], Iterator[str]]
    answer: Callable[[FakeAnswer], dict[str, Any]]
    stream: Callable[[FakeAnswer], Iterator[str]]


ANTHROPIC = FakeShape("anthropic", request_rules.check_anthropic, answer_anthropic, stream_anthropic)
CHAT = FakeShape("openai", request_rules.check_chat, answer_chat, stream_chat)
RESPONSES = FakeShape("responses", request_rules.check_responses, answer_responses, stream_responses)
GEMINI = FakeShape("gemini", request_rules.check_gemini, answer_gemini, stream_gemini)
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
        return [*shape.check(body), *(request_rules.check_gemini_format(body, model) if shape is GEMINI else ())]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        return [f"the request is malformed: {type(error).__name__}: {error}"]


def find_requested_model(path: str, body: Body) -> str:
    """Return the requested model; Gemini has it in the path."""
    return str(body.get("model") or path.rpartition("/")[2].partition(":")[0])


def write_error_body(shape: FakeShape, line: ScriptedError) -> dict[str, Any]:
    """Return the error body of a provider of this shape."""
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        413: "request_too_large",
        429: "rate_limit_error",
    }
    kind = kinds.get(line.status, "api_error")
    if shape is GEMINI:
        return {"error": {"code": line.status, "message": line.message, "status": kind.upper()}}
    error = {"type": kind, "message": line.message}
    return {"type": "error", "error": error} if shape is ANTHROPIC else {"error": {**error, "code": None}}
