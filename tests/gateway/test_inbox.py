"""The inbox: in order, one turn per session at a time, under a lease, and each message once."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta

import pytest
from desk import open_desk

from foreword.agent.agent_events import CallBegins
from foreword.agent.conversation import close_turn, make_user_message
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import AcceptedTurn
from foreword.storage.turns import LeaseLost, TurnState, find_reply
from foreword.storage.writer import is_dead_owner, make_lease_owner
from foreword.testing import NOON, ManualClock


@pytest.fixture
def desk(tmp_path):
    """An open state."""
    with open_desk(tmp_path) as one:
        yield one


@pytest.fixture
def two(tmp_path):
    """Two processes on one state, with one clock."""
    clock = ManualClock(NOON)
    with ExitStack() as opened:
        yield [opened.enter_context(open_desk(tmp_path, clock)) for _ in range(2)]


async def read_state(desk, turn):
    """Read the state of a turn."""
    return (await desk.writer.write(lambda state: find_reply(state, turn))).state


def list_turns(claimed):
    """List the texts of claimed turns."""
    return [one.incoming.text for one in claimed]


def test_one_turn_of_a_session(desk):
    """The first message is claimed when accepted; later messages of its session wait for their predecessor."""

    async def run():
        first, second, third = [await desk.accept(text) for text in ("1", "2", "3")]
        assert isinstance(first, ClaimedTurn)
        assert isinstance(second, AcceptedTurn)
        assert await read_state(desk, third.turn) is TurnState.WAITING
        assert await desk.inbox.claim(10) == []
        await desk.finish(first)
        (next_one,) = await desk.inbox.claim(10)
        assert next_one.incoming.text == "2"
        assert await desk.inbox.claim(10) == []
        await desk.finish(next_one)
        assert list_turns(await desk.inbox.claim(10)) == ["3"]

    asyncio.run(run())


def test_many_sessions(desk):
    """One turn per session is claimed, oldest first, up to the requested number."""

    async def run():
        held = [await desk.accept(f"first {n}", channel=f"c{n}") for n in range(6)]
        for n in range(6):
            await desk.accept(f"second {n}", channel=f"c{n}")
        for claimed in held:
            await desk.finish(claimed)
        assert list_turns(await desk.inbox.claim(4)) == [f"second {n}" for n in range(4)]
        assert list_turns(await desk.inbox.claim(4)) == ["second 4", "second 5"]

    asyncio.run(run())


def test_takeover(two):
    """A turn with an expired lease goes to another process with its steps; writes of the old owner are refused."""
    mine, other = two

    async def run():
        claimed = await mine.accept("hello")
        steps = close_turn((make_user_message("hello"),), "half")
        await mine.inbox.store_step(claimed, steps)
        assert await other.inbox.claim(10) == []
        mine.clock.move(31)
        (taken,) = await other.inbox.claim(10)
        assert (taken.turn, taken.attempt, len(taken.taken)) == (claimed.turn, 2, 2)
        ending = mine.make_ending(claimed)
        for write in (
            lambda: mine.inbox.store_step(claimed, steps),
            lambda: mine.inbox.begin_call(claimed, CallBegins(id="1", name="press")),
            lambda: mine.inbox.finish(claimed, ending),
            lambda: mine.inbox.postpone(claimed, ending, mine.clock()),
            lambda: mine.inbox.release(claimed),
        ):
            with pytest.raises(LeaseLost):
                await write()
        assert await mine.read(claimed.session.id) == []
        await other.finish(taken, "Done.")
        assert await other.read(claimed.session.id) == ["hello", "(Done.)"]

    asyncio.run(run())


def test_a_lease_that_is_renewed(two):
    """A renewed lease stays with its owner, and a process does not take over its own turns after the host slept."""
    mine, other = two

    async def run():
        claimed = await mine.accept("hello")
        for _ in range(4):
            mine.clock.move(20)
            assert await mine.inbox.renew() == []
            assert await other.inbox.claim(10) == []
        mine.clock.move(3_600)
        assert await mine.inbox.claim(10) == []
        await mine.inbox.store_step(claimed, close_turn((make_user_message("hello"),), "half"))

    asyncio.run(run())


def test_a_dead_owner(tmp_path):
    """A turn of a dead process on this machine is claimed at once, without waiting for its lease."""
    script = (
        "import asyncio, os, sys\nfrom desk import open_desk\n"
        "with open_desk(sys.argv[1]) as desk:\n"
        "    claimed = asyncio.run(desk.accept('left behind'))\n"
        "    print(claimed.turn, flush=True)\n"
        "    os._exit(9)\n"
    )
    folder = os.path.dirname(os.path.abspath(__file__))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, sys.path)])}
    left = subprocess.run(
        [sys.executable, "-c", script, tmp_path], env=environ, capture_output=True, text=True, check=False
    )
    with open_desk(tmp_path) as desk:
        (claimed,) = asyncio.run(desk.inbox.claim(10))
    assert claimed.turn == left.stdout.strip()
    assert (claimed.incoming.text, claimed.attempt) == ("left behind", 2)


def test_who_is_dead():
    """A lease owner is dead if its process id is unused or belongs to a later process."""
    host = socket.gethostname()
    assert not is_dead_owner(make_lease_owner())
    assert is_dead_owner(f"{host}:{os.getpid()}:0123456789abcdef")
    assert not is_dead_owner(f"{host}:{os.getppid()}:0123456789abcdef")
    assert not is_dead_owner(f"elsewhere.{host}:{os.getpid()}:0123456789abcdef")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_dead_owner(f"{host}:{ended.pid}:0123456789abcdef")


def test_stopping(two):
    """A waiting or queued turn is stopped at once; a running turn is stopped by its process."""
    mine, other = two

    async def run():
        running = await mine.accept("1")
        waiting = await mine.accept("2")
        assert await other.inbox.stop(waiting.turn) is TurnState.STOPPED
        assert await other.inbox.stop(running.turn) is TurnState.RUNNING
        assert await other.inbox.renew() == []
        assert await mine.inbox.renew() == [running.turn]
        assert await mine.inbox.stop("no such turn") is None
        await mine.inbox.postpone(
            running, mine.make_ending(running, state=TurnState.QUEUED), NOON + timedelta(minutes=5)
        )
        assert await mine.inbox.stop(running.turn) is TurnState.STOPPED
        mine.clock.move(600)
        assert await mine.inbox.claim(10) == []
        assert isinstance(await mine.accept("3"), ClaimedTurn)

    asyncio.run(run())


def test_stopping_what_had_begun(desk):
    """The steps of a queued turn that is stopped remain in the history, closed for the next turn."""

    async def run():
        claimed = await desk.accept("press it")
        await desk.inbox.postpone(claimed, desk.make_ending(claimed, "pressed", TurnState.QUEUED), NOON)
        await desk.inbox.stop(claimed.turn)
        assert await desk.read(claimed.session.id) == ["press it", "(pressed)"]

    asyncio.run(run())


def test_begun_once(desk):
    """A later attempt at a turn knows which of its calls with side effects began."""

    async def run():
        claimed = await desk.accept("hello")
        for call in ("1.a", "2.a"):
            await desk.inbox.begin_call(claimed, CallBegins(id=call, name="press"))
        await desk.inbox.release(claimed)
        (again,) = await desk.inbox.claim(1)
        assert await desk.inbox.list_begun(again) == {"1.a", "2.a"}
        await desk.finish(again)
        rows = await desk.writer.write(lambda state: state.execute("SELECT count(*) FROM begun").fetchone())
        assert rows == (0,)

    asyncio.run(run())


def test_postponing(desk):
    """A postponed turn also queues the later turns of its session, including new ones."""

    async def run():
        first = await desk.accept("1")
        second = await desk.accept("2")
        elsewhere = await desk.accept("other", channel="web")
        await desk.inbox.postpone(
            first, desk.make_ending(first, "Later.", TurnState.QUEUED), desk.clock() + timedelta(seconds=60)
        )
        third = await desk.accept("3")
        assert [await read_state(desk, turn.turn) for turn in (first, second, third)] == [TurnState.QUEUED] * 3
        assert await read_state(desk, elsewhere.turn) is TurnState.RUNNING
        assert await desk.inbox.claim(10) == []
        assert await desk.read(first.session.id) == []
        desk.clock.move(61)
        for text in ("1", "2", "3"):
            (claimed,) = await desk.inbox.claim(10)
            assert claimed.incoming.text == text
            await desk.finish(claimed)

    asyncio.run(run())


def test_released(desk):
    """A released turn is claimed next with its steps, before later turns."""

    async def run():
        first = await desk.accept("1")
        await desk.accept("2")
        steps = close_turn((make_user_message("1"),), "half")
        await desk.inbox.store_step(first, steps)
        await desk.inbox.release(first)
        (claimed,) = await desk.inbox.claim(10)
        assert (claimed.turn, claimed.attempt, len(claimed.taken)) == (first.turn, 2, len(steps))

    asyncio.run(run())


def test_delivered_twice(desk):
    """A message key identifies one turn per user, room and channel, however often it is delivered."""

    async def run():
        first = await desk.accept("hello", key="7")
        again = await desk.accept("hello", key="7")
        assert (again.turn, again.session, again.repeated) == (first.turn, first.session.id, True)
        await desk.finish(first)
        assert (await desk.accept("hello", key="7")).turn == first.turn
        others = [
            await desk.accept("hello", key="8"),
            await desk.accept("hello", key="7", user="bob"),
            await desk.accept("hello", key="7", channel="web"),
            await desk.accept("hello", key="7", room="kitchen", situation="group"),
            await desk.accept("hello", key="7", room="attic", situation="group"),
        ]
        assert len({one.turn for one in (first, *others)}) == 6
        assert not any(isinstance(one, AcceptedTurn) and one.repeated for one in others)

    asyncio.run(run())


def test_delivered_twice_at_once(two):
    """A message delivered twice at the same time, also to two processes, is one turn."""

    async def run():
        found = [await desk.admit("hello", key="7") for desk in two]
        assert not any(one.turn for one in found)
        got = [await desk.add(one.session, "hello", key="7") for desk, one in zip(two, found, strict=True)]
        assert isinstance(got[0], ClaimedTurn)
        assert isinstance(got[1], AcceptedTurn)
        assert got[1].repeated
        assert got[1].turn == got[0].turn

    asyncio.run(run())


def test_nothing_to_deliver(desk):
    """A turn with an address puts its reply into the outbox; a stopped turn does not."""

    async def run():
        one = await desk.accept("hello", address="42")
        await desk.finish(one, "Hi.")
        two = await desk.accept("hello", address="42")
        await desk.inbox.finish(two, desk.make_ending(two, "", TurnState.STOPPED, messages=()))
        return await desk.writer.write(lambda state: state.execute("SELECT turn_id, text FROM outbox").fetchall())

    ((_, text),) = asyncio.run(run())
    assert text == "Hi."


@pytest.mark.parametrize("damage", ["request = '{'", "request = '{\"odd\": 1}'", "taken = x'00'", "place = '[]'"])
def test_a_row_that_cannot_be_read(two, damage):
    """A turn with a damaged row fails with a reason and delays neither its session nor others."""
    mine, other = two

    async def run():
        broken, behind = await mine.accept("1"), await mine.accept("2")
        await mine.accept("elsewhere", channel="web")
        await mine.writer.write(lambda state: state.execute(f"UPDATE turns SET {damage} WHERE id = ?", (broken.turn,)))
        mine.clock.move(31)
        assert list_turns(await other.inbox.claim(10)) == ["elsewhere"]
        reply = await mine.writer.write(lambda state: find_reply(state, broken.turn))
        assert (reply.state, "cannot be read" in reply.text) == (TurnState.FAILED, True)
        assert [one.turn for one in await other.inbox.claim(10)] == [behind.turn]

    asyncio.run(run())
