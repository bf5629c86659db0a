"""Conversion of Telegram messages to inbound messages.

An edit becomes a new message that corrects the earlier one, which may already be answered. Edits that do not change
the text, such as an added link preview, are ignored. Of an album, the first message and all messages with a caption
are used. The text is the text or caption, with labels for media, forwards and links.
"""

import re
from collections import OrderedDict
from dataclasses import replace

from aiogram.types import Message, MessageEntity, User

from foreword.engine.signal import CORRECTION_LABEL, FORWARD_LABEL_START, drop_correction_label
from foreword.gateway.channel import ChatKind, InboundMessage, NeverDelivered
from foreword.gateway.channels.telegram.bot_client import GroupMigrations
from foreword.turn import Client

MAX_LABEL_CHARS = 64  # characters of a name in a label
# Content types other than text that a person sends; all other types are service messages.
MEDIA_LABELS = {
    "photo": "photo",
    "live_photo": "photo",
    "video": "video",
    "animation": "animation",
    "audio": "audio",
    "voice": "voice message",
    "video_note": "video message",
    "document": "document",
    "sticker": "sticker",
    "story": "story",
    "paid_media": "paid media",
    "contact": "contact",
    "dice": "dice",
    "game": "game",
    "poll": "poll",
    "venue": "place",
    "location": "location",
    "checklist": "checklist",
    "invoice": "invoice",
    "giveaway": "giveaway",
}
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\[\]]+")


def read_text(message: Message) -> str:
    """Return the text of a message with labels; empty for a service message."""
    kind = message.content_type
    text = expand_links(message.text or message.caption or "", message.entities or message.caption_entities or [])
    label = f"[{label_media(message, MEDIA_LABELS[kind])}]" if kind in MEDIA_LABELS else ""
    origin = label_origin(message)
    return remove_unstorable(" ".join(filter(None, (origin, label, text))))


def label_media(message: Message, name: str) -> str:
    """Return the label of a medium with its name or another known detail."""
    location = message.location
    details = (
        message.document and message.document.file_name,
        message.sticker and message.sticker.emoji,
        message.poll and message.poll.question,
        message.venue and message.venue.title,
        location and f"{location.latitude}, {location.longitude}",
        message.contact and message.contact.first_name,
        message.dice and str(message.dice.value),
        message.media_group_id and "of an album",
    )
    detail = next(filter(None, details), "")
    return f"{name}: {shorten_label(str(detail))}" if detail else name


def label_origin(message: Message) -> str:
    """Return the label of a forwarded message; empty if the message is not forwarded."""
    origin = message.forward_origin
    if origin is None:
        return ""
    user, chat = getattr(origin, "sender_user", None), getattr(origin, "chat", None)
    chat = chat or getattr(origin, "sender_chat", None)
    name = user.full_name if user else chat.full_name if chat else getattr(origin, "sender_user_name", "")
    return f"{FORWARD_LABEL_START} from {shorten_label(name)}]" if name else f"{FORWARD_LABEL_START}]"


def expand_links(text: str, entities: list[MessageEntity]) -> str:
    """Add the URLs of text links."""
    links = [entity for entity in entities if entity.type == "text_link" and entity.url]
    if not links:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(links, key=lambda entity: -entity.offset):
        end = 2 * (entity.offset + entity.length)
        units = units[:end] + f" ({entity.url})".encode("utf-16-le", "surrogatepass") + units[end:]
    return units.decode("utf-16-le", "surrogatepass")


def shorten_label(name: str) -> str:
    """Make a name safe for a label: one line, no brackets, limited length."""
    plain = _UNPRINTABLE.sub(" ", name).strip()
    return plain if len(plain) <= MAX_LABEL_CHARS else f"{plain[:MAX_LABEL_CHARS]}…"


def remove_unstorable(text: str) -> str:
    """Remove NUL characters and unpaired surrogates, which cannot be stored."""
    return text.replace("\x00", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()


TELEGRAM_CHANNEL = "telegram"
_LINK = re.compile(r"/start\s+([\w-]+)")  # sent by a link such as t.me/BOT?start=CODE
MAX_RECENT_MESSAGES = 5_000  # messages and albums held in memory
CHAT_TYPES = {
    "private": ChatKind.PRIVATE,
    "group": ChatKind.GROUP,
    "supergroup": ChatKind.GROUP,
    "channel": ChatKind.BROADCAST,
}


class MessageReader:
    """Converts messages for one bot; holds recent texts to recognise edits without changes."""

    def __init__(self, bot: User, migrations: GroupMigrations, agent: str = "") -> None:
        self._bot = bot
        self._migrations = migrations
        self._agent = agent
        self._texts: OrderedDict[str, int] = OrderedDict()
        self._albums: OrderedDict[str, int] = OrderedDict()

    def convert(self, message: Message, number: int, *, edited: bool) -> InboundMessage | None:
        """Convert the message of an update; return None for service messages, bots and album parts without caption."""
        text = read_text(message)
        if message.chat.type == "private" and (link := _LINK.fullmatch(text)):
            text = link[1]
        # Bots are not answered, to prevent loops.
        is_bot = bool(message.from_user and message.from_user.is_bot and not message.sender_chat)
        if not text or is_bot or (not edited and self._is_of_album(message)):
            return None
        key = f"{message.chat.id}:{message.message_id}"
        inbound = self._make(message, key, text)
        if not edited:
            return inbound
        return replace(inbound, key=f"{key}:{number}", text=f"{CORRECTION_LABEL} {text}", corrects=key)

    def is_unchanged(self, inbound: InboundMessage) -> bool:
        """Return whether this is an edit that does not change the stored text."""
        text = drop_correction_label(inbound.text)
        return bool(inbound.corrects) and self._texts.get(inbound.corrects) == hash(text)

    def add_text(self, inbound: InboundMessage) -> None:
        """Record the hash of a stored text, to compare it with later edits."""
        add_bounded(self._texts, inbound.corrects or inbound.key, hash(drop_correction_label(inbound.text)))

    def _make(self, message: Message, key: str, text: str) -> InboundMessage:
        chat = CHAT_TYPES.get(message.chat.type, ChatKind.BROADCAST)
        private = chat is ChatKind.PRIVATE
        user = message.from_user if not message.sender_chat else None
        name = message.sender_chat or message.from_user
        return InboundMessage(
            channel=TELEGRAM_CHANNEL,
            sender=str(user.id) if user else "",
            text=text,
            key=key,
            address=format_address(message),
            chat=chat,
            place="" if private else str(self._migrations.find_first(message.chat.id)),
            title="" if private else remove_unstorable(message.chat.title or ""),
            name=remove_unstorable(name.full_name if name else ""),
            called=private or self._is_called(message),
            agent=self._agent,
            client=Client(language=(user.language_code or "") if user and private else ""),
        )

    def _is_of_album(self, message: Message) -> bool:
        """Return whether this is a later message of an album without a caption."""
        if not message.media_group_id:
            return False
        first = self._albums.get(message.media_group_id, message.message_id)
        add_bounded(self._albums, message.media_group_id, first)
        return first != message.message_id and not message.caption

    def _is_called(self, message: Message) -> bool:
        """Return whether a group message is a reply to the bot or mentions it."""
        earlier = message.reply_to_message
        if earlier and earlier.from_user and earlier.from_user.id == self._bot.id and not earlier.forum_topic_created:
            return True
        text, entities = message.text or message.caption or "", message.entities or message.caption_entities or []
        units = text.encode("utf-16-le", "surrogatepass")
        return any(self._names(entity, units) for entity in entities)

    def _names(self, entity: MessageEntity, units: bytes) -> bool:
        """Return whether an entity mentions the bot or is a command for it."""
        if entity.type == "text_mention":
            return bool(entity.user and entity.user.id == self._bot.id)
        if entity.type not in ("mention", "bot_command"):
            return False
        written = units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")
        return written.partition("@")[2].casefold() == (self._bot.username or "").casefold()


def add_bounded(items: OrderedDict[str, int], key: str, value: int) -> None:
    """Add an item to a bounded mapping and drop the oldest one."""
    items[key] = value
    items.move_to_end(key)
    if len(items) > MAX_RECENT_MESSAGES:
        items.popitem(last=False)


def format_address(message: Message) -> str:
    """Return the address for replies: the chat id, and the forum topic if any."""
    if message.is_topic_message and message.message_thread_id:
        return f"{message.chat.id}/{message.message_thread_id}"
    return str(message.chat.id)


def parse_address(address: str) -> tuple[int, int | None]:
    """Parse an address into chat and topic; raise NeverDelivered if it is malformed."""
    chat, _, topic = address.partition("/")
    try:
        return int(chat), int(topic) if topic else None
    except ValueError:
        raise NeverDelivered(f"{address!r} is not a Telegram chat; a chat id is a number") from None
