"""Failing turns: each has a clear reply and an event, and the session continues."""

import asyncio
import json

import pytest
from house import CONFIG, FILES, end, open_house, open_rows, read_log, say, until

import foreword
from foreword.agent.loop import TurnLimits
from foreword.errors import InputError
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.worker import INTERNAL_ERROR_TEXT, WorkerRetryPolicy
from foreword.storage.turns import TurnState
from foreword.testing import (
    NOON,
    ManualClock,
    ScriptedCall,
    ScriptedError,
    ScriptedGarbage,
    ScriptedHang,
    ScriptedReply,
    write_files,
)

CHANGED = "What you may see here has changed"

HOUSE = {**FILES, "foreword.yaml": CONFIG.replace("bob:", "carol: {trust: full}, bob:")}


def call(name, arguments):
    """Make the model call a tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


class Odd:
    """A tool that raises, or waits for its gate."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.called = 0

    def offer(self):
        """Offer the tool to the agents."""

        @foreword.tool(trust="public")
        async def odd(how: str) -> str:
            self.called += 1
            if how == "throw":
                raise ZeroDivisionError("secret words")
            await self.gate.wait()
            return "done"

        return (odd,)


HALF = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x",
         "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half \ud83d"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
)  # fmt: skip
FAULTS = {
    "hangs": ([ScriptedHang(seconds=20)] * 4, TurnState.QUEUED, "api_error"),
    "garbage": ([ScriptedGarbage()], TurnState.FAILED, "api_error"),
    "bad events": ([ScriptedGarbage(text="event: x\ndata: {not json}\n\n")], TurnState.FAILED, "api_error"),
    "400": ([ScriptedError(status=400, message="no such thing")], TurnState.FAILED, "api_error"),
    "nothing": ([ScriptedReply()], TurnState.FAILED, "turn_completed"),
    "unknown tool": ([call("nothing", {}), ScriptedReply(text="I see.")], TurnState.ANSWERED, "tool_call"),
    "bad arguments": ([call("odd", '{"how": '), ScriptedReply(text="I see.")], TurnState.ANSWERED, "tool_call"),
    "throws": ([call("odd", {"how": "throw"}), ScriptedReply(text="I see.")], TurnState.ANSWERED, "tool_error"),
    "never returns": ([call("odd", {"how": "wait"}), ScriptedReply(text="I see.")], TurnState.ANSWERED, "tool_error"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(tmp_path, stand_in, fault):
    """After any fault of a provider or tool the turn ends, the log has an event, and the next turn is answered."""
    lines, state, shown = FAULTS[fault]
    stand_in.follow(*lines)
    # Only the hanging provider gets a short timeout; the next turn has four tries.
    hasty = {"seconds": 0.5} if fault == "hangs" else {}
    bounds = TurnLimits(**hasty, tool_seconds=0.05)

    async def run():
        clock = ManualClock(NOON)
        options = {"tools": Odd().offer(), "bounds": bounds, "clock": clock, "turn_retry": WorkerRetryPolicy()}
        async with open_house(tmp_path, stand_in, **options) as gateway:
            first = await say(gateway, "Hello?")
            stand_in.follow()
            clock.move(61)
            await end(gateway, first.turn)
            return first, await say(gateway, "And now?")

    first, after = asyncio.run(run())
    assert first.state is state, first.text
    assert first.text.endswith(".")
    assert "secret" not in first.text
    assert (after.state, after.text) == (TurnState.ANSWERED, "Yes.")
    assert stand_in.requests[-1].refused == ""
    assert shown in [kind for kind, level, _, _ in read_log(tmp_path) if level in ("warn", "error")]


def test_half_a_character_in_an_answer(tmp_path, stand_in):
    """Half a character in an answer is replaced, and the next turn is answered."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "Hello?"), await say(gateway, "And now?")

    stand_in.follow(ScriptedGarbage(text=HALF))
    first, after = asyncio.run(run())
    assert [(turn.state, turn.text) for turn in (first, after)] == [
        (TurnState.ANSWERED, "half ?"),
        (TurnState.ANSWERED, "Yes."),
    ]
    assert stand_in.requests[-1].refused == ""


def test_no_message(tmp_path, stand_in):
    """A message with invalid characters in any field is refused before it is stored."""
    wrong = [
        {"text": "half \ud800"},
        {"text": "a\x00b"},
        {"user": "ali\x00ce"},
        {"session": "\ud800"},
        {"key": "\x00"},
        {"room": "\udfff"},
        {"project": "\udfff"},
    ]

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            for fields in wrong:
                with pytest.raises(InputError, match=r"the message (has|contains)"):
                    await gateway.accept(RoutedMessage(**{"text": "x", "user": "alice"} | fields))

    asyncio.run(run())
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_a_megabyte(tmp_path, stand_in):
    """A message that exceeds the model's window fails without a call and is not in later requests."""
    small = CONFIG + 'models: {"anthropic:claude-sonnet-5": {window: 100000}}\n'

    async def run():
        async with open_house(tmp_path, stand_in, {**FILES, "foreword.yaml": small}) as gateway:
            await say(gateway, "Hello.")
            long = await say(gateway, "word " * 199_999)
            calls = len(stand_in.requests)
            return long, calls, await say(gateway, "And now?")

    long, calls, after = asyncio.run(run())
    assert long.state is TurnState.FAILED
    assert "too long" in long.text
    assert calls == 1
    assert after.state is TurnState.ANSWERED
    assert len(stand_in.requests) == 2
    assert len(stand_in.requests[-1].raw) < 100_000
    assert ("turn_completed", "error") in [row[:2] for row in read_log(tmp_path)]


def test_a_budget(tmp_path, stand_in):
    """A turn beyond a budget is refused with a reason, and the session continues once the budget allows it."""
    poor = CONFIG + "budgets: {per_turn_usd: 0.000001}\n"

    async def run():
        async with open_house(tmp_path, stand_in, {**FILES, "foreword.yaml": poor}) as gateway:
            refused = await say(gateway, "Hello.")
        async with open_house(tmp_path, stand_in) as gateway:
            return refused, await say(gateway, "And now?")

    refused, after = asyncio.run(run())
    assert refused.state is TurnState.REFUSED
    assert "budget" in refused.text or "$" in refused.text
    assert (refused.session, after.state) == (after.session, TurnState.ANSWERED)
    assert "refused" in [facts.get("outcome") for _, _, _, facts in read_log(tmp_path)]
    assert stand_in.requests[-1].refused == ""


WITH_CAROL = CONFIG.replace("bob:", "carol: {trust: full}, bob:")
LOWERED = {
    "removed": CONFIG,
    "lowered": WITH_CAROL.replace("carol: {trust: full", "carol: {trust: inner"),
    "agent gone": WITH_CAROL.replace('reid: {model: "anthropic:claude-sonnet-5"}, ', ""),
}


@pytest.mark.parametrize("change", LOWERED)
def test_changed_while_it_runs(tmp_path, stand_in, change):
    """A user who is removed or trusted less during their turn does not get its reply, and later turns do not see it."""
    stand_in.follow(call("odd", {"how": "wait"}), ScriptedReply(text="The secret is out."))

    async def run():
        odd = Odd()
        async with open_house(tmp_path, stand_in, HOUSE, tools=odd.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="carol", agent="reid"))
            await until(lambda: odd.called)
            write_files(tmp_path, {"foreword.yaml": LOWERED[change]})
            gateway.reloading.look(now=True)
            odd.gate.set()
            first = await gateway.wait(accepted.turn)
            agent = "ada" if change == "agent gone" else "reid"
            return first, await say(gateway, "And now?", user="carol", agent=agent)

    first, after = asyncio.run(run())
    assert first.state is TurnState.FAILED
    assert "secret" not in first.text
    assert (CHANGED if change != "agent gone" else "reid") in first.text
    assert after.state is TurnState.ANSWERED
    assert after.session != first.session
    assert "secret" not in str(stand_in.body["messages"])


@pytest.mark.parametrize("change", LOWERED)
def test_changed_while_it_is_queued(tmp_path, stand_in, change):
    """A queued turn whose user or agent has changed is not sent to a model."""
    stand_in.follow(*[ScriptedError()] * 4)

    async def run():
        clock = ManualClock(NOON)
        async with open_house(tmp_path, stand_in, HOUSE, clock=clock, turn_retry=WorkerRetryPolicy()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="carol", agent="reid"))
            first = await gateway.wait(accepted.turn)
            write_files(tmp_path, {"foreword.yaml": LOWERED[change]})
            gateway.reloading.look(now=True)
            clock.move(61)
            return first, await end(gateway, accepted.turn)

    first, last = asyncio.run(run())
    assert (first.state, last.state) == (TurnState.QUEUED, TurnState.FAILED)
    assert (CHANGED if change != "agent gone" else "reid") in last.text
    assert len(stand_in.requests) == 4


def test_a_faulty_configuration(tmp_path, stand_in):
    """A configuration that becomes invalid changes nothing while the gateway runs."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            first = await say(gateway, "Hello?")
            write_files(tmp_path, {"foreword.yaml": "agents: [}"})
            gateway.reloading.look(now=True)
            assert gateway.workspace.fault
            return first, await say(gateway, "And now?")

    first, after = asyncio.run(run())
    assert (after.state, after.session) == (TurnState.ANSWERED, first.session)


def test_asked_to_wait_for_ever(tmp_path, stand_in):
    """An excessive retry_after of a provider is limited to a day."""
    stand_in.follow(ScriptedError(retry_after=999_999))

    async def run():
        clock = ManualClock(NOON)
        async with open_house(tmp_path, stand_in, clock=clock) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="alice"))
            first = await gateway.wait(accepted.turn)
            clock.move(86_400)
            return first, await end(gateway, accepted.turn)

    first, last = asyncio.run(run())
    assert (first.state, last.state) == (TurnState.QUEUED, TurnState.ANSWERED)


def test_given_up_after_a_day(tmp_path, stand_in):
    """A turn that no provider takes for a day fails with a reason, and the session continues."""
    stand_in.choose = lambda _: ScriptedError()

    async def run():
        clock = ManualClock(NOON)
        async with open_house(tmp_path, stand_in, clock=clock) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="alice"))
            await gateway.wait(accepted.turn)
            clock.move(86_401)
            last = await end(gateway, accepted.turn)
            stand_in.choose = None
            return last, await say(gateway, "And now?")

    last, after = asyncio.run(run())
    assert (last.state, after.state) == (TurnState.FAILED, TurnState.ANSWERED)
    assert "for a day" in last.text
    assert last.text != INTERNAL_ERROR_TEXT
    assert stand_in.requests[-1].refused == ""
