"""The example of the specification through the gateway: an agent explains a failed message with its log tools."""

import asyncio
import re
from datetime import UTC, datetime

from house import CONFIG, end, follow_log, open_house, open_rows, until

from foreword.agent.conversation import load_messages
from foreword.agent.retry import RetryPolicy
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.storage.turns import TurnState
from foreword.testing import ManualClock, ScriptedCall, ScriptedError, ScriptedReply

BUSY = ScriptedError(status=429, message="too many requests")
NIGHT = datetime(2026, 11, 16, 2, 42, 10, tzinfo=UTC)
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"}


class Asks:
    """A model that calls the log tool, then the trace tool, then answers."""

    def __init__(self):
        self.results = []

    def __call__(self, body):
        """Answer a request."""
        newest = body["messages"][-1]["content"]
        found = [part for part in newest if part.get("type") == "tool_result"]
        self.results += [part["content"] for part in found]
        if not found:
            return ScriptedReply(
                calls=(ScriptedCall(name="foreword_logs", arguments={"level": "error", "since": "12h"}),)
            )
        if len(self.results) == 1:
            (turn,) = set(re.findall(r"turn=(\w+)", str(found)))
            return ScriptedReply(calls=(ScriptedCall(name="foreword_trace", arguments={"turn": turn}),))
        return ScriptedReply(text="It hit a rate limit, was queued, and was delivered at 2:48.")


async def describe(gateway, text, user="alice"):
    """Send a Signal message and wait for the result."""
    accepted = await gateway.accept(RoutedMessage(text=text, user=user, channel="signal"))
    return await gateway.wait(accepted.turn)


async def live_through(gateway, clock, stand_in, folder):
    """Simulate the night; return the first result of the failed turn."""
    for _ in range(12):
        await describe(gateway, "Are you there?")
        clock.move(22)
    clock.now = datetime(2026, 11, 16, 2, 47, 3, tzinfo=UTC)
    stand_in.follow(*[BUSY] * 4, ScriptedReply(text="It did."))
    queued = await describe(gateway, "Did the backup run?")
    assert queued.state is TurnState.QUEUED
    assert "kept and will be answered" in queued.text
    clock.move(60)
    reply = await end(gateway, queued.turn)
    assert (reply.state, reply.text) == (TurnState.ANSWERED, "It did.")
    await until(lambda: any(row[0] == "message_sent" and row[3]["attempt"] == 2 for row in follow_log(folder)))
    return queued


def test_why_did_my_message_fail(tmp_path, stand_in):
    """A message is refused four times, queued and delivered a minute later; the agent's tools explain all of it."""
    clock, asks = ManualClock(NIGHT), Asks()

    async def sleep(seconds):
        clock.move(seconds)

    async def run():
        options = {
            "clock": clock,
            "turn_retry": WorkerRetryPolicy(),
            "retrying": RetryPolicy(sleep=sleep, chance=lambda: 0.0),
        }
        async with open_house(tmp_path, stand_in, FILES, **options) as gateway:
            queued = await live_through(gateway, clock, stand_in, tmp_path)
            calls = len(stand_in.requests)
            clock.now = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
            stand_in.choose = asks
            morning = await describe(gateway, "Why did my message fail last night?")
            stand_in.choose = None
            stand_in.follow(
                ScriptedReply(calls=(ScriptedCall(name="foreword_logs", arguments={"since": "12h"}),)),
                ScriptedReply(text="No."),
            )
            other = await describe(gateway, "Did anything fail last night?", user="bob")
            return queued, calls, morning, other

    queued, calls, morning, other = asyncio.run(run())
    assert calls == 12 + 4 + 1
    assert morning.text == "It hit a rate limit, was queued, and was delivered at 2:48."
    assert morning.session == queued.session
    logs, trace = [str(result) for result in asks.results]
    assert re.search(
        r"2026-11-16 02:47:\d\d error \[provider\] api_error user=alice channel=signal .* status=429", logs
    )
    assert re.findall(r"retry_in_s=(\d)", logs) == ["4", "2", "1"]
    assert logs.count("api_error") == 4
    assert re.search(r"outcome=queued calls_refused=4 turns_before=12 minutes_before=5", logs)
    assert f"turn={queued.turn[:8]}" in logs
    steps = re.findall(r"\] (\w+)", trace)
    assert steps == [
        "message_received", "trust_resolved", "prompt_built", "turn_started", *["api_error"] * 4, "turn_completed",
        "prompt_built", "turn_started", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    assert re.search(r"\+6\d\.\d+s +\[channel\] message_sent .*attempt=2", trace)
    assert "user alice · channel signal" in trace
    assert other.text == "No."
    shown = str(stand_in.body["messages"][-1])
    assert "status=429" not in shown
    assert "alice" not in shown
    assert {request.refused for request in stand_in.requests} == {""}
    with open_rows(tmp_path) as state:
        rows = state.execute("SELECT attempt FROM turns WHERE id = ?", (queued.turn,)).fetchall()
        (kept,) = state.execute("SELECT messages FROM history WHERE turn_id = ?", (queued.turn,)).fetchone()
    assert rows == [(2,)]
    assert len(load_messages(kept)) == 2
