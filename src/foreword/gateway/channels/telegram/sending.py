"""Sending: one message to a chat, and what its failure means for whoever wants it delivered."""

from dataclasses import replace

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

from foreword.frozen import frozen
from foreword.gateway.channel import NeverDelivered, NotDelivered
from foreword.gateway.channels.telegram.formatted import read_plain
from foreword.gateway.channels.telegram.line import Line, SendText, Unreached, Unsure
from foreword.gateway.channels.telegram.manners import Manners
from foreword.gateway.channels.telegram.moves import Moves
from foreword.gateway.channels.telegram.pacing import Pacer

AWAY = 60.0  # seconds before something is sent again while Telegram cannot be reached
FORMS = 3  # a message, then plain, then without its topic


@frozen(eq=True)
class Message:
    """What is sent, and where."""

    chat: int
    topic: int | None
    text: str
    html: bool = True


class Sending:
    """Sends messages at the pace that Telegram takes them."""

    def __init__(self, line: Line, manners: Manners, moves: Moves) -> None:
        self._line = line
        self._manners = manners
        self._moves = moves
        self._pacer = Pacer(manners.tempo, sleep=manners.sleep)

    async def send(self, message: Message) -> None:
        """Send a message; raise NotDelivered, NeverDelivered, or Unsure."""
        message = replace(message, chat=self._moves.find_last(message.chat))
        await self._pacer.wait(message.chat)
        await self._prove()
        for _ in range(FORMS + 1):
            try:
                await self._try(message)
            except TelegramMigrateToChat as error:
                self._moves.add(message.chat, error.migrate_to_chat_id)
                message = replace(message, chat=error.migrate_to_chat_id)
            except TelegramBadRequest as error:
                message = soften(message, error)
            else:
                return
        raise NeverDelivered("Telegram takes it in no form")

    async def show_work(self, chat: int, topic: int | None) -> None:
        """Show that the bot is typing."""
        if not self._line.doubtful:
            chat = self._moves.find_last(chat)
            action = SendChatAction(chat_id=chat, action="typing", message_thread_id=topic)
            await self._line.ask(action, self._manners.probe)

    async def _prove(self) -> None:
        """After a doubt, ask first what changes nothing: so an hour without Telegram leaves one message uncertain."""
        if not self._line.doubtful:
            return
        try:
            await self._line.ask(GetMe(), self._manners.probe)
        except (TelegramAPIError, Unreached, Unsure) as error:
            self._line.doubtful = True
            raise NotDelivered(f"Telegram does not answer: {error}", wait=AWAY) from None

    async def _try(self, message: Message) -> None:
        """Send it as it is; what another form or another chat can mend is raised as it came."""
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
            raise NotDelivered(f"Telegram refuses the token: {error.message}", wait=self._manners.refused) from None
        except TelegramEntityTooLarge as error:
            raise NeverDelivered(error.message) from None
        except Unreached as error:
            raise NotDelivered(f"Telegram cannot be reached: {error}", wait=AWAY) from None
        except TelegramServerError as error:
            raise Unsure(error.message) from None


def soften(message: Message, error: TelegramBadRequest) -> Message:
    """Find a form that Telegram may take instead; nothing has arrived so far."""
    why = error.message.casefold()
    if message.html and ("parse" in why or "entit" in why or "too long" in why):
        return replace(message, text=read_plain(message.text), html=False)
    if message.topic and "thread not found" in why:
        return replace(message, topic=None)
    raise NeverDelivered(error.message) from None
