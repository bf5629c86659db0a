"""The answers of generateContent and streamGenerateContent."""

from collections.abc import Iterator
from typing import Any

from foreword.standin.speech import Speech, part, read_arguments, write_event


def report(speech: Speech) -> dict[str, Any]:
    """Report what a call used."""
    total = speech.counted.total
    used = {"promptTokenCount": total, "candidatesTokenCount": speech.out, "totalTokenCount": total + speech.out}
    return used | ({"cachedContentTokenCount": speech.counted.read} if speech.counted.read else {})


def find_stop(speech: Speech) -> str:
    """Find why the answer ends."""
    return "MAX_TOKENS" if speech.cut else "STOP"


def show_calls(speech: Speech) -> list[dict[str, Any]]:
    """Show the calls of tools."""
    return [
        {"functionCall": {"id": key, "name": call.name, "args": read_arguments(call.written)}}
        for key, call in speech.calls
    ]


def show(speech: Speech, parts: list[dict[str, Any]], stop: str = "") -> dict[str, Any]:
    """Show an answer, or a piece of one."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    head = {"modelVersion": speech.model, "responseId": f"r{speech.number}"}
    if stop:
        return {"candidates": [{**candidate, "finishReason": stop}], "usageMetadata": report(speech), **head}
    return {"candidates": [candidate], **head}


def answer(speech: Speech) -> dict[str, Any]:
    """Write the whole answer."""
    texts = [{"text": speech.text}] if speech.text else []
    return show(speech, [*texts, *show_calls(speech)], find_stop(speech))


def stream(speech: Speech) -> Iterator[str]:
    """Write the answer as a stream."""
    for piece in part(speech.text):
        yield write_event(show(speech, [{"text": piece}]))
    yield write_event(show(speech, show_calls(speech) or [{"text": ""}], find_stop(speech)))
