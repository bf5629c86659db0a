"""The fake provider refuses the requests that real providers refuse, and names the reason."""

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
