"""Session keys: agent, place and clearance, and in private the user."""

import asyncio

import pytest
from desk import open_desk

from foreword.errors import InputError, UnknownName
from foreword.gateway.messages import NotFound, RoutedMessage, check_message
from foreword.turn import Message
from foreword.types import Trust

KITCHEN = {"room": "kitchen", "situation": "group"}


@pytest.fixture
def desk(tmp_path):
    """An open state."""
    with open_desk(tmp_path) as one:
        yield one


def test_the_key(desk):
    """Agent, channel, room, clearance and user make the session key; a difference in one gives another session."""
    places = [
        {"user": "alice"},
        {"user": "alice", "agent": "ada"},
        {"user": "alice", "channel": "web"},
        {"user": "alice", **KITCHEN},
        {"user": "alice", "room": "attic"},
        {"user": "alice", "situation": "group"},
        {"user": "carol"},
        {"user": "bob"},
        {"user": "stranger"},
    ]

    async def run():
        first = [(await desk.admit(**place)).session.id for place in places]
        again = [(await desk.admit(**place)) for place in places]
        assert len(set(first)) == len(places)
        assert [one.session.id for one in again] == first
        assert not any(one.new for one in again)

    asyncio.run(run())


def test_rooms_are_shared_at_one_clearance(desk):
    """In a room all users of one clearance share a session, and those of a lower one have another."""

    async def run():
        alice, bob, stranger = [(await desk.admit(user=user, **KITCHEN)).session for user in ("alice", "bob", "zoe")]
        assert alice.id == bob.id
        assert (alice.key.clearance, alice.key.user) == (Trust.FAMILIAR, "")
        assert stranger.id != alice.id
        assert (stranger.key.clearance, stranger.key.user) == (Trust.PUBLIC, "")

    asyncio.run(run())


def test_company_without_a_name(desk):
    """A group without a room has a session per user, distinct from their private one."""

    async def run():
        private = (await desk.admit(user="bob")).session
        company = (await desk.admit(user="bob", situation="group")).session
        other = (await desk.admit(user="eve", situation="group")).session
        assert private.key.clearance == company.key.clearance == Trust.FAMILIAR
        assert len({private.id, company.id, other.id}) == 3
        with pytest.raises(NotFound):
            await desk.admit(user="bob", situation="group", session=private.id)
        with pytest.raises(NotFound):
            await desk.admit(user="bob", session=company.id)

    asyncio.run(run())


def test_no_room_of_that_name(desk):
    """Unnamed users never share a group session, and a room name cannot start with the reserved character."""

    async def run():
        one, two = [(await desk.admit(user="", situation="group")).session for _ in range(2)]
        assert one.id != two.id

    asyncio.run(run())
    with pytest.raises(InputError, match="must not start with"):
        check_message(RoutedMessage(text="hello", user="bob", room="(group)"))


def test_strangers(desk):
    """A named stranger has their own session; unnamed ones never share a session."""

    async def run():
        zoe, again, zack = [(await desk.admit(user=user)).session for user in ("zoe", "zoe", "zack")]
        assert zoe.id == again.id != zack.id
        assert zoe.key.clearance is Trust.PUBLIC
        one, two = (await desk.admit(user="")), (await desk.admit(user=""))
        assert one.session.id != two.session.id
        assert one.new
        assert two.new
        with pytest.raises(NotFound):
            await desk.admit(user="", session=one.session.id)
        await desk.talk("hello", "Hi.", user="", before=())
        said = (Message(role="user", text="hello"), Message(role="assistant", text="Hi."))
        assert (await desk.admit("and?", user="", before=said)).session.parent == ""

    asyncio.run(run())


def test_another_persons_session(desk):
    """A session of another user, a higher clearance or another room gives the error of a missing one."""

    async def run():
        alice = (await desk.admit(user="alice")).session.id
        bob = (await desk.admit(user="bob")).session.id
        kitchen = (await desk.admit(user="alice", **KITCHEN)).session.id
        hidden = [
            ("bob", alice, {}),
            ("eve", bob, {}),
            ("carol", alice, {}),
            ("alice", bob, {}),
            ("zoe", kitchen, KITCHEN),
            ("alice", kitchen, {}),
            ("alice", kitchen, {"room": "attic"}),
            ("alice", kitchen, {**KITCHEN, "channel": "web"}),
            ("alice", alice, {"situation": "unheard-of"}),
            ("", alice, {}),
            ("alice", "0" * 32, {}),
        ]
        words = set()
        for user, session, place in hidden:
            with pytest.raises(NotFound) as caught:
                await desk.admit(user=user, session=session, **place)
            words.add(str(caught.value))
        assert words == {"there is no such session"}

    asyncio.run(run())


def test_ones_own_session_elsewhere(desk):
    """The error for an own session that does not fit says why: another agent, channel or clearance."""

    async def run():
        mine = (await desk.admit(user="alice")).session.id
        low = (await desk.admit(user="alice", situation="unheard-of")).session.id
        with pytest.raises(InputError, match="with reid on terminal, not ada on terminal"):
            await desk.admit(user="alice", session=mine, agent="ada")
        with pytest.raises(InputError, match="with reid on terminal, not reid on web"):
            await desk.admit(user="alice", session=mine, channel="web")
        with pytest.raises(InputError, match="has public clearance and you now have full"):
            await desk.admit(user="alice", session=low)

    asyncio.run(run())


def test_an_unknown_agent(desk):
    """An unknown agent is refused by name, and no session is created."""
    with pytest.raises(UnknownName, match="nobody"):
        desk.find_key(user="alice", agent="nobody")
