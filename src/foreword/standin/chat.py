"""The answers of POST /v1/chat/completions."""

from collections.abc import Iterator
from typing import Any

from foreword.standin.speech import Speech, part, tell_cached, write_event


def report(speech: Speech) -> dict[str, Any]:
    """Report what a call used."""
    return {
        "prompt_tokens": speech.counted.total,
        "completion_tokens": speech.out,
        "total_tokens": speech.counted.total + speech.out,
        "prompt_tokens_details": tell_cached(speech.counted),
    }


def find_stop(speech: Speech) -> str:
    """Find why the answer ends."""
    return "length" if speech.cut else "tool_calls" if speech.calls else "stop"


def open_answer(speech: Speech, kind: str) -> dict[str, Any]:
    """Make an answer, or a piece of one, without its choices."""
    return {"id": f"chatcmpl-{speech.number}", "object": kind, "created": 1, "model": speech.model}


def show_calls(speech: Speech) -> list[dict[str, Any]]:
    """Show the calls of tools."""
    return [
        {"id": key, "type": "function", "function": {"name": call.name, "arguments": call.written}}
        for key, call in speech.calls
    ]


def answer(speech: Speech) -> dict[str, Any]:
    """Write the whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": speech.text or None}
    if speech.calls:
        message["tool_calls"] = show_calls(speech)
    choice = {"index": 0, "message": message, "finish_reason": find_stop(speech)}
    return {**open_answer(speech, "chat.completion"), "choices": [choice], "usage": report(speech)}


def stream(speech: Speech) -> Iterator[str]:
    """Write the answer as a stream; what it used comes last."""
    head = open_answer(speech, "chat.completion.chunk")

    def tell(delta: dict[str, Any], stop: str | None = None) -> str:
        return write_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]})

    yield tell({"role": "assistant", "content": ""})
    for piece in part(speech.text):
        yield tell({"content": piece})
    for at, shown in enumerate(show_calls(speech)):
        name, written = shown["function"]["name"], shown["function"]["arguments"]
        yield tell({"tool_calls": [{**shown, "index": at, "function": {"name": name, "arguments": ""}}]})
        for piece in part(written):
            yield tell({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield tell({}, find_stop(speech))
    yield write_event({**head, "choices": [], "usage": report(speech)})
    yield write_event("[DONE]")
