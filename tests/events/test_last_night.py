"""The specification's example: `Why did my message fail last night?`, answered by the tools alone."""

import re
from datetime import UTC, datetime

import pytest

from foreword.agent.tools.registry import WITH_LOG
from foreword.events.log import EventLog
from foreword.testing import EventStream
from foreword.turn import Turn
from night import live_through, make_night

MORNING = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


@pytest.fixture
def ask(tmp_path):
    """Run the night, then call the tools as a user in the morning."""
    with EventLog(str(tmp_path / ".foreword")) as log:
        night = make_night(tmp_path, EventStream(recorder=log))
        live_through(night)
    workspace = night.workspace

    def call(tool: str, user: str = "alice", **arguments: str) -> str:
        turn = Turn(user=user, situation="dm", tools=WITH_LOG, now=MORNING)
        return workspace.call(workspace.assemble(turn), tool, arguments).text

    yield call
    workspace.close()


def test_logs_and_trace_say_everything(ask):
    """Two tool calls return every fact of the example's reply."""
    logs = ask("foreword_logs", level="error", since="12h")
    # At 2:47 AM, your Signal message hit a rate limit (429).
    assert re.search(
        r"2026-11-16 02:47:\d\d error \[provider\] api_error user=alice channel=signal .* status=429", logs
    )
    assert "rate_limit_error" in logs
    # Retried 3 times with exponential backoff (1s, 2s, 4s), but all retries also got 429.
    assert re.findall(r"retry_in_s=(\d)", logs) == ["4", "2", "1"]
    assert logs.count("api_error") == logs.count("status=429") == 4
    # 12 turns in the previous 5 minutes; the message was queued.
    assert re.search(r"outcome=queued calls_refused=4 turns_before=12 minutes_before=5", logs)
    # Delivered successfully on the next attempt at 2:48 AM.
    (turn,) = set(re.findall(r"turn=(\w+)$", logs, re.MULTILINE))
    tree = ask("foreword_trace", turn=turn).split("\n")
    assert "user alice · channel signal · session abc · 2026-11-16 02:47:03 UTC" in tree[0]
    sent = re.search(r"\+(\d+)\.\d+s +\[channel\] message_sent .*attempt=2", tree[-1])
    assert 57 <= int(sent[1]) <= 60


def test_the_tree_has_every_step(ask):
    """The trace shows trust, prompt, calls and reply in order, with timing, tokens, cost and errors."""
    (turn,) = set(re.findall(r"turn=(\w+)$", ask("foreword_logs", level="error"), re.MULTILINE))
    head, *lines = ask("foreword_trace", turn=turn).split("\n")
    steps = [re.search(r"\] (\w+)", line)[1] for line in lines]
    assert steps == [
        "message_received", "trust_resolved", "prompt_built", "turn_started", *["api_error"] * 4, "turn_completed",
        "prompt_built", "turn_started", "api_call", "turn_completed", "message_sent",
    ]  # fmt: skip
    assert re.search(r"duration=3.0s tokens_in=5200 tokens_out=120 .* cost=\$0\.0\d+", lines[steps.index("api_call")])
    assert head.endswith("4 errors")


def test_nobody_else_is_told(ask):
    """Another user sees no events of that night."""
    assert ask("foreword_logs", "bob", since="12h") == "No recorded event fits."
    assert "no message in any channel" in ask("foreword_status", "bob")
    assert "nothing is recorded" in ask("foreword_cost", "bob")
