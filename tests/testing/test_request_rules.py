"""The fake provider refuses the requests that real providers refuse, and names the reason."""

import json

import pytest

from foreword.testing.request_rules import check_anthropic, check_chat, check_gemini, check_responses

HI = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words="x", **more):
    """Make a block of text."""
    return {"type": "text", "text": words, **more}


def ask(*messages, **more):
    """Make a request to Anthropic."""
    return {"model": "m", "max_tokens": 9, "messages": [HI, *messages], **more}


USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "y"}]}
ANTHROPIC = [
    (ask(), ""),
    (ask(USE, RESULT), ""),
    (ask(system=[text(**HOUR), text(**MARK)]), ""),
    ({"model": "m", "messages": [HI]}, "max_tokens is required"),
    (ask(system=[text(**MARK)] * 5), "maximum of 4 blocks"),
    (ask(system=[text(**MARK), text(**HOUR)]), "must not come after"),
    (ask(system=[text(cache_control={"type": "forever"})]), "type is ephemeral"),
    (ask(system=[text("")]), "system: text content blocks must be non-empty"),
    ({**ask(), "messages": [{"role": "user", "content": [text(" ")]}]}, "messages: text content blocks"),
    ({**ask(), "messages": [{"role": "user", "content": []}]}, "content must not be empty"),
    (ask(tools=[{"name": "x"}]), "input_schema is required"),
    (ask(HI), "roles must alternate"),
    ({**ask(), "messages": [USE, RESULT]}, "the first message must be a user message"),
    (ask(USE), "tool_use ids without tool_result: a"),
    (ask(USE, HI), "tool_use ids without tool_result: a"),
    (ask({"role": "assistant", "content": "Yes."}, RESULT), "unexpected tool_use_id"),
]


@pytest.mark.parametrize(("body", "words"), ANTHROPIC)
def test_anthropic(body, words):
    """POST /v1/messages refuses too many or misordered cache breakpoints, empty blocks, and unmatched tool results."""
    faults = "; ".join(check_anthropic(body))
    assert words in faults
    assert bool(words) == bool(faults)


CALL = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x"}}]}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "y"}
SYSTEM = {"role": "system", "content": "s"}
CHAT = [
    ([SYSTEM, HI], ""),
    ([HI, CALL, TOOL], ""),
    ([HI, CALL, TOOL, {"role": "assistant", "content": "So."}, HI], ""),
    ([HI, SYSTEM], ""),
    ([HI, TOOL], "must be a response to a preceding"),
    ([HI, CALL], "must be followed by tool messages: a"),
    ([HI, CALL, HI], "must be followed by tool messages: a"),
    ([HI, HI], "roles must alternate"),
    ([{"role": "user", "content": ""}], "a user message needs content"),
]


@pytest.mark.parametrize(("messages", "words"), CHAT)
def test_chat(messages, words):
    """POST /v1/chat/completions refuses results without a call, and calls without a result."""
    faults = "; ".join(check_chat({"model": "m", "messages": messages}))
    assert words in faults
    assert bool(words) == bool(faults)


ASKED = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
FUNCTION = {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "y"}
RESPONSES = [
    ([ASKED], ""),
    ([ASKED, FUNCTION, OUTPUT], ""),
    ([ASKED, FUNCTION], "No tool output found for function call a"),
    ([ASKED, OUTPUT], "No tool call found for function call output"),
    ([HI], "the parts of a user message are input_text"),
    ([ASKED, ASKED], "roles must alternate"),
]


@pytest.mark.parametrize(("items", "words"), RESPONSES)
def test_responses(items, words):
    """POST /v1/responses refuses results without a call, and calls without a result."""
    faults = "; ".join(check_responses({"model": "m", "input": items}))
    assert words in faults
    assert bool(words) == bool(faults)


SAID = {"role": "user", "parts": [{"text": "Hi"}]}
CALLED = {"role": "model", "parts": [{"functionCall": {"name": "x"}}]}
ANSWERED = {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"error": "no"}}}]}
GEMINI = [
    ([SAID], ""),
    ([SAID, CALLED, ANSWERED], ""),
    (
        [SAID, CALLED, {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": "no"}}]}],
        "response is an object",
    ),
    ([SAID, CALLED, SAID], "number of function response parts"),
    ([SAID, {"role": "model", "parts": [{"text": "x"}]}, ANSWERED], "number of function response parts"),
    ([{"role": "assistant", "parts": [{"text": "x"}]}], "role is user or model"),
    ([{"role": "user", "parts": []}], "parts must not be empty"),
    ([SAID, SAID], "roles must alternate"),
]


@pytest.mark.parametrize(("contents", "words"), GEMINI)
def test_gemini(contents, words):
    """The method generateContent refuses another number of results than there were calls."""
    faults = "; ".join(check_gemini({"contents": contents}))
    assert words in faults
    assert bool(words) == bool(faults)


GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
LOOK = {
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": GIF}},
    "chat": {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{GIF}"}},
    "responses": {"type": "input_image", "image_url": f"data:image/gif;base64,{GIF}"},
}


def check_part(shape, part):
    """Return the errors of a request with one part."""
    said = [{"role": "user", "content": [part]}]
    checks = {
        "anthropic": lambda: check_anthropic({"model": "m", "max_tokens": 9, "messages": said}),
        "chat": lambda: check_chat({"model": "m", "messages": said}),
        "responses": lambda: check_responses({"model": "m", "input": said}),
    }
    return "; ".join(checks[shape]())


@pytest.mark.parametrize("shape", LOOK)
def test_images(shape):
    """Each provider takes an image in its own form only, and its bytes must be of the declared type."""
    assert check_part(shape, LOOK[shape]) == ""
    for other in LOOK.keys() - {shape}:
        assert "the parts of a user message are" in check_part(shape, LOOK[other])
    for before, after in (("image/gif", "image/png"), (GIF, GIF[:8])):
        wrong = json.loads(json.dumps(LOOK[shape]).replace(before, after))
        assert "could not process image" in check_part(shape, wrong)
    assert "media type" in check_part(shape, json.loads(json.dumps(LOOK[shape]).replace("image/gif", "image/tiff")))


def test_images_of_gemini():
    """Gemini takes images as `inlineData`, and no GIF."""
    faults = check_gemini({"contents": [{"role": "user", "parts": [LOOK["chat"]]}]})
    assert "Unknown name 'type'" in "; ".join(faults)
    part = {"inlineData": {"mimeType": "image/gif", "data": GIF}}
    assert "media type" in "; ".join(check_gemini({"contents": [{"role": "user", "parts": [part]}]}))
