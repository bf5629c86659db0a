"""Fakes for Foreword's interfaces, for tests of code that builds on it."""

from foreword.events.sinks import EventStream
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
from foreword.testing.script import (
    ScriptedCall,
    ScriptedDisconnect,
    ScriptedError,
    ScriptedGarbage,
    ScriptedHang,
    ScriptedReply,
    ScriptLine,
)

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
