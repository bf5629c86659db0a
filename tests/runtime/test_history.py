"""Claims about histories: they are stored and read, weighed, and closed so that a further turn can follow."""

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart

from foreword.runtime.history import (
    add_result,
    add_told,
    close,
    count_told,
    dump,
    list_open,
    list_said,
    load,
    recount,
    say,
)
from foreword.turn import Message

CALLS = [ToolCallPart(tool_name="lamps", args={"room": room}, tool_call_id=room) for room in ("hall", "attic")]
ASKED = ModelResponse(parts=[TextPart(content="Let me see."), *CALLS])


def test_open_calls():
    """A call is open until its result is there, and the results of one answer are one message."""
    messages = (say("tail", "Light."), ASKED)
    assert list_open(messages) == CALLS
    messages = add_result(messages, CALLS[0], "on")
    assert list_open(messages) == CALLS[1:]
    messages = add_result(messages, CALLS[1], "on")
    assert (list_open(messages), len(messages)) == ([], 3)
    assert list_open((say("Hi"),)) == list_open(()) == []


def test_told_results():
    """Results of fenced calls are parts of one message; the person's own message does not count among them."""
    messages = (say("tail", "Light."),)
    assert count_told(messages) == 0
    messages = (*messages, ModelResponse(parts=[TextPart(content="…")]))
    assert count_told(messages) == 0
    messages = add_told(add_told(messages, "one"), "two")
    assert (count_told(messages), len(messages)) == (2, 3)
    assert [spoken.texts for spoken in list_said(messages)] == [("tail", "Light."), ("one", "two")]


@pytest.mark.parametrize(
    "messages",
    [
        (say("Hi"),),
        (say("Hi"), ASKED),
        (say("Hi"), ASKED, ModelRequest(parts=[ToolReturnPart(tool_name="lamps", content="on", tool_call_id="hall")])),
        (say("Hi"), ModelResponse(parts=[TextPart(content="")])),
        (say("Hi"), ModelResponse(parts=[])),
    ],
)
def test_closing(messages):
    """A closed turn has no open call, and the agent's words at its end."""
    closed = close(messages, "stopped")
    assert list_open(closed) == []
    assert closed[-1].parts[-1].content == "(stopped)"
    assert close(closed, "again") == closed


def test_nothing_to_close():
    """A turn without messages stays so, and a finished one as it is."""
    assert close((), "stopped") == ()
    done = (say("Hi"), ModelResponse(parts=[TextPart(content="Yes.")]))
    assert close(done, "stopped") == done


def test_stored():
    """What is stored is read as it was."""
    messages = add_result((say("tail", "Light."), ASKED), CALLS[0], "on")
    assert load(dump(messages)) == messages


def test_recounted():
    """As plain texts a history has turns of user and assistant, with calls and results among them."""
    messages = (
        *add_result((say("tail", "Light."), ASKED), CALLS[0], "on"),
        ModelResponse(parts=[TextPart(content="Yes.")]),
    )
    assert recount(messages) == (
        Message(role="user", text="tail\n\nLight."),
        Message(role="assistant", text='Let me see.\n\nlamps({"room":"hall"})\n\nlamps({"room":"attic"})'),
        Message(role="user", text="on"),
        Message(role="assistant", text="Yes."),
    )
