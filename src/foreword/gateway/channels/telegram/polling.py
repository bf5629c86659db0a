"""Polling: asks for updates in their order, and confirms one only once what it says is kept."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetMe
from aiogram.types import ChatMemberUpdated, Message, User
from pydantic import ValidationError

from foreword.errors import ForewordError, InputError
from foreword.events.event import Level
from foreword.gateway.channel import Hear, Heard, NotKept, Tell
from foreword.gateway.channels.telegram.hearing import Hearing
from foreword.gateway.channels.telegram.line import GetRawUpdates, Line, Unreached, Unsure
from foreword.gateway.channels.telegram.manners import Manners
from foreword.gateway.channels.telegram.moves import Moves

EDITS = ("edited_message", "edited_channel_post")
MESSAGES = ("message", "channel_post", *EDITS)
MEMBER = "my_chat_member"
GONE = ("left", "kicked")
Raw = Mapping[str, Any]


class Polling:
    """Hands in what people write, however long Telegram or the disk is away."""

    def __init__(self, line: Line, hear: Hear, manners: Manners, tell: Tell, moves: Moves) -> None:
        self._line = line
        self._moves = moves
        self._hear = hear
        self._manners = manners
        self._tell = tell
        self._trouble = ""
        self._failures = 0
        self._broken: dict[int, int] = {}

    async def run(self, agent: str = "") -> None:
        """Poll until cancelled; what is heard is for an agent."""
        hearing = Hearing(await self._introduce(), self._moves, agent)
        offset: int | None = None
        while True:
            method = GetRawUpdates(offset=offset, timeout=self._manners.poll, allowed_updates=[*MESSAGES, MEMBER])
            try:
                updates = await self._line.ask(method, self._manners.poll + self._manners.request)
            except (TelegramAPIError, Unreached, Unsure) as error:
                await self._wait(error)
                continue
            if updates:
                kept, offset = await self._take(updates, hearing)
                if not kept:
                    await self._rest()
                    continue
            self._trouble, self._failures = "", 0

    async def _introduce(self) -> User:
        """Find out who the bot is."""
        while True:
            try:
                return await self._line.ask(GetMe())
            except (TelegramAPIError, Unreached, Unsure) as error:
                await self._wait(error)

    async def _take(self, updates: Sequence[Raw], hearing: Hearing) -> tuple[bool, int]:
        """Hand updates in, those of one chat in their order; return the first that is not kept, or what comes next."""
        ordered = sorted(updates, key=lambda update: update["update_id"])
        chats: dict[object, list[tuple[int, Heard]]] = {}
        for update in ordered:
            if heard := self._read(update, hearing):
                chat = heard.address.partition("/")[0]
                chats.setdefault(chat, []).append((update["update_id"], heard))
        failed = await asyncio.gather(*(self._hand_in(line, hearing) for line in chats.values()))
        lost = [number for number in failed if number]
        return (False, min(lost)) if lost else (True, ordered[-1]["update_id"] + 1)

    async def _hand_in(self, line: Sequence[tuple[int, Heard]], hearing: Hearing) -> int:
        """Hand in what one chat says; return the number of the first update that is not kept."""
        for number, heard in line:
            if hearing.is_known(heard):
                continue
            try:
                await self._hear(heard)
            except InputError as error:  # it would be refused for ever
                self._tell(f"a message of {heard.address} was not taken: {error}", Level.WARN)
            except Exception as error:  # noqa: BLE001 - whoever takes messages may break in any way
                if not self._is_given_up(number, error):
                    return number
            self._broken.pop(number, None)
            hearing.remember(heard)
        return 0

    def _is_given_up(self, number: int, error: Exception) -> bool:
        """Whether an update breaks whoever takes it time and again; a full disk may last as long as it likes."""
        if isinstance(error, ForewordError | OSError):
            level = Level.WARN if isinstance(error, NotKept) and error.is_recorded else Level.ERROR
            self._meet("kept", f"messages cannot be kept, so they wait at Telegram: {error}", level)
            return False
        self._broken[number] = self._broken.get(number, 0) + 1
        if self._broken[number] < self._manners.tries:
            return False
        self._tell(f"update {number} was given up: {type(error).__name__}: {self._line.show(error)}", Level.ERROR)
        return True

    def _read(self, update: Raw, hearing: Hearing) -> Heard | None:
        """Read an update; one of an unknown kind, or that cannot be read, is told and left out."""
        number = update["update_id"]
        kinds = [kind for kind in update if kind != "update_id"]
        kind = kinds[0] if kinds else "none"
        try:
            if kind in MESSAGES:
                message = Message.model_validate(update[kind])
                self._see_move(message)
                return hearing.hear(message, number, edited=kind in EDITS)
            if kind == MEMBER:
                self._see_member(ChatMemberUpdated.model_validate(update[kind]))
                return None
        except ValidationError as error:
            what = f"{error.error_count()} of its fields"
            self._tell(f"update {number} of kind {kind} was left out: {what} cannot be read", Level.WARN)
            return None
        self._tell(f"update {number} was left out: its kind is {self._line.show(kind)!r}", Level.WARN)
        return None

    def _see_move(self, message: Message) -> None:
        old, new = message.migrate_from_chat_id or message.chat.id, message.migrate_to_chat_id or message.chat.id
        if old != new and self._moves.add(old, new):
            self._tell(f"the group telegram:{old} is reached as {new} now, and stays the room it was", Level.INFO)

    def _see_member(self, change: ChatMemberUpdated) -> None:
        if change.new_chat_member.status in GONE:
            did = "has blocked the bot" if change.chat.type == "private" else "has removed the bot"
            self._tell(f"telegram:{change.chat.id} {did}", Level.WARN)

    async def _wait(self, error: Exception) -> None:
        """Tell what is wrong, once, and wait: the longer, the longer it lasts."""
        words = self._line.show(error)
        match error:
            case TelegramRetryAfter():
                await self._manners.sleep(error.retry_after)
            case TelegramUnauthorizedError() | TelegramNotFound():
                self._meet("token", f"Telegram refuses the token; get one from @BotFather and start again: {words}")
                await self._manners.sleep(self._manners.refused)
            case TelegramConflictError():
                self._meet("conflict", f"somebody else asks for this bot's messages, so end one of the two: {words}")
                await self._rest()
            case _:
                self._line.doubtful = True
                self._meet("away", f"Telegram cannot be reached, which is tried again until it can: {words}")
                await self._rest()

    async def _rest(self) -> None:
        waits = self._manners.waits
        wait = next(itertools.islice(waits, min(self._failures, len(waits) - 1), None))
        self._failures += 1
        await self._manners.sleep(wait)

    def _meet(self, trouble: str, words: str, level: Level = Level.ERROR) -> None:
        """Tell a trouble when it begins."""
        if trouble != self._trouble:
            self._tell(words, level)
        self._trouble = trouble
