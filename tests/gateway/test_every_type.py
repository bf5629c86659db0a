"""One night with the real components: all 17 event types are recorded, each as the specification says.

Alice writes to the real bot, a schedule fires, a provider refuses, a chat is closed, a conversation is compacted and
a file is edited. The loop, the provider client, the channels, the state and the log are those of `foreword serve`;
the Bot API and the provider are fakes.
"""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest
from house import open_house, until

from foreword.agent.tools.registry import WITH_LOG
from foreword.cli.main import main
from foreword.config.schema import TelegramBotSettings
from foreword.events.event import CATEGORIES, EventType
from foreword.gateway.channels.telegram.bot_client import RateLimits, TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.testing import (
    ManualClock,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    run_fake_provider,
    run_fake_telegram,
)
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import open_workspace

BEGIN = datetime(2026, 11, 16, 7, 40, tzinfo=UTC)
SERVER = """\
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")
@server.tool()
def price(thing: str) -> dict[str, int]:
    "Say what a thing costs."
    return {thing: 3}
@server.tool()
def order(thing: str) -> str:
    "Order a thing."
    os._exit(1)
server.run("stdio")
"""
CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5", mcp: [{name: shop, command: COMMAND, confirm: never}]}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
models: {"anthropic:claude-sonnet-5": {window: 40000}}
schedule: [{name: morning, cron: "0 8 * * *", user: alice, say: "Morning check.", to: "telegram:1001"}]
"""
FILES = {
    "foreword.yaml": CONFIG.replace("COMMAND", json.dumps([sys.executable, "-c", SERVER])),
    "SOUL.md": "Calm and exact.\n",
    "memory/private/garden.md": "The plum tree was planted in 2019 by the east wall.\n",
}
BUSY = ScriptedError(status=429, message="too many requests")
LONG = "The plum tree by the east wall was planted in the autumn. " * 130
FREE = RateLimits(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))
ROOTS = ("message_received", "schedule_fired")
CALLERS = ("turn_started", "session_compacted")
# Each type: its category, its possible parents, its columns and its facts.
TYPES = {
    "message_received": ("channel", {""}, (), {"length"}),
    "message_sent": ("channel", {*ROOTS}, ("duration_ms",), {"length", "attempt"}),
    "channel_error": ("channel", {"message_received"}, ("duration_ms", "error"), {"length", "attempt"}),
    "trust_resolved": ("router", {*ROOTS}, (), {"user", "situation", "ceiling", "effective"}),
    "prompt_built": ("prompt", {*ROOTS, "tool_call"}, ("prompt_hash",), {"layers", "tokens", "cached_tokens"}),
    "turn_started": ("agent", {*ROOTS, "tool_call"}, ("model",), {"attempt"}),
    "turn_completed": ("agent", {*ROOTS, "tool_call"}, ("duration_ms",), set()),
    "api_call": ("provider", {*CALLERS}, ("model", "tokens_in", "tokens_out", "cost_usd"), {"sections"}),
    "api_error": ("provider", {"turn_started"}, ("model", "error"), {"attempt"}),
    "tool_call": ("tool", {"turn_started"}, ("duration_ms",), {"name", "status"}),
    "tool_error": ("tool", {"turn_started", ""}, ("error",), set()),
    "memory_search": ("memory", {"tool_call"}, (), {"store", "count"}),
    "memory_write": ("memory", {"tool_call"}, (), {"store", "count"}),
    "session_created": ("session", {*ROOTS}, (), set()),
    "session_compacted": (
        "session",
        {"message_received"},
        ("duration_ms",),
        {"tokens_before", "tokens_after", "turns"},
    ),
    "schedule_fired": ("scheduler", {""}, (), {"name"}),
    "config_reloaded": ("config", {""}, (), {"changed"}),
}


class Night:
    """A workspace in which one event happens after the other."""

    def __init__(self, gateway, provider, bot, clock, folder):
        self.gateway, self.provider, self.bot, self.clock, self.folder = gateway, provider, bot, clock, folder

    async def write(self, text, *script, user=1001):
        """Write to the bot and wait for its reply."""
        self.provider.follow(*script)
        before = len(self.bot.sent)
        self.bot.say(text, user=user)
        await until(lambda: len(self.bot.sent) > before)
        return self.bot.sent[before].text

    async def until_told(self, kind):
        """Wait until the log has an event of a type."""
        await until(lambda: any(row["event_type"] == kind for row in read_rows(self.folder)))

    async def work(self):
        """Search, save, call a server, delegate, and fail with one of the tools."""
        calls = (
            ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),
            ScriptedCall(name="save_memory", arguments={"text": "The key hangs behind the clock.", "title": "Key"}),
            ScriptedCall(name="shop_price", arguments={"thing": "milk"}),
            ScriptedCall(name="shop_order", arguments={"thing": "milk"}),
        )
        helper = ScriptedReply(calls=(ScriptedCall(name="delegate", arguments={"task": "Count the bees."}),))
        script = (ScriptedReply(calls=calls), helper, ScriptedReply(text="Forty."), ScriptedReply(text="All done."))
        assert await self.write("Do what there is to do.", *script) == "All done."

    async def be_refused(self):
        """Refuse four times, then answer."""
        assert await self.write("Did the backup run?", *[BUSY] * 4, ScriptedReply(text="It did.")) == "It did."

    async def lose_a_chat(self):
        """Answer a user who has blocked the bot."""
        self.provider.follow(ScriptedReply(text="Hello, Bob."))
        self.bot.barred[1002] = "Forbidden: bot was blocked by the user"
        self.bot.say("Hello?", user=1002)
        await self.until_told("channel_error")

    async def talk_long(self):
        """Send messages until the history is compacted."""
        self.provider.choose = lambda body: ScriptedReply(
            text="Plums." if "Sum up the conv" in str(body["messages"]) else "Yes."
        )
        while not any(row["event_type"] == "session_compacted" for row in read_rows(self.folder)):
            await self.write(LONG)
        self.provider.choose = None

    async def edit(self):
        """Edit the configuration, all at once: half a file would be reported as a fault."""
        draft = self.folder / "foreword.yaml.new"
        draft.write_text(FILES["foreword.yaml"] + "rooms: {den: {ceiling: familiar}}\n")
        draft.replace(self.folder / "foreword.yaml")
        await self.until_told("config_reloaded")

    async def wait_for_the_schedule(self):
        """Move the clock to eight."""
        before = len(self.bot.sent)
        self.provider.follow(ScriptedReply(text="Good morning."))
        self.clock.now = BEGIN.replace(hour=8, minute=0)
        await until(lambda: len(self.bot.sent) > before)


def read_rows(folder):
    """Read the log."""
    with closing(sqlite3.connect(folder / ".foreword" / "events.sqlite")) as log:
        log.row_factory = lambda cursor, row: dict(zip([one[0] for one in cursor.description], row, strict=True))
        return log.execute("SELECT * FROM events ORDER BY id").fetchall()


async def live_through(folder, provider, bot):
    """Run all steps of the night."""
    clock = ManualClock(BEGIN)

    def open_bot(show_rows):
        around = TelegramOptions(settings=TelegramSettings(limits=FREE, poll=1, waits=(0.02,)), report=show_rows)
        return open_telegram(bot.token, TelegramBotSettings(api=bot.url), around)

    options = {"clock": clock, "opens": {"telegram": open_bot}, "scheduling": True}
    async with asyncio.timeout(120), open_house(folder, provider, FILES, **options) as gateway:
        night = Night(gateway, provider, bot, clock, folder)
        await night.work()
        await night.be_refused()
        await night.lose_a_chat()
        await night.talk_long()
        await night.edit()
        await night.wait_for_the_schedule()


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Run a night with all events once, and return its folder and rows."""
    folder = tmp_path_factory.mktemp("night")
    with run_fake_provider() as provider, run_fake_telegram() as bot:
        asyncio.run(live_through(folder, provider, bot))
        assert {request.refused for request in provider.requests} == {""}
    return folder, read_rows(folder)


def describe(night, row):
    """List the ancestors of a row, up to the root of its turn."""
    by_span = {one["span_id"]: one for one in night[1]}
    chain = []
    while row := by_span.get(row["parent_id"]):
        chain.append(row["event_type"])
    return chain


def find(night, kind, **facts):
    """Find the rows of a type with these facts."""
    rows = [row | {"facts": json.loads(row["metadata"] or "{}")} for row in night[1] if row["event_type"] == kind]
    return [row for row in rows if facts.items() <= row["facts"].items()]


def test_all_17_are_told(night):
    """The night records every event type, and no other."""
    assert {row["event_type"] for row in night[1]} == {kind.value for kind in EventType} == TYPES.keys()
    assert len(TYPES) == 17


@pytest.mark.parametrize("kind", TYPES)
def test_each_type(night, kind):
    """Each type has its category, level, columns, facts and place in the tree of its turn."""
    category, above, columns, facts = TYPES[kind]
    rows = find(night, kind)
    for row in rows:
        assert row["category"] == category == CATEGORIES[EventType(kind)]
        assert (describe(night, row) or [""])[0] in above
        assert all(row[column] not in (None, "") for column in columns)
        assert facts <= row["facts"].keys(), (row["error"], row["metadata"])
        assert row["trace_id"]
    assert {(describe(night, row) or [""])[0] for row in rows} == above
    levels = {row["level"] for row in rows}
    # A failing server is a warning to the owner, in addition to the error of the call.
    assert levels <= {"error", "warn"} if kind.endswith("_error") else levels <= {"info", "warn", "error"}
    assert ("error" if kind.endswith("_error") else "info") in levels


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_found(night, kind, capsys):
    """The agent's tool and the command find exactly the events of a type."""
    folder, rows = night
    count = min(50, sum(row["event_type"] == kind for row in rows))
    assert main(["logs", "-w", str(folder), "--event-type", kind, "--json", "--limit", "50"]) == 0
    assert [event["event_type"] for event in json.loads(capsys.readouterr().out)] == [kind] * count
    workspace = open_workspace(str(folder), ManualClock(BEGIN))
    asked = Turn(user="alice", situation="dm", tools=WITH_LOG, now=BEGIN.replace(hour=9))
    shown = workspace.call(workspace.assemble(asked), "foreword_logs", {"event_type": kind, "limit": 50}).text
    found = shown.count(f"] {kind}")  # an answer has a limit of tokens; it then offers the call for the older events
    assert found == count or (0 < found < count and "older: foreword_logs(" in shown)


def test_a_turn_is_one_tree(night):
    """All events of one message are one trace, from its receipt to the reply."""
    first = [row for row in night[1] if row["trace_id"] == night[1][0]["trace_id"]]
    assert [row["event_type"] for row in first] == [
        "message_received", "trust_resolved", "session_created", "prompt_built", "turn_started", "api_call",
        "memory_search", "tool_call", "memory_write", "tool_call", "tool_call", "tool_error", "api_call",
        "prompt_built", "turn_started", "api_call", "turn_completed", "tool_call", "api_call",
        "turn_completed", "message_sent",
    ]  # fmt: skip
    assert {(row["user_id"], row["channel"]) for row in first} == {("alice", "telegram")}


def test_what_tools_tell(night):
    """A search records its count, a save its store, a dead server its tool, a subagent its own turn."""
    (searched,), (saved,), (failed,) = (
        find(night, "memory_search"),
        find(night, "memory_write"),
        find(night, "tool_error", name="shop_order"),
    )
    assert (searched["facts"]["count"], saved["facts"]["store"]) == (1, "own")
    assert find(night, "tool_call", name="shop_price", status="ok")
    assert failed["error"].startswith("server 'shop' did not answer")
    turn = ["turn_started", "message_received"]
    assert describe(night, searched) == describe(night, saved) == ["tool_call", *turn]
    assert describe(night, failed) == turn
    (helper,) = [row for row in find(night, "api_call") if len(describe(night, row)) > len(turn)]
    assert describe(night, helper) == ["turn_started", "tool_call", *turn]


def test_what_fails_says_why(night):
    """Provider refusals are below the attempt that failed, a closed chat below its message."""
    refused = find(night, "api_error")
    assert [(row["facts"]["attempt"], row["facts"]["status"]) for row in refused] == [(n, 429) for n in (1, 2, 3, 4)]
    assert len({row["parent_id"] for row in refused}) == 1
    (queued,) = find(night, "turn_completed", outcome="queued")
    assert queued["trace_id"] == refused[0]["trace_id"]
    tried = [row for row in find(night, "turn_started") if row["trace_id"] == queued["trace_id"]]
    assert [row["facts"]["attempt"] for row in tried] == [1, 2]
    (closed,) = find(night, "channel_error")
    assert closed["error"] == "NeverDelivered: Forbidden: bot was blocked by the user"
    assert (closed["user_id"], describe(night, closed)) == ("bob", ["message_received"])


def test_a_schedule_has_a_turn(night):
    """The events of a scheduled turn name their schedule and are one trace, up to the sent reply."""
    fired = [row for row in night[1] if row["schedule"] == "morning"]
    assert [row["event_type"] for row in fired] == [
        "schedule_fired", "trust_resolved", "session_created", "prompt_built", "turn_started", "api_call",
        "turn_completed", "message_sent",
    ]  # fmt: skip
    assert len({row["trace_id"] for row in fired}) == 1


def test_a_compaction_says_how_much(night):
    """A compaction is in the turn that caused it, with its call below it, and has its token counts."""
    (row,) = find(night, "session_compacted")
    facts = row["facts"]
    assert facts["turns"] > 1
    assert facts["by"] == "anthropic:claude-sonnet-5"
    assert facts["tokens_before"] > 2 * facts["tokens_after"] > 0
    (call,) = [one for one in find(night, "api_call") if one["parent_id"] == row["span_id"]]
    assert (call["trace_id"], call["session_id"]) == (row["trace_id"], row["session_id"])


def test_a_reload_names_what_changed(night):
    """An edit is recorded once with the changed keys, at full trust and without a user."""
    (row,) = find(night, "config_reloaded")
    assert (row["facts"], Trust(row["trust"]), row["user_id"]) == ({"changed": "rooms"}, Trust.FULL, None)
