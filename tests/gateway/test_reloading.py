"""Configuration reload by a running gateway, without a message that triggers it."""

import asyncio
import json
import os
import sys

import pytest
from house import CONFIG, FILES, follow_log, open_house, read_log, say, until
from test_outbox import Post

from foreword.events.event import EventType
from foreword.resources import read_blueprint
from foreword.storage.turns import TurnState
from foreword.testing import FakeRecorder, ScriptedReply, run_fake_provider


def test_told(tmp_path, stand_in):
    """An edit in an idle gateway is recorded, and the next turn uses it."""
    heard = FakeRecorder()

    async def run():
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")
        async with open_house(tmp_path, stand_in) as gateway:
            log = gateway.listeners.recorder
            record, log.record = log.record, lambda event: (heard.record(event), record(event))
            await say(gateway, "before")
            (tmp_path / "foreword.yaml").write_text(CONFIG.replace("bob: {trust: familiar}", "eve: {trust: inner}"))
            await until(lambda: EventType.CONFIG_RELOADED in {event.type for event in heard.events})
            return await say(gateway, "after", user="eve")

    reply = asyncio.run(run())
    shown = [event for event in heard.events if event.type is EventType.CONFIG_RELOADED]
    assert [event.facts for event in shown] == [{"changed": "users"}]
    assert reply.text == "Yes."


def test_an_edited_budget(tmp_path, stand_in):
    """A new budget applies to the next turn."""

    async def run():
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")
        async with open_house(tmp_path, stand_in) as gateway:
            before = await say(gateway, "before")
            (tmp_path / "foreword.yaml").write_text(f"{CONFIG}budgets: {{daily_usd: 0.000001}}\n")
            await until(lambda: gateway.workspace.config.budgets.daily_usd is not None)
            return before, await say(gateway, "after")

    before, after = asyncio.run(run())
    assert (before.state, after.state) == (TurnState.ANSWERED, TurnState.REFUSED)


def test_another_address(tmp_path, stand_in):
    """A new provider URL is used by the next turn."""
    stand_in.choose = lambda _: ScriptedReply(text="The first.")

    async def run():
        with run_fake_provider() as other:
            other.choose = lambda _: ScriptedReply(text="The second.")
            async with open_house(tmp_path, stand_in) as gateway:
                before = await say(gateway, "Who is there?")
                edited = f"{CONFIG}providers: {{anthropic: {{base_url: '{other.url}'}}}}\n"
                (tmp_path / "foreword.yaml").write_text(edited)
                gateway.workspace.refresh(now=True)
                return before.text, (await say(gateway, "And now?")).text

    assert asyncio.run(run()) == ("The first.", "The second.")


class Owner:
    """Records the owner's notices."""

    def __init__(self):
        self.heard = []

    def notify(self, notice):
        """Record a notice."""
        self.heard.append(notice.text)


def test_while_nobody_writes(tmp_path, stand_in):
    """An idle gateway notifies the owner of a broken blueprint, changed keys and needed restarts, each once."""
    owner, mine = Owner(), CONFIG.replace("reid: {", "reid: {blueprint: mine, ")
    files = {"foreword.yaml": mine, "blueprints/mine.yaml": read_blueprint("default")}

    async def run():
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")
        async with open_house(tmp_path, stand_in, files, notices=(owner,)) as gateway:
            await until(lambda: "mine" in gateway.workspace._blueprints)
            for name, text in (
                ("blueprints/mine.yaml", "name: [\n"),
                (".env", "ANTHROPIC_API_KEY=other\n"),
                ("foreword.yaml", f"{mine}events: {{otlp: 'http://127.0.0.1:9', retention_days: 7}}\n"),
            ):
                heard = len(owner.heard)
                (tmp_path / name).write_text(text)
                await until(lambda heard=heard: len(owner.heard) > heard)
            await until(lambda: gateway.listeners.log.limits.days == 7)
            await asyncio.sleep(0.6)  # no further notice
            return await say(gateway, "Are you there?")

    assert asyncio.run(run()).state is TurnState.ANSWERED
    assert [words.partition(" ")[0] for words in owner.heard] == ["blueprints/mine.yaml:1", ".env", "events.otlp"]


def test_a_broken_soul(tmp_path, stand_in):
    """A SOUL.md that breaks is reported once, and the last good text is used until it is fixed."""
    owner = Owner()

    async def run():
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")
        async with open_house(tmp_path, stand_in, notices=(owner,)) as gateway:
            await say(gateway, "before")
            (tmp_path / "SOUL.md").write_bytes(b"a\0b")
            await until(lambda: owner.heard)
            await asyncio.sleep(0.6)  # no further notice
            await say(gateway, "meanwhile")
            (tmp_path / "SOUL.md").write_text("Loud and merry.\n")
            await until(lambda: not gateway.workspace.files.faults)
            await say(gateway, "after", user="bob")

    asyncio.run(run())
    (shown,) = owner.heard
    assert shown.startswith("SOUL.md has a NUL byte at 1 and is no text: ")
    souls = [(b"Calm and exact." in one.raw, b"Loud and merry." in one.raw) for one in stand_in.requests]
    assert souls[:2] == [(True, False), (True, False)]
    assert souls[-1][1]


@pytest.mark.parametrize(("owner", "shown"), [("identities: ['post:7']", 2), ("", 0)])
def test_by_letter(tmp_path, stand_in, owner, shown):
    """The owner gets one private message for each error; without an address no message is sent."""
    good = CONFIG.replace("{trust: full,", f"{{trust: full, {owner},").replace("full, ,", "full,")
    good = good.replace("familiar}", "familiar, identities: ['post:8']}")
    post = Post()

    async def run():
        async with open_house(tmp_path, stand_in, FILES | {"foreword.yaml": good}, channels={"post": post}) as gateway:
            for text in (f"{good}colour: red\n", f"{good}colour: red\n", good, f"{good}colour: red\n"):
                (tmp_path / "foreword.yaml").write_text(text)
                gateway.reloading.look(now=True)
            await until(lambda: len(post.arrived) >= shown)
            await asyncio.sleep(0.3)  # no further message

    asyncio.run(run())
    words = "foreword.yaml:4 is faulty: the previous version stays in use; see: foreword doctor"
    assert [(address, text) for address, text, _ in post.arrived] == [("7", words)] * shown
    assert len({key for _, _, key in post.arrived}) == shown


def test_a_new_server_of_tools(tmp_path, stand_in):
    """A new tool server is available to the next turn, and one that fails is reported."""
    owner = Owner()
    script = os.path.join(os.path.dirname(__file__), "..", "agent", "tool_server.py")

    async def run():
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")
        async with open_house(tmp_path, stand_in, notices=(owner,)) as gateway:
            for command in ([sys.executable, script], ["no-such-program-anywhere"]):
                server = json.dumps([{"name": "small", "command": command}])
                (tmp_path / "foreword.yaml").write_text(CONFIG.replace("reid: {", f"reid: {{mcp: {server}, "))
                gateway.reloading.look(now=True)
                await say(gateway, "What can you do?")
            await until(lambda: owner.heard)
            return await say(gateway, "And now?")

    assert asyncio.run(run()).state is TurnState.ANSWERED
    assert all(b"small_add" in request.raw for request in stand_in.requests)
    assert owner.heard[0].startswith("the MCP server 'small' of foreword.yaml does not start")


def test_a_text_that_never_was_good(tmp_path, stand_in):
    """A file that is broken before its first read is reported when a turn reads it, and so is its fix."""
    owner = Owner()
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in, notices=(owner,)) as gateway:
            (tmp_path / "SOUL.md").write_bytes(b"\xff\xfe")
            await say(gateway, "Hello.")
            await until(lambda: owner.heard)
            (tmp_path / "SOUL.md").write_text("Calm.\n")
            await until(lambda: any("mended" in facts for *_, facts in follow_log(tmp_path)))

    asyncio.run(run())
    (said,) = owner.heard
    assert said.startswith("SOUL.md is not UTF-8 in line 1; save it as UTF-8: a built-in text is used instead")
    assert {"mended": "SOUL.md is good again"} in [facts for *_, facts in read_log(tmp_path)]
