"""Faults of providers and tools in a turn."""

import asyncio
import json
from itertools import cycle

import pytest
from conversation import LAMPS, MODELS, Conversation, Lamps, with_tools

from foreword.agent.agent_events import CallRestarted, StepDone, TextDelta, TurnEnd
from foreword.agent.conversation import close_turn
from foreword.agent.loop import TurnLimits
from foreword.events.event import EventType, Level
from foreword.storage.database import StorageError
from foreword.testing import (
    ScriptedCall,
    ScriptedDisconnect,
    ScriptedError,
    ScriptedGarbage,
    ScriptedHang,
    ScriptedReply,
)
from waiting import until

SHAPES = tuple(MODELS)
BUSY = ScriptedError(status=429, message="too many requests")
LIGHT = ScriptedReply(calls=(ScriptedCall(name="lamps", arguments={"room": "hall"}),))
FAULTS = {
    "429": (ScriptedError(status=429), TurnEnd.QUEUED),
    "500": (ScriptedError(status=500, message="oh no"), TurnEnd.QUEUED),
    "529": (ScriptedError(status=529, message="overloaded"), TurnEnd.QUEUED),
    "hang": (ScriptedHang(seconds=20), TurnEnd.QUEUED),
    "half": (ScriptedDisconnect(), TurnEnd.QUEUED),
    "half, then silence": (ScriptedHang(seconds=20, text="It was a dark and stormy night"), TurnEnd.QUEUED),
    "garbage": (ScriptedGarbage(), TurnEnd.FAILED),
    "bad events": (ScriptedGarbage(text="event: x\ndata: {not json}\n\n"), TurnEnd.FAILED),
    "400": (ScriptedError(status=400, message="no such thing"), TurnEnd.FAILED),
    "401": (ScriptedError(status=401, message="invalid x-api-key"), TurnEnd.FAILED),
    "nothing": (ScriptedReply(), TurnEnd.FAILED),
}


@pytest.mark.parametrize(("fault", "shape"), [*zip(FAULTS, cycle(SHAPES)), *(("half", shape) for shape in SHAPES[1:])])
def test_faults(tmp_path, stand_in, shape, fault):
    """Each fault ends the turn with a message and an error event, and the next turn is answered."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    line, end = FAULTS[fault]
    patient, talk.silence = talk.silence, 0.2 if isinstance(line, ScriptedHang) else talk.silence
    stand_in.follow(*[line] * 4)
    outcome = talk.run("Are you there?")
    assert outcome.end is end, outcome.text
    assert outcome.text.endswith((".", "!"))
    assert talk.slept == ([1.0, 2.0, 4.0] if end is TurnEnd.QUEUED else [])
    (done,) = talk.pick(EventType.TURN_COMPLETED)
    recorded = Level.WARN if fault != "nothing" else Level.ERROR  # the call that failed is the error row
    assert (done.level, done.facts["outcome"]) == (recorded, str(end))
    errors = talk.pick(EventType.API_ERROR)
    assert len(errors) == {TurnEnd.QUEUED: 4, TurnEnd.FAILED: int(fault != "nothing")}[end]
    assert all(error.error for error in errors)
    talk.silence = patient
    stand_in.follow(ScriptedReply(text="Here I am."))
    assert talk.run("And now?").text == "Here I am."
    assert stand_in.requests[-1].refused == ""


@pytest.mark.parametrize("shape", SHAPES)
def test_four_refusals(tmp_path, stand_in, shape):
    """A call is retried after 1, 2 and 4 seconds: four error events, then the turn is queued."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    for _ in range(2):
        talk.run("Hello")
    stand_in.follow(*[BUSY] * 4)
    outcome = talk.run("Did the backup run?")
    assert (outcome.end, outcome.messages) == (TurnEnd.QUEUED, ())
    refused = talk.pick(EventType.API_ERROR)
    assert [event.facts["status"] for event in refused] == [429] * 4
    assert [event.facts.get("retry_in_s") for event in refused] == [1, 2, 4, None]
    assert [event.facts["attempt"] for event in refused] == [1, 2, 3, 4]
    assert "too many requests" in refused[0].error
    done = talk.pick(EventType.TURN_COMPLETED)[-1]
    assert done.facts["calls_refused"] == 4
    assert done.facts["status"] == 429
    assert {"outcome", "turns_before", "minutes_before"} <= done.facts.keys()
    stand_in.follow(ScriptedReply(text="It did."))
    assert talk.run("Did the backup run?").text == "It did."


def test_what_a_provider_asks_for(tmp_path, stand_in):
    """A provider's longer delay is respected; one beyond the limit queues the turn at once."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedError(retry_after=7), ScriptedError(retry_after=0.5), ScriptedReply(text="Now."))
    assert talk.run("Hello").text == "Now."
    assert talk.slept == [7.0, 2.0]
    stand_in.follow(ScriptedError(retry_after=900))
    outcome = talk.run("Hello")
    assert (outcome.end, outcome.wait, talk.slept) == (TurnEnd.QUEUED, 900.0, [7.0, 2.0])


def test_half_an_answer(tmp_path, stand_in):
    """An answer that breaks off is requested again, and the event stream says to discard the first part."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedDisconnect(text="It was a dark and stormy night."), ScriptedReply(text="It was noon."))
    assert talk.run("Tell me.").text == "It was noon."
    at = talk.deltas.index(CallRestarted())
    assert "".join(delta.text for delta in talk.deltas[:at]).startswith("It was")
    assert "".join(delta.text for delta in talk.deltas[at + 1 :]) == "It was noon."


def test_an_error_inside_a_stream(tmp_path, stand_in):
    """An error inside a stream is retried like an error before it."""
    talk = Conversation(tmp_path, stand_in.url)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    stand_in.follow(ScriptedGarbage(text=f"event: error\ndata: {json.dumps(error)}\n\n"), ScriptedReply(text="Now."))
    assert talk.run("Hello").text == "Now."
    assert talk.pick(EventType.API_ERROR)[0].facts["status"] == 529


def test_too_long(tmp_path, stand_in):
    """A conversation that exceeds the context window is reported as such."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedError(status=400, message="prompt is too long: 210000 tokens > 200000 maximum"))
    outcome = talk.run("Hello")
    assert (outcome.end, outcome.too_long) == (TurnEnd.FAILED, True)
    assert "too long" in outcome.text


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_that_was_cut(tmp_path, stand_in, shape):
    """A reply truncated at its token limit is marked in the outcome and the log."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    stand_in.follow(ScriptedReply(text="And then", cut=True))
    outcome = talk.run("Tell me everything.")
    assert (outcome.end, outcome.text, outcome.cut) == (TurnEnd.ANSWERED, "And then", True)
    (call,) = talk.pick(EventType.API_CALL)
    assert call.facts["cut"] is True


TROUBLE = {
    "unknown tool": (
        ScriptedCall(name="lamp", arguments={}),
        None,
        "There is no tool 'lamp' here; did you mean 'lamps'?",
    ),
    "missing": (ScriptedCall(name="lamps", arguments={}), None, "lamps was not called: 'room' is missing."),
    "kind": (ScriptedCall(name="lamps", arguments={"room": 3}), None, "'room' is to be string, not 3"),
    "no JSON": (ScriptedCall(name="lamps", arguments='{"room": '), None, "the arguments of lamps are no JSON"),
    "no object": (ScriptedCall(name="lamps", arguments="[1]"), None, "the arguments of lamps are no JSON object"),
    "throws": (LIGHT.calls[0], ZeroDivisionError("secret words"), "lamps failed (ZeroDivisionError)"),
    "no store": (LIGHT.calls[0], StorageError("secret/state.sqlite is damaged"), "lamps failed (StorageError)"),
    "never returns": (LIGHT.calls[0], 9.0, "lamps did not answer within 0.05 seconds."),
}


@pytest.mark.parametrize(("trouble", "shape"), [*zip(TROUBLE, cycle(["anthropic", "openai", "responses"]))])
def test_tools_in_trouble(tmp_path, stand_in, shape, trouble):
    """A failed or invalid call is answered with text for the model, and the turn continues."""
    called, error, words = TROUBLE[trouble]
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    talk.lamps = Lamps(error)
    talk.options["bounds"] = TurnLimits(tool_seconds=0.05)
    stand_in.follow(ScriptedReply(calls=(called,)), ScriptedReply(text="I see."))
    assert talk.run("Light.", **with_tools(LAMPS)).text == "I see."
    assert [one.refused for one in stand_in.requests] == ["", ""]
    result = talk.history[2].parts[0].text
    assert words in result
    assert "secret" not in result
    failed = talk.pick(EventType.TOOL_ERROR)
    assert len(failed) == (error is not None)
    if not error:
        (event,) = talk.pick(EventType.TOOL_CALL)
        assert (event.level, event.facts["status"]) == (Level.WARN, "refused")


def test_no_end(tmp_path, stand_in):
    """A model that keeps calling tools is stopped at the limit, and the next turn works."""
    talk = Conversation(tmp_path, stand_in.url)
    talk.lamps, talk.options["bounds"] = Lamps(), TurnLimits(rounds=3)
    stand_in.follow(*[LIGHT] * 3)
    outcome = talk.run("Light.", **with_tools(LAMPS))
    assert (outcome.end, "3 rounds" in outcome.text) == (TurnEnd.FAILED, True)
    assert talk.run("And now?").text == "Yes."
    assert stand_in.requests[-1].refused == ""


def test_stopping(tmp_path, stand_in):
    """A stopped turn ends at once; its closed history can be continued, and the log records it."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = Lamps(60.0)
    talk.lamps = lamps
    stand_in.follow(LIGHT)

    async def stop(moment):
        turn = asyncio.create_task(talk.say("Light.", **with_tools(LAMPS)))
        await until(moment)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(stop(lambda: lamps.asked))
    talk.history = close_turn(talk.steps[-1], "stopped by the person")
    assert talk.run("And now?").text == "Yes."
    stand_in.follow(ScriptedHang(seconds=20))
    seen = len(stand_in.requests)
    asyncio.run(stop(lambda: len(stand_in.requests) > seen))
    error = talk.pick(EventType.API_ERROR)[-1]
    assert (error.error, error.level) == ("stopped before the end", Level.WARN)
    done = talk.pick(EventType.TURN_COMPLETED)[-1]
    assert (done.error, done.level, done.facts["outcome"]) == ("stopped before the end", Level.WARN, "stopped")
    assert talk.run("And now?").text == "Yes."
    assert [one.refused for one in stand_in.requests if one.refused] == []


def test_stopping_in_mid_sentence(tmp_path, stand_in):
    """A turn stopped during an answer closes its connection; the text so far was passed on."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedHang(seconds=20, text="It was a dark and stormy night."))

    async def stop():
        turn = asyncio.create_task(talk.say("Tell me."))
        await until(lambda: talk.deltas)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(stop())
    assert talk.deltas[0].text.startswith("It was")
    assert talk.run("And now?").text == "Yes."


def test_words_come_as_they_are_said(tmp_path, stand_in):
    """Text arrives in pieces, in order and complete."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedReply(text="A long answer, in many pieces."))
    talk.run("Hello")
    assert len(talk.deltas) > 3
    assert all(isinstance(delta, TextDelta) for delta in talk.deltas)
    assert "".join(delta.text for delta in talk.deltas) == "A long answer, in many pieces."


@pytest.mark.parametrize("kind", [TextDelta, StepDone])
def test_a_consumer_that_fails(tmp_path, stand_in, kind):
    """An error while an event is consumed ends the turn, and no provider is called again for it."""
    talk = Conversation(tmp_path, stand_in.url)

    async def fail(event):
        if isinstance(event, kind):
            raise ConnectionResetError("gone")

    talk.take = fail
    with pytest.raises(ConnectionResetError, match="gone"):
        talk.run("Hello")
    assert len(stand_in.requests) == 1
    assert talk.slept == []
