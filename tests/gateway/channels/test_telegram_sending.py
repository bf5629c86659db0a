"""Claims about sending: what arrives, in which form and pace, and what each failure means for the outbox."""

import asyncio

import pytest
from connected import connect

from foreword.gateway.channel import Chat, NeverDelivered, NotDelivered
from foreword.gateway.channels.telegram.line import Unsure
from foreword.gateway.channels.telegram.manners import Manners
from foreword.gateway.channels.telegram.pacing import Pacer, Tempo
from foreword.gateway.outbox import LONGEST
from foreword.testing import Delays, Drops, Errs, listen_telegram


@pytest.fixture
def bot():
    """The Bot API on the loopback, with a private chat and a group."""
    with listen_telegram() as one:
        one.say("hello")
        one.say("hello", chat=-55)
        yield one


def deliver(bot, text="Yes.", address="1001", **manners):
    """Deliver a reply; return what was told and how it slept."""

    async def run():
        async with connect(bot, **manners) as wire:
            await wire.say(text, address)
            return wire

    return asyncio.run(run())


def test_formatted(bot):
    """A reply arrives formatted, without previews of its links."""
    deliver(bot, "**Yes** & see https://a.example")
    (sent,) = bot.sent
    assert (sent.text, sent.preview, sent.chat) == ("Yes & see https://a.example", False, 1001)
    assert sent.entities == ({"type": "bold", "offset": 0, "length": 3},)


def test_long(bot):
    """A long reply arrives in messages that fit, with its code as code in each."""
    deliver(bot, "Here:\n\n```python\n" + "\n".join(f"print({number})" for number in range(1_000)) + "\n```")
    assert len(bot.sent) > 2
    assert all(sent.entities[-1]["language"] == "python" for sent in bot.sent)


def test_plain(bot):
    """What Telegram cannot parse is sent plain at once, and loses no word."""
    bot.faults["sendmessage"] = [Errs(status=400, description="Bad Request: can't parse entities: a tag")]
    deliver(bot, "**Yes** <3")
    assert [(sent.text, sent.entities) for sent in bot.sent] == [("Yes <3", ())]


def test_a_topic(bot):
    """A reply goes to its topic; when that is gone, to the group itself."""
    bot.say("hello", chat=-100123)
    bot.topics[-100123] = {9}
    deliver(bot, address="-100123/9")
    deliver(bot, address="-100123/8")
    assert [sent.thread for sent in bot.sent] == [9, None]


def test_moved(bot):
    """A reply follows a group that became a supergroup, and the next goes there straight."""
    bot.moved[-55] = -10055

    async def run():
        async with connect(bot) as wire:
            await wire.say("one", "-55")
            await wire.say("two", "-55")

    asyncio.run(run())
    assert [(sent.chat, sent.text) for sent in bot.sent] == [(-10055, "one"), (-10055, "two")]
    assert [params["chat_id"] for method, params in bot.calls if method == "sendMessage"] == ["-55", "-10055", "-10055"]


NEVER = [
    (403, "Forbidden: bot was kicked from the group chat"),
    (403, "Forbidden: bot was blocked by the user"),
    (400, "Bad Request: chat not found"),
    (400, "Bad Request: not enough rights to send text messages to the chat"),
    (413, "Request Entity Too Large"),
]


@pytest.mark.parametrize(("status", "words"), NEVER)
def test_never(bot, status, words):
    """Where the bot is barred or the chat is gone, nothing ever arrives, in Telegram's own words."""
    bot.faults["sendmessage"] = [Errs(status=status, description=words)] * 2
    with pytest.raises(NeverDelivered, match=words):
        deliver(bot)
    assert bot.sent == []


def test_empty(bot):
    """A reply of nothing is not sent."""
    with pytest.raises(NeverDelivered, match="empty"):
        deliver(bot, "  \n ")


def test_no_chat(bot):
    """What is no chat's id is never delivered to."""
    with pytest.raises(NeverDelivered, match="its id is a number"):
        deliver(bot, address="kitchen")


def test_too_fast(bot):
    """A pause that Telegram asks for is kept for that chat, and for all of them when it asks for a second one."""

    async def run():
        async with connect(bot) as wire:
            waits = []
            for address, fault in (("1001", 30), ("1001", None), ("-55", 40), ("1002", None)):
                bot.faults["sendmessage"] = [
                    Errs(status=429, description="Too Many Requests", retry_after=fault)
                ] * bool(fault)
                with pytest.raises(NotDelivered) as error:
                    await wire.say("x", address)
                waits.append(round(error.value.wait))
            return waits

    bot.say("hello", user=1002)
    assert asyncio.run(run()) == [30, 30, 40, 40]
    assert bot.sent == []


@pytest.mark.parametrize(
    "fault",
    [
        Drops(),
        Drops(done=True),
        Errs(status=500),
        Errs(status=502, text="<html>Bad Gateway</html>"),
        Errs(status=200, text="<html>Welcome to the proxy</html>"),
        Delays(seconds=3.0),
    ],
)
def test_unsure(bot, fault):
    """Where the answer is missing, late or no answer, nobody knows whether it arrived."""
    bot.faults["sendmessage"] = [fault]
    with pytest.raises(Unsure) as error:
        deliver(bot, request=0.3)
    assert bot.token not in str(error.value)
    assert error.value.__cause__ is None


def test_unreached():
    """Where nobody takes the connection, nothing arrived, and the token is not shown."""
    with listen_telegram() as gone:
        pass
    with pytest.raises(NotDelivered) as error:
        deliver(gone)
    assert gone.token not in str(error.value)


def test_an_hour_without_an_answer(bot):
    """After a doubt it is asked first whether Telegram is there: of many replies in an outage one is uncertain."""
    bot.choose = lambda _method, _params: Errs(status=502, description="Bad Gateway")

    async def run():
        async with connect(bot) as wire:
            with pytest.raises(Unsure):
                await wire.say("one")
            for _ in range(5):
                with pytest.raises(NotDelivered, match="does not answer"):
                    await wire.say("two")
            bot.choose = None
            await wire.say("two")

    asyncio.run(run())
    assert [sent.text for sent in bot.sent] == ["two"]
    assert [method for method, _ in bot.calls].count("sendMessage") == 2


def test_refused_token(bot):
    """A refused token loses no reply: it is tried again after a long while."""
    bot.faults["sendmessage"] = [Errs(status=401, description="Unauthorized")]
    with pytest.raises(NotDelivered) as error:
        deliver(bot)
    assert error.value.wait == 600


def test_typing(bot):
    """That a reply is being made is shown, and whatever goes wrong with that goes unnoticed."""

    async def run():
        async with connect(bot) as wire:
            for address in ("1001", "-55", "9999", "nonsense"):
                await wire.channel.show_work(address)

    bot.barred[-55] = "Forbidden: bot was kicked from the group chat"
    asyncio.run(run())
    assert [params["chat_id"] for method, params in bot.calls if method == "sendChatAction"] == ["1001", "-55", "9999"]


def test_within_what_the_outbox_allows():
    """The longest delivery, with every wait in it, ends before the outbox would take it for lost."""
    usual = Manners()
    assert 2 * usual.tempo.longest + usual.probe + usual.request < LONGEST


class Clock:
    """A clock that its own sleep moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Tell the time."""
        return self.now

    async def sleep(self, seconds):
        """Move on."""
        self.now += seconds


def test_pace():
    """No second has more messages than Telegram takes, nor more than one for a chat, nor a minute 21 for a group."""
    clock = Clock()
    tempo = Tempo(longest=1_000.0)
    pacer = Pacer(tempo, clock, clock.sleep)

    async def run(chats):
        moments = []
        for chat in chats:
            await pacer.wait(chat)
            moments.append(clock.now)
        return moments

    assert asyncio.run(run([1] * 4)) == [0, 1, 2, 3]
    group = asyncio.run(run([-5] * 45))
    assert all(later - earlier >= 60 for earlier, later in zip(group, group[20:], strict=False))
    crowd = asyncio.run(run(range(100, 200)))
    assert all(later - earlier >= 1 for earlier, later in zip(crowd, crowd[25:], strict=False))


def test_pace_does_not_hold_up():
    """A message that has to wait long is tried again later, and its moment is left to others."""
    clock = Clock()
    pacer = Pacer(Tempo(), clock, clock.sleep)

    async def run():
        for _ in range(20):
            await pacer.wait(-5)
        for _ in range(3):
            with pytest.raises(NotDelivered) as error:
                await pacer.wait(-5)
        await pacer.wait(1001)
        return error.value.wait

    assert 55 < asyncio.run(run()) <= 60
    assert clock.now < 5


def test_what_a_place_is():
    """Telegram is asked what a chat is; while it cannot say, what it said last counts, else that anybody reads it."""
    kinds = []

    async def run(bot):
        async with connect(bot) as wire:
            for chat in (-5, -6, -7):
                bot.say("Hello.", chat=chat)
            bot.kinds[-6] = "channel"
            kinds.extend([await wire.channel.find_kind(address) for address in ("-5", "-6", "-99")])
            bot.choose = lambda method, _: Errs() if method.lower() == "getchat" else None
            kinds.extend([await wire.channel.find_kind(address) for address in ("-5", "-7")])

    with listen_telegram() as bot:
        asyncio.run(run(bot))
    assert kinds == [Chat.GROUP, Chat.BROADCAST, Chat.BROADCAST, Chat.GROUP, Chat.BROADCAST]
