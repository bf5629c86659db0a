"""The answers of POST /v1/messages."""

from collections.abc import Iterator
from typing import Any

from foreword.standin.speech import Speech, part, read_arguments, write_event


def report(speech: Speech) -> dict[str, Any]:
    """Report what a call used."""
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


def find_stop(speech: Speech) -> str:
    """Find why the answer ends."""
    return "max_tokens" if speech.cut else "tool_use" if speech.calls else "end_turn"


def open_message(speech: Speech) -> dict[str, Any]:
    """Make a message without its content."""
    return {
        "id": f"msg_{speech.number}",
        "type": "message",
        "role": "assistant",
        "model": speech.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**report(speech), "output_tokens": 1},
        "diagnostics": {"cache_miss_reason": {"type": speech.diagnosis}} if speech.diagnosis else None,
    }


def answer(speech: Speech) -> dict[str, Any]:
    """Write the whole answer."""
    texts = [{"type": "text", "text": speech.text}] if speech.text else []
    calls = [
        {"type": "tool_use", "id": key, "name": call.name, "input": read_arguments(call.written)}
        for key, call in speech.calls
    ]
    done = {"content": [*texts, *calls], "stop_reason": find_stop(speech), "usage": report(speech)}
    return open_message(speech) | done


def stream(speech: Speech) -> Iterator[str]:
    """Write the answer as a stream."""
    yield tell("message_start", message=open_message(speech))
    if speech.text:
        yield tell("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in part(speech.text):
            yield tell("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield tell("content_block_stop", index=0)
    for at, (key, call) in enumerate(speech.calls, bool(speech.text)):
        block = {"type": "tool_use", "id": key, "name": call.name, "input": {}}
        yield tell("content_block_start", index=at, content_block=block)
        for piece in part(call.written):
            yield tell("content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": piece})
        yield tell("content_block_stop", index=at)
    delta = {"stop_reason": find_stop(speech), "stop_sequence": None}
    yield tell("message_delta", delta=delta, usage=report(speech))
    yield tell("message_stop")


def tell(kind: str, **fields: Any) -> str:
    """Write one event of a stream."""
    return write_event({"type": kind, **fields}, kind)
