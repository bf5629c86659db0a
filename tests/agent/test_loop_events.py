"""Events of a turn: usage, cost and sections of each call, the sent prompt, and the budget."""

import asyncio
from contextlib import closing

import pytest
from conversation import FILES, MODELS, Conversation

from foreword.agent.agent_events import TurnEnd
from foreword.agent.loop import DEFAULT_TURN_LIMITS
from foreword.events.cost import BudgetGuard, estimate_max_cost
from foreword.events.event import EventType, Level, Reader
from foreword.events.log import EventLog
from foreword.events.sent_prompts import PromptStore, find_prompts
from foreword.events.sinks import RecorderFanout
from foreword.storage.database import read_events
from foreword.testing import NOON, EventStream, FakeRecorder, FrozenClock, ScriptedHang, ScriptedReply
from foreword.types import Trust
from waiting import until

SHAPES = tuple(MODELS)


@pytest.mark.parametrize("shape", SHAPES)
def test_usage_and_cost(tmp_path, stand_in, shape):
    """A call's event has its usage, its cost and the cost of each section."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    for words in ("Hello", "And now?"):
        outcome = talk.run(words)
    for call, received in zip(talk.pick(EventType.API_CALL), stand_in.requests, strict=True):
        counted = received.counted
        assert call.usage.tokens_in == counted.total
        assert (call.usage.cache_read, call.usage.cache_write) == (counted.read, counted.write)
        assert call.usage.tokens_out > 0
        sections = call.facts["sections"]
        assert sum(tokens for _, tokens, _, _ in sections) == counted.total + call.usage.tokens_out
        assert sum(usd for _, _, _, usd in sections) == pytest.approx(call.cost_usd)
    done = talk.pick(EventType.TURN_COMPLETED)[-1]
    assert done.facts["total_cost_usd"] == pytest.approx(call.cost_usd)
    assert done.facts["calls"] == 1
    assert (outcome.usage, outcome.cost_usd) == (call.usage, pytest.approx(call.cost_usd))
    first, second = (one.cost_usd for one in talk.pick(EventType.API_CALL))
    assert second < first


def test_the_prompt_is_kept(tmp_path, stand_in):
    """The sent prompt can be shown later, by its turn."""
    state = str(tmp_path / "state")
    heard = FakeRecorder()
    with EventLog(state) as log:
        listeners = EventStream(recorder=RecorderFanout(log, heard), prompts=PromptStore(log))
        talk = Conversation(tmp_path / "home", stand_in.url, listeners=listeners)
        talk.run("Hello")
    built, call = (event for event in heard.events if event.prompt_hash)
    assert built.prompt_hash == call.prompt_hash
    with closing(read_events(state).connection) as connection:
        (sent,) = find_prompts(connection, Reader(user="alice", clearance=Trust.FULL), built.position.trace)
    assert sent.text == talk.assembly.prompt.text


def test_budgets(tmp_path, stand_in):
    """The maximum cost of a call is reserved, its cost is settled, and beyond the limit no call is made."""
    free = Conversation(tmp_path / "free", stand_in.url)
    most = estimate_max_cost(free.assemble("Hello"), {}, DEFAULT_TURN_LIMITS.max_tokens).usd
    limited = {**FILES, "foreword.yaml": f"{FILES['foreword.yaml']}budgets: {{daily_usd: {most * 1.1:.4f}}}\n"}
    talk = Conversation(tmp_path / "home", stand_in.url, files=limited)
    with closing(BudgetGuard(str(tmp_path / "state"), talk.workspace.config, FrozenClock(NOON))) as guard:
        talk.listeners = EventStream(recorder=talk.heard, budgets=guard)
        ends = [talk.run("Hello").end for _ in range(3)]
        assert ends[0] is TurnEnd.ANSWERED
        assert ends[-1] is TurnEnd.REFUSED
        assert len(stand_in.requests) == ends.count(TurnEnd.ANSWERED)
    done = talk.pick(EventType.TURN_COMPLETED)[-1]
    assert (done.level, done.facts["outcome"]) == (Level.WARN, "refused")
    assert "daily budget" in done.error
    spent = sum(call.cost_usd for call in talk.pick(EventType.API_CALL))
    assert 0 < spent < most
    assert "daily budget" in talk.history[-1].parts[0].text
    sums = [event for event in talk.heard.events if " spent" in str(event)]
    assert sums
    assert {event.context.user for event in sums} == {""}


def test_a_stopped_call_gives_back(tmp_path, stand_in):
    """The reservation of a stopped call is released for the next one."""
    free = Conversation(tmp_path / "free", stand_in.url)
    most = estimate_max_cost(free.assemble("Hello"), {}, DEFAULT_TURN_LIMITS.max_tokens).usd
    limited = {**FILES, "foreword.yaml": f"{FILES['foreword.yaml']}budgets: {{daily_usd: {most * 1.1:.4f}}}\n"}
    talk = Conversation(tmp_path / "home", stand_in.url, files=limited)
    stand_in.follow(ScriptedHang(seconds=20))

    async def stop():
        turn = asyncio.create_task(talk.say("Hello"))
        await until(lambda: stand_in.requests)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    with closing(BudgetGuard(str(tmp_path / "state"), talk.workspace.config, FrozenClock(NOON))) as guard:
        talk.listeners = EventStream(recorder=talk.heard, budgets=guard)
        asyncio.run(stop())
        assert talk.run("Hello").end is TurnEnd.ANSWERED


def test_an_unknown_price(tmp_path, stand_in):
    """A call without a price is recorded without a cost, with the reason."""
    talk = Conversation(tmp_path, stand_in.url, "ollama:tiny")
    stand_in.follow(ScriptedReply(text="Hm."))
    assert talk.run("Hello").cost_usd is None
    (call,) = talk.pick(EventType.API_CALL)
    assert call.cost_usd is None
    assert "no price is known" in call.facts["unpriced"]
