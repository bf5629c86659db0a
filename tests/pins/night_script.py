"""A night that causes every type of event and writes to almost every table of the state."""

import asyncio
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from pin_house import (
    ManualClock,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    open_house,
    run_fake_provider,
    run_fake_telegram,
    until,
)

BEGIN = datetime(2026, 11, 16, 1, 0, tzinfo=UTC)
CONFIG = """\
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5", responsibilities: [{title: Garden, content: Water the plum.}]}
users:
  alice: {trust: full, timezone: Europe/Paris, identities: ["telegram:1001"]}
  bob: {trust: familiar}
rooms: {kitchen: {situation: group, places: ["telegram:-100123"]}}
models:
  "anthropic:claude-sonnet-5":
    {window: 40000, input_usd: 3, output_usd: 15, cache_read_usd: 0.3, cache_write_usd: 3.75, cache_write_1h_usd: 6}
schedule: [{name: morning, cron: "0 8 * * *", user: alice, say: "Morning check.", to: "telegram:1001"}]
budgets: {daily_usd: 50}
events: {arguments: true}
host: {sudo: false}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "memory/private/garden.md": "# Garden\n\nThe plum tree was planted in 2019 by the east wall.\n",
    "memory/social/games.md": "# Games\n\nChess is played on Thursdays.\n",
}
LONG = "The plum tree by the east wall was planted in the autumn. " * 130
KITCHEN = -100123


def call(name, /, **arguments):
    """Make the model call one tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


class Night:
    """The steps of the night; each waits until the log has all its events."""

    def __init__(self, house):
        self.house, self.bot, self.folder = house, house.bot, house.folder

    def count(self, *kinds):
        """Count the events of some types."""
        self.house.flush()
        with closing(sqlite3.connect(f"{self.folder}/.foreword/events.sqlite")) as log:
            marks = ", ".join("?" * len(kinds))
            found = log.execute(f"SELECT event_type FROM events WHERE event_type IN ({marks})", kinds).fetchall()
        return len(found)

    async def write(self, text, *script, **fields):
        """Write to the bot and return its reply, once no turn or delivery is pending."""
        reply = await self.house.write(text, *script, **fields)
        await self.settle()
        return reply

    async def wait_for(self, kind, count=1):
        """Wait until the log has this many events of a type."""
        await until(lambda: self.count(kind) >= count)

    async def settle(self):
        """Wait until no turn and no delivery is pending."""
        await until(self.is_settled)

    def is_settled(self):
        """Return whether every turn has ended, every reply is delivered and the log contains all of them."""
        with closing(sqlite3.connect(f"{self.folder}/.foreword/state.sqlite")) as state:
            (open_turns,) = state.execute("SELECT count(*) FROM turns WHERE finished IS NULL").fetchone()
            (waiting,) = state.execute("SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')").fetchone()
            (delivered,) = state.execute("SELECT count(*) FROM outbox WHERE turn_id IS NOT NULL").fetchone()
        return not open_turns and not waiting and self.count("message_sent", "channel_error") >= delivered


async def use_tools(night):
    """Search, save, fail and delegate; store tasks and a workflow."""
    script = (
        call("memory_search", query="plum tree"),
        call("save_memory", text="The key hangs behind the clock.", title="Key"),
        call("memory_get", path="private/nothing.md"),
        call("delegate", task="Count the bees."),
        ScriptedReply(text="Forty."),
        call("task_write", tasks=[{"id": "1", "title": "Move", "description": "To the coast", "status": "active"}]),
        call("workflow_write", text="Stage 2 of 3"),
        ScriptedReply(text="All done."),
    )
    assert await night.write("Do what there is to do.", *script) == "All done."


async def be_refused(night):
    """Make the provider refuse four times and answer later."""
    night.house.follow(*[ScriptedError(status=429, message="too many requests")] * 4)
    night.bot.say("Did the backup run?")
    await until(lambda: night.count("api_error") == 4 and night.count("turn_completed") == 3)
    night.house.follow(ScriptedReply(text="It did."))
    night.house.tick(61)
    await until(lambda: night.bot.sent[-1].text == "It did.")
    await night.settle()


async def hold_calls(night):
    """Allow one held call and deny another."""
    for title, allowed in (("Bees", True), ("Cellar", False)):
        script = (
            call("responsibility_add", title=title, content="Look after it."),
            ScriptedReply(text="It needs your yes."),
        )
        reply = await night.write(f"Take on: {title}", *script)
        held, before = re.search(r"/api/held/([0-9a-f]+)", reply)[1], len(night.bot.sent)
        night.house.follow(ScriptedReply(text="It is done."))
        await night.house.ask("POST", f"/api/held/{held}", allowed=allowed)
        if allowed:
            await until(lambda before=before: len(night.bot.sent) > before)
        await night.settle()


async def plan(night):
    """Make a plan and accept it."""
    await night.write("/plan on")
    await night.write("Plan the move.", ScriptedReply(text="1. Pack.\n2. Drive."))
    await night.write("/plan accept", ScriptedReply(text="Packed."))


async def pair(night):
    """Pair bob, who saves a memory, writes in a room, and blocks the bot."""
    await night.write(f"/pair {night.house.make_pairing_code('bob')}", user=1002)
    saved = call("save_memory", text="Bob likes rye bread.", title="Bread")
    await night.write("Remember the bread.", saved, ScriptedReply(text="Kept."), user=1002)
    night.bot.say("Has anybody seen the cat?", user=1002, chat=KITCHEN)
    await night.write(
        "@reid_bot what is for dinner?", ScriptedReply(text="Soup."), user=1001, chat=KITCHEN, **mention(9)
    )
    night.house.follow(ScriptedReply(text="Hello, Bob."))
    night.bot.barred[1002] = "Forbidden: bot was blocked by the user"
    night.bot.say("Hello?", user=1002)
    await night.wait_for("channel_error")
    await night.settle()


def mention(length):
    """Mark the first characters of a message as a mention."""
    return {"entities": [{"type": "mention", "offset": 0, "length": length}]}


async def talk_long(night):
    """Send messages until the oldest turns are summarised."""
    while not night.count("session_compacted"):
        await night.write(LONG)


async def edit(night):
    """Edit the configuration and a file; set instructions over HTTP."""
    await night.house.edit("foreword.yaml", CONFIG.replace("rooms: {", "rooms: {den: {ceiling: familiar}, "))
    await night.wait_for("config_reloaded")
    await night.house.edit("SOUL.md", "Warm and exact.\n")
    await night.house.ask("PUT", "/api/instructions", instructions="Call me Captain.")
    await night.house.ask("PUT", "/api/agents/reid/soul", soul="Cheerful.")


async def fire_schedules(night):
    """Schedule a run with a tool, and fire it and the configured one."""
    script = (
        call("schedule_create", say="Feed the cat.", at="2026-11-16T06:30"),
        ScriptedReply(text="At half past six."),
    )
    await night.write("Remind me of the cat.", *script)
    for hour, minute, text in ((5, 30, "The cat!"), (7, 0, "Good morning.")):
        before = len(night.bot.sent)
        night.house.follow(ScriptedReply(text=text))
        night.house.clock.now = BEGIN.replace(hour=hour, minute=minute)
        await until(lambda before=before: len(night.bot.sent) > before)
        assert night.bot.sent[-1].text == text
        await night.settle()


async def use_web(night):
    """Use another channel and start a second session there, so that the first one ends."""
    await night.house.say("Hello from the web", ScriptedReply(text="Hello."))
    await night.house.ask("POST", "/api/sessions", agent="reid")
    await night.house.say("A new session", ScriptedReply(text="Yes."))
    await night.settle()


STEPS = (use_tools, be_refused, hold_calls, plan, pair, use_web, talk_long, edit, fire_schedules)


def run_night(folder):
    """Run the night in a folder, and open the gateway an hour later to archive the ended conversations."""
    clock = ManualClock(BEGIN)

    async def run(provider, bot):
        async with asyncio.timeout(400):
            async with open_house(folder, provider, clock, FILES, bot) as house:
                night = Night(house)
                for step in STEPS:
                    await step(night)
            clock.move(60 * 60)
            async with open_house(folder, provider, clock, {"foreword.yaml": CONFIG + "archive: true\n"}):
                pass

    with run_fake_provider(clock=clock) as provider, run_fake_telegram() as bot:
        asyncio.run(run(provider, bot))
        assert {one.refused for one in provider.requests} == {""}
