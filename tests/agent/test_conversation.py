"""The messages of a session: their stored form, and segments that are sent again byte for byte."""

import random
import re

import pytest
from conversation import LAMPS, MODELS, Conversation, with_tools

from foreword.agent.conversation import (
    Answer,
    CallPart,
    DamagedHistory,
    ImagePart,
    ResultPart,
    TextPart,
    ThinkingPart,
    ToolResults,
    UserMessage,
    add_fenced_result,
    add_result,
    close_turn,
    convert_to_texts,
    count_fenced_results,
    dump_messages,
    list_unanswered_calls,
    load_messages,
    make_answer,
    make_user_message,
)
from foreword.agent.images import ImageFolder
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.agent.segments import (
    HistorySegment,
    MessageWriter,
    convert_segments_to_texts,
    make_segments,
    write_history,
)
from foreword.testing import NOON, ScriptedCall, ScriptedReply
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import find_model
from foreword.turn import Message

CALLS = [CallPart(id=room, name="lamps", arguments=f'{{"room":"{room}"}}') for room in ("hall", "attic")]
ASKED = Answer(parts=(TextPart(text="Let me see."), *CALLS))


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
    messages = (*messages, make_answer("…"))
    assert count_fenced_results(messages) == 0
    messages = add_fenced_result(add_fenced_result(messages, "one"), "two")
    assert (count_fenced_results(messages), len(messages)) == (2, 3)
    assert [one.texts for one in messages if isinstance(one, UserMessage)] == [("tail", "Light."), ("one", "two")]


@pytest.mark.parametrize(
    "messages",
    [
        (make_user_message("Hi"),),
        (make_user_message("Hi"), ASKED),
        (
            make_user_message("Hi"),
            ASKED,
            ToolResults(parts=(ResultPart(id="hall", name="lamps", text="on"),)),
        ),
        (make_user_message("Hi"), make_answer("")),
        (make_user_message("Hi"), Answer()),
    ],
)
def test_closing(messages):
    """A closed turn has no open call and ends with an answer."""
    closed = close_turn(messages, "stopped")
    assert list_unanswered_calls(closed) == []
    assert closed[-1].text == "(stopped)"
    assert close_turn(closed, "again") == closed


def test_nothing_to_close():
    """Closing changes neither an empty nor a finished turn."""
    assert close_turn((), "stopped") == ()
    done = (make_user_message("Hi"), make_answer("Yes."))
    assert close_turn(done, "stopped") == done


EVERYTHING = (
    UserMessage(parts=(TextPart(text="tail"), ImagePart(media_type="image/png", sha256="ab")), system="Be careful."),
    Answer(
        parts=(
            ThinkingPart(text="Hm.", signature="c2ln", id="rs_1", redacted=True),
            TextPart(text="Grüße 🪶\u2028", id="msg_1", signature="c2ln"),
            CallPart(id="c1", name="lamps", arguments='{"room": ', item="fc_1", signature="c2ln"),
        ),
        cut=True,
        provider="openai",
        drops_thinking=True,
    ),
    ToolResults(parts=(ResultPart(id="c1", name="lamps", text="no such lamp", failed=True),)),
    Answer(),
)


def test_stored():
    """Stored messages are read back unchanged, with every field of every part."""
    assert load_messages(dump_messages(EVERYTHING)) == EVERYTHING
    messages = add_result((make_user_message("tail", "Light."), ASKED), CALLS[0], "on")
    assert load_messages(dump_messages(messages)) == messages


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b"null",
        b"[1]",
        b"[" * 100_000,
        b'[{"role": "user"}]',
        b'[{"role": "boss", "parts": []}]',
        b'[{"role": "user", "parts": [{"type": "song"}]}]',
        b'[{"role": "user", "parts": [{"type": "text", "words": "x"}]}]',
        b'[{"role": "user", "parts": [], "more": 1}]',
    ],
)
def test_damaged(stored):
    """Damaged messages are reported as such, whatever is wrong with them."""
    with pytest.raises(DamagedHistory, match=r"damaged .*; start a new session"):
        load_messages(stored)


def test_recounted():
    """As plain texts a history alternates between user and assistant, with calls and results."""
    messages = (
        *add_result((make_user_message("tail", "Light."), ASKED), CALLS[0], "on"),
        make_answer("Yes."),
    )
    assert convert_to_texts(messages) == (
        Message(role="user", text="tail\n\nLight."),
        Message(role="assistant", text='Let me see.\n\nlamps({"room":"hall"})\n\nlamps({"room":"attic"})'),
        Message(role="user", text="on"),
        Message(role="assistant", text="Yes."),
    )


TURNS = 6


FAMILIES = {"anthropic": "anthropic", "openai": "openai", "responses": "openai", "gemini": "google"}
THOUGHTS = {
    "anthropic": {"signature": "c2ln"},
    "openai": {"id": "reasoning_content"},
    "responses": {"id": "rs_1", "signature": "c2ln"},
    "gemini": {"signature": "c2ln"},
}


def converse(number, chance, shape=""):
    """Make one turn: with or without tool calls, with a text after the history, or with thoughts."""
    shown = "It is noon now." if chance.random() < 0.4 else ""
    messages = [make_user_message(f"<now>{number}</now>", f"Ütterance {number}?", system=shown)]
    for step in range(chance.randint(0, 2)):
        ids = [f"call_{number}_{step}_{at}" for at in range(chance.randint(1, 3))]
        calls = [CallPart(id=each, name="lamps", arguments=f'{{"room": "{each}"}}') for each in ids]
        messages.append(Answer(parts=(TextPart(text="I look."), *calls)))
        messages.append(
            ToolResults(parts=tuple(ResultPart(id=each, name="lamps", text=f"{each} is on") for each in ids))
        )
    answer = TextPart(text=f"Answer {number}.")
    if not shape or chance.random() < 0.6:
        return (*messages, Answer(parts=(answer,)))
    thought = ThinkingPart(text="Hm.", **THOUGHTS[shape])
    drops = shape == "anthropic" and chance.random() < 0.5
    return (*messages, Answer(parts=(thought, answer), provider=FAMILIES[shape], drops_thinking=drops))


def keep_all(turns):
    """Store each turn."""
    return tuple(HistorySegment(dump_messages(turn)) for turn in turns)


@pytest.mark.parametrize("shape", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_request(tmp_path, stand_in, shape, seed):
    """A request with segments that were sent before has the bytes of one that is written anew."""
    chance = random.Random(f"{shape} {seed}")
    turns = [converse(number, chance, shape) for number in range(TURNS)]
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


def make_writer(name="openai:gpt-5"):
    """Make a writer for a model of OpenAI."""
    return MessageWriter(wire=WIRE_SHAPES["openai"], family="openai", meter=make_meter(name), images=ImageFolder(""))


def count_written(history, writer, monkeypatch, start=0):
    """Write a history; return how many messages were written, and the numbers of the segments' ends."""
    written = []
    write = MessageWriter.write
    monkeypatch.setattr(
        MessageWriter, "write", lambda self, messages: written.extend(messages) or write(self, messages)
    )
    segments = write_history(history, writer, start)
    monkeypatch.setattr(MessageWriter, "write", write)
    return len(written), [segment.end for segment in segments]


def test_written_once(monkeypatch):
    """Each segment is written once, however long the session becomes."""
    writer, chance = make_writer(), random.Random(5)
    turns = [converse(number, chance) for number in range(40)]
    history = keep_all(turns)
    written = []
    for count in range(1, len(turns) + 1):
        number, ends = count_written(history[:count], writer, monkeypatch)
        written.append(number)
        assert len(ends) == count
    assert written == list(map(len, turns))


def test_texts_are_kept():
    """The texts of a segment are computed once and stay the same when it is written."""
    turns = [converse(number, random.Random(1)) for number in range(5)]
    history = keep_all(turns)
    shown = convert_segments_to_texts(history)
    assert shown == convert_to_texts([message for turn in turns for message in turn])
    write_history(history, make_writer(), 0)
    assert all(one is other for one, other in zip(convert_segments_to_texts(history), shown, strict=True))
    assert [one.messages for one in history] == [tuple(turn) for turn in turns]


@pytest.mark.parametrize("other", ["model", "opening", "before"])
def test_written_anew(other, monkeypatch):
    """A segment is written again for another model, another opening or other messages before it."""
    writer = make_writer()
    turns = [converse(number, random.Random(2)) for number in range(4)]
    history = keep_all(turns)
    write_history(history, writer, 0)
    everything = sum(map(len, turns))
    if other == "model":
        assert count_written(history, make_writer(), monkeypatch)[0] == everything
    elif other == "before":
        assert count_written(history[1:], writer, monkeypatch)[0] == everything - len(turns[0])
    else:
        assert count_written(history, writer, monkeypatch, start=1)[0] == everything


def test_thoughts_of_another_provider():
    """Thoughts, signatures and ids of an answer go to no other provider; its text and calls do."""
    call = CallPart(id="c1", name="lamps", arguments="{}", item="fc_1", signature="c2ln")
    thought = ThinkingPart(text="Hm.", id="reasoning_content", signature="c2ln")
    answer = Answer(parts=(thought, TextPart(text="Yes.", id="msg_1"), call), provider="elsewhere")
    for shape in MODELS:
        written = str(WIRE_SHAPES[shape].write_message(answer, FAMILIES[shape]))
        assert "Yes." in written
        assert "lamps" in written
        assert not any(word in written for word in ("Hm.", "c2ln", "msg_1", "fc_1"))


def test_one_speaker():
    """Two segments that meet in messages of one role become one message."""
    first, second = (make_user_message("one"),), (make_user_message("two"), make_answer("yes"))
    assert convert_segments_to_texts(keep_all([first, second])) == convert_to_texts((*first, *second))
    assert make_segments(()) == ()
    assert convert_segments_to_texts(make_segments(second)) == convert_to_texts(second)
