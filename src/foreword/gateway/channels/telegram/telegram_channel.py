"""Sends single messages and maps Telegram's errors to delivery errors.

The Telegram channel: receives messages by polling and delivers replies.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache

from aiogram.exceptions import (
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetMe, SendChatAction

from foreword.config.schema import TelegramBotSettings
from foreword.events.event import Level
from foreword.gateway.channel import ChatKind, NeverDelivered, NotDelivered, ReceiveMessage, ReportToOwner
from foreword.gateway.channels.telegram.bot_client import (
    DEFAULT_TELEGRAM_SETTINGS,
    BotClient,
    GetRawChat,
    GroupMigrations,
    SendLimiter,
    SendText,
    TelegramSettings,
    TelegramUnreachable,
    UncertainDelivery,
)
from foreword.gateway.channels.telegram.inbound_messages import CHAT_TYPES, parse_address
from foreword.gateway.channels.telegram.markup import parse_markdown, split_messages, strip_html, write_html
from foreword.gateway.channels.telegram.poller import UpdatePoller
from foreword.types import frozen

UNREACHABLE_DELAY_S = 60.0  # seconds before a retry while Telegram is unreachable
MAX_MESSAGE_FORMS = 3  # with HTML, as plain text, and without the topic


@frozen(eq=True)
class TelegramText:
    """An outgoing message and its chat."""

    chat: int
    topic: int | None
    text: str
    html: bool = True


class MessageSender:
    """Sends messages within Telegram's rate limits."""

    def __init__(self, line: BotClient, manners: TelegramSettings, moves: GroupMigrations) -> None:
        self._line = line
        self._manners = manners
        self._moves = moves
        self._pacer = SendLimiter(manners.tempo, sleep=manners.sleep)

    async def send(self, message: TelegramText) -> None:
        """Send a message; raise NotDelivered, NeverDelivered or Unsure."""
        message = replace(message, chat=self._moves.find_last(message.chat))
        await self._pacer.wait(message.chat)
        await self._prove()
        for _ in range(MAX_MESSAGE_FORMS + 1):
            try:
                await self._try(message)
            except TelegramMigrateToChat as error:
                self._moves.add(message.chat, error.migrate_to_chat_id)
                message = replace(message, chat=error.migrate_to_chat_id)
            except TelegramBadRequest as error:
                message = simplify_message(message, error)
            else:
                return
        raise NeverDelivered("Telegram rejects the message in every form")

    async def show_work(self, chat: int, topic: int | None) -> None:
        """Show that the bot is typing."""
        if not self._line.doubtful:
            chat = self._moves.find_last(chat)
            action = SendChatAction(chat_id=chat, action="typing", message_thread_id=topic)
            await self._line.ask(action, self._manners.probe)

    async def _prove(self) -> None:
        """After a network error, check availability first, so that an outage leaves at most one message uncertain."""
        if not self._line.doubtful:
            return
        try:
            await self._line.ask(GetMe(), self._manners.probe)
        except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
            self._line.doubtful = True
            raise NotDelivered(f"Telegram does not answer: {error}", wait=UNREACHABLE_DELAY_S) from None

    async def _try(self, message: TelegramText) -> None:
        """Send once; errors that another form or chat id can fix are raised unchanged."""
        method = SendText(
            chat_id=message.chat,
            text=message.text,
            message_thread_id=message.topic,
            parse_mode="HTML" if message.html else None,
        )
        try:
            await self._line.ask(method)
        except (TelegramMigrateToChat, TelegramBadRequest):
            raise
        except TelegramRetryAfter as error:
            self._pacer.hold(message.chat, error.retry_after)
            raise NotDelivered(error.message, wait=error.retry_after) from None
        except TelegramForbiddenError as error:
            raise NeverDelivered(error.message) from None
        except (TelegramUnauthorizedError, TelegramNotFound) as error:
            raise NotDelivered(f"Telegram rejects the token: {error.message}", wait=self._manners.refused) from None
        except TelegramEntityTooLarge as error:
            raise NeverDelivered(error.message) from None
        except TelegramUnreachable as error:
            raise NotDelivered(f"Telegram is unreachable: {error}", wait=UNREACHABLE_DELAY_S) from None
        except TelegramServerError as error:
            raise UncertainDelivery(error.message) from None


def simplify_message(message: TelegramText, error: TelegramBadRequest) -> TelegramText:
    """Return a simpler form of a rejected message; raise NeverDelivered if there is none."""
    why = error.message.casefold()
    if message.html and ("parse" in why or "entit" in why or "too long" in why):
        return replace(message, text=strip_html(message.text), html=False)
    if message.topic and "thread not found" in why:
        return replace(message, topic=None)
    raise NeverDelivered(error.message) from None


def ignore_event(_words: str, _level: Level) -> None:
    """Record nothing."""


@frozen
class TelegramOptions:
    """Settings and dependencies of the channel."""

    manners: TelegramSettings = DEFAULT_TELEGRAM_SETTINGS
    tell: ReportToOwner = ignore_event
    moves: str = ""
    """The file with the new ids of migrated groups; if empty, they are only held in memory."""


DEFAULT_TELEGRAM_OPTIONS = TelegramOptions()


class TelegramChannel:
    """Receives messages to a bot and sends replies as the bot. Telegram has no idempotency keys."""

    takes_key = False

    def __init__(
        self, token: str, settings: TelegramBotSettings, around: TelegramOptions = DEFAULT_TELEGRAM_OPTIONS
    ) -> None:
        self._line = BotClient(token, settings.api, around.manners)
        self._moves = GroupMigrations(around.moves)
        self._sending = MessageSender(self._line, around.manners, self._moves)
        self._around = around
        self._agent = settings.agent
        self._kinds: dict[int, ChatKind] = {}

    def split(self, text: str) -> Sequence[str]:
        """Split a reply into messages with balanced tags."""
        return render_reply(text)

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - Telegram has no idempotency keys
        """Send a message."""
        if not part.strip():
            raise NeverDelivered("the reply is empty")
        chat, topic = parse_address(address)
        await self._sending.send(TelegramText(chat=chat, topic=topic, text=part))

    async def show_work(self, address: str) -> None:
        """Show that the bot is typing."""
        with suppress(Exception):
            await self._sending.show_work(*parse_address(address))

    async def find_kind(self, address: str) -> ChatKind:
        """Ask Telegram for the type of a chat; use the last known answer if the request fails."""
        chat, _ = parse_address(address)
        with suppress(TelegramAPIError, TelegramUnreachable, UncertainDelivery):
            found = await self._line.ask(GetRawChat(chat_id=self._moves.find_last(chat)))
            self._kinds[chat] = CHAT_TYPES.get(str(found.get("type")), ChatKind.BROADCAST)
        return self._kinds.get(chat, ChatKind.BROADCAST)

    async def run(self, hear: ReceiveMessage) -> None:
        """Receive messages until cancelled."""
        polling = UpdatePoller(self._line, hear, self._around.manners, self._around.tell, self._moves)
        await polling.run(self._agent)

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()


@lru_cache(maxsize=64)
def render_reply(text: str) -> tuple[str, ...]:
    """Convert a reply to messages; an empty reply is one empty message, which is never sent."""
    return tuple(write_html(piece) for piece in split_messages(parse_markdown(text))) or ("",)


@asynccontextmanager
async def open_telegram(
    token: str, settings: TelegramBotSettings, around: TelegramOptions = DEFAULT_TELEGRAM_OPTIONS
) -> AsyncIterator[TelegramChannel]:
    """Open the channel of a bot and close its connections at the end."""
    channel = TelegramChannel(token, settings, around)
    try:
        yield channel
    finally:
        await channel.close()
