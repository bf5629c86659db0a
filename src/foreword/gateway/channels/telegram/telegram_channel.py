"""The Telegram channel: receives messages by long polling, converts them, and delivers replies.

An update is confirmed only after its message is stored. An edit becomes a new message that corrects the earlier one,
which may already be answered. Of an album, the first message and all messages with a caption are used. The text is the
text or caption, with labels for media, forwards and links.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetMe
from aiogram.types import ChatMemberUpdated, Message, MessageEntity, User
from pydantic import ValidationError

from foreword.config.schema import TelegramBotSettings
from foreword.engine.signal import CORRECTION_LABEL, FORWARD_LABEL_START, drop_correction_label
from foreword.errors import ForewordError, InputError
from foreword.events.event import Level
from foreword.gateway.channel import (
    ChatKind,
    InboundMessage,
    NeverDelivered,
    NotStored,
    ReceiveMessage,
    ReportToOwner,
)
from foreword.gateway.channels.telegram.bot_client import (
    BotClient,
    GetRawChat,
    GetRawUpdates,
    GroupMigrations,
    MessageSender,
    TelegramSettings,
    TelegramText,
    TelegramUnreachable,
    UncertainDelivery,
)
from foreword.gateway.channels.telegram.markup import parse_markdown, split_messages, write_html
from foreword.turn import Client
from foreword.types import frozen

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


EDIT_UPDATES = ("edited_message", "edited_channel_post")
MESSAGE_UPDATES = ("message", "channel_post", *EDIT_UPDATES)
MEMBER_UPDATE = "my_chat_member"
REMOVED_STATUSES = ("left", "kicked")
RawUpdate = Mapping[str, Any]


class UpdatePoller:
    """Receives messages and retries while Telegram or the disk is unavailable."""

    def __init__(
        self,
        client: BotClient,
        receive: ReceiveMessage,
        settings: TelegramSettings,
        report: ReportToOwner,
        migrations: GroupMigrations,
    ) -> None:
        self._client = client
        self._migrations = migrations
        self._receive = receive
        self._settings = settings
        self._report = report
        self._problem = ""
        self._failures = 0
        self._attempts: dict[int, int] = {}

    async def run(self, agent: str = "") -> None:
        """Poll until cancelled; messages are for the given agent."""
        reader = MessageReader(await self._get_bot_user(), self._migrations, agent)
        offset: int | None = None
        while True:
            method = GetRawUpdates(
                offset=offset, timeout=self._settings.poll, allowed_updates=[*MESSAGE_UPDATES, MEMBER_UPDATE]
            )
            try:
                updates = await self._client.ask(method, self._settings.poll + self._settings.request)
            except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
                await self._wait(error)
                continue
            if updates:
                stored, offset = await self._process(updates, reader)
                if not stored:
                    await self._back_off()
                    continue
            self._problem, self._failures = "", 0

    async def _get_bot_user(self) -> User:
        """Ask Telegram for the bot's user; retry until it answers."""
        while True:
            try:
                return await self._client.ask(GetMe())
            except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
                await self._wait(error)

    async def _process(self, updates: Sequence[RawUpdate], reader: MessageReader) -> tuple[bool, int]:
        """Process updates, in order per chat; return success and the next offset, or the first update not stored."""
        ordered = sorted(updates, key=lambda update: update["update_id"])
        chats: dict[object, list[tuple[int, InboundMessage]]] = {}
        for update in ordered:
            if message := self._read(update, reader):
                chat = message.address.partition("/")[0]
                chats.setdefault(chat, []).append((update["update_id"], message))
        results = await asyncio.gather(*(self._submit(messages, reader) for messages in chats.values()))
        failed = [number for number in results if number]
        return (False, min(failed)) if failed else (True, ordered[-1]["update_id"] + 1)

    async def _submit(self, messages: Sequence[tuple[int, InboundMessage]], reader: MessageReader) -> int:
        """Submit the messages of one chat; return the number of the first update that was not stored, or 0."""
        for number, message in messages:
            if reader.is_unchanged(message):
                continue
            try:
                await self._receive(message)
            except InputError as error:  # a retry would fail again
                self._report(f"a message from {message.address} was rejected: {error}", Level.WARN)
            except Exception as error:  # noqa: BLE001 - the receiver may raise anything
                if not self._should_drop(number, error):
                    return number
            self._attempts.pop(number, None)
            reader.add_text(message)
        return 0

    def _should_drop(self, number: int, error: Exception) -> bool:
        """Return whether to drop an update after repeated unexpected errors; storage errors are retried forever."""
        if isinstance(error, ForewordError | OSError):
            level = Level.WARN if isinstance(error, NotStored) and error.is_recorded else Level.ERROR
            self._report_once("kept", f"messages cannot be stored and stay queued at Telegram: {error}", level)
            return False
        self._attempts[number] = self._attempts.get(number, 0) + 1
        if self._attempts[number] < self._settings.tries:
            return False
        self._report(f"update {number} was dropped: {type(error).__name__}: {self._client.show(error)}", Level.ERROR)
        return True

    def _read(self, update: RawUpdate, reader: MessageReader) -> InboundMessage | None:
        """Parse an update; record and skip an invalid one and one of an unknown kind."""
        number = update["update_id"]
        kinds = [kind for kind in update if kind != "update_id"]
        kind = kinds[0] if kinds else "none"
        try:
            if kind in MESSAGE_UPDATES:
                message = Message.model_validate(update[kind])
                self._check_migration(message)
                return reader.convert(message, number, edited=kind in EDIT_UPDATES)
            if kind == MEMBER_UPDATE:
                self._check_removal(ChatMemberUpdated.model_validate(update[kind]))
                return None
        except ValidationError as error:
            problem = f"invalid fields: {error.error_count()}"
            self._report(f"update {number} of kind {kind} was skipped: {problem}", Level.WARN)
            return None
        self._report(f"update {number} was skipped: unknown kind {self._client.show(kind)!r}", Level.WARN)
        return None

    def _check_migration(self, message: Message) -> None:
        old, new = message.migrate_from_chat_id or message.chat.id, message.migrate_to_chat_id or message.chat.id
        if old != new and self._migrations.add(old, new):
            self._report(f"the group telegram:{old} now has the id {new}; its room settings still apply", Level.INFO)

    def _check_removal(self, change: ChatMemberUpdated) -> None:
        if change.new_chat_member.status in REMOVED_STATUSES:
            did = "has blocked the bot" if change.chat.type == "private" else "has removed the bot"
            self._report(f"telegram:{change.chat.id} {did}", Level.WARN)

    async def _wait(self, error: Exception) -> None:
        """Record an error once and wait, longer after each failure."""
        words = self._client.show(error)
        match error:
            case TelegramRetryAfter():
                await self._settings.sleep(error.retry_after)
            case TelegramUnauthorizedError() | TelegramNotFound():
                self._report_once(
                    "token", f"Telegram rejects the token; get a new one from @BotFather and restart: {words}"
                )
                await self._settings.sleep(self._settings.refused)
            case TelegramConflictError():
                self._report_once("conflict", f"another process polls this bot; stop one of the two: {words}")
                await self._back_off()
            case _:
                self._client.doubtful = True
                self._report_once("away", f"Telegram is unreachable, retrying: {words}")
                await self._back_off()

    async def _back_off(self) -> None:
        waits = self._settings.waits
        wait = waits[min(self._failures, len(waits) - 1)]
        self._failures += 1
        await self._settings.sleep(wait)

    def _report_once(self, problem: str, text: str, level: Level = Level.ERROR) -> None:
        """Report a problem when it starts."""
        if problem != self._problem:
            self._report(text, level)
        self._problem = problem


@frozen
class TelegramOptions:
    """Settings and dependencies of the channel."""

    settings: TelegramSettings = TelegramSettings()
    report: ReportToOwner = lambda text, level: None  # noqa: ARG005
    migrations: str = ""
    """The file with the new ids of migrated groups; if empty, they are only held in memory."""


class TelegramChannel:
    """Receives messages to a bot and sends replies as the bot. Telegram has no idempotency keys."""

    takes_key = False

    def __init__(self, token: str, bot: TelegramBotSettings, options: TelegramOptions) -> None:
        self._client = BotClient(token, bot.api, options.settings)
        self._migrations = GroupMigrations(options.migrations)
        self._sender = MessageSender(self._client, options.settings, self._migrations)
        self._options = options
        self._agent = bot.agent
        self._kinds: dict[int, ChatKind] = {}

    def split(self, text: str) -> Sequence[str]:
        """Split a reply into messages with balanced tags."""
        return render_reply(text)

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - Telegram has no idempotency keys
        """Send a message."""
        if not part.strip():
            raise NeverDelivered("the reply is empty")
        chat, topic = parse_address(address)
        await self._sender.send(TelegramText(chat=chat, topic=topic, text=part))

    async def show_work(self, address: str) -> None:
        """Show that the bot is typing."""
        with suppress(Exception):
            await self._sender.show_work(*parse_address(address))

    async def find_kind(self, address: str) -> ChatKind:
        """Ask Telegram for the type of a chat; use the last known answer if the request fails."""
        chat, _ = parse_address(address)
        with suppress(TelegramAPIError, TelegramUnreachable, UncertainDelivery):
            found = await self._client.ask(GetRawChat(chat_id=self._migrations.find_last(chat)))
            self._kinds[chat] = CHAT_TYPES.get(str(found.get("type")), ChatKind.BROADCAST)
        return self._kinds.get(chat, ChatKind.BROADCAST)

    async def run(self, hear: ReceiveMessage) -> None:
        """Receive messages until cancelled."""
        options = self._options
        await UpdatePoller(self._client, hear, options.settings, options.report, self._migrations).run(self._agent)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


@lru_cache(maxsize=64)
def render_reply(text: str) -> tuple[str, ...]:
    """Convert a reply to messages; an empty reply is one empty message, which is never sent."""
    return tuple(write_html(piece) for piece in split_messages(parse_markdown(text))) or ("",)


@asynccontextmanager
async def open_telegram(
    token: str, bot: TelegramBotSettings, options: TelegramOptions | None = None
) -> AsyncIterator[TelegramChannel]:
    """Open the channel of a bot and close its connections at the end."""
    channel = TelegramChannel(token, bot, options or TelegramOptions())
    try:
        yield channel
    finally:
        await channel.close()
