"""Acceptance list of SPEC-010, point by point: web over HTTP, Telegram with aiogram and a fake API, and a schedule.

It also covers Nova's rules for tasks and background runs, and Coop's group example, over the same channels.
"""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from served import QUICK, serve_workspace

from foreword.config.schema import TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.testing import ManualClock, ScriptedCall, ScriptedReply, run_fake_telegram
from waiting import wait

MORNING = datetime(2026, 11, 16, 7, 59, tzinfo=UTC)
CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: BLUEPRINT}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
rooms: {kitchen: {places: ["telegram:-5"], trigger: always}}
situations: {group: {ceiling: familiar, prompt_overlay: ./prompts/group-rules.md}}
schedule:
  - {name: digest, cron: "0 8 * * *", user: alice, say: "Write the digest.", to: "telegram:1001", delivery: DELIVERY}
"""
FILES = {
    "SOUL.md": "Calm and exact.\n",
    "TOOLS.md": "The lamp answers to its name.\n",
    "IDENTITY.md": "# Identity\nA lighthouse keeper.\n",
    "MEMORY.md": "The safe is behind the clock.\n",
    "memory/private/likes.md": "Alice likes rye bread.\n",
    "prompts/group-rules.md": "Everybody reads this.\n",
}
DIGEST = "Write the digest."
WISH = "Always answer in bullet points."


class Site:
    """One agent on the web, on Telegram and on a schedule."""

    def __init__(self, served, bot, clock):
        self.served, self.bot, self.clock = served, bot, clock
        self.provider = served.provider

    def say(self, way, text):
        """Send a message as alice on the web or on Telegram; return the reply and the last request of its turn."""
        return getattr(self, f"say_on_{way}")(text)

    def say_on_web(self, text, user="alice"):
        """Send a message over HTTP."""
        with self.served.ask_as(user) as client:
            return client.post("/api/turns", json={"text": text}).json()["reply"], self.last

    def say_on_telegram(self, text, user=1001, chat=None):
        """Send a Telegram message and wait for the reply."""
        before = len(self.bot.sent)
        self.bot.say(text, user=user, chat=chat)
        wait(lambda: len(self.bot.sent) > before)
        return self.bot.sent[before].text, self.last

    def run_schedule(self, *script):
        """Move the clock to eight and wait until the run has ended; a bot can only write to users who wrote first."""
        self.say_on_telegram("Good morning, is anybody there?")
        self.bot.sent.clear()
        self.provider.follow(*script)
        self.clock.now = MORNING.replace(hour=8, minute=0)
        wait(lambda: any(one["event_type"] == "turn_completed" for one in self.list_runs()))
        return self.last

    def list_runs(self):
        """List the events of scheduled runs."""
        return self.served.list_events(channel="scheduled")

    def allow(self, way):
        """Allow the held call as alice, on the web or on Telegram, and wait until it has run."""
        if way == "telegram":
            listed, _ = self.say_on_telegram("/allow")
            self.say_on_telegram(re.search(r"/allow_[0-9a-f]+", listed)[0])
        else:
            with self.served.ask_as("alice") as client:
                (held,) = client.get("/api/held").json()["held"]
                client.post(f"/api/held/{held['held']}", json={"allowed": True})
        wait(lambda: any(one["metadata"].get("status") == "ok" for one in self.served.list_events(type="tool_call")))

    def begin(self, way):
        """Start a new session on the web or on Telegram."""
        channel = "web" if way == "web" else "telegram"
        sessions = self.served.gateway.sessions
        current = [one for one in self.served.do(sessions.list("alice")) if one.key.channel == channel]
        self.served.do(sessions.begin(current[0].key, "dm"))

    @property
    def last(self):
        """The last request as text."""
        return json.dumps(self.provider.body, ensure_ascii=False).replace("\\n", "\n")


@pytest.fixture
def open_site(tmp_path):
    """Open a workspace with a blueprint and a delivery mode."""

    @contextmanager
    def opened(blueprint="spec010", delivery="always"):
        clock = ManualClock(MORNING)
        config = CONFIG.replace("BLUEPRINT", blueprint).replace("DELIVERY", delivery)
        with run_fake_telegram() as bot:

            def open_bot(notify):
                around = TelegramOptions(settings=TelegramSettings(poll=1), report=notify)
                return open_telegram(bot.token, TelegramBotSettings(api=bot.url), around)

            options = replace(QUICK, clock=clock, opens={"telegram": open_bot}, scheduling=True)
            files = {**FILES, "foreword.yaml": config}
            with serve_workspace(tmp_path, files=files, options=options) as served:
                yield Site(served, bot, clock)

    return opened


def test_web(open_site):
    """1: The prompt of a web turn names the channel and the time."""
    with open_site() as site:
        _, prompt = site.say_on_web("Hello, who are you?")
    assert "You are responding via web." in prompt
    assert "Monday, November 16, 2026 07:59 AM (UTC)" in prompt


def test_telegram(open_site):
    """2: The prompt of a Telegram turn names the channel, and the reply is sent there."""
    with open_site() as site:
        site.provider.follow(ScriptedReply(text="Reid."))
        reply, prompt = site.say_on_telegram("Hello, who are you?")
    assert reply == "Reid."
    assert "You are responding via telegram." in prompt


@pytest.mark.parametrize(("dialect", "heading"), [("spec010", "User Instructions"), ("coop", "Standing Instructions")])
@pytest.mark.parametrize("way", ["web", "telegram"])
def test_bullet_points(open_site, way, dialect, heading):
    """3 and 4: update_instructions stores a wish once the user allows it, and a new session includes it."""
    with open_site(dialect) as site:
        call = ScriptedCall(name="update_instructions", arguments={"instructions": WISH})
        site.provider.follow(
            ScriptedReply(calls=(call,)),
            ScriptedReply(text="I will."),
            ScriptedReply(text="Done."),
            ScriptedReply(text="- Good."),
        )
        reply, _ = site.say(way, "always respond in bullet points")
        assert reply.startswith("I will.\n\nWaiting for your approval; nothing has run yet:")
        site.allow(way)
        site.begin(way)
        _, prompt = site.say(way, "How are you today?")
        used = site.served.list_events(type="tool_call")
    assert "always respond in bullet points" not in prompt
    assert f"## {heading}\n{WISH}" in prompt
    assert {one["metadata"]["name"] for one in used} == {"update_instructions"}


@pytest.mark.parametrize("way", ["web", "telegram"])
def test_what_do_you_remember(open_site, way):
    """5: Memories are not in the prompt; the agent calls read_memory and then answers."""
    with open_site() as site:
        site.provider.follow(
            ScriptedReply(calls=(ScriptedCall(name="read_memory", arguments={}),)),
            ScriptedReply(text="You like rye bread."),
        )
        assert site.say(way, "what do you remember about me?")[0] == "You like rye bread."
        first, second = [json.dumps(one.body) for one in site.provider.requests[-2:]]
    assert "rye" not in first
    assert "call read_memory FIRST" in first
    assert "tool_result" in second


def test_scheduled(open_site):
    """6 and 7: The prompt of a scheduled run names its channel, and its report is delivered."""
    with open_site() as site:
        prompt = site.run_schedule(ScriptedReply(text="Two letters came."))
        wait(lambda: site.bot.sent)
        fired = site.served.list_events(type="schedule_fired")
    assert "You are responding via scheduled." in prompt
    assert DIGEST in prompt
    assert [sent.text for sent in site.bot.sent] == ["Two letters came."]
    assert len(fired) == 1


def test_task_of_nova(open_site):
    """Nova: the prompt of a session with a task includes the task and its steps, on every channel."""
    steps = [{"text": "Read", "status": "done"}, {"text": "Sort", "status": "active"}, {"text": "Answer"}]
    task = {"title": "Sort the letters", "status": "active", "steps": steps}
    with open_site("nova") as site:
        write = ScriptedCall(name="task_write", arguments={"tasks": [task]})
        site.provider.follow(
            ScriptedReply(calls=(write,)), ScriptedReply(text="Begun."), ScriptedReply(text="Going on.")
        )
        site.say_on_telegram("Sort the letters.")
        _, prompt = site.say_on_telegram("Go on with it.")
        _, elsewhere = site.say_on_web("Anything new today?")
    assert "Title: Sort the letters" in prompt
    assert "1. ✓ Read (done)\n2. → Sort\n3. ○ Answer" in prompt
    assert "Sort the letters" not in elsewhere


@pytest.mark.parametrize("delivery", ["always", "as_needed", "never"])
def test_background_of_nova(open_site, delivery):
    """Nova: the prompt of a background run says so; a suppressed reply is not delivered, a notification is."""
    notice = ScriptedCall(name="notify_user", arguments={"text": "The boiler is cold."})
    silent = ScriptedReply(text="NO_ACTION_NEEDED")
    well = ScriptedReply(text="All is well.")
    script = {"always": [well], "as_needed": [silent], "never": [ScriptedReply(calls=(notice,)), well]}
    arrives = {"always": ["All is well."], "as_needed": [], "never": ["The boiler is cold."]}
    with open_site("nova", delivery) as site:
        prompt = site.run_schedule(*script[delivery])
        wait(lambda: len(site.bot.sent) == len(arrives[delivery]))
    assert [sent.text for sent in site.bot.sent] == arrives[delivery]
    assert "<Background>" in prompt
    assert ("send it with notify_user" in prompt) is (delivery == "never")


def test_group_of_coop(open_site):
    """Coop: Alice has full trust but is familiar in a group: TOOLS.md, IDENTITY.md and the overlay, not MEMORY.md."""
    with open_site("coop") as site:
        _, there = site.say_on_telegram("What do you know of the lamp?", chat=-5)
        _, alone = site.say_on_telegram("What do you know of the lamp?")
        turns = site.served.list_events(type="trust_resolved")
    assert "answers to its name" in there
    assert "lighthouse keeper" in there
    assert "MEMORY.md" not in there
    assert "behind the clock" not in there
    assert "## Situation\nEverybody reads this." in there
    assert "Everybody reads this." not in alone
    assert "MEMORY.md" in alone
    assert sorted(turn["metadata"]["effective"] for turn in turns) == ["familiar", "full"]
