"""Claims about a disk that is full and a state that somebody else holds: nothing half, and nothing lost."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from house import end, open_house, open_rows, read_log, say, until
from messenger import Messenger

from foreword.gateway.gateway import NotKept
from foreword.gateway.message import Incoming, State
from foreword.gateway.working import Patience
from foreword.runtime.toolbox import Further
from foreword.testing import Called, Refuses, Says
from foreword.tools import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

CALL = Says(calls=(Called(name="wait", arguments={}),))


@contextmanager
def hold(folder):
    """Hold the state as another process that writes does."""
    with open_rows(folder) as state:
        state.execute("BEGIN IMMEDIATE")
        yield
        state.execute("ROLLBACK")


async def fill(gateway, pages=0):
    """Let the state grow by so many pages and no further; negative: as much as it likes."""

    def work(state):
        (now,) = state.execute("PRAGMA page_count").fetchone()
        state.execute(f"PRAGMA max_page_count={now + pages if pages >= 0 else 1_000_000}").fetchall()

    await gateway._writer.do(work)


async def hurry(gateway):
    """Have the gateway wait for a lock for a moment only."""
    await gateway._writer.do(lambda state: state.execute("PRAGMA busy_timeout=30").fetchall())


def tell_later():
    """Tell the time at which a lease of now has run out."""
    return datetime.now(UTC) + timedelta(minutes=1)


class Gate:
    """A tool that waits until it is let through."""

    def __init__(self):
        self.open = asyncio.Event()
        self.called = 0

    async def call(self, _assembly, _name, _arguments):
        """Wait."""
        self.called += 1
        await self.open.wait()
        return Answer(text="through", tokens=1)

    def offer(self):
        """Offer it to the agents."""
        return (Further(tools=Toolset([Tool(name="wait", trust=Trust.PUBLIC)]), runs=self),)


def test_full_when_a_message_comes(tmp_path, stand_in):
    """A message that cannot be kept is not accepted and leaves no turn; once there is room, the session goes on."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            first = await say(gateway, "hello")
            await fill(gateway)
            with pytest.raises(NotKept, match=r"could not be kept .*full.*try again later"):
                await gateway.accept(Incoming(text="x" * 100_000, user="alice", key="k"))
            await fill(gateway, -1)
            return first, await say(gateway, "x" * 1_000, key="k")

    first, after = asyncio.run(run())
    assert (after.state, after.session) == (State.ANSWERED, first.session)
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM turns").fetchone() == (2,)
    assert "channel_error" in [kind for kind, *_ in read_log(tmp_path)]


def test_locked_when_a_message_comes(tmp_path, stand_in):
    """While somebody else holds the state a message is refused with words, and accepted when it is free again."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "hello")
            await hurry(gateway)
            with hold(tmp_path), pytest.raises(NotKept, match="locked"):
                await gateway.accept(Incoming(text="hello?", user="alice"))
            return await say(gateway, "And now?")

    assert asyncio.run(run()).state is State.ANSWERED


def test_waiting_through_a_lock(tmp_path, stand_in):
    """Who waits for a turn while somebody else holds the state gets its reply all the same."""

    async def run():
        async with open_house(tmp_path, stand_in) as one, open_house(tmp_path, stand_in) as two:
            await hurry(two)
            reply = await say(one, "hello")
            with hold(tmp_path):
                return await asyncio.wait_for(two.wait(reply.turn), 120)

    assert asyncio.run(run()).state is State.ANSWERED


class Stumbling:
    """An inbox whose first looks and renewals fail in a way that nobody has foreseen."""

    def __init__(self, inbox):
        self._inbox = inbox
        self.stumbled = 0

    def __getattr__(self, name):
        return getattr(self._inbox, name)

    async def claim(self, most):
        """Fail twice."""
        self.stumbled += 1
        if self.stumbled < 3:
            raise ZeroDivisionError
        return await self._inbox.claim(most)


def test_a_look_that_fails(tmp_path, stand_in):
    """A fault that nobody has foreseen is told in the log, and the gateway looks around again."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            gateway._inbox = stumbling = Stumbling(gateway._inbox)
            turns = [await gateway.accept(Incoming(text=text, user="alice")) for text in ("1", "2")]
            replies = [await asyncio.wait_for(gateway.wait(one.turn), 120) for one in turns]
            return replies, stumbling.stumbled

    replies, stumbled = asyncio.run(run())
    assert [reply.state for reply in replies] == [State.ANSWERED] * 2
    assert stumbled >= 3
    assert ("channel_error", "error") in [row[:2] for row in read_log(tmp_path)]


def test_full_when_a_turn_ends(tmp_path, stand_in):
    """What came of a turn is told at once where it cannot be written, and it is written when there is room."""
    stand_in.follow(CALL, Says(text="So it is."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, further=gate.offer()) as gateway:
            await hurry(gateway)
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            await until(lambda: gate.called)
            with open_rows(tmp_path) as state:
                state.execute("BEGIN IMMEDIATE")
                gate.open.set()
                told = await asyncio.wait_for(gateway.wait(accepted.turn), 120)
                assert not await gateway.stop(accepted.turn)
                (kept,) = state.execute("SELECT state FROM turns WHERE id = ?", (accepted.turn,)).fetchone()
                state.execute("ROLLBACK")
            await until(lambda: accepted.turn not in gateway._known)
            written = await gateway.find(accepted.turn)
            return told, kept, written, await say(gateway, "And now?")

    told, kept, written, after = asyncio.run(run())
    assert told.state.ended
    assert kept == "running"
    assert (written.state, written.text) == (told.state, told.text)
    assert after.state is State.ANSWERED
    assert ("channel_error", "error") in [row[:2] for row in read_log(tmp_path)]
    assert stand_in.requests[-1].refused == ""


def test_closed_while_the_disk_is_full(tmp_path, stand_in):
    """A gateway that closes before it could write an ending leaves the turn to the next start, which answers it."""
    stand_in.choose = lambda body: Says(text="Through.") if "through" in str(body["messages"][-1]) else CALL

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, further=gate.offer()) as gateway:
            await hurry(gateway)
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            await until(lambda: gate.called)
            other = sqlite3.connect(tmp_path / ".foreword" / "state.sqlite", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            gate.open.set()
            await gateway.wait(accepted.turn)
            gateway._rhythm = type(gateway._rhythm)(grace=0.0)
        other.execute("ROLLBACK")
        other.close()
        async with open_house(tmp_path, stand_in, further=gate.offer(), clock=tell_later) as gateway:
            return await asyncio.wait_for(end(gateway, accepted.turn), 120)

    reply = asyncio.run(run())
    assert (reply.state, reply.text) == (State.ANSWERED, "Through.")


def test_locked_at_any_moment(tmp_path, stand_in):
    """Locks that come and go while messages come in lose nothing that was accepted."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await hurry(gateway)
            turns = []
            for number in range(12):
                if number % 3 == 1:
                    state = sqlite3.connect(tmp_path / ".foreword" / "state.sqlite", isolation_level=None)
                    with closing(state):
                        state.execute("BEGIN IMMEDIATE")
                        await asyncio.sleep(0.02 * (number % 5))
                        state.execute("ROLLBACK")
                try:
                    turns.append(
                        await gateway.accept(Incoming(text=f"{number}", user="alice", channel=f"c{number % 4}"))
                    )
                except NotKept:
                    continue
            return [await asyncio.wait_for(end(gateway, one.turn), 120) for one in turns]

    replies = asyncio.run(run())
    assert replies
    assert {reply.state for reply in replies} <= {State.ANSWERED, State.FAILED}
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM turns WHERE finished IS NULL").fetchone() == (0,)
        assert state.execute("SELECT count(*) FROM turns").fetchone() == (len(replies),)


def fail(gateway, times, when=lambda: True):
    """Have the disk fail as often as that, once it is time; return what it has taken since, one by one."""
    takes, taken = gateway._writer._wait, []

    def wait(file):
        if not taken and not when():
            return takes(file)
        taken.append(len(taken) >= times)
        if not taken[-1]:
            raise OSError("I/O error")
        return takes(file)

    gateway._writer._wait = wait
    return taken


def test_a_disk_that_fails_when_messages_come(tmp_path, stand_in):
    """A message that is worked on is accepted, though the disk has not taken it, and so is one that waits behind it."""
    stand_in.follow(CALL, Says(text="Paid."), Says(text="And you are welcome."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, further=gate.offer()) as gateway:
            fail(gateway, 1)
            first = await gateway.accept(Incoming(text="Pay 5 euros", user="alice"))
            await until(lambda: gate.called)
            fail(gateway, 1)
            second = await gateway.accept(Incoming(text="Thanks", user="alice"))
            gate.open.set()
            return [await asyncio.wait_for(gateway.wait(one.turn), 120) for one in (first, second)]

    assert [reply.text for reply in asyncio.run(run())] == ["Paid.", "And you are welcome."]
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT text, state FROM turns ORDER BY number").fetchall() == [
            ("Pay 5 euros", "answered"),
            ("Thanks", "answered"),
        ]
    told = [(level, error) for kind, level, error, _ in read_log(tmp_path) if kind == "channel_error"]
    assert told == [("error", "OperationalError: the disk did not take it: I/O error")] * 2


def test_a_disk_that_fails_when_a_turn_ends(tmp_path, stand_in):
    """An end that the disk did not take is sealed as soon as it takes it, and is there once."""
    stand_in.follow(CALL, Says(text="So it is."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, further=gate.offer()) as gateway:
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            await until(lambda: gate.called)
            taken = fail(gateway, 3)
            gate.open.set()
            told = await asyncio.wait_for(gateway.wait(accepted.turn), 120)
            await until(lambda: accepted.turn not in gateway._known)
            return told, taken

    told, taken = asyncio.run(run())
    assert (told.state, told.text) == (State.ANSWERED, "So it is.")
    assert taken == [False, False, False, True]
    kinds = [kind for kind, *_ in read_log(tmp_path)]
    assert (kinds.count("channel_error"), kinds.count("message_sent")) == (1, 1)
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM history").fetchone() == (1,)


def test_a_disk_that_fails_when_a_turn_is_left_for_later(tmp_path, stand_in):
    """A turn that is left for later while the disk fails is answered later."""
    stand_in.follow(*[Refuses(status=529)] * 20)
    stand_in.choose = lambda _: Says(text="Here I am.")

    async def run():
        patience = Patience(later=(0.5, 0.0), disk=(0.01,))
        async with open_house(tmp_path, stand_in, patience=patience) as gateway:
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            taken = fail(gateway, 2)
            reply = await asyncio.wait_for(end(gateway, accepted.turn), 120)
            return reply, taken

    reply, taken = asyncio.run(run())
    assert (reply.state, reply.text) == (State.ANSWERED, "Here I am.")
    assert taken[:3] == [False, False, True]


def test_a_disk_that_fails_when_a_letter_is_taken(tmp_path, stand_in):
    """A letter whose way the disk did not take is delivered once the disk has it, and so is what comes behind it."""

    def is_taken():
        with open_rows(tmp_path) as state:
            return state.execute("SELECT 1 FROM outbox WHERE state = 'sending'").fetchone() is not None

    async def run():
        messenger = Messenger()
        async with open_house(tmp_path, stand_in, channels={"telegram": messenger}) as gateway:
            taken = fail(gateway, 1, is_taken)
            for text in ("hello", "And now?"):
                await gateway.accept(Incoming(text=text, user="alice", channel="telegram", address="1001"))
            await asyncio.wait_for(messenger.until(2), 120)
            return taken[:2]

    assert asyncio.run(run()) == [False, True]
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT state FROM outbox").fetchall() == [("sent",)] * 2
