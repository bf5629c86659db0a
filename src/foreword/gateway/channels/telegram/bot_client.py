"""The Bot API client: settings, rate limits, requests with classified errors, and messages sent within the limits."""

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetMe, Response, SendChatAction, TelegramMethod
from aiogram.types import LinkPreviewOptions
from aiohttp import ClientConnectorError, ClientTimeout, ConnectionTimeoutError

from foreword.errors import ForewordError, InputError
from foreword.gateway.channel import NeverDelivered, NotDelivered
from foreword.gateway.channels.telegram.markup import strip_html
from foreword.memory.entry import drafted
from foreword.types import frozen

MAX_TRACKED_CHATS = 10_000  # chats after which idle ones are dropped


@frozen(eq=True)
class RateLimits:
    """Limits as (messages, seconds)."""

    overall: tuple[int, float] = (25, 1.0)
    private: tuple[int, float] = (1, 1.0)
    group: tuple[int, float] = (20, 60.0)
    max_wait: float = 5.0
    """Longest wait in seconds; a message that must wait longer is retried later."""


@frozen
class TelegramSettings:
    """Rate limits, and times in seconds; the times of one delivery stay below the outbox's limit in total."""

    limits: RateLimits = RateLimits()
    poll: int = 25
    """Timeout of long polling."""
    request: float = 10.0
    """Timeout of a request."""
    probe: float = 4.0
    """Timeout of a connection, and of a request that only checks availability."""
    waits: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
    """Delays between attempts while Telegram is unreachable; the last one repeats."""
    refused: float = 600.0
    """Delay between attempts while Telegram rejects the token."""
    tries: int = 5
    """Attempts before a message that raises unexpected errors is dropped."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class SlidingWindow:
    """A sliding window of send times; some may be in the future."""

    def __init__(self, limit: tuple[int, float]) -> None:
        messages, self._seconds = limit
        self._times: deque[float] = deque(maxlen=messages)
        self.paused_until = 0.0

    def find(self, now: float) -> float:
        """Return the next time at which a message may be sent."""
        full = len(self._times) == self._times.maxlen
        return max(now, self.paused_until, self._times[0] + self._seconds if full else 0.0)

    def take(self, moment: float) -> None:
        """Reserve a send time."""
        self._times.append(moment)

    def is_idle(self, now: float) -> bool:
        """Return whether the window does not delay any message."""
        return self.paused_until <= now and (not self._times or self._times[-1] + self._seconds <= now)


class SendLimiter:
    """Delays messages to stay within the limits."""

    def __init__(
        self,
        limits: RateLimits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._overall = SlidingWindow(limits.overall)
        self._chats: dict[int, SlidingWindow] = {}

    async def wait(self, chat: int) -> None:
        """Wait until a message may be sent; raise NotDelivered if the wait is too long."""
        await self._wait(self._find_window(chat), f"chat {chat}")
        await self._wait(self._overall, "Telegram as a whole")

    def pause(self, chat: int, seconds: float) -> None:
        """Pause a chat; if another chat is paused as well, pause all sending."""
        now = self._clock()
        others = any(window.paused_until > now for number, window in self._chats.items() if number != chat)
        self._find_window(chat).paused_until = now + seconds
        if others:
            self._overall.paused_until = max(self._overall.paused_until, now + seconds)

    async def _wait(self, window: SlidingWindow, whose: str) -> None:
        now = self._clock()
        moment = window.find(now)
        if moment - now > self._limits.max_wait:
            raise NotDelivered(f"{whose} is rate limited for {moment - now:.0f} s", wait=moment - now)
        window.take(moment)
        if moment > now:
            await self._sleep(moment - now)

    def _find_window(self, chat: int) -> SlidingWindow:
        if chat not in self._chats and len(self._chats) >= MAX_TRACKED_CHATS:
            now = self._clock()
            self._chats = {number: window for number, window in self._chats.items() if not window.is_idle(now)}
        return self._chats.setdefault(chat, SlidingWindow(self._limits.private if chat > 0 else self._limits.group))


T = TypeVar("T")
MAX_ERROR_CHARS = 500  # characters of an error


class UncertainDelivery(ForewordError):
    """It is unknown whether Telegram carried out the request."""


class TelegramUnreachable(ForewordError):
    """Telegram was not reached, so the request had no effect."""


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """Requests updates as raw JSON, so that one invalid update does not hide the others."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = 100
    timeout: int = 0
    allowed_updates: list[str]


class SendText(TelegramMethod[dict[str, Any]]):
    """Sends a message and returns the raw answer, which is not parsed."""

    __returning__ = dict[str, Any]
    __api_method__ = "sendMessage"

    chat_id: int
    text: str
    message_thread_id: int | None = None
    parse_mode: str | None = None
    link_preview_options: LinkPreviewOptions = LinkPreviewOptions(is_disabled=True)


class GetRawChat(TelegramMethod[dict[str, Any]]):
    """Requests information about a chat and returns the raw answer."""

    __returning__ = dict[str, Any]
    __api_method__ = "getChat"

    chat_id: int


API_METHODS: tuple[type[TelegramMethod[Any]], ...] = (GetRawUpdates, SendText, SendChatAction, GetMe, GetRawChat)
# Keep aiogram's response models referenced: they are weakly cached, and building one takes milliseconds.
RESPONSE_MODELS = [Response[method.__returning__] for method in API_METHODS]  # type: ignore[name-defined]


class BotClient:
    """Sends requests to Telegram; `doubtful` is set while the last request failed for network or server reasons."""

    def __init__(self, token: str, api: str, settings: TelegramSettings) -> None:
        self.bot = Bot(token, AiohttpSession(api=TelegramAPIServer.from_base(api)))
        self.doubtful = False
        self._token = token
        self._settings = settings

    async def ask(self, method: TelegramMethod[T], seconds: float | None = None) -> T:
        """Send a request; raise Telegram's error, TelegramUnreachable or UncertainDelivery."""
        total = self._settings.request if seconds is None else seconds
        timeout = ClientTimeout(total=total, connect=min(total, self._settings.probe))
        try:
            # aiogram passes the value to aiohttp unchanged; a number could not limit connect and total time separately.
            answer = await self.bot(method, request_timeout=cast("int", timeout))
        except TelegramEntityTooLarge:
            raise
        except TelegramNetworkError as error:
            self.doubtful = True
            if isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError):
                raise TelegramUnreachable(self.show(error)) from None
            raise UncertainDelivery(self.show(error)) from None
        except ClientDecodeError as error:
            self.doubtful = True
            raise UncertainDelivery(self.show(error)) from None
        except TelegramAPIError as error:
            self.doubtful = isinstance(error, TelegramServerError)
            error.message = self.show(error.message)
            raise
        self.doubtful = False
        return answer

    def show(self, error: object) -> str:
        """Return the text of an error, shortened and without the token."""
        return str(error).replace(self._token, "TOKEN")[:MAX_ERROR_CHARS]

    async def close(self) -> None:
        """Close the connections."""
        await self.bot.session.close()


MIGRATIONS_FILE = "telegram.json"


class GroupMigrations:
    """Old and new chat ids, stored in a file."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._new: dict[int, int] = {}
        if path and os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as file:
                    self._new = {int(old): int(new) for old, new in json.load(file)["moved"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"cannot read the ids of migrated groups from {path} ({error}); repair the file, or delete it and "
                    "set the new ids of these groups under rooms in foreword.yaml"
                ) from None
        self._old = {new: old for old, new in self._new.items()}

    def add(self, old: int, new: int) -> bool:
        """Store a migration; return whether it is new."""
        if self._new.get(old) == new or self.find_first(old) == new:
            return False
        moved = self._new | {old: new}
        if self._path:
            stored = json.dumps({"moved": {str(one): other for one, other in moved.items()}})
            with drafted(self._path, stored) as draft:
                os.replace(draft, self._path)
        self._new, self._old[new] = moved, old  # after a failed write the migration is still new
        return True

    def find_last(self, chat: int) -> int:
        """Return the current id of a chat."""
        while chat in self._new:
            chat = self._new[chat]
        return chat

    def find_first(self, chat: int) -> int:
        """Return the original id of a chat."""
        while chat in self._old:
            chat = self._old[chat]
        return chat


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
