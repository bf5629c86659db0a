"""The answers of POST /v1/responses."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from foreword.standin.speech import Speech, part, tell_cached, write_event


def report(speech: Speech) -> dict[str, Any]:
    """Report what a call used."""
    return {
        "input_tokens": speech.counted.total,
        "input_tokens_details": tell_cached(speech.counted),
        "output_tokens": speech.out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": speech.counted.total + speech.out,
    }


def open_answer(speech: Speech) -> dict[str, Any]:
    """Make an answer that has just begun."""
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


def say(speech: Speech) -> dict[str, Any]:
    """Make the item with the words."""
    content = [{"type": "output_text", "text": speech.text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{speech.number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def list_items(speech: Speech) -> list[dict[str, Any]]:
    """List what the answer consists of."""
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
    return [*([say(speech)] if speech.text else []), *calls]


def answer(speech: Speech) -> dict[str, Any]:
    """Write the whole answer."""
    done: dict[str, Any] = {"status": "completed", "output": list_items(speech), "usage": report(speech)}
    if speech.diagnosis:
        missed = {"type": "cache_miss", "reason": speech.diagnosis, "cache_missed_tokens": speech.counted.fresh}
        done |= {"prompt_cache_diagnostics": missed}
    if speech.cut:
        done |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return open_answer(speech) | done


def stream(speech: Speech) -> Iterator[str]:
    """Write the answer as a stream."""
    numbers = count()

    def tell(kind: str, **fields: Any) -> str:
        return write_event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield tell("response.created", response=open_answer(speech))
    yield tell("response.in_progress", response=open_answer(speech))
    for at, item in enumerate(list_items(speech)):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            yield tell(
                "response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []}
            )
            words = {**place, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield tell("response.content_part.added", **words, part=empty)
            for piece in part(speech.text):
                yield tell("response.output_text.delta", **words, delta=piece, logprobs=[])
            yield tell("response.output_text.done", **words, text=speech.text, logprobs=[])
            yield tell("response.content_part.done", **words, part=item["content"][0])
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield tell("response.output_item.added", output_index=at, item=begun)
            for piece in part(item["arguments"]):
                yield tell("response.function_call_arguments.delta", **place, delta=piece)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield tell("response.function_call_arguments.done", **place, **done)
        yield tell("response.output_item.done", output_index=at, item=item)
    ending = "response.incomplete" if speech.cut else "response.completed"
    yield tell(ending, response=answer(speech))
