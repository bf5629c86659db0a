"""Sessions can be resumed, started, forked and listed, and lose nothing."""

import asyncio

import pytest
from desk import open_desk
from house import FILES, open_house, say

from foreword.agent.conversation import close_turn, dump_messages
from foreword.agent.conversation import make_user_message as user_message
from foreword.errors import InputError
from foreword.gateway.messages import NotFound
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.storage.history import HistoryKind, HistoryPiece, compact_history
from foreword.storage.turns import TurnState
from foreword.testing import NOON, ManualClock, ScriptedError, ScriptedReply


@pytest.fixture
def desk(tmp_path):
    """An open state."""
    with open_desk(tmp_path) as one:
        yield one


def test_resumed_across_restarts(tmp_path, stand_in):
    """After a restart a user continues their session."""
    stand_in.follow(ScriptedReply(text="Noted."), ScriptedReply(text="Seven."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            first = await say(gateway, "Remember seven.")
        async with open_house(tmp_path, stand_in) as gateway:
            second = await say(gateway, "Which number?")
        return first, second

    first, second = asyncio.run(run())
    assert first.session == second.session
    assert [message["role"] for message in stand_in.body["messages"]] == ["user", "assistant", "user"]
    assert "Remember seven." in str(stand_in.body["messages"][0])
    assert stand_in.requests[-1].refused == ""


def test_what_is_not_answered_yet(tmp_path, stand_in):
    """A session lists its unanswered messages in order and its newest reply, without other sessions."""
    stand_in.follow(ScriptedReply(text="1"), *[ScriptedError()] * 4)

    async def run():
        async with open_house(tmp_path, stand_in, turn_retry=WorkerRetryPolicy()) as gateway:
            session = (await say(gateway, "one")).session
            assert await gateway.sessions.list_unfinished(session) == []
            await say(gateway, "two")
            await say(gateway, "three")
            other = await say(gateway, "four", channel="web")
            unfinished = await gateway.sessions.list_unfinished(session)
            return unfinished, await gateway.sessions.list_missed(session), other

    unfinished, (last,), other = asyncio.run(run())
    assert [(one.asked, one.reply.state) for one in unfinished] == [
        ("two", TurnState.QUEUED),
        ("three", TurnState.QUEUED),
    ]
    assert (last.asked, last.reply.text) == ("one", "1")
    assert other.session != last.reply.session


def test_begun_anew(desk):
    """A new session becomes the current one of its session key; the earlier one can be resumed."""

    async def run():
        first = await desk.talk("one", "1")
        second = await desk.sessions.begin(first.key, "dm")
        assert (await desk.admit()).session.id == second.id != first.id
        assert await desk.read(second.id) == []
        await desk.sessions.resume(first.id)
        assert (await desk.admit()).session.id == first.id
        assert (await desk.sessions.find_current(first.key)).id == first.id
        assert (await desk.admit(session=second.id)).session.id == second.id
        with pytest.raises(NotFound):
            await desk.sessions.resume("none")

    asyncio.run(run())


def test_another_session_key_stays(desk):
    """A new session in one place changes no other session of the user or of others."""

    async def run():
        mine, web, bob = [
            (await desk.admit(**place)).session
            for place in ({"user": "alice"}, {"user": "alice", "channel": "web"}, {"user": "bob"})
        ]
        await desk.sessions.begin(mine.key, "dm")
        assert (await desk.admit(user="alice", channel="web")).session.id == web.id
        assert (await desk.admit(user="bob")).session.id == bob.id

    asyncio.run(run())


def test_forked(desk):
    """A fork has the history up to its turn, continues independently, and leaves its parent unchanged."""

    async def run():
        for number in (1, 2, 3):
            session = await desk.talk(f"say {number}", f"said {number}")
        whole = await desk.read(session.id)
        await desk.sessions.set_plan(session.id, on=True)
        await desk.sessions.set_model(session.id, "openai:gpt-5")
        fork = await desk.sessions.fork(session.id, 2)
        assert (fork.parent, fork.plan, fork.model) == (session.id, True, "openai:gpt-5")
        assert await desk.read(fork.id) == whole[:4]
        assert (await desk.admit()).session.id == fork.id
        await desk.talk("say 4", "said 4", session=fork.id)
        assert await desk.read(fork.id) == [*whole[:4], "say 4", "(said 4)"]
        assert await desk.read(session.id) == whole
        assert await desk.read((await desk.sessions.fork(session.id)).id) == whole
        assert await desk.read((await desk.sessions.fork(session.id, 0)).id) == []
        for wrong in (-1, 4):
            with pytest.raises(InputError, match="has 3 turns"):
                await desk.sessions.fork(session.id, wrong)
        with pytest.raises(NotFound):
            await desk.sessions.fork("none")

    asyncio.run(run())


def test_forked_around_a_summary(desk):
    """A fork from before a summary has the original messages; a later one has the newest summary."""

    def summarise(session, upto, text):
        piece = HistoryPiece(
            kind=HistoryKind.SUMMARY, messages=dump_messages(close_turn((user_message(text),), "understood")), tokens=5
        )
        return desk.writer.write(lambda state: compact_history(state, session.id, upto, piece))

    async def run():
        for number in range(1, 7):
            session = await desk.talk(f"say {number}", f"said {number}")
        await summarise(session, 2, "sum of 2")
        await summarise(session, 4, "sum of 4")
        rest = ["say 5", "(said 5)", "say 6", "(said 6)"]
        assert await desk.read(session.id) == ["sum of 4", "(understood)", *rest]
        expected = {
            1: ["say 1", "(said 1)"],
            2: ["sum of 2", "(understood)"],
            3: ["sum of 2", "(understood)", "say 3", "(said 3)"],
            4: ["sum of 4", "(understood)"],
            5: ["sum of 4", "(understood)", *rest[:2]],
            6: ["sum of 4", "(understood)", *rest],
        }
        for turns, said in expected.items():
            fork = await desk.sessions.fork(session.id, turns)
            assert await desk.read(fork.id) == said, turns
            again = await desk.sessions.fork(fork.id, 1)
            assert await desk.read(again.id) == ["say 1", "(said 1)"]

    asyncio.run(run())


def test_only_ones_own(desk):
    """The list has the user's private sessions, most recently used first, and none of rooms or other users."""

    async def run():
        mine = [await desk.talk("x", "y", channel=channel) for channel in ("web", "signal", "terminal")]
        await desk.talk("x", "y", user="bob")
        await desk.talk("x", "y", user="")
        await desk.talk("x", "y", room="kitchen", situation="group")
        desk.clock.move(60)
        await desk.talk("x", "y", channel="signal")
        listed = [session.id for session in await desk.sessions.list("alice")]
        assert set(listed) == {session.id for session in mine}
        assert listed[0] == mine[1].id
        assert len(await desk.sessions.list("alice", 2)) == 2
        assert await desk.sessions.list("") == []
        assert await desk.sessions.list("nobody") == []

    asyncio.run(run())


def test_another_model(tmp_path, stand_in):
    """A session uses the model chosen for it; an unavailable model gives an error and changes nothing."""

    async def run():
        async with open_house(tmp_path, stand_in, FILES, clock=ManualClock(NOON)) as gateway:
            first = await say(gateway, "hello")
            await gateway.sessions.set_model(first.session, "openai:gpt-5")
            await say(gateway, "and now?")
            await gateway.sessions.set_model(first.session, "nowhere:nothing")
            broken = await say(gateway, "and now?")
            await gateway.sessions.set_model(first.session, "")
            return broken, await say(gateway, "and now?")

    broken, last = asyncio.run(run())
    assert [request.shape for request in stand_in.requests] == ["anthropic", "openai", "anthropic"]
    assert "nowhere" in broken.text
    assert last.state.value == "answered"
