"""Event stream of a running turn for all its clients; a late client first gets the text so far as one delta.

Background tasks tied to a block. Timing and concurrency settings of the gateway. A turn known to this process: its
event stream, its open question and its task. Typing indicator for channels that support one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from foreword.agent.agent_events import (
    AgentEvent,
    ApprovalNeeded,
    CallRestarted,
    PassagesRecalled,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCallbacks,
    decline_to_ask,
)
from foreword.agent.reply_stream import SEPARATOR, NoReplyFilter
from foreword.gateway.channel import Channel
from foreword.gateway.inbox import ClaimedTurn, Inbox
from foreword.gateway.messages import RoutedMessage, TurnReply
from foreword.gateway.outbox import Outbox
from foreword.types import frozen


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine in the background, and cancel it when the block exits."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


MAX_QUEUED_DELTAS = 10_000  # queued deltas of one slow client; beyond that it is disconnected


class TurnBroadcast:
    """Sends the deltas of one turn to its clients."""

    def __init__(self) -> None:
        self._answers: list[list[str]] = [[]]  # the text of each answer; a tool call ends one
        self._hush = NoReplyFilter()
        self._asking: ApprovalNeeded | None = None
        self._recalled: PassagesRecalled | None = None
        self._listeners: set[asyncio.Queue[AgentEvent | None]] = set()
        self.ended = asyncio.Event()
        """Set when the turn has ended or is queued for later."""

    @property
    def heard(self) -> bool:
        """Return whether a client is connected."""
        return bool(self._listeners)

    async def pass_on(self, delta: AgentEvent) -> None:
        """Send a delta to all clients; hold back text that is or may become the suppressed-reply token."""
        match delta:
            case TextDelta():
                if text := self._hush.add(delta.text):
                    self._pass_on(TextDelta(text=text))
                return
            case CallRestarted():
                self._hush = NoReplyFilter()
                self._answers[-1].clear()
            case ToolStarted():
                self._finish_words()
                if self._answers[-1]:
                    self._answers.append([])
            case PassagesRecalled():
                self._recalled = delta
            case ApprovalNeeded():
                self._asking = delta
            case ToolFinished():
                self._asking = None
        self._pass_on(delta)

    def _finish_words(self) -> None:
        """Send the held-back text of a finished answer."""
        if text := self._hush.end():
            self._pass_on(TextDelta(text=text))

    def _pass_on(self, delta: AgentEvent) -> None:
        """Queue a delta for each client; disconnect a client that is too slow."""
        if isinstance(delta, TextDelta):
            self._answers[-1].append(delta.text)
        for listener in tuple(self._listeners):
            if listener.qsize() < MAX_QUEUED_DELTAS:
                listener.put_nowait(delta)
            else:
                self._listeners.discard(listener)
                listener.put_nowait(None)

    def end(self) -> None:
        """End the stream of every client."""
        self._finish_words()
        self.ended.set()
        for listener in self._listeners:
            listener.put_nowait(None)

    async def listen(self) -> AsyncIterator[AgentEvent]:
        """Yield the text so far and the open question, then each delta."""
        pieces: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        if self._recalled:
            pieces.put_nowait(self._recalled)
        if said := SEPARATOR.join("".join(answer) for answer in self._answers):
            pieces.put_nowait(TextDelta(text=said))
        if self._asking:
            pieces.put_nowait(self._asking)
        if self.ended.is_set():
            pieces.put_nowait(None)
        self._listeners.add(pieces)
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
        finally:
            self._listeners.discard(pieces)


@frozen
class GatewaySettings:
    """Timing and concurrency settings."""

    look: float = 1.0
    """Seconds between two checks for due turns and for turns of dead processes."""
    renew: float = 5.0
    """Seconds between two lease renewals."""
    grace: float = 20.0
    """Seconds that running turns get to finish when the gateway closes."""
    most: int = 1_000
    """Maximum number of concurrent turns."""
    thinking: float = 600.0
    """Seconds that a person has to answer a question."""
    again: tuple[float, ...] = (1.0, 2.0, 4.0, 30.0, 60.0)
    """Seconds before a failed channel is restarted; the last value repeats."""


DEFAULT_GATEWAY_SETTINGS = GatewaySettings()


UNATTENDED_ANSWER_S = 30.0  # seconds to wait for an answer without a connected client, for example after a restart


class LiveTurn:
    """One waiting or running turn."""

    def __init__(self, session: str, thinking: float) -> None:
        self.session = session
        self._thinking = thinking
        self.broadcast = TurnBroadcast()
        self.task: asyncio.Task[None] | None = None
        self.reply: TurnReply | None = None
        """The result, once it is stored."""
        self._begun = False
        self._stopped = False
        self._questions: dict[str, asyncio.Future[bool]] = {}

    def is_stopped(self) -> bool:
        """Return whether a person stopped the turn."""
        return self._stopped

    def stop(self) -> bool:
        """Stop the turn if it is running; return whether it was."""
        if self.task is None or self.task.done() or self.broadcast.ended.is_set():
            return False
        if self._begun and not self._stopped:
            self.task.cancel()
        self._stopped = True
        return True

    def decide(self, question: str, *, allowed: bool) -> bool:
        """Answer a question of the turn; return whether it was open."""
        waiting = self._questions.get(question)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(allowed)
        return True

    def make_callbacks(self, inbox: Inbox, claimed: ClaimedTurn) -> TurnCallbacks:
        """Make the callbacks of the running turn, and mark it as begun."""
        self._begun = True

        async def begin(call: str, name: str) -> bool:
            return await inbox.begin(claimed, call, name)

        ask: Callable[[ApprovalNeeded], Awaitable[bool | None]] = self._ask if claimed.incoming.asks else decline_to_ask
        return TurnCallbacks(delta=self.broadcast.pass_on, begin=begin, ask=ask)

    async def _ask(self, asking: ApprovalNeeded) -> bool | None:
        """Ask the person; return None after the timeout."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[asking.id] = waiting
        await self.broadcast.pass_on(asking)
        try:
            async with asyncio.timeout(
                self._thinking if self.broadcast.heard else min(UNATTENDED_ANSWER_S, self._thinking)
            ):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._questions[asking.id]


TYPING_INTERVAL_S = 4.0  # seconds


@asynccontextmanager
async def typing_indicator(outbox: Outbox | None, incoming: RoutedMessage) -> AsyncIterator[None]:
    """Show the typing indicator until the block exits; errors are ignored."""
    # If the reply goes elsewhere, as for a schedule, the writer does not wait for it.
    waits = incoming.address and not incoming.through
    channel = outbox.channels.get(incoming.channel) if outbox and waits else None
    if channel is None:
        yield
        return
    task = asyncio.create_task(repeat_typing(channel, incoming.address))
    try:
        yield
    finally:
        task.cancel()


async def repeat_typing(channel: Channel, address: str) -> None:
    """Repeat the typing indicator."""
    while True:
        with suppress(Exception):
            await channel.show_work(address)
        await asyncio.sleep(TYPING_INTERVAL_S)
