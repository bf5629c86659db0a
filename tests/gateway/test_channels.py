"""Terminal, web and a messenger pass the channel contract."""

import asyncio
import json
import os
from contextlib import asynccontextmanager, closing

import httpx2
from channel_contract import CONFIG, FILES, Contract, Stage
from house import open_house
from messenger import Messenger

from foreword.config.schema import HttpServer
from foreword.gateway.channel import ChatKind, InboundMessage, NotStored
from foreword.gateway.channels.pull_channel import submit_message
from foreword.http.app import bind_socket, create_app, get_url, run_server
from foreword.storage.api_tokens import ApiTokens
from waiting import PATIENCE

NAMED = CONFIG.replace("timezone: UTC", 'timezone: UTC, identities: ["post:1001"]')
POST = {**FILES, "foreword.yaml": NAMED, "channels/post.md": "Write like a postcard.\n"}


class AtTerminal(Stage):
    """A user at a terminal."""

    def __init__(self, gateway, turns):
        self.gateway, self.turns = gateway, turns

    async def write(self, text, key, who="alice"):
        """Type a message."""
        try:
            accepted = await submit_message(
                self.gateway.receive, InboundMessage(channel="terminal", sender=who, text=text, key=key)
            )
        except NotStored:
            return False
        self.turns[accepted.turn] = accepted.session
        return True

    async def read(self, count, who="alice"):  # noqa: ARG002 - one terminal for all
        """Wait for the replies, or read the missed ones."""
        replies = [await self.gateway.wait(turn) for turn in self.turns]
        assert len(replies) == count
        missed = await self.gateway.sessions.list_missed(next(iter(self.turns.values())))
        assert replies[-1].text == missed[-1].reply.text
        return [reply.text for reply in replies]


class TestTerminal(Contract):
    """The terminal as a channel."""

    channel = "terminal"

    def setup_method(self):
        """Start without turns."""
        self.turns = {}

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open a gateway."""
        async with open_house(folder, stand_in, files=FILES) as gateway:
            yield AtTerminal(gateway, self.turns)


class OnTheWeb(Stage):
    """A user of the HTTP API."""

    def __init__(self, url, secret, turns):
        self.url, self.secret, self.turns = url, secret, turns

    def ask_as(self, who):
        """Open a client with alice's token, or with an invalid one."""
        secret = self.secret if who == "alice" else "fwd_made_up"
        return httpx2.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {secret}"}, timeout=120)

    async def write(self, text, key, who="alice"):
        """Send a request and disconnect once it is accepted."""
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
    """Poll until a turn has ended, and return its reply."""
    async with asyncio.timeout(PATIENCE):
        while (shown := (await client.get(f"/api/turns/{turn}")).json())["finished"] is None:
            pass
    return shown["reply"]


class TestWeb(Contract):
    """The web as a channel."""

    channel = "web"

    def setup_method(self):
        """Start without turns and token."""
        self.turns = {}
        self.secret = ""

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Serve a workspace."""
        settings = HttpServer(port=0)
        with closing(bind_socket(settings)) as bound:
            async with (
                open_house(folder, stand_in, files=FILES) as gateway,
                run_server(create_app(gateway, settings), bound),
            ):
                with ApiTokens(os.path.join(folder, ".foreword")) as tokens:
                    self.secret = self.secret or tokens.create("alice", ["alice"]).secret
                yield OnTheWeb(get_url(bound), self.secret, self.turns)


class ByPost(Stage):
    """A user of a messenger."""

    def __init__(self, post, **place):
        self.post, self.place = post, place

    async def write(self, text, key, who="alice"):
        """Write a message."""
        sender = "1001" if who == "alice" else "66"
        try:
            await self.post.write(text, sender, key=key, **self.place)
        except NotStored:
            return False
        return True

    async def read(self, count, who="alice"):  # noqa: ARG002 - all replies arrive in one place
        """Read the delivered replies."""
        return await self.post.until(count)


class TestMessenger(Contract):
    """A messenger as a channel."""

    channel = "post"
    chat = ChatKind.PRIVATE
    place = ""

    def setup_method(self):
        """Start without deliveries."""
        self.arrived = []

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open a gateway with a messenger."""
        post = Messenger("post", self.arrived)
        async with open_house(folder, stand_in, files=POST, channels={"post": post}):
            yield ByPost(post, chat=self.chat, place=self.place, called=True)

    def test_guidance(self, tmp_path, stand_in):
        """A workspace file provides the guidance of a channel without a built-in one."""

        async def act(stage):
            await stage.write("Is the door open?", "1")
            await stage.read(1)

        self.play(tmp_path, stand_in, act)
        assert "Write like a postcard." in str(stand_in.body)


class TestRoom(TestMessenger):
    """A messenger group as a channel."""

    chat = ChatKind.GROUP
    place = "-100"
    room = "post:-100"
    situation = "group"
