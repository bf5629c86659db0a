"""A full disk and a locked state: no partial writes and no losses."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from house import end, open_house, open_rows, read_log, say, until
from messenger import Messenger

import foreword
from foreword.gateway.channel import NotStored
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply

CALL = ScriptedReply(calls=(ScriptedCall(name="wait", arguments={}),))


@contextmanager
def hold(folder):
    """Lock the state, as another writing process does."""
    with open_rows(folder) as state:
        state.execute("BEGIN IMMEDIATE")
        yield
        state.execute("ROLLBACK")


async def fill(gateway, pages=0):
    """Limit the growth of the state to some pages; negative: no limit."""

    def work(state):
        (now,) = state.execute("PRAGMA page_count").fetchone()
        state.execute(f"PRAGMA max_page_count={now + pages if pages >= 0 else 1_000_000}").fetchall()

    await gateway.writer.write(work)


async def hurry(gateway):
    """Make the gateway wait only briefly for a lock."""
    await gateway.writer.write(lambda state: state.execute("PRAGMA busy_timeout=30").fetchall())


def tell_later():
    """Return a time at which current leases have expired."""
    return datetime.now(UTC) + timedelta(minutes=1)


class Gate:
    """A tool that waits until its gate opens."""

    def __init__(self):
        self.open = asyncio.Event()
        self.called = 0

    def offer(self):
        """Offer the tool to the agents."""

        @foreword.tool(trust="public")
        async def wait() -> str:
            self.called += 1
            await self.open.wait()
            return "through"

        return (wait,)


def test_full_when_a_message_comes(tmp_path, stand_in):
    """A message that cannot be stored is refused and leaves no turn; once there is space, the session continues."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            first = await say(gateway, "hello")
            await fill(gateway)
            with pytest.raises(NotStored, match=r"could not be stored .*full.*try again later"):
                await gateway.accept(RoutedMessage(text="x" * 100_000, user="alice", key="k"))
            await fill(gateway, -1)
            return first, await say(gateway, "x" * 1_000, key="k")

    first, after = asyncio.run(run())
    assert (after.state, after.session) == (TurnState.ANSWERED, first.session)
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM turns").fetchone() == (2,)
    assert "channel_error" in [kind for kind, *_ in read_log(tmp_path)]


def test_locked_when_a_message_comes(tmp_path, stand_in):
    """While the state is locked a message is refused with a reason, and accepted once it is free."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "hello")
            await hurry(gateway)
            with hold(tmp_path), pytest.raises(NotStored, match="locked"):
                await gateway.accept(RoutedMessage(text="hello?", user="alice"))
            return await say(gateway, "And now?")

    assert asyncio.run(run()).state is TurnState.ANSWERED


def test_waiting_through_a_lock(tmp_path, stand_in):
    """Waiting for a turn returns its reply even if the state is locked meanwhile."""

    async def run():
        async with open_house(tmp_path, stand_in) as one, open_house(tmp_path, stand_in) as two:
            await hurry(two)
            reply = await say(one, "hello")
            with hold(tmp_path):
                return await asyncio.wait_for(two.wait(reply.turn), 120)

    assert asyncio.run(run()).state is TurnState.ANSWERED


class Stumbling:
    """An inbox whose first claims fail with an unexpected error."""

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
    """An unexpected error is recorded, and the gateway continues to claim turns."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            gateway._inbox = stumbling = Stumbling(gateway._inbox)
            turns = [await gateway.accept(RoutedMessage(text=text, user="alice")) for text in ("1", "2")]
            replies = [await asyncio.wait_for(gateway.wait(one.turn), 120) for one in turns]
            return replies, stumbling.stumbled

    replies, stumbled = asyncio.run(run())
    assert [reply.state for reply in replies] == [TurnState.ANSWERED] * 2
    assert stumbled >= 3
    assert ("channel_error", "error") in [row[:2] for row in read_log(tmp_path)]


def test_full_when_a_turn_ends(tmp_path, stand_in):
    """A result that cannot be written is returned at once, and written once the state is free."""
    stand_in.follow(CALL, ScriptedReply(text="So it is."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, tools=gate.offer()) as gateway:
            await hurry(gateway)
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            await until(lambda: gate.called)
            with open_rows(tmp_path) as state:
                state.execute("BEGIN IMMEDIATE")
                gate.open.set()
                shown = await asyncio.wait_for(gateway.wait(accepted.turn), 120)
                assert not await gateway.stop(accepted.turn)
                (kept,) = state.execute("SELECT state FROM turns WHERE id = ?", (accepted.turn,)).fetchone()
                state.execute("ROLLBACK")
            await until(lambda: accepted.turn not in gateway._known)
            written = await gateway.find(accepted.turn)
            return shown, kept, written, await say(gateway, "And now?")

    shown, kept, written, after = asyncio.run(run())
    assert shown.state.ended
    assert kept == "running"
    assert (written.state, written.text) == (shown.state, shown.text)
    assert after.state is TurnState.ANSWERED
    assert ("channel_error", "error") in [row[:2] for row in read_log(tmp_path)]
    assert stand_in.requests[-1].refused == ""


def test_closed_while_the_disk_is_full(tmp_path, stand_in):
    """A gateway that closes before it could write a result leaves the turn to the next start, which answers it."""
    stand_in.choose = lambda body: ScriptedReply(text="Through.") if "through" in str(body["messages"][-1]) else CALL

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, tools=gate.offer()) as gateway:
            await hurry(gateway)
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            await until(lambda: gate.called)
            other = sqlite3.connect(tmp_path / ".foreword" / "state.sqlite", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            gate.open.set()
            await gateway.wait(accepted.turn)
            gateway._settings = type(gateway._settings)(grace=0.0)
        other.execute("ROLLBACK")
        other.close()
        async with open_house(tmp_path, stand_in, tools=gate.offer(), clock=tell_later) as gateway:
            return await asyncio.wait_for(end(gateway, accepted.turn), 120)

    reply = asyncio.run(run())
    assert (reply.state, reply.text) == (TurnState.ANSWERED, "Through.")


def test_locked_at_any_moment(tmp_path, stand_in):
    """Intermittent locks lose no accepted message."""

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
                        await gateway.accept(RoutedMessage(text=f"{number}", user="alice", channel=f"c{number % 4}"))
                    )
                except NotStored:
                    continue
            return [await asyncio.wait_for(end(gateway, one.turn), 120) for one in turns]

    replies = asyncio.run(run())
    assert replies
    assert {reply.state for reply in replies} <= {TurnState.ANSWERED, TurnState.FAILED}
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM turns WHERE finished IS NULL").fetchone() == (0,)
        assert state.execute("SELECT count(*) FROM turns").fetchone() == (len(replies),)


def fail(gateway, times, when=lambda: True):
    """Make fsync fail some times once a condition holds; return the results of the calls since then."""
    takes, taken = gateway.writer._wait, []

    def wait(file):
        if not taken and not when():
            return takes(file)
        taken.append(len(taken) >= times)
        if not taken[-1]:
            raise OSError("I/O error")
        return takes(file)

    gateway.writer._wait = wait
    return taken


def test_a_disk_that_fails_when_messages_come(tmp_path, stand_in):
    """A message that is processed before a failed fsync counts as accepted, and so does one behind it."""
    stand_in.follow(CALL, ScriptedReply(text="Paid."), ScriptedReply(text="And you are welcome."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, tools=gate.offer()) as gateway:
            fail(gateway, 1)
            first = await gateway.accept(RoutedMessage(text="Pay 5 euros", user="alice"))
            await until(lambda: gate.called)
            fail(gateway, 1)
            second = await gateway.accept(RoutedMessage(text="Thanks", user="alice"))
            gate.open.set()
            return [await asyncio.wait_for(gateway.wait(one.turn), 120) for one in (first, second)]

    assert [reply.text for reply in asyncio.run(run())] == ["Paid.", "And you are welcome."]
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT text, state FROM turns ORDER BY number").fetchall() == [
            ("Pay 5 euros", "answered"),
            ("Thanks", "answered"),
        ]
    shown = [(level, error) for kind, level, error, _ in read_log(tmp_path) if kind == "channel_error"]
    assert shown == [("error", "OperationalError: fsync failed: I/O error")] * 2


def test_a_disk_that_fails_when_a_turn_ends(tmp_path, stand_in):
    """A result whose fsync failed is synced as soon as possible, and stored once."""
    stand_in.follow(CALL, ScriptedReply(text="So it is."))

    async def run():
        gate = Gate()
        async with open_house(tmp_path, stand_in, tools=gate.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            await until(lambda: gate.called)
            taken = fail(gateway, 3)
            gate.open.set()
            shown = await asyncio.wait_for(gateway.wait(accepted.turn), 120)
            await until(lambda: accepted.turn not in gateway._known)
            return shown, taken

    shown, taken = asyncio.run(run())
    assert (shown.state, shown.text) == (TurnState.ANSWERED, "So it is.")
    assert taken == [False, False, False, True]
    kinds = [kind for kind, *_ in read_log(tmp_path)]
    assert (kinds.count("channel_error"), kinds.count("message_sent")) == (1, 1)
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM history").fetchone() == (1,)


def test_a_disk_that_fails_when_a_turn_is_left_for_later(tmp_path, stand_in):
    """A turn that is postponed during disk errors is answered later."""
    stand_in.follow(*[ScriptedError(status=529)] * 20)
    stand_in.choose = lambda _: ScriptedReply(text="Here I am.")

    async def run():
        turn_retry = WorkerRetryPolicy(later=(0.5, 0.0), disk=(0.01,))
        async with open_house(tmp_path, stand_in, turn_retry=turn_retry) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            taken = fail(gateway, 2)
            reply = await asyncio.wait_for(end(gateway, accepted.turn), 120)
            return reply, taken

    reply, taken = asyncio.run(run())
    assert (reply.state, reply.text) == (TurnState.ANSWERED, "Here I am.")
    assert taken[:3] == [False, False, True]


def test_a_disk_that_fails_when_a_letter_is_taken(tmp_path, stand_in):
    """An outbound message whose claim failed to sync is delivered once synced, and so are later ones."""

    def is_taken():
        with open_rows(tmp_path) as state:
            return state.execute("SELECT 1 FROM outbox WHERE state = 'sending'").fetchone() is not None

    async def run():
        messenger = Messenger()
        async with open_house(tmp_path, stand_in, channels={"telegram": messenger}) as gateway:
            taken = fail(gateway, 1, is_taken)
            for text in ("hello", "And now?"):
                await gateway.accept(RoutedMessage(text=text, user="alice", channel="telegram", address="1001"))
            await asyncio.wait_for(messenger.until(2), 120)
            return taken[:2]

    assert asyncio.run(run()) == [False, True]
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT state FROM outbox").fetchall() == [("sent",)] * 2
