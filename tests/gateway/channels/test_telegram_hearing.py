"""Claims about what is heard on Telegram: who, where, to whom, and what in words."""

import pytest
from aiogram.types import Message, User

from foreword.gateway.channel import Chat
from foreword.gateway.channels.telegram.hearing import Hearing, read_address
from foreword.gateway.channels.telegram.moves import Moves
from foreword.signal.labels import CORRECTED
from foreword.testing import StandInBot

BOT = StandInBot()
ME = User.model_validate(BOT.me)
BOTS = {"id": 12345678, "is_bot": True, "first_name": "Reid", "username": "reid_bot"}
CHANNEL = {"id": -1009, "type": "channel", "title": "News"}
PHOTO = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
FILE = {"file_id": "f", "file_unique_id": "u"}


def hear(text=None, user=1001, chat=None, *, hearing=None, edited=False, number=1, **fields):
    """Hear one message."""
    message = Message.model_validate(BOT.make_message(text, user, chat, **fields))
    return (hearing or Hearing(ME, Moves())).hear(message, number, edited=edited)


def mark(kind, text, part, **fields):
    """Mark a part of a text as Telegram does, in units of UTF-16."""
    before = text[: text.index(part)]
    lengths = [len(one.encode("utf-16-le")) // 2 for one in (before, part)]
    return [{"type": kind, "offset": lengths[0], "length": lengths[1], **fields}]


def test_private():
    """In private a message speaks to the bot, and its reply goes back to that chat."""
    heard = hear("hello", user=1001, message_id=77)
    assert (heard.sender, heard.key, heard.address, heard.place) == ("1001", "1001:77", "1001", "")
    assert (heard.chat, heard.called, heard.name, heard.text) == (Chat.PRIVATE, True, "User 1001", "hello")


@pytest.mark.parametrize("chat", [-55, -100123])
def test_group(chat):
    """In a group the place is the chat, and a plain message speaks to nobody."""
    heard = hear("hello", chat=chat)
    assert (heard.chat, heard.place, heard.title, heard.sender) == (Chat.GROUP, str(chat), "Kitchen", "1001")
    assert not heard.called


def test_channel_post():
    """A post in a channel is for anybody to read, and nobody is known as who wrote it."""
    message = BOT.make_message("news", chat=-1009) | {"chat": CHANNEL, "sender_chat": CHANNEL, "from": None}
    heard = Hearing(ME, Moves()).hear(Message.model_validate(message), 1, edited=False)
    assert (heard.chat, heard.sender, heard.place, heard.name) == (Chat.BROADCAST, "", "-1009", "News")


def test_a_kind_of_chat_that_nobody_knows():
    """A chat of an unknown kind counts as the most public."""
    place = {"id": -7, "type": "planet", "title": "Mars"}
    message = BOT.make_message("hello", chat=-7) | {"chat": place}
    assert Hearing(ME, Moves()).hear(Message.model_validate(message), 1, edited=False).chat is Chat.BROADCAST


def test_nobody_is_who_speaks_as_a_chat():
    """Whoever speaks in the name of a group proves nothing about who they are."""
    group = {"id": -55, "type": "group", "title": "Kitchen"}
    assert hear("hello", chat=-55, user=1087968824, sender_chat=group).sender == ""


NAMED = "👍🏽 ask @Reid_Bot now"
IN_CAPTION = mark("mention", "@reid_bot", "@reid_bot")
CALLS = [
    ("by its name", {"text": NAMED, "entities": mark("mention", NAMED, "@Reid_Bot")}, True),
    (
        "by another's name",
        {"text": "o @reid_bots", "entities": mark("mention", "o @reid_bots", "@reid_bots")},
        False,
    ),
    ("by a link to it", {"text": "ask Reid", "entities": mark("text_mention", "ask Reid", "Reid", user=BOTS)}, True),
    (
        "by a command",
        {"text": "/sum@reid_bot", "entities": mark("bot_command", "/sum@reid_bot", "/sum@reid_bot")},
        True,
    ),
    ("by a command for all", {"text": "/sum", "entities": mark("bot_command", "/sum", "/sum")}, False),
    ("by a command for another", {"text": "/s@o_bot", "entities": mark("bot_command", "/s@o_bot", "/s@o_bot")}, False),
    (
        "in a caption",
        {"photo": PHOTO, "caption": "@reid_bot", "caption_entities": mark("mention", "@reid_bot", "@reid_bot")},
        True,
    ),
    ("in words that no client marked", {"text": "ask @reid_bot"}, False),
]


@pytest.mark.parametrize(("how", "fields", "called"), CALLS)
def test_called(how, fields, called):
    """In company the bot is spoken to by its name, as Telegram marks it."""
    assert hear(chat=-55, **fields).called is called, how


def test_replies():
    """A reply to the bot speaks to it; a reply to others, and a message in a topic that the bot made, do not."""
    mine, other = BOT.make_message("yes", chat=-55), BOT.make_message("no", chat=-55)
    mine["from"] = BOTS
    topic = {**mine, "text": None, "forum_topic_created": {"name": "Plans", "icon_color": 1}}
    called = [hear("why?", chat=-55, reply_to_message=one).called for one in (mine, other, topic)]
    assert called == [True, False, False]


def test_topics():
    """A reply goes to the topic of a forum; a thread of replies elsewhere is none."""
    topic = hear("hello", chat=-100123, message_thread_id=9, is_topic_message=True)
    assert (topic.address, topic.place) == ("-100123/9", "-100123")
    assert hear("hello", chat=-100123, message_thread_id=9).address == "-100123"
    assert [read_address(text) for text in ("-100123/9", "1001")] == [(-100123, 9), (1001, None)]


STICKER = {**FILE, "type": "regular", "width": 1, "height": 1, "is_animated": False, "is_video": False, "emoji": "🙂"}
WORDS = [
    ({"photo": PHOTO}, "[photo]"),
    ({"photo": PHOTO, "caption": "our cat"}, "[photo] our cat"),
    ({"voice": {**FILE, "duration": 3}}, "[voice message]"),
    ({"document": {**FILE, "file_name": "a]b\n.pdf"}}, "[document: a b .pdf]"),
    ({"sticker": STICKER}, "[sticker: 🙂]"),
    ({"location": {"latitude": 1.5, "longitude": 2.5}}, "[location: 1.5, 2.5]"),
    ({"text": "look", "forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}},
     "[forwarded from Eve] look"),
    ({"text": "see 👍 here", "entities": mark("text_link", "see 👍 here", "here", url="https://a.example")},
     "see 👍 here (https://a.example)"),
    ({"text": "a\x00b \ud83d!"}, "ab �!"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "words"), WORDS)
def test_words(fields, words):
    """What an agent cannot see is told in words, captions are text, and what cannot be kept is left out."""
    assert hear(**fields).text == words


@pytest.mark.parametrize(
    "fields",
    [
        {"new_chat_members": [BOTS]},
        {"left_chat_member": BOTS},
        {"new_chat_title": "Cellar"},
        {"pinned_message": BOT.make_message("x", chat=-55)},
        {"migrate_to_chat_id": -10055},
        {"text": "   "},
        {"text": "hello", "from": {"id": 7, "is_bot": True, "first_name": "Another"}},
    ],
)
def test_not_heard(fields):
    """Notices of Telegram, bots, and messages that say nothing are not heard."""
    assert hear(chat=-55, **fields) is None


def test_a_link_with_a_code():
    """A code that comes by a link is heard as if it had been typed, in private alone."""
    assert hear("/start ABCD-2345").text == "ABCD-2345"
    assert hear("/start").text == "/start"
    assert hear("/start ABCD-2345", chat=-55).text == "/start ABCD-2345"


def test_very_long():
    """A message may be longer than Telegram's own clients write."""
    assert len(hear("x" * 300_000).text) == 300_000


def test_edits():
    """An edit is a new message that says it corrects one; one that changes no words is not heard."""
    hearing = Hearing(ME, Moves())
    hearing.remember(hear("tea at four", hearing=hearing, message_id=5))
    same = hear("tea at four", hearing=hearing, message_id=5, edited=True, number=8)
    fixed = hear("tea at five", hearing=hearing, message_id=5, edited=True, number=9)
    again = hear("tea at five", hearing=hearing, message_id=5, edited=True, number=9)
    unknown = hear("coffee", hearing=hearing, message_id=4, edited=True, number=10)
    assert (fixed.text, fixed.key, fixed.corrects) == (f"{CORRECTED} tea at five", "1001:5:9", "1001:5")
    assert again == fixed
    assert [hearing.is_known(one) for one in (same, fixed, unknown)] == [True, False, False]
    hearing.remember(fixed)
    assert [hearing.is_known(one) for one in (same, fixed)] == [False, True]


def test_album():
    """Of an album the first message is heard, and every other that has words; twice the same is not another."""
    hearing = Hearing(ME, Moves())
    heard = [
        hear(hearing=hearing, photo=PHOTO, media_group_id="g", message_id=number, caption=caption)
        for number, caption in ((1, None), (2, None), (1, None), (3, "the cat"))
    ]
    album = "[photo: of an album]"
    assert [one and one.text for one in heard] == [album, None, album, f"{album} the cat"]
