"""What a message says in words: its text or caption, and labels for what an agent cannot see."""

import re

from aiogram.types import Message, MessageEntity

from foreword.signal.labels import FORWARDED

LONGEST = 64  # characters of a name in a label
# What a person sends that is no text; every other kind of message is Telegram's own notice.
MEDIA = {
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


def write_words(message: Message) -> str:
    """Write what a message says; nothing where nobody said anything."""
    kind = message.content_type
    text = write_links(message.text or message.caption or "", message.entities or message.caption_entities or [])
    label = f"[{write_media(message, MEDIA[kind])}]" if kind in MEDIA else ""
    origin = write_origin(message)
    return clean(" ".join(part for part in (origin, label, text) if part))


def write_media(message: Message, name: str) -> str:
    """Say what was sent, with the little that is known about it."""
    known = ""
    if message.document and message.document.file_name:
        known = message.document.file_name
    elif message.sticker and message.sticker.emoji:
        known = message.sticker.emoji
    elif message.poll:
        known = message.poll.question
    elif message.venue:
        known = message.venue.title
    elif message.location:
        known = f"{message.location.latitude}, {message.location.longitude}"
    elif message.contact:
        known = message.contact.first_name
    elif message.dice:
        known = str(message.dice.value)
    elif message.media_group_id:
        known = "of an album"
    return f"{name}: {shorten(known)}" if known else name


def write_origin(message: Message) -> str:
    """Say whose words these are where they are somebody else's."""
    origin = message.forward_origin
    if origin is None:
        return ""
    user, chat = getattr(origin, "sender_user", None), getattr(origin, "chat", None)
    chat = chat or getattr(origin, "sender_chat", None)
    name = user.full_name if user else chat.full_name if chat else getattr(origin, "sender_user_name", "")
    return f"{FORWARDED} from {shorten(name)}]" if name else f"{FORWARDED}]"


def write_links(text: str, entities: list[MessageEntity]) -> str:
    """Write out the addresses that hide behind words."""
    links = [entity for entity in entities if entity.type == "text_link" and entity.url]
    if not links:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(links, key=lambda entity: -entity.offset):
        end = 2 * (entity.offset + entity.length)
        units = units[:end] + f" ({entity.url})".encode("utf-16-le", "surrogatepass") + units[end:]
    return units.decode("utf-16-le", "surrogatepass")


def shorten(name: str) -> str:
    """Make a name safe to stand in a label: one line, no brackets, and not long."""
    plain = _UNPRINTABLE.sub(" ", name).strip()
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"


def clean(text: str) -> str:
    """Leave out what cannot be kept: NUL characters, and halves of characters."""
    return text.replace("\x00", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
