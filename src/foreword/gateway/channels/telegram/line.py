"""The line to Telegram: a real bot of aiogram, whose errors say what became of a request and never show its token."""

from typing import Any, TypeVar, cast

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramEntityTooLarge,
    TelegramNetworkError,
    TelegramServerError,
)
from aiogram.methods import GetMe, Response, SendChatAction, TelegramMethod
from aiogram.types import LinkPreviewOptions
from aiohttp import ClientConnectorError, ClientTimeout, ConnectionTimeoutError

from foreword.errors import ForewordError
from foreword.gateway.channels.telegram.manners import Manners

T = TypeVar("T")
LONGEST = 500  # characters of an error


class Unsure(ForewordError):
    """Nobody knows whether Telegram did what it was asked."""


class Unreached(ForewordError):
    """Telegram was not reached, so it did nothing."""


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """Asks for updates as they are written: one that cannot be read must not hide the others."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = 100
    timeout: int = 0
    allowed_updates: list[str]


class SendText(TelegramMethod[dict[str, Any]]):
    """Sends a message, and takes the answer as it is: that it arrived is all that is asked of it."""

    __returning__ = dict[str, Any]
    __api_method__ = "sendMessage"

    chat_id: int
    text: str
    message_thread_id: int | None = None
    parse_mode: str | None = None
    link_preview_options: LinkPreviewOptions = LinkPreviewOptions(is_disabled=True)


class AskChat(TelegramMethod[dict[str, Any]]):
    """Asks what a chat is, and takes the answer as it is."""

    __returning__ = dict[str, Any]
    __api_method__ = "getChat"

    chat_id: int


ASKED: tuple[type[TelegramMethod[Any]], ...] = (GetRawUpdates, SendText, SendChatAction, GetMe, AskChat)
# What aiogram reads an answer with is forgotten as soon as nobody holds it, and takes milliseconds to be made again.
HELD = [Response[method.__returning__] for method in ASKED]  # type: ignore[name-defined]


class Line:
    """Asks Telegram, and knows whether the last answer leaves a doubt that it is there."""

    def __init__(self, token: str, api: str, manners: Manners) -> None:
        self.bot = Bot(token, AiohttpSession(api=TelegramAPIServer.from_base(api)))
        self.doubtful = False
        self._token = token
        self._manners = manners

    async def ask(self, method: TelegramMethod[T], seconds: float | None = None) -> T:
        """Ask, and raise what Telegram says, Unreached, or Unsure."""
        total = self._manners.request if seconds is None else seconds
        limits = ClientTimeout(total=total, connect=min(total, self._manners.probe))
        try:
            # The session hands its limit on to aiohttp as it is; a number would not tell a connection from an answer.
            answer = await self.bot(method, request_timeout=cast("int", limits))
        except TelegramEntityTooLarge:
            raise
        except TelegramNetworkError as error:
            self.doubtful = True
            if isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError):
                raise Unreached(self.show(error)) from None
            raise Unsure(self.show(error)) from None
        except ClientDecodeError as error:
            self.doubtful = True
            raise Unsure(self.show(error)) from None
        except TelegramAPIError as error:
            self.doubtful = isinstance(error, TelegramServerError)
            error.message = self.show(error.message)
            raise
        self.doubtful = False
        return answer

    def show(self, error: object) -> str:
        """Show an error without the token, and not at length."""
        return str(error).replace(self._token, "TOKEN")[:LONGEST]

    async def close(self) -> None:
        """Close the connections."""
        await self.bot.session.close()
