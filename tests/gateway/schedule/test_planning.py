"""Schedule tools: agents create, list and cancel schedules for the user, in the current place and at its clearance."""

import asyncio

import pytest
from clockwork import CONFIG, open_clockwork
from house import open_rows, until

from foreword.gateway.messages import RoutedMessage
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedReply

ROOM = {"channel": "telegram", "address": "-5", "room": "kitchen", "situation": "group"}
PRIVATE = {"channel": "telegram", "address": "1001"}


def calls(tool, **arguments):
    """Make the model call a tool."""
    return ScriptedReply(calls=(ScriptedCall(name=tool, arguments=arguments),))


async def say(house, text="Please.", user="alice", **fields):
    """Send a message and wait for the reply."""
    accepted = await house.gateway.accept(RoutedMessage(text=text, user=user, **fields))
    return await house.gateway.wait(accepted.turn)


def read_result(request):
    """Read the result of a tool."""
    (part,) = (part for part in request.body["messages"][-1]["content"] if part["type"] == "tool_result")
    content = part["content"]
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


def read_rows(folder, *columns):
    """Read the schedules."""
    with open_rows(folder) as state:
        return state.execute(f"SELECT {', '.join(columns)} FROM schedules ORDER BY created, id").fetchall()


def play(tmp_path, stand_in, *script, config=CONFIG, **where):
    """Send one message and return the tool result."""
    stand_in.follow(*script, ScriptedReply(text="Done."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, config=config) as house:
            return await say(house, **where)

    assert asyncio.run(run()).state is TurnState.ANSWERED
    return read_result(stand_in.requests[-1])


def test_from_plan_to_reply(tmp_path, stand_in):
    """A schedule created in a private chat runs there as its user, who can list and cancel it."""
    stand_in.follow(
        calls("schedule_create", say="Ask about the dentist.", cron="0 9 * * *", name="dentist"),
        ScriptedReply(text="I will."),
        ScriptedReply(text="How was the dentist?"),
        calls("schedule_list"),
        ScriptedReply(text="One."),
        calls("schedule_cancel", schedule="dentist"),
        ScriptedReply(text="Gone."),
    )

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, "Remind me.", **PRIVATE)
            (reply,) = await house.at(9)
            await until(lambda: ("1001", "How was the dentist?") in house.kept.letters)
            await say(house, **PRIVATE)
            await say(house, **PRIVATE)
            assert await house.at(9, day=17) == []
        return reply

    assert asyncio.run(run()).user == "alice"
    listed = read_result(stand_in.requests[4])
    assert "dentist" in listed
    assert "next 2026-11-17 09:00 (UTC)" in listed
    assert "telegram:1001" in listed
    assert read_rows(tmp_path, "id") == []


def test_in_a_room(tmp_path, stand_in):
    """A schedule created in a room belongs to its user, has the room's clearance, and replies in the room."""
    stand_in.follow(
        calls("schedule_create", say="Tea time.", cron="0 9 * * *"),
        ScriptedReply(text="I will."),
        ScriptedReply(text="Tea, everybody!"),
    )

    async def run():
        async with open_clockwork(tmp_path, stand_in, USER_md="She likes owls.\n") as house:
            await say(house, **ROOM)
            await house.at(9)
            await until(lambda: ("-5", "Tea, everybody!") in house.kept.letters)

    asyncio.run(run())
    assert read_rows(tmp_path, "user_id", "room", "clearance") == [("alice", "kitchen", 1)]
    assert "owls" not in str(stand_in.requests[2].body)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cron": "* * * * *"}, "too often"),
        ({"cron": "*/5 9 * * *"}, "too often"),
        ({"cron": "61 * * * *"}, "minute cannot be read"),
        ({"cron": "* * * * * *"}, "seconds"),
        ({"at": "2026-11-15T08:00"}, "is in the past; it is 2026-11-16 07:59"),
        ({"at": "2026-12-24T18:00", "cron": "0 9 * * *"}, "either cron or at"),
        ({}, "either cron or at"),
        ({"cron": "0 9 * * *", "zone": "Mars/Base"}, "no time zone"),
        ({"cron": "0 9 * * *", "user": "bob"}, "user"),
    ],
)
def test_what_is_refused(tmp_path, stand_in, arguments, words):
    """An invalid schedule is refused with a reason for the model, and nothing is stored."""
    said = play(tmp_path, stand_in, calls("schedule_create", say="x", **arguments))
    assert words in said
    assert read_rows(tmp_path, "id") == []


def test_there_is_an_end_to_it(tmp_path, stand_in):
    """The number of schedules per user is limited."""
    many = [
        ScriptedCall(name="schedule_create", arguments={"say": f"{n}", "cron": "0 9 * * *"}, id=f"c{n}")
        for n in range(22)
    ]
    stand_in.follow(ScriptedReply(calls=tuple(many)), ScriptedReply(text="Done."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            return await say(house)

    asyncio.run(run())
    assert len(read_rows(tmp_path, "id")) == 20


def test_what_others_have_planned(tmp_path, stand_in):
    """A user cannot list or cancel schedules of other users, of other places or above the clearance."""
    stand_in.follow(
        calls("schedule_create", say="The secret.", cron="0 9 * * *", name="secret"),
        ScriptedReply(text="I will."),
        *[
            calls("schedule_list"),
            ScriptedReply(text="Done."),
            calls("schedule_cancel", schedule="secret"),
            ScriptedReply(text="Done."),
        ]
        * 2,
    )

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, **PRIVATE)
            for _ in range(2):
                await say(house, user="bob", channel="telegram", address="1002")
            for _ in range(2):
                await say(house, **ROOM)

    asyncio.run(run())
    for number in (3, 7):
        assert read_result(stand_in.requests[number]) == "There is no schedule."
        assert "there is no such schedule" in read_result(stand_in.requests[number + 2])
    assert len(read_rows(tmp_path, "id")) == 1


def test_strangers_plan_nothing(tmp_path, stand_in):
    """An unknown user has none of the schedule tools."""
    stand_in.follow(ScriptedReply(text="Hello."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, user="telegram:666", channel="telegram", address="666")

    asyncio.run(run())
    names = {tool["name"] for tool in stand_in.requests[0].body.get("tools", ())}
    assert not names & {"schedule_create", "schedule_list", "schedule_cancel", "notify_user"}


def test_notices_are_few(tmp_path, stand_in):
    """Notifications per user and hour are limited, and not offered where the reply is delivered anyway."""
    many = [ScriptedCall(name="notify_user", arguments={"text": f"Notice {n}."}, id=f"c{n}") for n in range(12)]
    stand_in.follow(ScriptedReply(calls=tuple(many)), ScriptedReply(text="Done."), ScriptedReply(text="Hello."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, channel="web")
            await until(lambda: len(house.kept.letters) >= 10)
            await say(house, **PRIVATE)
        return [text for _, text in house.kept.letters if text.startswith("Notice")]

    assert len(asyncio.run(run())) == 10
    assert "notify_user" not in {tool["name"] for tool in stand_in.requests[2].body["tools"]}


def test_an_answer_is_understood(tmp_path, stand_in):
    """A scheduled reply is part of the conversation where it was delivered, and nowhere else."""
    schedule = 'schedule: [{name: tea, cron: "0 8 * * *", user: alice, say: "Tea?", to: %s}]\n'

    async def run(place, **where):
        async with open_clockwork(tmp_path / place.strip('"'), stand_in, schedule % place) as house:
            await say(house, **where)
            await say(house, user="bob", channel="telegram", address="1002")
            await house.at(8)
            await until(lambda: any(text == "Shall I order tea?" for _, text in house.kept.letters))
            await say(house, "Yes.", **where)
            await say(house, "Yes.", user="bob", channel="telegram", address="1002")

    for place, where in (('"telegram:1001"', PRIVATE), ("kitchen", ROOM)):
        stand_in.requests.clear()
        stand_in.follow(
            ScriptedReply(text="Hello."),
            ScriptedReply(text="Hi."),
            ScriptedReply(text="Shall I order tea?"),
            *[ScriptedReply(text="Done.")] * 2,
        )
        asyncio.run(run(place, **where))
        *_, alice, bob = stand_in.requests
        assert "Shall I order tea?" in str(alice.body["messages"])
        assert "Shall I order tea?" not in str(bob.body)
