"""Turns that this process runs: their event stream for clients, open questions, and the typing indicator.

A client that connects late first gets the text so far as one delta.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from foreword.agent.agent_events import (
    ApprovalNeeded,
    CallRestarted,
    PassagesRecalled,
    ShownEvent,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from foreword.agent.reply_stream import SEPARATOR, NoReplyFilter
from foreword.gateway.channel import Channel
from foreword.gateway.gateway_context import background_task
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.outbox import Outbox
from foreword.storage.turns import TurnReply

MAX_QUEUED_DELTAS = 10_000  # of one slow client; beyond that it is disconnected
UNATTENDED_ANSWER_S = 30.0  # to wait for an answer without a connected client, for example after a restart
TYPING_INTERVAL_S = 4.0


class TurnBroadcast:
    """Sends the deltas of one turn to its clients."""

    def __init__(self) -> None:
        self._answers: list[list[str]] = [[]]  # the text of each answer; a tool call ends one
        self._filter = NoReplyFilter()
        self._question: ApprovalNeeded | None = None
        self._recalled: PassagesRecalled | None = None
        self.clients: set[asyncio.Queue[ShownEvent | None]] = set()
        self.ended = asyncio.Event()
        """Set when the turn has ended or is queued for later."""

    async def send(self, delta: ShownEvent) -> None:
        """Send a delta to all clients; hold back text that is or may become the suppressed-reply token."""
        match delta:
            case TextDelta():
                if text := self._filter.add(delta.text):
                    self._queue(TextDelta(text=text))
                return
            case CallRestarted():
                self._filter = NoReplyFilter()
                self._answers[-1].clear()
            case ToolStarted():
                self._flush()
                if self._answers[-1]:
                    self._answers.append([])
            case PassagesRecalled():
                self._recalled = delta
            case ApprovalNeeded():
                self._question = delta
            case ToolFinished():
                self._question = None
        self._queue(delta)

    def _flush(self) -> None:
        """Send the held-back text of a finished answer."""
        if text := self._filter.end():
            self._queue(TextDelta(text=text))

    def _queue(self, delta: ShownEvent) -> None:
        """Queue a delta for each client; disconnect a client that is too slow."""
        if isinstance(delta, TextDelta):
            self._answers[-1].append(delta.text)
        for client in tuple(self.clients):
            if client.qsize() < MAX_QUEUED_DELTAS:
                client.put_nowait(delta)
            else:
                self.clients.discard(client)
                client.put_nowait(None)

    def end(self) -> None:
        """End the stream of every client."""
        self._flush()
        self.ended.set()
        for client in self.clients:
            client.put_nowait(None)

    async def listen(self) -> AsyncIterator[ShownEvent]:
        """Yield the text so far and the open question, then each delta."""
        deltas: asyncio.Queue[ShownEvent | None] = asyncio.Queue()
        if self._recalled:
            deltas.put_nowait(self._recalled)
        if text := SEPARATOR.join("".join(answer) for answer in self._answers):
            deltas.put_nowait(TextDelta(text=text))
        if self._question:
            deltas.put_nowait(self._question)
        if self.ended.is_set():
            deltas.put_nowait(None)
        self.clients.add(deltas)
        try:
            while (delta := await deltas.get()) is not None:
                yield delta
        finally:
            self.clients.discard(deltas)


class LiveTurn:
    """One waiting or running turn."""

    def __init__(self, session: str, answer_timeout: float) -> None:
        self.session = session
        self._answer_timeout = answer_timeout
        self.broadcast = TurnBroadcast()
        self.task: asyncio.Task[None] | None = None
        self.reply: TurnReply | None = None
        """The result, once it is stored."""
        self.unstored: TurnReply | None = None
        """The result while it cannot be stored."""
        self.begun = False
        """Whether the turn runs, so that a stop must cancel it."""
        self._stopped = False
        self._questions: dict[str, asyncio.Future[bool]] = {}

    def is_stopped(self) -> bool:
        """Return whether a person stopped the turn."""
        return self._stopped

    def stop(self) -> bool:
        """Stop the turn if it is running; return whether it was."""
        if self.task is None or self.task.done() or self.broadcast.ended.is_set():
            return False
        if self.begun and not self._stopped:
            self.task.cancel()
        self._stopped = True
        return True

    def publish(self, reply: TurnReply) -> None:
        """Publish the result in memory when it cannot be persisted yet."""
        self.unstored = reply
        self.broadcast.end()

    def decide(self, question: str, *, allowed: bool) -> bool:
        """Answer a question of the turn; return whether it was open."""
        answer = self._questions.get(question)
        if answer is None or answer.done():
            return False
        answer.set_result(allowed)
        return True

    async def ask(self, question: ApprovalNeeded) -> bool | None:
        """Ask the person; return None after the timeout."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[question.id] = answer
        await self.broadcast.send(question)
        timeout = self._answer_timeout
        try:
            async with asyncio.timeout(timeout if self.broadcast.clients else min(UNATTENDED_ANSWER_S, timeout)):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._questions[question.id]


@asynccontextmanager
async def typing_indicator(outbox: Outbox | None, incoming: RoutedMessage) -> AsyncIterator[None]:
    """Show the typing indicator until the block exits; errors are ignored."""
    # If the reply goes elsewhere, as for a schedule, the writer does not wait for it.
    waits = incoming.address and not incoming.through
    channel = outbox.channels.get(incoming.channel) if outbox and waits else None
    if channel is None:
        yield
        return
    async with background_task(repeat_typing(channel, incoming.address)):
        yield


async def repeat_typing(channel: Channel, address: str) -> None:
    """Repeat the typing indicator."""
    while True:
        with suppress(Exception):
            await channel.show_work(address)
        await asyncio.sleep(TYPING_INTERVAL_S)
