"""The document's example over HTTP: twelve busy turns, four refusals, queued, and delivered a minute later."""

import asyncio
from datetime import timedelta

from conversation import FILES, KEYS, address

from foreword.events.event import EventType, Level
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.runtime.loop import Loop, Work
from foreword.runtime.models import Models
from foreword.runtime.outcome import End
from foreword.runtime.retrying import Retrying
from foreword.standin import Refuses, Says
from foreword.testing import NOON, Heard, Listeners, MovedClock, Refusal, Reply, ScriptedLoop, make_workspace
from foreword.turn import Turn

BUSY = Refuses(status=429, message="too many requests")


def make_turn(message="Are you there?"):
    """Make a turn of alice's on Signal."""
    return Turn(user="alice", channel="signal", situation="dm", session="abc", message=message)


class Night:
    """A gateway in its smallest form: it receives, queues and delivers."""

    def __init__(self, folder, url):
        self.clock, self.heard = MovedClock(NOON), Heard()
        self.workspace = make_workspace(folder, FILES)
        self.models = Models(address(url), KEYS)
        self.loop = Loop(
            self.workspace,
            self.models,
            Listeners(recorder=self.heard),
            retrying=Retrying(sleep=self.sleep, chance=lambda: 0.0),
        )

    async def sleep(self, seconds):
        """Move the clock instead of waiting."""
        self.clock.move(seconds)

    async def receive(self, turn):
        """Receive a message."""
        assembly = self.workspace.assemble(turn)
        trace = Trace(self.heard, find_context(assembly), self.clock.timepiece)
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(turn.message)) as received:
            outcome = await self.answer(received, assembly, 1)
        return outcome, trace, received.place

    async def answer(self, place, assembly, attempt):
        """Answer it, or leave it in the queue."""
        outcome = await self.loop.run(Work(assembly=assembly, attempt=attempt), place)
        if outcome.end is not End.QUEUED:
            place.tell(EventType.MESSAGE_SENT, length=len(outcome.text), attempt=attempt)
        return outcome

    async def deliver(self, turn, trace, place):
        """Try once more, as a part of the same turn."""
        again = Trace(self.heard, trace.context, self.clock.timepiece, goes_on=place)
        return await self.answer(again, self.workspace.assemble(turn), 2)


async def live_through(night, stand_in):
    """Live through the night; return the trace of the message that failed."""
    for _ in range(12):
        await night.receive(make_turn())
        night.clock.move(22)
    night.clock.now = NOON + timedelta(minutes=4, seconds=53)
    stand_in.follow(*[BUSY] * 4)
    turn = make_turn("Did the backup run?")
    outcome, trace, place = await night.receive(turn)
    assert outcome.end is End.QUEUED
    night.clock.move(50)
    stand_in.follow(Says(text="It did."))
    outcome = await night.deliver(turn, trace, place)
    assert (outcome.end, outcome.text) == (End.ANSWERED, "It did.")
    await night.models.close()
    return trace


def test_the_night(tmp_path, stand_in):
    """What is told is what the scripted loop tells, event by event and fact by fact."""
    night = Night(tmp_path / "real", stand_in.url)
    trace = asyncio.run(live_through(night, stand_in))
    mine = [event for event in night.heard.events if event.place.trace == trace.id]

    heard, clock = Heard(), MovedClock(NOON)
    scripted = ScriptedLoop(make_workspace(tmp_path / "scripted", FILES), Listeners(recorder=heard), clock)
    for _ in range(12):
        scripted.receive(make_turn(), [Reply(text="Yes.")])
        clock.move(22)
    other = scripted.receive(make_turn("Did the backup run?"), [Refusal(429, "too many requests")] * 4)
    scripted.deliver([Reply(text="It did.")])
    left_out = {"trust_resolved", "session_created"}  # a gateway tells these
    theirs = [e for e in heard.events if e.place.trace == other.id and e.type.value not in left_out]

    assert [event.type for event in mine] == [event.type for event in theirs]
    assert [event.level for event in mine] == [event.level for event in theirs]
    assert [sorted(event.facts.keys() - {"cache"}) for event in mine] == [sorted(event.facts) for event in theirs]
    refused = [event for event in mine if event.type is EventType.API_ERROR]
    assert [event.facts.get("retry_in_s") for event in refused] == [1, 2, 4, None]
    (failed,) = [event for event in mine if event.type is EventType.TURN_COMPLETED and event.level is Level.WARN]
    assert failed.facts == {
        "outcome": "queued", "calls_refused": 4, "turns_before": 12, "minutes_before": 5, "status": 429,
    }  # fmt: skip


def test_many_at_once(tmp_path, stand_in):
    """Many turns run at once through one loop, and each request holds the prompt of its own turn."""
    night = Night(tmp_path, stand_in.url)
    stand_in.choose = lambda body: Says(text=body["messages"][-1]["content"][-1]["text"])

    async def run():
        turns = [make_turn(f"number {number}") for number in range(40)]
        outcomes = await asyncio.gather(*(night.receive(turn) for turn in turns))
        await night.models.close()
        return [outcome.text for outcome, _, _ in outcomes]

    assert asyncio.run(run()) == [f"number {number}" for number in range(40)]
    assert {one.refused for one in stand_in.requests} == {""}
