"""Hearing: what a message in Telegram is to the gateway; who wrote it, where, and whether it speaks to the bot.

An edit is heard as a new message that says it corrects an earlier one: the earlier may have been answered already. An
edit that changes no words, such as a preview that Telegram adds, is not heard. Of an album the first message is heard,
and every other that has words.
"""

import re
from collections import OrderedDict
from dataclasses import replace
from typing import TypeVar

from aiogram.types import Chat as TelegramChat
from aiogram.types import Message, MessageEntity, User

from foreword.gateway.channel import Chat, Heard, NeverDelivered
from foreword.gateway.channels.telegram.moves import Moves
from foreword.gateway.channels.telegram.words import clean, write_words
from foreword.signal.labels import CORRECTED, drop_corrected
from foreword.turn import Client

NAME = "telegram"
_LINK = re.compile(r"/start\s+([\w-]+)")  # what a link such as t.me/its_name?start=CODE says for whoever follows it
MANY = 5_000  # messages and albums that are remembered
T = TypeVar("T")
CHATS = {"private": Chat.PRIVATE, "group": Chat.GROUP, "supergroup": Chat.GROUP, "channel": Chat.BROADCAST}


class Hearing:
    """Reads messages for one bot, and remembers the last ones to know what is new in an edit."""

    def __init__(self, me: User, moves: Moves, agent: str = "") -> None:
        self._me = me
        self._moves = moves
        self._agent = agent
        self._texts: OrderedDict[str, int] = OrderedDict()
        self._albums: OrderedDict[str, int] = OrderedDict()

    def hear(self, message: Message, number: int, *, edited: bool) -> Heard | None:
        """Hear a message of an update with this number; nothing where nobody said anything."""
        text = write_words(message)
        if message.chat.type == "private" and (link := _LINK.fullmatch(text)):
            text = link[1]
        if not text or self._is_a_bot(message) or (not edited and self._is_of_album(message)):
            return None
        key = f"{message.chat.id}:{message.message_id}"
        heard = self._make(message, key, text)
        return replace(heard, key=f"{key}:{number}", text=f"{CORRECTED} {text}", corrects=key) if edited else heard

    def is_known(self, heard: Heard) -> bool:
        """Whether this is an edit that changes no words of what was kept."""
        return bool(heard.corrects) and self._texts.get(heard.corrects) == hash(drop_corrected(heard.text))

    def remember(self, heard: Heard) -> None:
        """Remember what is kept by now, to know what is new in an edit of it."""
        remember(self._texts, heard.corrects or heard.key, hash(drop_corrected(heard.text)))

    def _make(self, message: Message, key: str, text: str) -> Heard:
        chat = CHATS.get(message.chat.type, Chat.BROADCAST)
        known = message.from_user if message.from_user and not message.sender_chat else None
        return Heard(
            channel=NAME,
            sender=str(known.id) if known else "",
            text=text,
            key=key,
            address=write_address(message),
            chat=chat,
            place="" if chat is Chat.PRIVATE else str(self._moves.find_first(message.chat.id)),
            title="" if chat is Chat.PRIVATE else clean(message.chat.title or ""),
            name=clean(find_name(message)),
            called=chat is Chat.PRIVATE or self._is_called(message),
            agent=self._agent,
            client=Client(language=(known.language_code or "") if known and chat is Chat.PRIVATE else ""),
        )

    def _is_a_bot(self, message: Message) -> bool:
        """Whether a bot wrote, which is not answered: two of them would never end."""
        return bool(message.from_user and message.from_user.is_bot and not message.sender_chat)

    def _is_of_album(self, message: Message) -> bool:
        """Whether this is one more of an album and has no words."""
        if not message.media_group_id:
            return False
        known = self._albums.get(message.media_group_id, message.message_id) != message.message_id
        remember(self._albums, message.media_group_id, self._albums.get(message.media_group_id, message.message_id))
        return known and not message.caption

    def _is_called(self, message: Message) -> bool:
        """Whether a message in company speaks to the bot: in reply to it, or by its name."""
        earlier = message.reply_to_message
        if earlier and earlier.from_user and earlier.from_user.id == self._me.id and not earlier.forum_topic_created:
            return True
        text, entities = message.text or message.caption or "", message.entities or message.caption_entities or []
        units = text.encode("utf-16-le", "surrogatepass")
        return any(self._names(entity, units) for entity in entities)

    def _names(self, entity: MessageEntity, units: bytes) -> bool:
        """Whether an entity is the bot's name, or a command for it."""
        if entity.type == "text_mention":
            return bool(entity.user and entity.user.id == self._me.id)
        if entity.type not in ("mention", "bot_command"):
            return False
        written = units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")
        return written.partition("@")[2].casefold() == (self._me.username or "").casefold()


def remember(known: OrderedDict[str, T], key: str, what: T) -> None:
    """Remember something, and forget what was remembered first."""
    known[key] = what
    known.move_to_end(key)
    if len(known) > MANY:
        known.popitem(last=False)


def find_name(message: Message) -> str:
    """Find what the sender calls themselves: a person, or a chat that speaks as one."""
    who: TelegramChat | User | None = message.sender_chat or message.from_user
    return who.full_name if who else ""


def write_address(message: Message) -> str:
    """Write where a reply goes: the chat, and the topic of a forum."""
    if message.is_topic_message and message.message_thread_id:
        return f"{message.chat.id}/{message.message_thread_id}"
    return str(message.chat.id)


def read_address(address: str) -> tuple[int, int | None]:
    """Read a chat and a topic; nothing is ever delivered to what is neither."""
    chat, _, topic = address.partition("/")
    try:
        return int(chat), int(topic) if topic else None
    except ValueError:
        raise NeverDelivered(f"{address!r} is no chat of Telegram; its id is a number") from None
