"""The Telegram channel: receives messages by polling and delivers replies."""

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
from foreword.gateway.channel import ChatKind, NeverDelivered, NotDelivered, ReceiveMessage, ReportToOwner
from foreword.gateway.channels.telegram.bot_client import (
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
    """Sends messages within Telegram's rate limits, and maps Telegram's errors to delivery errors."""

    def __init__(self, client: BotClient, settings: TelegramSettings, migrations: GroupMigrations) -> None:
        self._client = client
        self._settings = settings
        self._migrations = migrations
        self._limiter = SendLimiter(settings.limits, sleep=settings.sleep)

    async def send(self, message: TelegramText) -> None:
        """Send a message; raise NotDelivered, NeverDelivered or UncertainDelivery."""
        message = replace(message, chat=self._migrations.find_last(message.chat))
        await self._limiter.wait(message.chat)
        await self._check_availability()
        for _ in range(MAX_MESSAGE_FORMS + 1):
            try:
                await self._send_once(message)
            except TelegramMigrateToChat as error:
                self._migrations.add(message.chat, error.migrate_to_chat_id)
                message = replace(message, chat=error.migrate_to_chat_id)
            except TelegramBadRequest as error:
                message = simplify_message(message, error)
            else:
                return
        raise NeverDelivered("Telegram rejects the message in every form")

    async def show_work(self, chat: int, topic: int | None) -> None:
        """Show that the bot is typing."""
        if not self._client.doubtful:
            chat = self._migrations.find_last(chat)
            action = SendChatAction(chat_id=chat, action="typing", message_thread_id=topic)
            await self._client.ask(action, self._settings.probe)

    async def _check_availability(self) -> None:
        """After a network error, check availability first, so that an outage leaves at most one message uncertain."""
        if not self._client.doubtful:
            return
        try:
            await self._client.ask(GetMe(), self._settings.probe)
        except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
            self._client.doubtful = True
            raise NotDelivered(f"Telegram does not answer: {error}", wait=UNREACHABLE_DELAY_S) from None

    async def _send_once(self, message: TelegramText) -> None:
        """Send once; errors that another form or chat id can fix are raised unchanged."""
        method = SendText(
            chat_id=message.chat,
            text=message.text,
            message_thread_id=message.topic,
            parse_mode="HTML" if message.html else None,
        )
        try:
            await self._client.ask(method)
        except (TelegramMigrateToChat, TelegramBadRequest):
            raise
        except TelegramRetryAfter as error:
            self._limiter.pause(message.chat, error.retry_after)
            raise NotDelivered(error.message, wait=error.retry_after) from None
        except (TelegramForbiddenError, TelegramEntityTooLarge) as error:
            raise NeverDelivered(error.message) from None
        except (TelegramUnauthorizedError, TelegramNotFound) as error:
            raise NotDelivered(f"Telegram rejects the token: {error.message}", wait=self._settings.refused) from None
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
