"""The document's example: why a message failed last night, in the events of a scripted turn."""

import io
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from night import USAGE, live_through, make_night, make_turn

from foreword.events.event import EventType, Level
from foreword.events.log import EventLog
from foreword.events.several import Several
from foreword.events.tree import Tree
from foreword.store.open import open_events
from foreword.testing import Heard, Listeners, Reply


@pytest.fixture
def night(tmp_path):
    """Live through the night; keep what was heard, stored and drawn."""
    heard, stream = Heard(), io.StringIO()
    with EventLog(str(tmp_path / "state")) as log:
        loop, clock = make_night(tmp_path / "home", Listeners(recorder=Several(log, heard, Tree(stream))))
        trace = live_through(loop, clock)
    mine = [event for event in heard.events if event.place.trace == trace.id]
    with closing(open_events(str(tmp_path / "state")).connection) as connection:
        yield trace, mine, stream.getvalue(), connection, loop


def test_everything_that_the_reply_says(night):
    """The events say when, what the provider answered, each wait, how busy it was, and when it was delivered."""
    _, events, _, _, loop = night
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
    assert loop.sent[-1] == "It did."
    assert loop.queue == []


def test_it_is_one_turn(night):
    """What was delivered later stands in the tree of the turn that failed."""
    trace, events, drawn, _, _ = night
    lines = [line.partition(" ")[2] for line in drawn.splitlines()]  # without the time of each
    start = next(at for at, line in enumerate(lines) if trace.id[:8] in line)
    assert [line.split("]")[1].split()[0] for line in lines[start:]] == [
        "message_received", "trust_resolved", "prompt_built", "turn_started", *["api_error"] * 4, "turn_completed",
        "prompt_built", "turn_started", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    assert [len(line) - len(line.lstrip()) for line in lines[start:]] == [0, 2, 2, 2, 4, 4, 4, 4, 2, 2, 2, 4, 2, 2]
    assert len({event.place.trace for event in events}) == 1


def test_it_is_stored(night):
    """The log holds every event of the night, the failed ones as errors of the last twelve hours."""
    trace, events, _, connection, _ = night
    stored = connection.execute("SELECT event_type FROM events WHERE trace_id = ? ORDER BY id", (trace.id,)).fetchall()
    assert [kind for (kind,) in stored] == [event.type.value for event in events]
    since = "2026-11-15T20:00:00.000000Z"
    asked = "SELECT count(*) FROM events WHERE level = 'error' AND timestamp > ?"
    assert connection.execute(asked, (since,)).fetchone() == (4,)


def test_sections_tie_tokens_to_money(night):
    """The row of a call ties each section to its tokens, those of the cache, and dollars; they add up to the call."""
    _, events, _, _, _ = night
    (call,) = [event for event in events if event.type is EventType.API_CALL]
    sections = call.facts["sections"]
    assert sum(tokens for _, tokens, _, _ in sections) == USAGE.tokens_in + USAGE.tokens_out
    assert sum(cached for _, _, cached, _ in sections) == USAGE.cache_read
    assert sum(usd for _, _, _, usd in sections) == pytest.approx(call.cost_usd)
    assert "agents" in {name for name, _, _, _ in sections}


def test_tools_and_sessions(tmp_path):
    """A turn with tools tells the session it began, each tool, and what all calls used together."""
    heard = Heard()
    loop, _ = make_night(tmp_path, Listeners(recorder=heard))
    loop.receive(make_turn(), [Reply(tools=("bash", "memory_search"), usage=USAGE), Reply(text="Yes.", usage=USAGE)])
    assert heard.types == [
        "message_received", "trust_resolved", "session_created", "prompt_built", "turn_started", "api_call",
        "tool_call", "tool_call", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    completed = next(event for event in heard.events if event.type is EventType.TURN_COMPLETED)
    assert completed.facts["total_tokens"] == 2 * (USAGE.tokens_in + USAGE.tokens_out)
    assert completed.duration_ms == 2_200
    assert heard.events[0].time < datetime(2026, 11, 16, 2, 43, tzinfo=UTC)


def test_a_model_without_a_price(tmp_path):
    """A model that nobody has a price for is told without a cost, and says so."""
    heard = Heard()
    loop, _ = make_night(tmp_path, Listeners(recorder=heard))
    loop.receive(make_turn(model="acme:z"), [Reply(text="Yes.")])
    (call,) = [event for event in heard.events if event.type is EventType.API_CALL]
    assert call.cost_usd is None
    assert call.facts["unpriced"].startswith("no price is known for acme:z")
