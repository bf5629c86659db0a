"""The outbox: a reply is delivered once, in order, retried, and never repeated without a record."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from desk import open_desk
from house import open_house, open_rows, read_log, say, until

from foreword.config.load import load_config
from foreword.gateway.channel import NeverDelivered, NotDelivered
from foreword.gateway.outbox import RETRY_DELAYS_S, Outbox
from foreword.testing import NOON, FakeRecorder, ManualClock, ScriptedReply

CONFIG = load_config("owner: alice\nusers: {alice: {trust: full}}\n", "foreword.yaml")


class Post:
    """A channel that records deliveries and raises the given errors."""

    def __init__(self, *faults, takes_key=False):
        self.takes_key = takes_key
        self.faults = list(faults)
        self.arrived = []
        self.gate = asyncio.Event()
        self.gate.set()

    def split(self, text):
        """Do not split a reply."""
        return [text]

    async def deliver(self, address, text, key):
        """Accept a reply."""
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, NotDelivered | NeverDelivered):
            raise fault
        self.arrived.append((address, text, key))
        await self.gate.wait()
        if fault:
            raise fault

    async def show_work(self, address):
        """Show nothing."""

    async def run(self, hear):
        """Receive nothing."""

    @property
    def texts(self):
        """The delivered texts."""
        return [text for _, text, _ in self.arrived]


class Office:
    """A state whose replies are delivered by a channel."""

    def __init__(self, desk, post):
        self.desk, self.post, self.heard = desk, post, FakeRecorder()
        self.outbox = Outbox(desk.writer, {"post": post}, self.heard, desk.clock, lambda: CONFIG)

    async def answer(self, text, address="42", channel="post"):
        """Finish a turn with a reply."""
        await self.desk.talk("hello", text, channel=channel, address=address)

    async def deliver(self):
        """Deliver until no message is due."""
        while await self.outbox.deliver():
            pass

    async def read(self):
        """Read the delivery status of each reply."""
        rows = await self.desk.writer.write(lambda state: state.execute("SELECT text, state FROM outbox").fetchall())
        return dict(rows)


@pytest.fixture
def desk(tmp_path):
    """An open state."""
    with open_desk(tmp_path) as one:
        yield one


def test_delivered_once(desk):
    """Each reply is delivered once, with its turn as the key; replies of other channels are untouched."""

    async def run():
        office = Office(desk, Post())
        await office.answer("one")
        await office.answer("elsewhere", channel="pigeon")
        for _ in range(3):
            await office.deliver()
        return office, await office.read()

    office, states = asyncio.run(run())
    assert office.post.texts == ["one"]
    assert states == {"one": "sent", "elsewhere": "pending"}
    (sent,) = office.heard.events
    assert (sent.type.value, sent.facts["length"], sent.facts["attempt"]) == ("message_sent", 3, 1)


def test_order(desk):
    """Replies to one address arrive in order, also after a retry; other addresses do not wait."""

    async def run():
        office = Office(desk, Post(NotDelivered("busy")))
        for text, address in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
            await office.answer(text, address)
        await office.deliver()
        first = list(office.post.texts)
        desk.clock.move(RETRY_DELAYS_S[0] + 0.1)
        await office.deliver()
        return first, office.post.texts

    assert asyncio.run(run()) == (["b1"], ["b1", "a1", "a2", "a3"])


def test_tried_again(desk):
    """A failed delivery is retried after 1, 2, 4, 30, 120 and 600 seconds, the last repeatedly."""

    async def run():
        office = Office(desk, Post(*[NotDelivered("busy")] * 8))
        await office.answer("late")
        waits = []
        while not office.post.arrived:
            await office.deliver()
            waits.append(0.0)
            while not office.post.arrived and not await office.outbox.deliver():
                desk.clock.move(0.5 if waits[-1] < 5 else 5)
                waits[-1] += 0.5 if waits[-1] < 5 else 5
        return waits, office

    waits, office = asyncio.run(run())
    assert office.post.texts == ["late"]
    assert waits[0] == 1.0
    errors = [event for event in office.heard.events if event.type.value == "channel_error"]
    assert len(errors) == 8
    assert all("busy" in event.error for event in errors)


def test_in_parts(desk):
    """A reply is delivered in parts, and a failed part is retried from there."""

    class Narrow(Post):
        def split(self, text):
            return text.split()

    async def run():
        office = Office(desk, Narrow(*[None, NotDelivered("busy", wait=7.0), None, None]))
        await office.answer("one two three")
        await office.deliver()
        before = list(office.post.texts)
        desk.clock.move(6)
        await office.deliver()
        held = list(office.post.texts)
        desk.clock.move(2)
        await office.deliver()
        return before, held, office.post.arrived, await office.read()

    before, held, arrived, states = asyncio.run(run())
    assert before == held == ["one"]
    assert [text for _, text, _ in arrived] == ["one", "two", "three"]
    assert len({key for _, _, key in arrived}) == 3
    assert states == {"one two three": "sent"}


def test_never_delivered(desk):
    """A permanent failure is recorded, and the next reply is delivered."""

    async def run():
        office = Office(desk, Post(NeverDelivered("blocked")))
        await office.answer("one")
        await office.answer("two")
        await office.deliver()
        return office.post.texts, await office.read(), office.heard.types

    texts, states, types = asyncio.run(run())
    assert texts == ["two"]
    assert states == {"one": "refused", "two": "sent"}
    assert types == ["channel_error", "message_sent"]


def test_never_split(desk):
    """A reply that the channel cannot split is refused with an event, and the next is delivered."""

    class Picky(Post):
        def split(self, text):
            if text == "nothing":
                return []
            if text == "poison":
                raise ValueError(text)
            return [text]

    async def run():
        office = Office(desk, Picky())
        for text in ("poison", "nothing", "two"):
            await office.answer(text)
        await office.deliver()
        return await office.read(), office.heard.events

    states, events = asyncio.run(run())
    assert states == {"poison": "refused", "nothing": "refused", "two": "sent"}
    assert sum(event.type.value == "channel_error" for event in events) == 2


@pytest.mark.parametrize("takes_key", [True, False])
def test_nobody_knows(desk, takes_key):
    """An uncertain delivery is repeated if the channel takes a key, or else recorded as uncertain and not repeated."""

    async def run():
        office = Office(desk, Post(ConnectionResetError("gone"), takes_key=takes_key))
        await office.answer("one")
        await office.answer("two")
        for _ in range(3):
            await office.deliver()
            desk.clock.move(5)
        return office, await office.read()

    office, states = asyncio.run(run())
    if takes_key:
        assert office.post.texts == ["one", "one", "two"]
        assert len({key for _, _, key in office.post.arrived}) == 2
        assert states == {"one": "sent", "two": "sent"}
    else:
        assert office.post.texts == ["one", "two"]
        assert states == {"one": "uncertain", "two": "sent"}
    assert "channel_error" in office.heard.types


def test_one_that_hangs(tmp_path, stand_in):
    """A slow delivery does not delay other addresses."""

    class Slow(Post):
        async def deliver(self, address, text, key):
            if address == "slow":
                await self.gate.wait()
            self.arrived.append((address, text, key))

    async def run():
        post = Slow()
        post.gate.clear()
        async with open_house(tmp_path, stand_in, channels={"post": post}) as gateway:
            for address in ("slow", "quick", "slow", "quick"):
                await say(gateway, "hello", channel="post", address=address)
            async with asyncio.timeout(120):
                await until(lambda: len(post.arrived) == 2)
            first = [address for address, _, _ in post.arrived]
            post.gate.set()
            async with asyncio.timeout(120):
                await until(lambda: len(post.arrived) == 4)
            return first

    assert asyncio.run(run()) == ["quick", "quick"]


SCRIPT = """
import asyncio, os, sys
from desk import open_desk
from test_outbox import Office, Post

class Killed(Post):
    async def deliver(self, address, text, key):
        os._exit(9)

async def run(desk, takes_key):
    office = Office(desk, Killed(takes_key=takes_key))
    await office.answer("one")
    await office.answer("two")
    await office.deliver()

with open_desk(sys.argv[1]) as desk:
    asyncio.run(run(desk, sys.argv[2] == "True"))
"""


@pytest.mark.parametrize("takes_key", [True, False])
def test_killed_in_between(tmp_path, takes_key):
    """After a crash a message in delivery is sent again at once if the channel takes a key, or else is uncertain."""
    here = os.path.dirname(os.path.abspath(__file__))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
    words = [sys.executable, "-c", SCRIPT, os.fspath(tmp_path), str(takes_key)]
    assert subprocess.run(words, env=environ, check=False).returncode == 9

    async def run(desk):
        office = Office(desk, Post(takes_key=takes_key))
        await office.deliver()
        return office, await office.read()

    with open_desk(tmp_path) as desk:
        office, states = asyncio.run(run(desk))
    if takes_key:
        assert office.post.texts == ["one", "two"]
        assert states == {"one": "sent", "two": "sent"}
    else:
        assert office.post.texts == ["two"]
        assert states == {"one": "uncertain", "two": "sent"}
        lost = [event for event in office.heard.events if event.type.value == "channel_error"]
        assert ["delivery is uncertain" in event.error for event in lost] == [True]


def test_a_lease_that_ran_out(tmp_path):
    """A delivery of another process is taken over once its lease has expired."""
    clock = ManualClock(NOON)

    async def run(one, two):
        stuck, other = Office(one, Post(takes_key=True)), Office(two, Post(takes_key=True))
        stuck.post.gate.clear()
        await stuck.answer("one")
        task = asyncio.create_task(stuck.deliver())
        await until(lambda: stuck.post.arrived)
        await other.deliver()
        before = list(other.post.texts)
        clock.move(61)
        await other.deliver()
        stuck.post.gate.set()
        await task
        return before, other.post.texts, await other.read()

    with open_desk(tmp_path, clock) as one, open_desk(tmp_path, clock) as two:
        before, after, states = asyncio.run(run(one, two))
    assert (before, after, states) == ([], ["one"], {"one": "sent"})


def test_through_the_gateway(tmp_path, stand_in):
    """A reply is sent when its turn has ended; undelivered ones are sent after the next start."""
    stand_in.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))

    async def run():
        post, later = Post(), Post()
        async with open_house(tmp_path, stand_in, channels={"post": post}) as gateway:
            await say(gateway, "hello", channel="post", address="42")
            await until(lambda: post.arrived)
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "hello", channel="post", address="42")
        async with open_house(tmp_path, stand_in, channels={"post": later}):
            await until(lambda: later.arrived)
        return post.arrived + later.arrived

    (one, two) = asyncio.run(run())
    assert (one[:2], two[:2]) == (("42", "One."), ("42", "Two."))
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT DISTINCT state FROM outbox").fetchall() == [("sent",)]
    sent = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "message_sent"]
    assert [facts["attempt"] for facts in sent] == [1, 1]


def test_closed_on_its_way(tmp_path, stand_in):
    """A closing gateway waits for a running delivery."""

    async def run():
        post = Post()
        post.gate.clear()
        async with open_house(tmp_path, stand_in, channels={"post": post}) as gateway:
            await say(gateway, "hello", channel="post", address="42")
            await until(lambda: post.arrived)
            asyncio.get_running_loop().call_later(0.1, post.gate.set)

    asyncio.run(run())
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT state FROM outbox").fetchall() == [("sent",)]


def test_the_waits():
    """The retry delays grow, and the first ones are those of the specification."""
    assert RETRY_DELAYS_S[:3] == (1.0, 2.0, 4.0)
    assert list(RETRY_DELAYS_S) == sorted(RETRY_DELAYS_S)
    assert timedelta(seconds=RETRY_DELAYS_S[-1]) == timedelta(minutes=10)
