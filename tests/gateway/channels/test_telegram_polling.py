"""Claims about polling: nothing is confirmed before it is kept, and no update, fault or outage stops the others."""

import asyncio
import os
import sqlite3

import pytest
from connected import Ears, connect

from foreword.errors import InputError
from foreword.gateway.channels.telegram.moves import Moves
from foreword.gateway.gateway import NotKept
from foreword.testing import Drops, Errs, listen_telegram
from waiting import until


@pytest.fixture
def bot():
    """The Bot API on the loopback."""
    with listen_telegram() as one:
        yield one


def poll(bot, ears, until, **manners):
    """Poll until something is so; return what was told and how it slept."""

    async def run():
        async with connect(bot, **manners) as wire:
            await wire.poll(ears, lambda: until(wire))
            return wire

    return asyncio.run(run())


def all_confirmed(bot):
    """Whether nothing waits at Telegram any more."""
    return lambda _wire: not bot.updates


def test_order(bot):
    """Messages are handed in in the order of their updates, also when Telegram mixes them up, and then confirmed."""
    for number in range(250):
        bot.say(f"m{number}")
    bot.updates[:100] = reversed(bot.updates[:100])
    ears = Ears()
    poll(bot, ears, all_confirmed(bot))
    assert ears.texts == [f"m{number}" for number in range(250)]


def test_confirmed_once_kept(bot):
    """What was not kept is not confirmed: it is handed in again, with what came after it in its chat."""
    for text in ("one", "two", "three"):
        bot.say(text)
    offsets = []
    bot.choose = lambda method, params: offsets.append(params.get("offset")) if method == "getUpdates" else None
    ears = Ears(None, NotKept("the disk is full"))
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["one", "two", "three"]
    first = 700_000_001
    assert offsets[:3] == [None, str(first + 1), str(first + 3)]
    assert [level for level, words in wire.told if "disk is full" in words] == ["error"]


def test_an_edit_that_was_not_kept(bot):
    """An edit that was not kept is news when Telegram brings it again, and none once it was."""
    for _ in range(2):
        bot.push("edited_message", bot.make_message("tea at five", 1001, None, message_id=5))
    ears = Ears(NotKept("the disk is full"))
    poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["[corrects an earlier message] tea at five"]


def test_others_do_not_wait(bot):
    """A chat whose message is not kept holds up no other chat."""
    bot.say("mine", user=1001)
    bot.say("yours", user=1002)

    class Picky(Ears):
        async def __call__(self, heard):
            if heard.sender == "1001" and "1002" not in {one.sender for one in self.heard}:
                raise sqlite3.OperationalError("database is locked")
            await super().__call__(heard)

    ears = Picky()
    poll(bot, ears, all_confirmed(bot))
    assert sorted(set(ears.texts)) == ["mine", "yours"]


def test_heard_again_with_its_key(bot):
    """What was kept and not confirmed when the process ended is handed in again under the same key."""
    bot.say("one")
    first, second = Ears(), Ears()
    poll(bot, first, lambda _: first.heard)
    bot.updates = bot.updates or [bot.say("one", message_id=1)]
    poll(bot, second, lambda _: second.heard)
    assert second.heard[0].key == first.heard[0].key == "1001:1"


def test_refused_for_ever(bot):
    """A message that nobody will ever take is told, confirmed and left behind."""
    bot.say("bad")
    bot.say("good")
    ears = Ears(InputError("the message is too long"))
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["good"]
    assert any("too long" in words for _, words in wire.told)


def test_broken_for_ever(bot):
    """A message that breaks whoever takes it is tried some times, then given up with an error, and the next goes on."""
    bot.say("poison")
    bot.say("good")

    class Fragile(Ears):
        async def __call__(self, heard):
            self.heard.append(heard)
            if heard.text == "poison":
                raise KeyError("a bug")

    ears = Fragile()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts.count("poison") == 5
    assert ears.texts[-1] == "good"
    assert [level for level, words in wire.told if "given up" in words] == ["error"]


ODD = [
    ("poll_answer", {"poll_id": "1", "option_ids": []}),
    ("a_kind_of_next_year", {"anything": [1, 2]}),
    ("message", {"message_id": "no number", "chat": 5}),
    ("message", "not even a mapping"),
    ("message", None),
]


@pytest.mark.parametrize(("kind", "what"), ODD)
def test_odd_updates(bot, kind, what):
    """An update of an unknown kind, or one that cannot be read, is told and skipped; the others are heard."""
    bot.say("before")
    bot.push(kind, what)
    bot.say("after")
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["before", "after"]
    assert [level for level, words in wire.told if "left out" in words] == ["warn"]


def test_removed_and_moved(bot):
    """That the bot was removed or blocked, or its group moved, is told to the owner; being added is not."""
    user = {"id": 12345678, "is_bot": True, "first_name": "Reid"}
    for chat, status in ((-55, "kicked"), (1001, "kicked"), (-56, "member")):
        where = bot.make_message("x", chat=chat)["chat"]
        old, new = {"status": "member", "user": user}, {"status": status, "user": user, "until_date": 0}
        change = {"chat": where, "from": user, "date": 1, "old_chat_member": old, "new_chat_member": new}
        bot.push("my_chat_member", change)
    bot.say(chat=-57, migrate_to_chat_id=-10057)
    wire = poll(bot, Ears(), all_confirmed(bot))
    told = [words for _, words in wire.told]
    assert told[0] == "telegram:-55 has removed the bot"
    assert told[1] == "telegram:1001 has blocked the bot"
    assert "telegram:-57 is reached as -10057 now" in told[2]
    assert len(told) == 3


def test_a_moved_group_stays_its_room(bot, tmp_path):
    """A group that became a supergroup is the place that it was, also after a restart, so that its ceiling holds."""
    bot.say("before", chat=-57)
    bot.say(chat=-57, migrate_to_chat_id=-10057)
    bot.say(chat=-10057, migrate_from_chat_id=-57)
    bot.say("after", chat=-10057)
    path, first, later = os.fspath(tmp_path / "telegram.json"), Ears(), Ears()
    wire = poll(bot, first, all_confirmed(bot), moves=path)
    bot.say("later", chat=-10057)
    bot.moved[-57] = -10057
    poll(bot, later, all_confirmed(bot), moves=path)
    assert [(heard.place, heard.address) for heard in first.heard + later.heard] == [
        ("-57", "-57"),
        ("-57", "-10057"),
        ("-57", "-10057"),
    ]
    assert len(wire.told) == 1


def test_moves_that_cannot_be_read(tmp_path):
    """A file of moves that is damaged is no reason to forget them: it says so, and what to do."""
    path = tmp_path / "telegram.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="mend it, or delete it"):
        Moves(os.fspath(path))


def test_a_move_that_was_not_written(tmp_path):
    """A move that the disk did not take is news when it is heard again."""
    folder = tmp_path / "state"
    moves = Moves(os.fspath(folder / "telegram.json"))
    with pytest.raises(OSError, match=r"telegram\.json"):
        moves.add(-57, -10057)
    folder.mkdir()
    assert moves.add(-57, -10057)
    assert Moves(os.fspath(folder / "telegram.json")).find_first(-10057) == -57


def test_an_hour_away(bot):
    """While Telegram is away it is asked ever more seldom, that is told once, and nothing is lost."""
    bot.say("hello")
    faults = [Drops(), Errs(status=502), Errs(status=502, text="<html>Bad Gateway</html>"), Errs(status=500)]
    bot.faults["getupdates"] = faults * 20
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["hello"]
    assert len(wire.told) == 1
    assert wire.naps.taken[:7] == [1, 2, 4, 8, 15, 30, 60]
    assert set(wire.naps.taken[7:]) == {60}
    assert sum(wire.naps.taken) > 3_600


def test_nobody_there():
    """A server that does not even take connections is waited for, too."""
    with listen_telegram() as gone:
        pass

    async def run():
        async with connect(gone) as wire:
            await wire.poll(Ears(), lambda: len(wire.naps.taken) > 10)
            return wire

    wire = asyncio.run(run())
    assert len(wire.told) == 1
    assert gone.token not in str(wire.told)


def test_two_pollers(bot):
    """That somebody else asks for the same bot's messages is told once, and polling goes on when they stop."""
    bot.say("hello")
    bot.faults["getupdates"] = [Errs(status=409, description="Conflict: terminated by other getUpdates request")] * 3
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["hello"]
    assert len(wire.told) == 1
    assert "end one of the two" in wire.told[0][1]


def test_refused_token(bot):
    """A token that Telegram refuses is told once and never shown, and is tried again after a long while."""
    bot.token, right = "12345678:another-token", bot.token
    bot.say("hello")

    async def run():
        settings = bot.token
        bot.token = right
        async with connect(bot) as wire:
            bot.token = settings
            await wire.poll(Ears(), lambda: len(wire.naps.taken) >= 3)
            return wire

    wire = asyncio.run(run())
    assert set(wire.naps.taken) == {600.0}
    assert [level for level, _ in wire.told] == ["error"]
    assert right not in str(wire.told)


def test_flooded(bot):
    """A pause that Telegram asks for is kept to the second."""
    bot.say("hello")
    bot.faults["getupdates"] = [Errs(status=429, description="Too Many Requests", retry_after=17)]
    wire = poll(bot, Ears(), all_confirmed(bot))
    assert wire.naps.taken == [17]


@pytest.mark.skipif(not os.environ.get("FOREWORD_SOAK"), reason="takes its time")
def test_really_two(bot):
    """Two real pollers take turns to be refused, and every message is heard."""

    async def run():
        ears = Ears()
        async with connect(bot) as one, connect(bot) as two:
            polls = [asyncio.create_task(wire.channel.run(ears)) for wire in (one, two)]
            for number in range(50):
                bot.say(f"m{number}")
                await asyncio.sleep(0.02)
            await until(lambda: not bot.updates)
            for task in polls:
                task.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
        return ears

    assert len({heard.key for heard in asyncio.run(run()).heard}) == 50
