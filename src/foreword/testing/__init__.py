"""Fakes for tests of code that builds on Foreword.

`make_workspace` writes a workspace at a frozen time, `run_fake_provider` runs a model provider on the loopback that
answers by a script of `ScriptedReply`, `ScriptedError`, `ScriptedHang`, `ScriptedGarbage` and `ScriptedDisconnect`, and
`run_fake_telegram` runs Telegram's Bot API with injected faults and flood limits. `FakeRecorder` stores events, and
`FrozenClock` and `ManualClock` replace the clock.

    with run_fake_provider(ScriptedReply(text="It rains.")) as provider:
        ...  # point the provider's address of the workspace to provider.url
        assert provider.body["messages"]
"""

from foreword.events.sinks import EventStream
from foreword.testing.fake_answers import (
    ScriptedCall,
    ScriptedDisconnect,
    ScriptedError,
    ScriptedGarbage,
    ScriptedHang,
    ScriptedReply,
    ScriptLine,
)
from foreword.testing.fake_provider import FakeProvider, ReceivedRequest, run_fake_provider
from foreword.testing.fake_telegram import (
    DroppedConnection,
    FakeBot,
    FloodLimits,
    InjectedDelay,
    InjectedError,
    InjectedFault,
    SentMessage,
    run_fake_telegram,
)
from foreword.testing.fixtures import NOON, FakeRecorder, FrozenClock, ManualClock, make_workspace, write_files

__all__ = [
    "NOON",
    "DroppedConnection",
    "EventStream",
    "FakeBot",
    "FakeProvider",
    "FakeRecorder",
    "FloodLimits",
    "FrozenClock",
    "InjectedDelay",
    "InjectedError",
    "InjectedFault",
    "ManualClock",
    "ReceivedRequest",
    "ScriptLine",
    "ScriptedCall",
    "ScriptedDisconnect",
    "ScriptedError",
    "ScriptedGarbage",
    "ScriptedHang",
    "ScriptedReply",
    "SentMessage",
    "make_workspace",
    "run_fake_provider",
    "run_fake_telegram",
    "write_files",
]
