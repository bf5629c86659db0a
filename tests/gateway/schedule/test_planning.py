"""Agents plan, list and cancel for the one who asks, where they asked, and at what may be seen there."""

import asyncio

import pytest
from clockwork import CONFIG, open_clockwork
from house import open_rows, until

from foreword.gateway.message import Incoming, State
from foreword.testing import Called, Says

ROOM = {"channel": "telegram", "address": "-5", "room": "kitchen", "situation": "group"}
PRIVATE = {"channel": "telegram", "address": "1001"}


def calls(tool, **arguments):
    """Have the model call a tool."""
    return Says(calls=(Called(name=tool, arguments=arguments),))


async def say(house, text="Please.", user="alice", **fields):
    """Say something, and wait for the reply."""
    accepted = await house.gateway.accept(Incoming(text=text, user=user, **fields))
    return await house.gateway.wait(accepted.turn)


def read_result(request):
    """Read what a tool answered."""
    (part,) = (part for part in request.body["messages"][-1]["content"] if part["type"] == "tool_result")
    content = part["content"]
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


def read_rows(folder, *columns):
    """Read the schedules."""
    with open_rows(folder) as state:
        return state.execute(f"SELECT {', '.join(columns)} FROM schedules ORDER BY created, id").fetchall()


def play(tmp_path, stand_in, *script, config=CONFIG, **where):
    """Say one thing, and return what the tool answered."""
    stand_in.follow(*script, Says(text="Done."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, config=config) as house:
            return await say(house, **where)

    assert asyncio.run(run()).state is State.ANSWERED
    return read_result(stand_in.requests[-1])


def test_from_plan_to_reply(tmp_path, stand_in):
    """What is planned in a private chat runs there, as the one who asked, and is listed and cancelled by them."""
    stand_in.follow(
        calls("schedule_create", say="Ask about the dentist.", cron="0 9 * * *", name="dentist"),
        Says(text="I will."),
        Says(text="How was the dentist?"),
        calls("schedule_list"),
        Says(text="One."),
        calls("schedule_cancel", schedule="dentist"),
        Says(text="Gone."),
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
    """What is planned in a room belongs to who asked, at the clearance of the room, and is heard in the room."""
    stand_in.follow(
        calls("schedule_create", say="Tea time.", cron="0 9 * * *"), Says(text="I will."), Says(text="Tea, everybody!")
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
        ({"at": "2026-11-15T08:00"}, "is past; it is 2026-11-16 07:59"),
        ({"at": "2026-12-24T18:00", "cron": "0 9 * * *"}, "either cron or at"),
        ({}, "either cron or at"),
        ({"cron": "0 9 * * *", "zone": "Mars/Base"}, "no time zone"),
        ({"cron": "0 9 * * *", "user": "bob"}, "user"),
    ],
)
def test_what_is_refused(tmp_path, stand_in, arguments, words):
    """What cannot be planned is refused in words that the model can act on, and nothing is kept."""
    said = play(tmp_path, stand_in, calls("schedule_create", say="x", **arguments))
    assert words in said
    assert read_rows(tmp_path, "id") == []


def test_there_is_an_end_to_it(tmp_path, stand_in):
    """One person has so many plans and no more."""
    many = [
        Called(name="schedule_create", arguments={"say": f"{n}", "cron": "0 9 * * *"}, id=f"c{n}") for n in range(22)
    ]
    stand_in.follow(Says(calls=tuple(many)), Says(text="Done."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            return await say(house)

    asyncio.run(run())
    assert len(read_rows(tmp_path, "id")) == 20


def test_what_others_have_planned(tmp_path, stand_in):
    """Nobody lists or cancels what another has planned, nor in a room what was planned elsewhere, nor what is above."""
    stand_in.follow(
        calls("schedule_create", say="The secret.", cron="0 9 * * *", name="secret"),
        Says(text="I will."),
        *[
            calls("schedule_list"),
            Says(text="Done."),
            calls("schedule_cancel", schedule="secret"),
            Says(text="Done."),
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
    """Who is not known has none of the tools."""
    stand_in.follow(Says(text="Hello."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, user="telegram:666", channel="telegram", address="666")

    asyncio.run(run())
    names = {tool["name"] for tool in stand_in.requests[0].body.get("tools", ())}
    assert not names & {"schedule_create", "schedule_list", "schedule_cancel", "notify_user"}


def test_notices_are_few(tmp_path, stand_in):
    """One person gets so many notices in an hour and no more, and none where the reply arrives anyway."""
    many = [Called(name="notify_user", arguments={"text": f"Notice {n}."}, id=f"c{n}") for n in range(12)]
    stand_in.follow(Says(calls=tuple(many)), Says(text="Done."), Says(text="Hello."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            await say(house, channel="web")
            await until(lambda: len(house.kept.letters) >= 10)
            await say(house, **PRIVATE)
        return [text for _, text in house.kept.letters if text.startswith("Notice")]

    assert len(asyncio.run(run())) == 10
    assert "notify_user" not in {tool["name"] for tool in stand_in.requests[2].body["tools"]}


def test_an_answer_is_understood(tmp_path, stand_in):
    """What arrived by itself in a chat is part of the conversation there, in private and in rooms, and nowhere else."""
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
            Says(text="Hello."), Says(text="Hi."), Says(text="Shall I order tea?"), *[Says(text="Done.")] * 2
        )
        asyncio.run(run(place, **where))
        *_, alice, bob = stand_in.requests
        assert "Shall I order tea?" in str(alice.body["messages"])
        assert "Shall I order tea?" not in str(bob.body)
