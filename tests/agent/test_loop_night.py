"""The document's example over HTTP: twelve turns, four refusals, a queued turn, and its delivery."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

from conversation import FILES, KEYS, address

from foreword.agent.agent_events import TurnEnd
from foreword.agent.providers.model_clients import ModelClients
from foreword.events.event import EventType, Level
from foreword.testing import (
    NOON,
    EventStream,
    FakeRecorder,
    ManualClock,
    ScriptedError,
    ScriptedReply,
    make_workspace,
)
from night import Night, make_turn

BUSY = ScriptedError(status=429, message="too many requests")
REFUSED = ("api_error", "error", ["attempt", "retry_in_s", "status"])
BUILT = ("prompt_built", "info", ["cached_tokens", "layers", "tokens"])
STARTED = ("turn_started", "info", ["attempt"])
TOLD = [
    ("message_received", "info", ["length"]),
    ("trust_resolved", "info", ["ceiling", "effective", "situation", "trust", "user"]),
    *(BUILT, STARTED, REFUSED, REFUSED, REFUSED, ("api_error", "error", ["attempt", "retry", "status"])),
    ("turn_completed", "warn", ["calls_refused", "minutes_before", "outcome", "status", "turns_before"]),
    *(BUILT, STARTED, ("api_call", "info", ["attempt", "cache", "sections"])),
    ("turn_completed", "info", ["calls", "total_cost_usd", "total_tokens"]),
    ("message_sent", "info", ["attempt", "length"]),
]


@asynccontextmanager
async def open_night(folder, url, recorder):
    """Open a gateway whose model is at the fake provider."""
    models = ModelClients(address(url), KEYS)
    try:
        yield Night(make_workspace(folder, FILES), models, EventStream(recorder=recorder), ManualClock(NOON))
    finally:
        await models.close()


async def live_through(night, stand_in):
    """Live through the night; return the trace of the message that failed."""
    for _ in range(12):
        await night.receive(make_turn())
        night.clock.move(22)
    night.clock.now = NOON + timedelta(minutes=4, seconds=53)
    stand_in.follow(*[BUSY] * 4)
    trace, outcome = await night.receive(make_turn(message="Did the backup run?"))
    assert outcome.end is TurnEnd.QUEUED
    night.clock.move(50)
    stand_in.follow(ScriptedReply(text="It did."))
    await night.deliver()
    assert (night.queue, night.sent[-1]) == ([], "It did.")
    return trace


def test_the_night(tmp_path, stand_in):
    """The events of the failed turn, in order, with levels and facts."""
    heard = FakeRecorder()

    async def run():
        async with open_night(tmp_path, stand_in.url, heard) as night:
            return await live_through(night, stand_in)

    trace = asyncio.run(run())
    mine = [event for event in heard.events if event.position.trace == trace.id]
    assert [(event.type.value, event.level.value, sorted(event.facts)) for event in mine] == TOLD
    refused = [event for event in mine if event.type is EventType.API_ERROR]
    assert [event.facts.get("retry_in_s") for event in refused] == [1, 2, 4, None]
    (failed,) = [event for event in mine if event.type is EventType.TURN_COMPLETED and event.level is Level.WARN]
    assert failed.facts == {
        "outcome": "queued", "calls_refused": 4, "turns_before": 12, "minutes_before": 5, "status": 429,
    }  # fmt: skip


def test_many_at_once(tmp_path, stand_in):
    """Concurrent turns of one loop each send their own prompt."""
    stand_in.choose = lambda body: ScriptedReply(text=body["messages"][-1]["content"][-1]["text"])

    async def run():
        async with open_night(tmp_path, stand_in.url, FakeRecorder()) as night:
            turns = [make_turn(message=f"number {number}") for number in range(40)]
            answered = await asyncio.gather(*(night.receive(turn) for turn in turns))
        return [outcome.text for _, outcome in answered]

    assert asyncio.run(run()) == [f"number {number}" for number in range(40)]
    assert {one.refused for one in stand_in.requests} == {""}
