"""The history of a session: its messages, and segments that are sent again byte for byte."""

import random
import re

import pytest
from conversation import LAMPS, MODELS, Conversation, with_tools
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart

from foreword.agent.conversation import (
    HistorySegment,
    SegmentedHistory,
    add_fenced_result,
    add_result,
    close_turn,
    convert_segments_to_texts,
    convert_to_texts,
    count_fenced_results,
    dump_messages,
    list_unanswered_calls,
    list_user_messages,
    load_messages,
    make_segments,
    make_user_message,
)
from foreword.agent.providers.transport import ForeignRequest, OwnRequest, UserMessage
from foreword.testing import NOON, ScriptedCall, ScriptedReply
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import find_model
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


TURNS = 6


THOUGHTS = {
    "anthropic": {"signature": "c2ln", "provider_name": "anthropic"},
    "openai": {"id": "reasoning_content", "provider_name": "openai"},
    "responses": {"id": "rs_1", "signature": "c2ln", "provider_name": "openai"},
    "gemini": {"signature": "c2ln", "provider_name": "google"},
}
DROPPED = {"input_transformations": [{"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}]}


def converse(number, chance, thoughts=None):
    """Make one turn: with or without tool calls, with a text after the history, or with thoughts."""
    shown = "It is noon now." if chance.random() < 0.4 else ""
    messages = [make_user_message(f"<now>{number}</now>", f"Ütterance {number}?", system=shown)]
    for step in range(chance.randint(0, 2)):
        ids = [f"call_{number}_{step}_{at}" for at in range(chance.randint(1, 3))]
        calls = [ToolCallPart("lamps", {"room": each}, each) for each in ids]
        messages.append(ModelResponse(parts=[TextPart(content="I look."), *calls]))
        results = [ToolReturnPart(tool_name="lamps", content=f"{each} is on", tool_call_id=each) for each in ids]
        messages.append(ModelRequest(parts=results))
    answer = TextPart(content=f"Answer {number}.")
    if thoughts is None or chance.random() < 0.6:
        return (*messages, ModelResponse(parts=[answer]))
    thought = ThinkingPart(content="Hm.", **thoughts)
    details = DROPPED if thoughts["provider_name"] == "anthropic" and chance.random() < 0.5 else None
    more = {"provider_response_id": f"resp_{number}", "provider_details": details}
    return (*messages, ModelResponse(parts=[thought, answer], provider_name=thoughts["provider_name"], **more))


def keep_all(turns):
    """Store each turn."""
    return tuple(HistorySegment(dump_messages(turn)) for turn in turns)


@pytest.mark.parametrize("shape", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_request(tmp_path, stand_in, shape, seed):
    """A request with cached segments equals the library's serialization of all messages, byte for byte."""
    chance = random.Random(f"{shape} {seed}")
    turns = [converse(number, chance, THOUGHTS[shape]) for number in range(TURNS)]
    known = keep_all(turns)
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    for count in sorted(chance.sample(range(1, TURNS + 1), 4)):
        whole = make_segments(tuple(message for turn in turns[:count] for message in turn))
        for talk.past in (known[:count], whole):
            stand_in.follow(
                ScriptedReply(calls=(ScriptedCall(name="lamps", arguments={"room": "hall"}),)),
                ScriptedReply(text="Done."),
            )
            talk.run("And now?", history=convert_segments_to_texts(talk.past), now=NOON, **with_tools(LAMPS))
        warm, cold = stand_in.requests[-4:-2], stand_in.requests[-2:]
        assert [bare(one.raw) for one in warm] == [bare(one.raw) for one in cold]
        assert all(f"Answer {number}." in warm[0].raw.decode() for number in range(count))


def bare(raw):
    """Leave out the ids that the fake gave to its calls."""
    return re.sub(rb"(call|toolu|fc|tool)_[0-9a-zA-Z_]+", b"id", raw)


def make_meter(name="anthropic:claude-sonnet-5"):
    """Make a meter of a model."""
    facts = find_model(name, {})
    return Meter(facts, Counter(facts.tokenizer))


def write_chat(messages):
    """Write messages as a library would, in the shape of a chat; also return the places where people speak."""
    wire, said = [], []
    for message in messages:
        if list_user_messages((message,)):
            said.append(len(wire))
        role = "assistant" if isinstance(message, ModelResponse) else "user"
        wire.append({"role": role, "content": convert_to_texts((message,))[0].text})
    return OwnRequest(shape="openai", request={"model": "m", "messages": wire}, places=tuple(said))


def send(before, own):
    """Send a request; return how many messages a library had to write, and the numbers of the segments' ends."""
    unwritten = before.list_unwritten()
    rest, segments = before.take(write_chat((*unwritten, *own)))
    assert len(rest["messages"]) == len(own)
    return len(unwritten), [segment.end for segment in segments]


def test_written_once():
    """The library serializes only the newest segment and the current turn."""
    meter, chance = make_meter("openai:gpt-5"), random.Random(5)
    turns = [converse(number, chance) for number in range(40)]
    history, own = keep_all(turns), (make_user_message("And now?"),)
    written = []
    for count in range(1, len(turns) + 1):
        number, ends = send(SegmentedHistory(history[:count], "openai", meter, 0), own)
        written.append(number)
        assert len(ends) == count
    assert written == list(map(len, turns))


def test_read_once():
    """A serialized segment drops its messages, and its texts stay the same."""
    turns = [converse(number, random.Random(1)) for number in range(5)]
    history = keep_all(turns)
    shown = convert_segments_to_texts(history)
    assert shown == convert_to_texts([message for turn in turns for message in turn])
    send(SegmentedHistory(history, "openai", make_meter("openai:gpt-5"), 0), (make_user_message("And now?"),))
    assert all(one is other for one, other in zip(convert_segments_to_texts(history), shown, strict=True))
    assert [one.messages for one in history] == [tuple(turn) for turn in turns]


@pytest.mark.parametrize("other", ["meter", "opening", "before"])
def test_written_anew(other):
    """A segment is serialized again for another meter, another opening or other messages before it."""
    meter = make_meter("openai:gpt-5")
    turns = [converse(number, random.Random(2)) for number in range(4)]
    history, own = keep_all(turns), (make_user_message("And now?"),)
    send(SegmentedHistory(history, "openai", meter, 0), own)
    everything = sum(map(len, turns))
    if other == "meter":
        assert send(SegmentedHistory(history, "openai", make_meter("openai:gpt-5"), 0), own)[0] == everything
    elif other == "before":
        assert send(SegmentedHistory(history[1:], "openai", meter, 0), own)[0] == everything - len(turns[0])
    else:
        before = SegmentedHistory(history, "openai", meter, 1)
        assert len(before.list_unwritten()) == everything


def test_what_cannot_be_cut():
    """A segment that does not start with a user message is sent whole with the turn."""
    headless = (ModelResponse(parts=[TextPart(content="I went on.")]),)
    history = keep_all([converse(0, random.Random(3)), headless, converse(2, random.Random(3))])
    before = SegmentedHistory(history, "openai", make_meter("openai:gpt-5"), 0)
    for _ in range(2):
        owned = write_chat((*before.list_unwritten(), make_user_message("And now?")))
        rest, segments = before.take(owned)
        assert (rest["messages"], segments) == (owned.request["messages"], ())


def test_thoughts_bind_a_chat():
    """After an answer with thinking parts, the library serializes all following messages."""
    plain, thought = converse(0, random.Random(7)), ThinkingPart(content="Hm.", **THOUGHTS["openai"])
    thinking = (make_user_message("Well?"), ModelResponse(parts=[thought, TextPart(content="Yes.")]))
    known, meter = keep_all([plain, thinking, plain, plain]), make_meter("deepseek:deepseek-chat")
    send(SegmentedHistory(known, "openai", meter, 0), (make_user_message("And now?"),))
    unwritten = SegmentedHistory(known, "openai", meter, 0).list_unwritten()
    assert convert_to_texts(unwritten) == convert_to_texts([*thinking, *plain, *plain])


def test_a_lost_message():
    """A request without a message of an earlier turn is not sent."""
    before = SegmentedHistory(keep_all([converse(0, random.Random(4))]), "openai", make_meter("openai:gpt-5"), 0)
    before.list_unwritten()
    with pytest.raises(ForeignRequest, match="lacks a user message"):
        before.take(write_chat((make_user_message("And now?"),)))


def test_one_speaker():
    """Two segments that meet in messages of one role become one message."""
    first, second = (
        (make_user_message("one"),),
        (make_user_message("two"), ModelResponse(parts=[TextPart(content="yes")])),
    )
    assert convert_segments_to_texts(keep_all([first, second])) == convert_to_texts((*first, *second))
    assert make_segments(()) == ()
    assert convert_segments_to_texts(make_segments(second)) == convert_to_texts(second)
    assert UserMessage(texts=("two",)) in list_user_messages(second)
