"""Long polling: receives updates in order and confirms an update only after its message is stored."""

import asyncio
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
