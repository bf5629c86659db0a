"""Turns through the gateway: concurrent, in order, streamed, stopped, and resumed after a restart."""

import asyncio
import time
from dataclasses import replace

import pytest
from house import LIVELY, end, open_house, open_rows, read_log, read_roles, say, until

import foreword
from foreword.agent.agent_events import ApprovalNeeded, TextDelta, ToolFinished, ToolStarted
from foreword.agent.loop import TurnLimits
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.messages import RoutedMessage, ShuttingDown
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedError, ScriptedHang, ScriptedReply

HASTY = GatewaySettings(look=0.02, renew=0.05, grace=0.0)
PRESS = ScriptedReply(calls=(ScriptedCall(name="press", arguments={}),))


class Button:
    """A tool that counts its calls and waits while its gate is closed."""

    def __init__(self):
        self.pressed = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def offer(self, *, changes=False, confirm=True):
        """Offer the tool to the agents."""

        @foreword.tool(trust="public", changes=changes, confirm=confirm)
        async def press() -> str:
            self.pressed += 1
            await self.gate.wait()
            return "pressed"

        return (press,)


def read_said(body):
    """Read the newest user text."""
    return body["messages"][-1]["content"][-1]["text"]


def test_many_at_once(tmp_path, stand_in):
    """Twenty sessions run concurrently; each reply belongs to its message, and each session is in order."""
    stand_in.choose = lambda body: ScriptedReply(text=f"re: {read_said(body)}")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = [
                await gateway.accept(RoutedMessage(text=f"{part} of {n}", user="alice", channel=f"c{n}"))
                for part in ("one", "two")
                for n in range(20)
            ]
            replies = [await gateway.wait(one.turn) for one in accepted]
            return replies, [await gateway.sessions.read(one.session) for one in accepted[:20]]

    replies, pasts = asyncio.run(run())
    assert [reply.text for reply in replies] == [f"re: {part} of {n}" for part in ("one", "two") for n in range(20)]
    for past, first, second in zip(pasts, replies, replies[20:], strict=False):
        assert first.session == second.session
        assert [row.turn for row in past] == [first.turn, second.turn]
        assert first.finished <= second.finished
    assert {request.refused for request in stand_in.requests} == {""}


def test_hearing_late(tmp_path, stand_in):
    """A late listener gets the text so far; a finished or unknown turn has no stream."""
    stand_in.follow(ScriptedHang(seconds=20, text="It was a dark"))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Tell me.", user="alice"))
            early = gateway.hear(accepted.turn)
            first = await anext(early)
            late = await anext(gateway.hear(accepted.turn))
            assert await gateway.stop(accepted.turn)
            rest = "".join([piece.text async for piece in early])
            ended = [piece async for piece in gateway.hear(accepted.turn)]
            never = [piece async for piece in gateway.hear("never")]
            return first, late, rest, ended, never

    first, late, rest, ended, never = asyncio.run(run())
    assert isinstance(late, TextDelta)
    assert first.text
    assert (first.text + rest).startswith(late.text)
    assert (ended, never) == ([], [])


def test_stopping_in_mid_sentence(tmp_path, stand_in):
    """A turn that is stopped while streaming ends at once with an event, and the next turn follows."""
    stand_in.follow(ScriptedHang(seconds=20, text="It was a dark"), ScriptedReply(text="Yes?"))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Tell me.", user="alice"))
            await anext(gateway.hear(accepted.turn))
            started = time.monotonic()
            assert await gateway.stop(accepted.turn)
            took = time.monotonic() - started
            stopped = await gateway.wait(accepted.turn)
            assert not await gateway.stop(accepted.turn)
            return stopped, took, await say(gateway, "And now?")

    stopped, took, after = asyncio.run(run())
    assert (stopped.state, stopped.text, after.text) == (TurnState.STOPPED, "", "Yes?")
    assert took < 10
    assert read_roles(stand_in.body) == ["user", "assistant", "user"]
    assert "(stopped before the end)" in str(stand_in.body["messages"][1])
    assert stand_in.requests[-1].refused == ""
    assert ("turn_completed", "warn", "stopped before the end") in [row[:3] for row in read_log(tmp_path)]


def test_stopping_a_tool(tmp_path, stand_in):
    """A turn that is stopped during a tool call is closed with the call unanswered, and the next turn follows."""
    stand_in.follow(PRESS, ScriptedReply(text="Yes?"))

    async def run():
        button = Button()
        button.gate.clear()
        async with open_house(tmp_path, stand_in, tools=button.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Press.", user="alice"))
            await until(lambda: button.pressed)
            assert await gateway.stop(accepted.turn)
            assert (await gateway.wait(accepted.turn)).state is TurnState.STOPPED
            return await say(gateway, "And now?")

    assert asyncio.run(run()).text == "Yes?"
    assert read_roles(stand_in.body) == ["user", "assistant", "user", "assistant", "user"]
    assert "(not run: stopped before the end)" in str(stand_in.body["messages"][2])
    assert stand_in.requests[-1].refused == ""


def test_stopping_at_once(tmp_path, stand_in):
    """A turn can be stopped before it starts, twice, and concurrently."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            async with asyncio.timeout(120):
                got = await asyncio.gather(gateway.stop(accepted.turn), gateway.stop(accepted.turn))
            stopped = await gateway.wait(accepted.turn)
            return got, stopped, await say(gateway, "And now?")

    got, stopped, after = asyncio.run(run())
    assert got == [True, True]
    assert (stopped.state, after.state) == (TurnState.STOPPED, TurnState.ANSWERED)
    assert stand_in.requests[-1].refused == ""
    assert "stopped" in [facts.get("outcome") for kind, _, _, facts in read_log(tmp_path) if kind == "turn_completed"]


def test_stopping_as_it_begins(tmp_path, stand_in):
    """A turn that is stopped between its claim and its first step ends normally, and stop() returns."""
    stand_in.follow(PRESS, ScriptedReply(text="first"), ScriptedReply(text="third"))

    async def run():
        button = Button()
        button.gate.clear()
        async with open_house(tmp_path, stand_in, tools=button.offer()) as gateway:
            first, second = [await gateway.accept(RoutedMessage(text=text, user="alice")) for text in ("1", "2")]
            await until(lambda: button.pressed)
            button.gate.set()
            while gateway._known[second.turn].task is None:  # noqa: ASYNC110 - must react to the very next step
                await asyncio.sleep(0)
            async with asyncio.timeout(120):
                assert await gateway.stop(second.turn)
                return [await gateway.wait(one.turn) for one in (first, second)], await say(gateway, "3")

    (first, second), third = asyncio.run(run())
    assert (first.text, second.state, third.text) == ("first", TurnState.STOPPED, "third")
    assert stand_in.requests[-1].refused == ""


def test_stopping_one_that_waits(tmp_path, stand_in):
    """A waiting turn is stopped without a call; the turns before and after it are answered."""
    stand_in.follow(PRESS, ScriptedReply(text="first"), ScriptedReply(text="third"))

    async def run():
        button = Button()
        button.gate.clear()
        async with open_house(tmp_path, stand_in, tools=button.offer()) as gateway:
            turns = [await gateway.accept(RoutedMessage(text=text, user="alice")) for text in ("1", "2", "3")]
            await until(lambda: button.pressed)
            assert await gateway.stop(turns[1].turn)
            button.gate.set()
            return [await gateway.wait(one.turn) for one in turns]

    first, second, third = asyncio.run(run())
    assert [reply.state for reply in (first, second, third)] == [
        TurnState.ANSWERED,
        TurnState.STOPPED,
        TurnState.ANSWERED,
    ]
    assert (first.text, third.text) == ("first", "third")
    assert ("turn_completed", "warn", "stopped before it began") in [row[:3] for row in read_log(tmp_path)]


@pytest.mark.parametrize("allowed", [True, False])
def test_asking(tmp_path, stand_in, allowed):
    """A changing tool asks for approval, also of a late listener, and the answer decides."""
    stand_in.follow(PRESS, ScriptedReply(text="So be it."))

    async def run():
        button = Button()
        async with open_house(tmp_path, stand_in, tools=button.offer(changes=True)) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Press.", user="alice", asks=True))
            async for piece in gateway.hear(accepted.turn):
                if isinstance(piece, ApprovalNeeded):
                    break
            late = gateway.hear(accepted.turn)
            assert await anext(late) == piece
            assert not gateway.decide(accepted.turn, "another question", allowed=True)
            assert not gateway.decide("another turn", piece.id, allowed=True)
            assert button.pressed == 0
            assert gateway.decide(accepted.turn, piece.id, allowed=allowed)
            assert not gateway.decide(accepted.turn, piece.id, allowed=not allowed)
            heard = [one async for one in late]
            return button.pressed, heard, await gateway.wait(accepted.turn)

    pressed, heard, reply = asyncio.run(run())
    assert pressed == int(allowed)
    assert ToolFinished(name="press", done=allowed) in heard
    assert ToolStarted(name="press") not in heard
    assert reply.text == "So be it."
    assert ("the person has not allowed it" in str(stand_in.body["messages"][-1])) is not allowed


def test_silence_is_no_yes(tmp_path, stand_in):
    """Without an answer, or without a way to ask, a changing tool does not run."""
    stand_in.follow(PRESS, ScriptedReply(text="Not done."), PRESS, ScriptedReply(text="Not done either."))

    async def run():
        button = Button()
        hasty = replace(LIVELY, thinking=0.02)
        async with open_house(tmp_path, stand_in, settings=hasty, tools=button.offer(changes=True)) as gateway:
            silent = await say(gateway, "Press.", asks=True)
            before = button.pressed
            deaf = await say(gateway, "Press.")
            return silent.text.partition("\n")[0], before, deaf.text.partition("\n")[0], button.pressed

    assert asyncio.run(run()) == ("Not done.", 0, "Not done either.", 0)


def test_left_to_the_next_start(tmp_path, stand_in):
    """A closing gateway leaves a running turn to the next start, which continues after its last step."""
    stand_in.follow(PRESS, ScriptedHang(seconds=20), ScriptedReply(text="Pressed it."), ScriptedReply(text="Hello."))

    async def run():
        button = Button()
        async with open_house(
            tmp_path, stand_in, tools=button.offer(changes=True, confirm=False), settings=HASTY
        ) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Press.", user="alice"))
            behind = await gateway.accept(RoutedMessage(text="Hello?", user="alice"))
            waiting = asyncio.create_task(gateway.wait(accepted.turn))
            await until(lambda: len(stand_in.requests) == 2)
        left = await asyncio.wait_for(waiting, 120)
        with pytest.raises(ShuttingDown):
            await gateway.accept(RoutedMessage(text="Too late.", user="alice"))
        async with open_house(tmp_path, stand_in, tools=button.offer(changes=True, confirm=False)) as gateway:
            replies = [await end(gateway, turn.turn) for turn in (accepted, behind)]
            return left, replies, button.pressed

    left, (first, second), pressed = asyncio.run(run())
    assert not left.state.ended
    assert (first.text, second.text, pressed) == ("Pressed it.", "Hello.", 1)
    assert read_roles(stand_in.requests[2].body) == ["user", "assistant", "user"]
    assert {request.refused for request in stand_in.requests} == {""}


def test_graceful(tmp_path, stand_in):
    """A turn that ends within the grace period is finished before the gateway closes."""
    stand_in.follow(PRESS, ScriptedReply(text="Done."))

    async def run():
        button = Button()
        button.gate.clear()
        async with open_house(tmp_path, stand_in, tools=button.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Press.", user="alice"))
            await until(lambda: button.pressed)
            asyncio.get_running_loop().call_later(0.05, button.gate.set)
        return accepted.turn

    turn = asyncio.run(run())
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT state, reply FROM turns WHERE id = ?", (turn,)).fetchone() == ("answered", "Done.")


def test_who_hangs_up(tmp_path, stand_in):
    """A client that disconnects during acceptance blocks nothing: its message and the next are answered."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            for delay in range(8):
                task = asyncio.create_task(gateway.accept(RoutedMessage(text=f"hello {delay}", user="alice")))
                for _ in range(delay):
                    await asyncio.sleep(0)
                task.cancel()
            async with asyncio.timeout(120):
                reply = await say(gateway, "Still there?")
                with open_rows(tmp_path) as state:  # another message may be accepted after it
                    await until(lambda: not state.execute("SELECT 1 FROM turns WHERE finished IS NULL").fetchall())
                return reply

    assert asyncio.run(run()).state is TurnState.ANSWERED
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT DISTINCT state FROM turns").fetchall() == [("answered",)]


def test_the_same_message_twice_at_once(tmp_path, stand_in):
    """A message delivered ten times concurrently is one turn with one call."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            message = RoutedMessage(text="hello", user="alice", key="m1")
            got = await asyncio.gather(*(gateway.accept(message) for _ in range(10)))
            replies = await asyncio.gather(*(gateway.wait(one.turn) for one in got))
            return got, replies

    got, replies = asyncio.run(run())
    assert len({one.turn for one in got}) == 1
    assert sorted(one.repeated for one in got) == [False, *[True] * 9]
    assert {reply.text for reply in replies} == {"Yes."}
    assert len(stand_in.requests) == 1


def test_two_processes(tmp_path, stand_in):
    """Two gateways on one state answer each message once, and each can wait for turns of the other."""
    stand_in.choose = lambda body: ScriptedReply(text=f"re: {read_said(body)}")

    async def run():
        async with (
            open_house(tmp_path, stand_in) as one,
            open_house(tmp_path, stand_in) as two,
            asyncio.timeout(120),
        ):
            turns = [await one.accept(RoutedMessage(text=f"{n}", user="alice")) for n in range(6)]
            heard = [[piece async for piece in one.hear(turn.turn)] for turn in turns]
            replies = [await gateway.wait(turn.turn) for turn in turns for gateway in (one, two)]
            return replies, heard

    replies, heard = asyncio.run(run())
    assert [reply.text for reply in replies] == [f"re: {n}" for n in range(6) for _ in range(2)]
    assert len(heard) == 6
    assert len(stand_in.requests) == 6


def test_stopped_from_elsewhere(tmp_path, stand_in):
    """A turn that runs in another process can be stopped from here."""
    stand_in.follow(ScriptedHang(seconds=20))

    async def run():
        async with open_house(tmp_path, stand_in) as one, open_house(tmp_path, stand_in) as two:
            accepted = await one.accept(RoutedMessage(text="hello", user="alice"))
            await until(lambda: stand_in.requests)
            assert await two.stop(accepted.turn)
            return await asyncio.wait_for(two.wait(accepted.turn), 120)

    assert asyncio.run(run()).state is TurnState.STOPPED


def test_behind_one_that_is_queued(tmp_path, stand_in):
    """Turns behind a queued one are queued as well, and all are answered in order."""
    stand_in.follow(*[ScriptedError()] * 4, *[ScriptedReply(text=text) for text in ("1", "2", "3")])

    async def run():
        async with open_house(tmp_path, stand_in, bounds=TurnLimits(tool_seconds=5)) as gateway:
            turns = [await gateway.accept(RoutedMessage(text=text, user="alice")) for text in ("a", "b", "c")]
            async with asyncio.timeout(120):
                return [await end(gateway, one.turn) for one in turns]

    assert [reply.text for reply in asyncio.run(run())] == ["1", "2", "3"]


def test_damaged_history(tmp_path, stand_in):
    """A turn of a session whose history cannot be read fails with the reason; another session is answered."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "Hello")
            await gateway.writer.write(lambda state: state.execute("UPDATE history SET messages = '[{'"))
            return await say(gateway, "And now?"), await say(gateway, "Hello", user="bob")

    damaged, other = asyncio.run(run())
    assert damaged.state is TurnState.FAILED
    assert "damaged (JSONDecodeError); start a new session" in damaged.text
    assert other.state is TurnState.ANSWERED
