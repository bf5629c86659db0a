"""Claims about what becomes of what a channel hears, through the gateway and with a stand-in provider."""

import asyncio

from house import open_house, read_log
from messenger import Messenger

from foreword.gateway.channel import Chat
from foreword.gateway.router import Route
from foreword.testing import Says

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
rooms: {kitchen: {places: ["telegram:-100"]}}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "USER.md": "Alice lives in Ghent.\n",
    "BOOT.md": "The safe is behind the clock.\n",
}
KITCHEN = {"chat": Chat.GROUP, "place": "-100", "title": "The kitchen"}


def test_private(tmp_path, stand_in):
    """What a known person writes in private is a turn at their own clearance, and the reply arrives with them."""
    stand_in.follow(Says(text="Good morning."))

    async def run():
        post = Messenger()
        async with open_house(tmp_path, stand_in, files=FILES, channels={"telegram": post}):
            received = await post.write("Hello there, what is on?")
            return received, await post.until(1), post

    received, texts, post = asyncio.run(run())
    assert received.decision.route is Route.TURN
    assert texts == ["Good morning."]
    assert post.arrived[0][0] == "1001"
    assert set(post.worked) == {"1001"}
    assert "behind the clock" in str(stand_in.body)
    assert "Channel: telegram" in str(stand_in.body)


def test_coop_group(tmp_path, stand_in):
    """Alice, who is full, is familiar in a group, since everybody there reads the reply."""
    stand_in.follow(Says(text="At noon."))

    async def run():
        post = Messenger()
        async with open_house(tmp_path, stand_in, files=FILES, channels={"telegram": post}):
            await post.write("@reid when is lunch?", called=True, **KITCHEN)
            return await post.until(1), post

    texts, post = asyncio.run(run())
    assert (texts, post.arrived[0][0]) == (["At noon."], "-100")
    told = str(stand_in.body)
    assert "alice: @reid when is lunch?" in told
    assert "Calm and exact" in told
    assert "behind the clock" not in told
    assert "Ghent" not in told
    (resolved,) = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "trust_resolved"]
    assert (resolved["ceiling"], resolved["effective"]) == ("familiar", "familiar")
