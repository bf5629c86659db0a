"""Telegram as a channel."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache

from aiogram.exceptions import TelegramAPIError

from foreword.config.telegram import TelegramBot
from foreword.events.event import Level
from foreword.frozen import frozen
from foreword.gateway.channel import Chat, Hear, NeverDelivered, Tell
from foreword.gateway.channels.telegram.formatted import write_html
from foreword.gateway.channels.telegram.hearing import CHATS, read_address
from foreword.gateway.channels.telegram.line import AskChat, Line, Unreached, Unsure
from foreword.gateway.channels.telegram.manners import USUAL, Manners
from foreword.gateway.channels.telegram.markdown import read_markdown
from foreword.gateway.channels.telegram.moves import Moves
from foreword.gateway.channels.telegram.polling import Polling
from foreword.gateway.channels.telegram.sending import Message, Sending
from foreword.gateway.channels.telegram.splitting import split


def say_nothing(_words: str, _level: Level) -> None:
    """Tell nobody."""


@frozen
class Circumstances:
    """What a bot finds around it, where that is not as usual."""

    manners: Manners = USUAL
    tell: Tell = say_nothing
    moves: str = ""
    """The file that says which groups have moved; without one that is forgotten at the end."""


AS_USUAL = Circumstances()


class Telegram:
    """Hears what people write to a bot, and delivers replies as messages of it; it takes no key."""

    takes_key = False

    def __init__(self, token: str, settings: TelegramBot, around: Circumstances = AS_USUAL) -> None:
        self._line = Line(token, settings.api, around.manners)
        self._moves = Moves(around.moves)
        self._sending = Sending(self._line, around.manners, self._moves)
        self._around = around
        self._agent = settings.agent
        self._kinds: dict[int, Chat] = {}

    def split(self, text: str) -> Sequence[str]:
        """Split a reply into messages, each whole in its tags."""
        return write_parts(text)

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - Telegram takes none
        """Send a message."""
        if not part.strip():
            raise NeverDelivered("the reply is empty")
        chat, topic = read_address(address)
        await self._sending.send(Message(chat=chat, topic=topic, text=part))

    async def show_work(self, address: str) -> None:
        """Show that the bot is typing."""
        with suppress(Exception):
            await self._sending.show_work(*read_address(address))

    async def find_kind(self, address: str) -> Chat:
        """Ask Telegram what a chat is; what it said last counts while it does not answer."""
        chat, _ = read_address(address)
        with suppress(TelegramAPIError, Unreached, Unsure):
            found = await self._line.ask(AskChat(chat_id=self._moves.find_last(chat)))
            self._kinds[chat] = CHATS.get(str(found.get("type")), Chat.BROADCAST)
        return self._kinds.get(chat, Chat.BROADCAST)

    async def run(self, hear: Hear) -> None:
        """Hand in what people write until cancelled."""
        polling = Polling(self._line, hear, self._around.manners, self._around.tell, self._moves)
        await polling.run(self._agent)

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()


@lru_cache(maxsize=64)
def write_parts(text: str) -> tuple[str, ...]:
    """Write the messages of a reply; a reply of nothing is one message that nobody gets."""
    return tuple(write_html(piece) for piece in split(read_markdown(text))) or ("",)


@asynccontextmanager
async def open_telegram(token: str, settings: TelegramBot, around: Circumstances = AS_USUAL) -> AsyncIterator[Telegram]:
    """Open the channel of a bot, and close its connections at the end."""
    channel = Telegram(token, settings, around)
    try:
        yield channel
    finally:
        await channel.close()
