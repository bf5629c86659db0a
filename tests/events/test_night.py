"""The specification's example: why a message failed last night, in the events of a scripted turn."""

import io
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise

import pytest

import foreword
from foreword.events.event import EventType, Level
from foreword.events.log import EventLog
from foreword.events.sinks import LiveTree, RecorderFanout
from foreword.storage.database import open_events
from foreword.testing import EventStream, FakeRecorder
from foreword.turn import ToolAnswer, Toolset
from night import BUSY, USAGE, Reply, live_through, make_clock, make_night, make_turn

ANSWERS = {
    "memory_search": ToolAnswer(text="x", tokens=1, store="shared", count=3),
    "bash": ToolAnswer(text="y", tokens=1),
}


def make_tools(clock):
    """Make tools that answer the same at every call, after a tenth of a second."""

    def make(name):
        @foreword.tool(name=name, description=name, trust="public")
        def answer(**_: object) -> ToolAnswer:
            clock.move(0.1)
            return ANSWERS[name]

        return answer

    return Toolset([make(name) for name in ANSWERS])


@pytest.fixture
def night(tmp_path):
    """Run the night and retain its recorded, stored and printed events."""
    heard, stream = FakeRecorder(), io.StringIO()
    with EventLog(str(tmp_path / "state")) as log:
        gateway = make_night(tmp_path / "home", EventStream(recorder=RecorderFanout(log, heard, LiveTree(stream))))
        trace = live_through(gateway)
    mine = [event for event in heard.events if event.position.trace == trace.id]
    with closing(open_events(str(tmp_path / "state")).connection) as connection:
        yield trace, mine, stream.getvalue(), connection, gateway


def test_everything_that_the_reply_says(night):
    """The events give the time, the provider's answers, each wait, the load and the time of delivery."""
    _, events, _, _, gateway = night
    refused = [event for event in events if event.type is EventType.API_ERROR]
    assert f"{refused[0].time:%H:%M}" == "02:47"
    assert {event.context.channel for event in events} == {"signal"}
    assert [event.facts["status"] for event in refused] == [429] * 4
    assert [event.facts.get("retry_in_s") for event in refused] == [1, 2, 4, None]
    assert [(b.time - a.time).total_seconds() for a, b in pairwise(refused)] == [1.2, 2.2, 4.2]
    (failed,) = [event for event in events if event.type is EventType.TURN_COMPLETED and event.level is Level.WARN]
    assert failed.facts == {
        "outcome": "queued", "calls_refused": 4, "turns_before": 12, "minutes_before": 5, "status": 429,
    }  # fmt: skip
    sent = next(event for event in events if event.type is EventType.MESSAGE_SENT)
    assert f"{sent.time:%H:%M}" == "02:48"
    assert gateway.sent[-1] == "It did."
    assert gateway.queue == []


def test_it_is_one_turn(night):
    """The later delivery is in the tree of the failed turn."""
    trace, events, drawn, _, _ = night
    lines = [line.partition(" ")[2] for line in drawn.splitlines()]  # without timestamps
    start = next(at for at, line in enumerate(lines) if trace.id[:8] in line)
    assert [line.split("]")[1].split()[0] for line in lines[start:]] == [
        "message_received", "trust_resolved", "prompt_built", "turn_started", *["api_error"] * 4, "turn_completed",
        "prompt_built", "turn_started", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    assert [len(line) - len(line.lstrip()) for line in lines[start:]] == [0, 2, 2, 2, 4, 4, 4, 4, 2, 2, 2, 4, 2, 2]
    assert len({event.position.trace for event in events}) == 1


def test_it_is_stored(night):
    """The log has every event of the night, the failures as errors of the last twelve hours."""
    trace, events, _, connection, _ = night
    stored = connection.execute("SELECT event_type FROM events WHERE trace_id = ? ORDER BY id", (trace.id,)).fetchall()
    assert [kind for (kind,) in stored] == [event.type.value for event in events]
    since = "2026-11-15T20:00:00.000000Z"
    asked = "SELECT count(*) FROM events WHERE level = 'error' AND timestamp > ?"
    assert connection.execute(asked, (since,)).fetchone() == (4,)


def test_sections_tie_tokens_to_money(night):
    """The row of a call gives each section's tokens, cached tokens and dollars, which add up to the call."""
    _, events, _, _, _ = night
    (call,) = [event for event in events if event.type is EventType.API_CALL]
    sections = call.facts["sections"]
    assert sum(tokens for _, tokens, _, _ in sections) == USAGE.tokens_in + USAGE.tokens_out
    assert sum(cached for _, _, cached, _ in sections) == USAGE.cache_read
    assert sum(usd for _, _, _, usd in sections) == pytest.approx(call.cost_usd)
    assert "agents" in {name for name, _, _, _ in sections}


def test_tools_and_sessions(tmp_path):
    """A turn with tools records its new session, each tool call, and the total usage of its calls."""
    heard, clock = FakeRecorder(), make_clock()
    night = make_night(tmp_path, EventStream(recorder=heard), clock=clock)
    script = Reply(tools=("bash", "memory_search"), usage=USAGE), Reply(text="Yes.", usage=USAGE)
    night.say(make_turn(tools=make_tools(clock)), *script)
    assert heard.types == [
        "message_received", "trust_resolved", "session_created", "prompt_built", "turn_started", "api_call",
        "tool_call", "memory_search", "tool_call", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    completed = next(event for event in heard.events if event.type is EventType.TURN_COMPLETED)
    assert completed.facts["total_tokens"] == 2 * (USAGE.tokens_in + USAGE.tokens_out)
    assert completed.duration_ms == 2_200
    assert heard.events[0].time < datetime(2026, 11, 16, 2, 43, tzinfo=UTC)


@pytest.mark.parametrize(("session", "counted"), [("other", [0, 1]), ("", [0, 0])])
def test_turns_before(tmp_path, session, counted):
    """A queued turn records how many turns its own session had before it, and nothing about other sessions."""
    heard = FakeRecorder()
    night = make_night(tmp_path, EventStream(recorder=heard))
    for earlier in ("abc", "abc", ""):
        night.say(make_turn(session=earlier), Reply(text="Yes."))
    for _ in counted:
        night.say(make_turn(user="bob", session=session), *[BUSY] * 4)
    queued = [event.facts["turns_before"] for event in heard.events if event.facts.get("outcome") == "queued"]
    assert queued == counted


def test_memory(tmp_path):
    """A tool that searches or changes memory is shown as such below its call, and others are not."""
    heard, clock = FakeRecorder(), make_clock()
    night = make_night(tmp_path, EventStream(recorder=heard), clock=clock)
    night.say(make_turn(tools=make_tools(clock)), Reply(tools=("memory_search", "bash")), Reply(text="Yes."))
    (event,) = (event for event in heard.events if event.type.value == "memory_search")
    (call, _) = (event for event in heard.events if event.type is EventType.TOOL_CALL)
    assert event.facts == {"store": "shared", "count": 3}
    assert event.position.parent == call.position.span


def test_a_model_without_a_price(tmp_path):
    """A call to a model without a price is recorded without a cost, with the reason."""
    heard = FakeRecorder()
    make_night(tmp_path, EventStream(recorder=heard)).say(make_turn(model="acme:z"), Reply(text="Yes."))
    (call,) = [event for event in heard.events if event.type is EventType.API_CALL]
    assert call.cost_usd is None
    assert call.facts["unpriced"].startswith("no price is known for acme:z")
