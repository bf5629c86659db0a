"""Histories: storage, token counting, and closing."""

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart

from foreword.agent.conversation import (
    add_fenced_result,
    add_result,
    close_turn,
    convert_to_texts,
    count_fenced_results,
    dump_messages,
    list_unanswered_calls,
    list_user_messages,
    load_messages,
    make_user_message,
)
from foreword.turn import Message

CALLS = [ToolCallPart(tool_name="lamps", args={"room": room}, tool_call_id=room) for room in ("hall", "attic")]
ASKED = ModelResponse(parts=[TextPart(content="Let me see."), *CALLS])


def test_open_calls():
    """A call is open until it has a result, and the results of one answer are one message."""
    messages = (make_user_message("tail", "Light."), ASKED)
    assert list_unanswered_calls(messages) == CALLS
    messages = add_result(messages, CALLS[0], "on")
    assert list_unanswered_calls(messages) == CALLS[1:]
    messages = add_result(messages, CALLS[1], "on")
    assert (list_unanswered_calls(messages), len(messages)) == ([], 3)
    assert list_unanswered_calls((make_user_message("Hi"),)) == list_unanswered_calls(()) == []


def test_told_results():
    """Results of fenced calls are parts of one message, separate from the user's message."""
    messages = (make_user_message("tail", "Light."),)
    assert count_fenced_results(messages) == 0
    messages = (*messages, ModelResponse(parts=[TextPart(content="…")]))
    assert count_fenced_results(messages) == 0
    messages = add_fenced_result(add_fenced_result(messages, "one"), "two")
    assert (count_fenced_results(messages), len(messages)) == (2, 3)
    assert [spoken.texts for spoken in list_user_messages(messages)] == [("tail", "Light."), ("one", "two")]


@pytest.mark.parametrize(
    "messages",
    [
        (make_user_message("Hi"),),
        (make_user_message("Hi"), ASKED),
        (
            make_user_message("Hi"),
            ASKED,
            ModelRequest(parts=[ToolReturnPart(tool_name="lamps", content="on", tool_call_id="hall")]),
        ),
        (make_user_message("Hi"), ModelResponse(parts=[TextPart(content="")])),
        (make_user_message("Hi"), ModelResponse(parts=[])),
    ],
)
def test_closing(messages):
    """A closed turn has no open call and ends with an answer."""
    closed = close_turn(messages, "stopped")
    assert list_unanswered_calls(closed) == []
    assert closed[-1].parts[-1].content == "(stopped)"
    assert close_turn(closed, "again") == closed


def test_nothing_to_close():
    """Closing changes neither an empty nor a finished turn."""
    assert close_turn((), "stopped") == ()
    done = (make_user_message("Hi"), ModelResponse(parts=[TextPart(content="Yes.")]))
    assert close_turn(done, "stopped") == done


def test_stored():
    """Stored messages are read back unchanged."""
    messages = add_result((make_user_message("tail", "Light."), ASKED), CALLS[0], "on")
    assert load_messages(dump_messages(messages)) == messages


def test_recounted():
    """As plain texts a history alternates between user and assistant, with calls and results."""
    messages = (
        *add_result((make_user_message("tail", "Light."), ASKED), CALLS[0], "on"),
        ModelResponse(parts=[TextPart(content="Yes.")]),
    )
    assert convert_to_texts(messages) == (
        Message(role="user", text="tail\n\nLight."),
        Message(role="assistant", text='Let me see.\n\nlamps({"room":"hall"})\n\nlamps({"room":"attic"})'),
        Message(role="user", text="on"),
        Message(role="assistant", text="Yes."),
    )
