"""Approval of calls that change something."""

import asyncio
import json
from dataclasses import replace

import pytest
from conversation import LAMPS, MODELS, Conversation, Lamps, equip, with_tools

from foreword.agent.agent_events import ApprovalNeeded, ToolFinished
from foreword.agent.conversation import dump_messages, load_messages
from foreword.agent.loop import TurnLimits
from foreword.agent.reply_stream import ToolCall
from foreword.agent.tool_calls import ToolTimeLimits, write_question
from foreword.events.event import EventType
from foreword.testing import ScriptedCall, ScriptedReply

SWITCH = replace(LAMPS, changes=True)


def light(talk, *errors):
    """Let a conversation turn on lamps, which changes something."""
    lamps = Lamps(*errors)
    talk.options["tools"] = equip(talk, lamps)
    talk.allows = True
    return lamps


def call(model, *rooms):
    """Say calls as a model makes them."""
    if model == "ollama:tiny":
        blocks = [json.dumps({"tool": "lamps", "arguments": {"room": room}}) for room in rooms]
        return ScriptedReply(text="".join(f"```tool_call\n{block}\n```\n" for block in blocks))
    return ScriptedReply(calls=tuple(ScriptedCall(name="lamps", arguments={"room": room}) for room in rooms))


def read_results(outcome):
    """Read what the tools answered in the first round."""
    texts = [part.content for part in outcome.messages[2].parts]
    return [text for one in texts for text in ([one] if isinstance(one, str) else one)]


@pytest.mark.parametrize("model", [*MODELS.values(), "ollama:tiny"])
@pytest.mark.parametrize(("answer", "noted"), [(True, "yes"), (False, "no"), (None, None)])
def test_asking(tmp_path, stand_in, model, answer, noted):
    """A call that changes something runs only after a yes."""
    talk = Conversation(tmp_path, stand_in.url, model)
    lamps = light(talk)
    talk.allows = answer
    done = answer is True
    stand_in.follow(call(model, "hall"), ScriptedReply(text="Good."))
    outcome = talk.run("Light, please.", **with_tools(SWITCH))
    assert outcome.text == "Good."
    assert [(one.name, one.question) for one in talk.asked] == [("lamps", "lamps\n  room: hall")]
    assert len(lamps.asked) == int(done)
    (told,) = talk.pick(EventType.TOOL_CALL)
    assert (told.facts.get("confirmed"), told.facts["status"]) == (
        noted,
        "ok" if done else "held" if answer is None else "refused",
    )
    assert ToolFinished(name="lamps", done=done) in talk.deltas
    if not done:
        assert "lamps was not called: " in read_results(outcome)[0]


def test_only_what_changes(tmp_path, stand_in):
    """No approval is requested for a read-only tool or an invalid call."""
    talk = Conversation(tmp_path, stand_in.url)
    light(talk)
    wrong = ScriptedCall(name="lamps", arguments={"room": 7})
    listing = ScriptedCall(name="memory_list", arguments={})
    stand_in.follow(ScriptedReply(calls=(listing, wrong)), ScriptedReply(text="Good."))
    talk.run("Light, please.", **with_tools(SWITCH))
    assert (talk.asked, talk.begun) == ([], set())


def test_plan_mode(tmp_path, stand_in):
    """In plan mode nothing is changed and no approval is requested."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk)
    stand_in.follow(call("", "hall"), ScriptedReply(text="Goal: light."))
    outcome = talk.run("Light, please.", plan=True, **with_tools(SWITCH))
    assert "plan mode is on" in read_results(outcome)[0]
    assert (lamps.asked, talk.asked, talk.begun) == ([], [], set())


def test_time_to_think(tmp_path, stand_in):
    """The time a person takes to decide does not count towards the tool's time limit."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk, None, 5.0)

    async def think(_):
        await asyncio.sleep(0.2)
        return True

    talk.decide = think
    stand_in.follow(call("", "hall", "attic"), ScriptedReply(text="Good."))
    talk.options["bounds"] = TurnLimits(limits=ToolTimeLimits(usual=60.0))
    outcome = talk.run("Light, please.", **with_tools(replace(SWITCH, seconds=0.15)))
    assert read_results(outcome) == ["The lamp in the hall is on.", "lamps did not answer within 0.15 seconds."]
    assert len(lamps.asked) == 2


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("model", [*MODELS.values(), "ollama:tiny"])
def test_begun_once(tmp_path, stand_in, model):
    """A call that had started when the process died is not repeated; one that had not is run."""
    talk = Conversation(tmp_path, stand_in.url, model)
    lamps = light(talk, None, Killed())
    stand_in.follow(call(model, "hall", "hall", "shed"), call(model, "hall"), ScriptedReply(text="Good."))
    with pytest.raises(Killed):
        asyncio.run(talk.say("Light, please.", **with_tools(SWITCH)))
    taken = load_messages(dump_messages(talk.steps[-1]))
    outcome = talk.run("Light, please.", taken, **with_tools(SWITCH))
    first, second, third = read_results(outcome)
    assert first.endswith("The lamp in the hall is on.")
    assert "had begun before an interruption, and nobody knows whether it was done" in second
    assert third.endswith("The lamp in the shed is on.")
    assert [one["room"] for one in lamps.asked] == ["hall", "hall", "shed", "hall"]
    assert len(talk.begun) == 4
    interrupted = [event.facts.get("interrupted") for event in talk.pick(EventType.TOOL_CALL)]
    assert interrupted.count("yes") == 1


@pytest.mark.parametrize("what", ["note_begun", "decide"])
def test_deaf_people(tmp_path, stand_in, what):
    """If a start cannot be stored or approval cannot be requested, nothing is changed."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk)

    async def fail(*_):
        raise OSError("disk full")

    setattr(talk, what, fail)
    stand_in.follow(call("", "hall"))
    with pytest.raises(Exception, match="disk full"):
        talk.run("Light, please.", **with_tools(SWITCH))
    assert lamps.asked == []


def test_the_question():
    """A question shows each argument on one line, truncated with its length, without hidden characters."""
    arguments = {"path": "a\nb\u202etxt", "text": "x" * 5_000, "deep": {"n": [1, None]}}
    lines = write_question(ToolCall(name="write_file", arguments=arguments)).split("\n")
    assert lines == [
        "write_file",
        "  path: a\\nb\\u202etxt",
        f"  text: {'x' * 2_000}… (5,000 characters)",
        '  deep: {"n": [1, null]}',
    ]
    many = write_question(ToolCall(name="t", arguments={str(number): "" for number in range(25)}))
    assert many.endswith("\n  (5 more)")
    assert ApprovalNeeded(id="1", name="t", question=many).name == "t"
