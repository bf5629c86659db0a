"""Polling: no update is confirmed before it is stored, and no bad update, error or outage stops the others."""

import asyncio
import os
import sqlite3

import pytest
from connected import Ears, connect

from foreword.errors import InputError
from foreword.gateway.channel import NotStored
from foreword.gateway.channels.telegram.bot_client import GroupMigrations
from foreword.testing import DroppedConnection, InjectedError, run_fake_telegram
from waiting import until


@pytest.fixture
def bot():
    """A fake Bot API."""
    with run_fake_telegram() as one:
        yield one


def poll(bot, ears, until, **manners):
    """Poll until a condition holds; return the wire with its notices and sleeps."""

    async def run():
        async with connect(bot, **manners) as wire:
            await wire.poll(ears, lambda: until(wire))
            return wire

    return asyncio.run(run())


def all_confirmed(bot):
    """Return a condition: no unconfirmed updates remain."""
    return lambda _wire: not bot.updates


def test_order(bot):
    """Messages are handled in order of their updates, even if Telegram returns them unsorted, and then confirmed."""
    for number in range(250):
        bot.say(f"m{number}")
    bot.updates[:100] = reversed(bot.updates[:100])
    ears = Ears()
    poll(bot, ears, all_confirmed(bot))
    assert ears.texts == [f"m{number}" for number in range(250)]


def test_confirmed_once_kept(bot):
    """A message that was not stored is not confirmed; it is handled again, before later ones of its chat."""
    for text in ("one", "two", "three"):
        bot.say(text)
    offsets = []
    bot.choose = lambda method, params: offsets.append(params.get("offset")) if method == "getUpdates" else None
    ears = Ears(None, NotStored("the disk is full"))
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["one", "two", "three"]
    first = 700_000_001
    assert offsets[:3] == [None, str(first + 1), str(first + 3)]
    assert [level for level, words in wire.reported if "disk is full" in words] == ["error"]


def test_an_edit_that_was_not_kept(bot):
    """An edit that was not stored is handled again on redelivery, and only once."""
    for _ in range(2):
        bot.push("edited_message", bot.make_message("tea at five", 1001, None, message_id=5))
    ears = Ears(NotStored("the disk is full"))
    poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["[corrects an earlier message] tea at five"]


def test_others_do_not_wait(bot):
    """A chat whose message cannot be stored does not delay other chats."""
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
    """A message that was stored but not confirmed before a crash is handled again with the same key."""
    bot.say("one")
    first, second = Ears(), Ears()
    poll(bot, first, lambda _: first.heard)
    bot.updates = bot.updates or [bot.say("one", message_id=1)]
    poll(bot, second, lambda _: second.heard)
    assert second.heard[0].key == first.heard[0].key == "1001:1"


def test_refused_for_ever(bot):
    """A message that is refused permanently is reported, confirmed and skipped."""
    bot.say("bad")
    bot.say("good")
    ears = Ears(InputError("the message is too long"))
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["good"]
    assert any("too long" in words for _, words in wire.reported)


def test_broken_for_ever(bot):
    """A message whose handler keeps failing is dropped with an error after five tries, and the next is handled."""
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
    assert [level for level, words in wire.reported if "was dropped" in words] == ["error"]


ODD = [
    ("poll_answer", {"poll_id": "1", "option_ids": []}),
    ("a_kind_of_next_year", {"anything": [1, 2]}),
    ("message", {"message_id": "no number", "chat": 5}),
    ("message", "not even a mapping"),
    ("message", None),
]


@pytest.mark.parametrize(("kind", "what"), ODD)
def test_odd_updates(bot, kind, what):
    """An update of unknown kind or invalid form is reported and skipped; the others are handled."""
    bot.say("before")
    bot.push(kind, what)
    bot.say("after")
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["before", "after"]
    assert [level for level, words in wire.reported if "was skipped" in words] == ["warn"]


def test_removed_and_moved(bot):
    """The owner is notified when the bot is removed or blocked or its group migrates, but not when it is added."""
    user = {"id": 12345678, "is_bot": True, "first_name": "Reid"}
    for chat, status in ((-55, "kicked"), (1001, "kicked"), (-56, "member")):
        where = bot.make_message("x", chat=chat)["chat"]
        old, new = {"status": "member", "user": user}, {"status": status, "user": user, "until_date": 0}
        change = {"chat": where, "from": user, "date": 1, "old_chat_member": old, "new_chat_member": new}
        bot.push("my_chat_member", change)
    bot.say(chat=-57, migrate_to_chat_id=-10057)
    wire = poll(bot, Ears(), all_confirmed(bot))
    reported = [words for _, words in wire.reported]
    assert reported[0] == "telegram:-55 has removed the bot"
    assert reported[1] == "telegram:1001 has blocked the bot"
    assert "telegram:-57 now has the id -10057" in reported[2]
    assert len(reported) == 3


def test_a_moved_group_stays_its_room(bot, tmp_path):
    """A group that became a supergroup keeps its place, also after a restart, so that its ceiling applies."""
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
    assert len(wire.reported) == 1


def test_moves_that_cannot_be_read(tmp_path):
    """A damaged migrations file raises an error that says what to do."""
    path = tmp_path / "telegram.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="repair the file, or delete it"):
        GroupMigrations(os.fspath(path))


def test_a_move_that_was_not_written(tmp_path):
    """A migration that could not be written is handled as new the next time."""
    folder = tmp_path / "state"
    moves = GroupMigrations(os.fspath(folder / "telegram.json"))
    with pytest.raises(OSError, match=r"telegram\.json"):
        moves.add(-57, -10057)
    folder.mkdir()
    assert moves.add(-57, -10057)
    assert GroupMigrations(os.fspath(folder / "telegram.json")).find_first(-10057) == -57


def test_an_hour_away(bot):
    """During an outage polling backs off, the outage is reported once, and no message is lost."""
    bot.say("hello")
    faults = [
        DroppedConnection(),
        InjectedError(status=502),
        InjectedError(status=502, text="<html>Bad Gateway</html>"),
        InjectedError(status=500),
    ]
    bot.faults["getupdates"] = faults * 20
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["hello"]
    assert len(wire.reported) == 1
    assert wire.naps.taken[:7] == [1, 2, 4, 8, 15, 30, 60]
    assert set(wire.naps.taken[7:]) == {60}
    assert sum(wire.naps.taken) > 3_600


def test_nobody_there():
    """A refused connection is retried as well."""
    with run_fake_telegram() as gone:
        pass

    async def run():
        async with connect(gone) as wire:
            await wire.poll(Ears(), lambda: len(wire.naps.taken) > 10)
            return wire

    wire = asyncio.run(run())
    assert len(wire.reported) == 1
    assert gone.token not in str(wire.reported)


def test_two_pollers(bot):
    """A second poller of the same bot is reported once, and polling continues when it stops."""
    bot.say("hello")
    bot.faults["getupdates"] = [
        InjectedError(status=409, description="Conflict: terminated by other getUpdates request")
    ] * 3
    ears = Ears()
    wire = poll(bot, ears, all_confirmed(bot))
    assert ears.texts == ["hello"]
    assert len(wire.reported) == 1
    assert "stop one of the two" in wire.reported[0][1]


def test_refused_token(bot):
    """A token that Telegram refuses is reported once without showing it, and retried after ten minutes."""
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
    assert [level for level, _ in wire.reported] == ["error"]
    assert right not in str(wire.reported)


def test_flooded(bot):
    """A retry_after from Telegram is respected exactly."""
    bot.say("hello")
    bot.faults["getupdates"] = [InjectedError(status=429, description="Too Many Requests", retry_after=17)]
    wire = poll(bot, Ears(), all_confirmed(bot))
    assert wire.naps.taken == [17]


@pytest.mark.skipif(not os.environ.get("FOREWORD_SOAK"), reason="takes its time")
def test_really_two(bot):
    """With two real pollers every message is handled."""

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
