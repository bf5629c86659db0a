"""Sending: format and pace of messages, and the effect of each failure on the outbox."""

import asyncio

import pytest
from connected import connect

from foreword.gateway.channel import ChatKind, NeverDelivered, NotDelivered
from foreword.gateway.channels.telegram.bot_client import RateLimits, SendLimiter, TelegramSettings, UncertainDelivery
from foreword.gateway.outbox import DELIVERY_TIMEOUT_S
from foreword.testing import DroppedConnection, InjectedDelay, InjectedError, run_fake_telegram


@pytest.fixture
def bot():
    """A fake Bot API with a private chat and a group."""
    with run_fake_telegram() as one:
        one.say("hello")
        one.say("hello", chat=-55)
        yield one


def deliver(bot, text="Yes.", address="1001", **manners):
    """Deliver a reply; return the wire with its notices and sleeps."""

    async def run():
        async with connect(bot, **manners) as wire:
            await wire.say(text, address)
            return wire

    return asyncio.run(run())


def test_formatted(bot):
    """A reply is formatted and has no link previews."""
    deliver(bot, "**Yes** & see https://a.example")
    (sent,) = bot.sent
    assert (sent.text, sent.preview, sent.chat) == ("Yes & see https://a.example", False, 1001)
    assert sent.entities == ({"type": "bold", "offset": 0, "length": 3},)


def test_long(bot):
    """A long reply is split into messages that fit, and code stays code in each."""
    deliver(bot, "Here:\n\n```python\n" + "\n".join(f"print({number})" for number in range(1_000)) + "\n```")
    assert len(bot.sent) > 2
    assert all(sent.entities[-1]["language"] == "python" for sent in bot.sent)


def test_plain(bot):
    """A message that Telegram cannot parse is sent as plain text at once."""
    bot.faults["sendmessage"] = [InjectedError(status=400, description="Bad Request: can't parse entities: a tag")]
    deliver(bot, "**Yes** <3")
    assert [(sent.text, sent.entities) for sent in bot.sent] == [("Yes <3", ())]


def test_a_topic(bot):
    """A reply goes to its topic, or to the group if the topic is gone."""
    bot.say("hello", chat=-100123)
    bot.topics[-100123] = {9}
    deliver(bot, address="-100123/9")
    deliver(bot, address="-100123/8")
    assert [sent.thread for sent in bot.sent] == [9, None]


def test_moved(bot):
    """A reply follows a group that became a supergroup, and the next one is sent there directly."""
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
    """If the bot is barred or the chat is gone, delivery fails permanently with Telegram's description."""
    bot.faults["sendmessage"] = [InjectedError(status=status, description=words)] * 2
    with pytest.raises(NeverDelivered, match=words):
        deliver(bot)
    assert bot.sent == []


def test_empty(bot):
    """An empty reply is not sent."""
    with pytest.raises(NeverDelivered, match="empty"):
        deliver(bot, "  \n ")


def test_no_chat(bot):
    """An address that is not a chat id fails permanently."""
    with pytest.raises(NeverDelivered, match="a chat id is a number"):
        deliver(bot, address="kitchen")


def test_too_fast(bot):
    """A retry_after applies to its chat, and to all chats after a second one."""

    async def run():
        async with connect(bot) as wire:
            waits = []
            for address, fault in (("1001", 30), ("1001", None), ("-55", 40), ("1002", None)):
                bot.faults["sendmessage"] = [
                    InjectedError(status=429, description="Too Many Requests", retry_after=fault)
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
        DroppedConnection(),
        DroppedConnection(done=True),
        InjectedError(status=500),
        InjectedError(status=502, text="<html>Bad Gateway</html>"),
        InjectedError(status=200, text="<html>Welcome to the proxy</html>"),
        InjectedDelay(seconds=3.0),
    ],
)
def test_unsure(bot, fault):
    """If the response is missing, late or invalid, the delivery is uncertain."""
    bot.faults["sendmessage"] = [fault]
    with pytest.raises(UncertainDelivery) as error:
        deliver(bot, request=0.3)
    assert bot.token not in str(error.value)
    assert error.value.__cause__ is None


def test_unreached():
    """If the connection is refused, the message was not delivered, and the error does not contain the token."""
    with run_fake_telegram() as gone:
        pass
    with pytest.raises(NotDelivered) as error:
        deliver(gone)
    assert gone.token not in str(error.value)


def test_an_hour_without_an_answer(bot):
    """After an uncertain delivery Telegram is probed first, so only one reply of an outage is uncertain."""
    bot.choose = lambda _method, _params: InjectedError(status=502, description="Bad Gateway")

    async def run():
        async with connect(bot) as wire:
            with pytest.raises(UncertainDelivery):
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
    """With a refused token no reply is lost: it is retried after ten minutes."""
    bot.faults["sendmessage"] = [InjectedError(status=401, description="Unauthorized")]
    with pytest.raises(NotDelivered) as error:
        deliver(bot)
    assert error.value.wait == 600


def test_typing(bot):
    """The typing action is sent, and its errors are ignored."""

    async def run():
        async with connect(bot) as wire:
            for address in ("1001", "-55", "9999", "nonsense"):
                await wire.channel.show_work(address)

    bot.barred[-55] = "Forbidden: bot was kicked from the group chat"
    asyncio.run(run())
    assert [params["chat_id"] for method, params in bot.calls if method == "sendChatAction"] == ["1001", "-55", "9999"]


def test_within_what_the_outbox_allows():
    """The longest delivery, with all waits, is shorter than the outbox timeout."""
    usual = TelegramSettings()
    assert 2 * usual.limits.max_wait + usual.probe + usual.request < DELIVERY_TIMEOUT_S


class Clock:
    """A clock that advances by its own sleep."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now

    async def sleep(self, seconds):
        """Advance the clock."""
        self.now += seconds


def test_pace():
    """Sends stay within Telegram's limits per second, per chat and second, and per group and minute."""
    clock = Clock()
    limits = RateLimits(max_wait=1_000.0)
    pacer = SendLimiter(limits, clock, clock.sleep)

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
    """A message with a long wait is rescheduled, and its slot is free for others."""
    clock = Clock()
    pacer = SendLimiter(RateLimits(), clock, clock.sleep)

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
    """Telegram is asked for the kind of a chat; on failure the last known kind is used, or else broadcast."""
    kinds = []

    async def run(bot):
        async with connect(bot) as wire:
            for chat in (-5, -6, -7):
                bot.say("Hello.", chat=chat)
            bot.kinds[-6] = "channel"
            kinds.extend([await wire.channel.find_kind(address) for address in ("-5", "-6", "-99")])
            bot.choose = lambda method, _: InjectedError() if method.lower() == "getchat" else None
            kinds.extend([await wire.channel.find_kind(address) for address in ("-5", "-7")])

    with run_fake_telegram() as bot:
        asyncio.run(run(bot))
    assert kinds == [ChatKind.GROUP, ChatKind.BROADCAST, ChatKind.BROADCAST, ChatKind.GROUP, ChatKind.BROADCAST]
