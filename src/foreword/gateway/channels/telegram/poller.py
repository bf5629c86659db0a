"""Long polling: receives updates in order and confirms an update only after its message is stored."""

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
from foreword.gateway.channel import InboundMessage, NotStored, ReceiveMessage, ReportToOwner
from foreword.gateway.channels.telegram.bot_client import (
    BotClient,
    GetRawUpdates,
    GroupMigrations,
    TelegramSettings,
    TelegramUnreachable,
    UncertainDelivery,
)
from foreword.gateway.channels.telegram.inbound_messages import MessageReader

EDIT_UPDATES = ("edited_message", "edited_channel_post")
MESSAGE_UPDATES = ("message", "channel_post", *EDIT_UPDATES)
MEMBER_UPDATE = "my_chat_member"
REMOVED_STATUSES = ("left", "kicked")
RawUpdate = Mapping[str, Any]


class UpdatePoller:
    """Receives messages and retries while Telegram or the disk is unavailable."""

    def __init__(
        self,
        line: BotClient,
        hear: ReceiveMessage,
        manners: TelegramSettings,
        tell: ReportToOwner,
        moves: GroupMigrations,
    ) -> None:
        self._line = line
        self._moves = moves
        self._hear = hear
        self._manners = manners
        self._tell = tell
        self._trouble = ""
        self._failures = 0
        self._broken: dict[int, int] = {}

    async def run(self, agent: str = "") -> None:
        """Poll until cancelled; messages are for the given agent."""
        hearing = MessageReader(await self._introduce(), self._moves, agent)
        offset: int | None = None
        while True:
            method = GetRawUpdates(
                offset=offset, timeout=self._manners.poll, allowed_updates=[*MESSAGE_UPDATES, MEMBER_UPDATE]
            )
            try:
                updates = await self._line.ask(method, self._manners.poll + self._manners.request)
            except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
                await self._wait(error)
                continue
            if updates:
                kept, offset = await self._take(updates, hearing)
                if not kept:
                    await self._rest()
                    continue
            self._trouble, self._failures = "", 0

    async def _introduce(self) -> User:
        """Ask Telegram for the bot's user; retry until it answers."""
        while True:
            try:
                return await self._line.ask(GetMe())
            except (TelegramAPIError, TelegramUnreachable, UncertainDelivery) as error:
                await self._wait(error)

    async def _take(self, updates: Sequence[RawUpdate], hearing: MessageReader) -> tuple[bool, int]:
        """Process updates, in order per chat; return success and the next offset, or the first update not stored."""
        ordered = sorted(updates, key=lambda update: update["update_id"])
        chats: dict[object, list[tuple[int, InboundMessage]]] = {}
        for update in ordered:
            if heard := self._read(update, hearing):
                chat = heard.address.partition("/")[0]
                chats.setdefault(chat, []).append((update["update_id"], heard))
        failed = await asyncio.gather(*(self._hand_in(line, hearing) for line in chats.values()))
        lost = [number for number in failed if number]
        return (False, min(lost)) if lost else (True, ordered[-1]["update_id"] + 1)

    async def _hand_in(self, line: Sequence[tuple[int, InboundMessage]], hearing: MessageReader) -> int:
        """Submit the messages of one chat; return the number of the first update that was not stored, or 0."""
        for number, heard in line:
            if hearing.is_known(heard):
                continue
            try:
                await self._hear(heard)
            except InputError as error:  # a retry would fail again
                self._tell(f"a message from {heard.address} was rejected: {error}", Level.WARN)
            except Exception as error:  # noqa: BLE001 - the receiver may raise anything
                if not self._is_given_up(number, error):
                    return number
            self._broken.pop(number, None)
            hearing.remember(heard)
        return 0

    def _is_given_up(self, number: int, error: Exception) -> bool:
        """Return whether to drop an update after repeated unexpected errors; storage errors are retried forever."""
        if isinstance(error, ForewordError | OSError):
            level = Level.WARN if isinstance(error, NotStored) and error.is_recorded else Level.ERROR
            self._meet("kept", f"messages cannot be stored and stay queued at Telegram: {error}", level)
            return False
        self._broken[number] = self._broken.get(number, 0) + 1
        if self._broken[number] < self._manners.tries:
            return False
        self._tell(f"update {number} was dropped: {type(error).__name__}: {self._line.show(error)}", Level.ERROR)
        return True

    def _read(self, update: RawUpdate, hearing: MessageReader) -> InboundMessage | None:
        """Parse an update; record and skip an invalid one and one of an unknown kind."""
        number = update["update_id"]
        kinds = [kind for kind in update if kind != "update_id"]
        kind = kinds[0] if kinds else "none"
        try:
            if kind in MESSAGE_UPDATES:
                message = Message.model_validate(update[kind])
                self._see_move(message)
                return hearing.hear(message, number, edited=kind in EDIT_UPDATES)
            if kind == MEMBER_UPDATE:
                self._see_member(ChatMemberUpdated.model_validate(update[kind]))
                return None
        except ValidationError as error:
            what = f"invalid fields: {error.error_count()}"
            self._tell(f"update {number} of kind {kind} was skipped: {what}", Level.WARN)
            return None
        self._tell(f"update {number} was skipped: unknown kind {self._line.show(kind)!r}", Level.WARN)
        return None

    def _see_move(self, message: Message) -> None:
        old, new = message.migrate_from_chat_id or message.chat.id, message.migrate_to_chat_id or message.chat.id
        if old != new and self._moves.add(old, new):
            self._tell(f"the group telegram:{old} now has the id {new}; its room settings still apply", Level.INFO)

    def _see_member(self, change: ChatMemberUpdated) -> None:
        if change.new_chat_member.status in REMOVED_STATUSES:
            did = "has blocked the bot" if change.chat.type == "private" else "has removed the bot"
            self._tell(f"telegram:{change.chat.id} {did}", Level.WARN)

    async def _wait(self, error: Exception) -> None:
        """Record an error once and wait, longer after each failure."""
        words = self._line.show(error)
        match error:
            case TelegramRetryAfter():
                await self._manners.sleep(error.retry_after)
            case TelegramUnauthorizedError() | TelegramNotFound():
                self._meet("token", f"Telegram rejects the token; get a new one from @BotFather and restart: {words}")
                await self._manners.sleep(self._manners.refused)
            case TelegramConflictError():
                self._meet("conflict", f"another process polls this bot; stop one of the two: {words}")
                await self._rest()
            case _:
                self._line.doubtful = True
                self._meet("away", f"Telegram is unreachable, retrying: {words}")
                await self._rest()

    async def _rest(self) -> None:
        waits = self._manners.waits
        wait = next(itertools.islice(waits, min(self._failures, len(waits) - 1), None))
        self._failures += 1
        await self._manners.sleep(wait)

    def _meet(self, trouble: str, words: str, level: Level = Level.ERROR) -> None:
        """Record a problem when it starts."""
        if trouble != self._trouble:
            self._tell(words, level)
        self._trouble = trouble
