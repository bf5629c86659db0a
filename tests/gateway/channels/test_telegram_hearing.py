"""Reading Telegram messages: sender, place, whether the bot is addressed, and the text."""

import pytest
from aiogram.types import Message, User

from foreword.engine.signal import CORRECTION_LABEL
from foreword.gateway.channel import ChatKind
from foreword.gateway.channels.telegram.bot_client import GroupMigrations
from foreword.gateway.channels.telegram.telegram_channel import MessageReader, parse_address
from foreword.testing import FakeBot

BOT = FakeBot()
ME = User.model_validate(BOT.me)
BOTS = {"id": 12345678, "is_bot": True, "first_name": "Reid", "username": "reid_bot"}
CHANNEL = {"id": -1009, "type": "channel", "title": "News"}
PHOTO = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
FILE = {"file_id": "f", "file_unique_id": "u"}


def hear(text=None, user=1001, chat=None, *, hearing=None, edited=False, number=1, **fields):
    """Read one message."""
    message = Message.model_validate(BOT.make_message(text, user, chat, **fields))
    return (hearing or MessageReader(ME, GroupMigrations())).convert(message, number, edited=edited)


def mark(kind, text, part, **fields):
    """Make a Telegram entity for a part of a text, in UTF-16 units."""
    before = text[: text.index(part)]
    lengths = [len(one.encode("utf-16-le")) // 2 for one in (before, part)]
    return [{"type": kind, "offset": lengths[0], "length": lengths[1], **fields}]


def test_private():
    """A private message addresses the bot, and the reply goes to the same chat."""
    heard = hear("hello", user=1001, message_id=77)
    assert (heard.sender, heard.key, heard.address, heard.place) == ("1001", "1001:77", "1001", "")
    assert (heard.chat, heard.called, heard.name, heard.text) == (ChatKind.PRIVATE, True, "User 1001", "hello")


@pytest.mark.parametrize("chat", [-55, -100123])
def test_group(chat):
    """In a group the place is the chat, and a plain message does not address the bot."""
    heard = hear("hello", chat=chat)
    assert (heard.chat, heard.place, heard.title, heard.sender) == (ChatKind.GROUP, str(chat), "Kitchen", "1001")
    assert not heard.called


def test_channel_post():
    """A channel post is a broadcast without a known sender."""
    message = BOT.make_message("news", chat=-1009) | {"chat": CHANNEL, "sender_chat": CHANNEL, "from": None}
    heard = MessageReader(ME, GroupMigrations()).convert(Message.model_validate(message), 1, edited=False)
    assert (heard.chat, heard.sender, heard.place, heard.name) == (ChatKind.BROADCAST, "", "-1009", "News")


def test_a_kind_of_chat_that_nobody_knows():
    """A chat of unknown kind counts as a broadcast."""
    place = {"id": -7, "type": "planet", "title": "Mars"}
    message = BOT.make_message("hello", chat=-7) | {"chat": place}
    assert (
        MessageReader(ME, GroupMigrations()).convert(Message.model_validate(message), 1, edited=False).chat
        is ChatKind.BROADCAST
    )


def test_nobody_is_who_speaks_as_a_chat():
    """A message in the name of a group has no sender."""
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
    """In a group the bot is addressed by its name, as marked by a Telegram entity."""
    assert hear(chat=-55, **fields).called is called, how


def test_replies():
    """A reply to the bot addresses it; a reply to others, or a message in a topic the bot created, does not."""
    mine, other = BOT.make_message("yes", chat=-55), BOT.make_message("no", chat=-55)
    mine["from"] = BOTS
    topic = {**mine, "text": None, "forum_topic_created": {"name": "Plans", "icon_color": 1}}
    called = [hear("why?", chat=-55, reply_to_message=one).called for one in (mine, other, topic)]
    assert called == [True, False, False]


def test_topics():
    """A reply goes to the forum topic; a reply thread elsewhere is not a topic."""
    topic = hear("hello", chat=-100123, message_thread_id=9, is_topic_message=True)
    assert (topic.address, topic.place) == ("-100123/9", "-100123")
    assert hear("hello", chat=-100123, message_thread_id=9).address == "-100123"
    assert [parse_address(text) for text in ("-100123/9", "1001")] == [(-100123, 9), (1001, None)]


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
    """Attachments become text, captions are included, and invalid characters are removed."""
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
    """Service messages, messages of bots and empty messages are ignored."""
    assert hear(chat=-55, **fields) is None


def test_a_link_with_a_code():
    """A pairing code in a /start link is read as if typed, in private chats only."""
    assert hear("/start ABCD-2345").text == "ABCD-2345"
    assert hear("/start").text == "/start"
    assert hear("/start ABCD-2345", chat=-55).text == "/start ABCD-2345"


def test_very_long():
    """A message may be longer than Telegram's own limit."""
    assert len(hear("x" * 300_000).text) == 300_000


def test_edits():
    """An edit is a new message labelled as a correction; an edit with the same text is known."""
    hearing = MessageReader(ME, GroupMigrations())
    hearing.add_text(hear("tea at four", hearing=hearing, message_id=5))
    same = hear("tea at four", hearing=hearing, message_id=5, edited=True, number=8)
    fixed = hear("tea at five", hearing=hearing, message_id=5, edited=True, number=9)
    again = hear("tea at five", hearing=hearing, message_id=5, edited=True, number=9)
    unknown = hear("coffee", hearing=hearing, message_id=4, edited=True, number=10)
    assert (fixed.text, fixed.key, fixed.corrects) == (f"{CORRECTION_LABEL} tea at five", "1001:5:9", "1001:5")
    assert again == fixed
    assert [hearing.is_unchanged(one) for one in (same, fixed, unknown)] == [True, False, False]
    hearing.add_text(fixed)
    assert [hearing.is_unchanged(one) for one in (same, fixed)] == [False, True]


def test_album():
    """Of an album the first message is read, and others only with a caption; a repeated message is not another."""
    hearing = MessageReader(ME, GroupMigrations())
    heard = [
        hear(hearing=hearing, photo=PHOTO, media_group_id="g", message_id=number, caption=caption)
        for number, caption in ((1, None), (2, None), (1, None), (3, "the cat"))
    ]
    album = "[photo: of an album]"
    assert [one and one.text for one in heard] == [album, None, album, f"{album} the cat"]
