"""The terminal, the web and a messenger pass the contract of a channel."""

import asyncio
import json
import os
from contextlib import asynccontextmanager, closing

import httpx2
from channel_contract import CONFIG, FILES, Contract, Stage
from house import open_house
from messenger import Messenger

from foreword.config.schema import HttpServer
from foreword.gateway.api.app import create_app
from foreword.gateway.api.server import bind, serving, show_address
from foreword.gateway.channel import Chat
from foreword.gateway.channels.fetched import hand_in
from foreword.gateway.channels.terminal import Terminal
from foreword.gateway.gateway import NotKept
from foreword.gateway.tokens import Tokens
from waiting import PATIENCE

NAMED = CONFIG.replace("timezone: UTC", 'timezone: UTC, identities: ["post:1001"]')
POST = {**FILES, "foreword.yaml": NAMED, "channels/post.md": "Write like a postcard.\n"}


class AtTerminal(Stage):
    """Somebody at a terminal."""

    def __init__(self, gateway, turns):
        self.gateway, self.turns = gateway, turns

    async def write(self, text, key, who="alice"):
        """Type something."""
        try:
            accepted = await hand_in(self.gateway.receive, Terminal(who).hear(text, key=key))
        except NotKept:
            return False
        self.turns[accepted.turn] = accepted.session
        return True

    async def read(self, count, who="alice"):  # noqa: ARG002 - everybody sits at the same one
        """Wait for the answers, or read what was missed."""
        replies = [await self.gateway.wait(turn) for turn in self.turns]
        assert len(replies) == count
        missed = await self.gateway.sessions.list_missed(next(iter(self.turns.values())))
        assert replies[-1].text == missed[-1].reply.text
        return [reply.text for reply in replies]


class TestTerminal(Contract):
    """The terminal is a channel."""

    channel = "terminal"

    def setup_method(self):
        """Know of no turn."""
        self.turns = {}

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open the gateway of a house."""
        async with open_house(folder, stand_in, files=FILES) as gateway:
            yield AtTerminal(gateway, self.turns)


class OnTheWeb(Stage):
    """Somebody who asks over HTTP."""

    def __init__(self, url, secret, turns):
        self.url, self.secret, self.turns = url, secret, turns

    def ask_as(self, who):
        """Ask as alice with her token, or as a stranger with a made-up one."""
        secret = self.secret if who == "alice" else "fwd_made_up"
        return httpx2.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {secret}"}, timeout=120)

    async def write(self, text, key, who="alice"):
        """Send a request, and go as soon as it is accepted."""
        headers = {"Accept": "text/event-stream", "Idempotency-Key": key}
        async with (
            self.ask_as(who) as client,
            client.stream("POST", "/api/turns", json={"text": text}, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                return False
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self.turns[json.loads(line.removeprefix("data: "))["turn"]] = None
                    return True
        return False

    async def read(self, count, who="alice"):
        """Fetch the replies."""
        assert len(self.turns) == count
        async with self.ask_as(who) as client:
            return [await fetch(client, turn) for turn in self.turns]


async def fetch(client, turn):
    """Ask until a turn has ended, and return its reply."""
    async with asyncio.timeout(PATIENCE):
        while (told := (await client.get(f"/api/turns/{turn}")).json())["finished"] is None:
            pass
    return told["reply"]


class TestWeb(Contract):
    """The web is a channel."""

    channel = "web"

    def setup_method(self):
        """Know of no turn, and have no token."""
        self.turns = {}
        self.secret = ""

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Serve a house."""
        settings = HttpServer(port=0)
        with closing(bind(settings)) as bound:
            async with (
                open_house(folder, stand_in, files=FILES) as gateway,
                serving(create_app(gateway, settings), bound),
            ):
                with Tokens(os.path.join(folder, ".foreword")) as tokens:
                    self.secret = self.secret or tokens.create("alice", ["alice"]).secret
                yield OnTheWeb(show_address(bound), self.secret, self.turns)


class ByPost(Stage):
    """Somebody with a messenger."""

    def __init__(self, post, **place):
        self.post, self.place = post, place

    async def write(self, text, key, who="alice"):
        """Write a message."""
        sender = "1001" if who == "alice" else "66"
        try:
            await self.post.write(text, sender, key=key, **self.place)
        except NotKept:
            return False
        return True

    async def read(self, count, who="alice"):  # noqa: ARG002 - all that arrives is in one place
        """Read what arrived."""
        return await self.post.until(count)


class TestMessenger(Contract):
    """A messenger is a channel."""

    channel = "post"
    chat = Chat.PRIVATE
    place = ""

    def setup_method(self):
        """Have nothing arrive yet."""
        self.arrived = []

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open the gateway of a house with a messenger."""
        post = Messenger("post", self.arrived)
        async with open_house(folder, stand_in, files=POST, channels={"post": post}):
            yield ByPost(post, chat=self.chat, place=self.place, called=True)

    def test_guidance(self, tmp_path, stand_in):
        """A file of the workspace says how to write on a channel that has no text of its own."""

        async def act(stage):
            await stage.write("Is the door open?", "1")
            await stage.read(1)

        self.play(tmp_path, stand_in, act)
        assert "Write like a postcard." in str(stand_in.body)


class TestRoom(TestMessenger):
    """A messenger in a group is a channel."""

    chat = Chat.GROUP
    place = "-100"
    room = "post:-100"
    situation = "group"
