"""One night: twelve busy turns, then a message that the provider refuses four times, delivered a minute later."""

from datetime import UTC, datetime

from foreword.events.event import Usage
from foreword.testing import MovedClock, Refusal, Reply, ScriptedLoop, make_workspace
from foreword.turn import Turn

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-4-5"}}
users:
  alice: {trust: full, timezone: UTC}
  bob: {trust: familiar}
"""
LONG = {"AGENTS.md": "Answer first, then say why.\n" * 400}
USAGE = Usage(tokens_in=5_200, tokens_out=120, cache_read=3_100, cache_write=600)
BUSY = Refusal(429, "rate_limit_error: too many requests")


def make_turn(**changes):
    """Make a turn of alice's on Signal."""
    known = {"user": "alice", "channel": "signal", "situation": "dm", "session": "abc", "message": "Are you there?"}
    return Turn(**known | changes)


def make_night(folder, listeners, config=CONFIG, files=LONG, send=lambda _: None):
    """Make a loop over a workspace, at 2:42 in the night."""
    clock = MovedClock(datetime(2026, 11, 16, 2, 42, 10, tzinfo=UTC))
    workspace = make_workspace(folder, {"foreword.yaml": config, **files})
    return ScriptedLoop(workspace, listeners, clock, send), clock


def live_through(loop, clock):
    """Live through the night of the document's example; return the trace of the message that failed."""
    for _ in range(12):
        loop.receive(make_turn(), [Reply(text="Yes.", usage=USAGE)])
        clock.move(22)
    clock.now = datetime(2026, 11, 16, 2, 47, 3, tzinfo=UTC)
    trace = loop.receive(make_turn(message="Did the backup run?"), [BUSY] * 4)
    clock.now = datetime(2026, 11, 16, 2, 48, tzinfo=UTC)
    loop.deliver([Reply(text="It did.", usage=USAGE, seconds=3)])
    return trace
