"""The gateway: accepts messages, runs their turns, and lets clients stream, stop and fetch them.

    async with open_gateway(workspace) as gateway:
        accepted = await gateway.accept(RoutedMessage(user="alice", text="What is on today?"))
        async for delta in gateway.hear(accepted.turn):
            ...
        reply = await gateway.wait(accepted.turn)

A message is durable when `accept` returns; if fsync failed, the log has an error. Turns of one session run one at a
time, and many sessions run concurrently.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.agent.agent_events import ShownEvent
from foreword.agent.images import Image, ImageFolder
from foreword.assembly import Assembly
from foreword.events.event import NO_POSITION, EventType, Level
from foreword.events.sinks import EventStream
from foreword.events.tracer import Tracer, describe_error, parse_traceparent
from foreword.gateway import session_manager
from foreword.gateway.channel import InboundMessage, NotStored
from foreword.gateway.client_tools import CallReference, ClientCall
from foreword.gateway.equipment import ModelSelection
from foreword.gateway.gateway_context import GatewayContext, GatewaySettings
from foreword.gateway.held_calls import HeldCalls
from foreword.gateway.housekeeping import Housekeeping
from foreword.gateway.inbox import ClaimedTurn, Inbox, get_claimed
from foreword.gateway.intake import IntakeResult, receive_message
from foreword.gateway.live import LiveTurn, typing_indicator
from foreword.gateway.messages import (
    AcceptedTurn,
    BadMessage,
    ClientRequest,
    NotFound,
    RoutedMessage,
    ShuttingDown,
    check_message,
)
from foreword.gateway.outbox import Outbox
from foreword.gateway.pairing import PairingAttempts
from foreword.gateway.reload import Reloader
from foreword.gateway.router import route
from foreword.gateway.schedule.scheduler import Scheduler
from foreword.gateway.session_manager import ResolvedKey, SessionManager, SessionMatch, resolve_session_key
from foreword.gateway.turn_inputs import TurnInputs
from foreword.gateway.worker import Worker
from foreword.storage.sessions import Session, SessionKey
from foreword.storage.turns import LeaseLost, TurnReply, TurnState, find_reply
from foreword.storage.writer import probe_write
from foreword.types import Trust

POLL_INTERVAL_S = 0.5  # seconds between two polls of a turn that another process runs
SHUTTING_DOWN_TEXT = "the gateway is shutting down; try again in a moment"
NOT_STORED_TEXT = "the message could not be stored ({}) and was not accepted; try again later"


class Gateway:
    """Runs the turns of a workspace."""

    def __init__(
        self,
        context: GatewayContext,
        listeners: EventStream,
        inbox: Inbox,
        *,
        choices: ModelSelection,
        preparing: TurnInputs,
        worker: Worker,
        outbox: Outbox | None,
        housekeeping: Housekeeping,
        reloading: Reloader,
        settings: GatewaySettings,
        pull_channels: Collection[str],
    ) -> None:
        self.context = context
        self.workspace = context.workspace
        self.listeners = listeners
        self.sessions = SessionManager(context.writer, context.clock)
        self.held = HeldCalls(context=context)
        """The tool calls that wait for a person's approval."""
        self.scheduler = Scheduler(context, self.accept, pull_channels)
        self.pairing_attempts = PairingAttempts()
        self.choices = choices
        self.preparing = preparing
        self.housekeeping = housekeeping
        self.reloading = reloading
        self.writer = context.writer
        self._inbox = inbox
        self.clock = context.clock
        self._images = ImageFolder(context.workspace.state)
        self._worker = worker
        self._outbox = outbox
        self._settings = settings
        self._known: dict[str, LiveTurn] = {}
        self._accepting: set[asyncio.Task[AcceptedTurn]] = set()
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def receive(self, message: InboundMessage) -> IntakeResult:
        """Receive a message from a channel: it is stored when this returns."""
        if self._closing:
            raise ShuttingDown(SHUTTING_DOWN_TEXT)
        self.reloading.look()
        try:
            received = await receive_message(self, message)
        except sqlite3.Error as error:
            raise NotStored(NOT_STORED_TEXT.format(error)) from error
        if received.accepted is None:
            self._ended.set()  # the outbox may have a message
        return received

    async def accept(self, incoming: RoutedMessage, images: Sequence[Image] = ()) -> AcceptedTurn:
        """Accept a message: when this returns it and its images are stored and it will be answered."""
        incoming = replace(incoming, images=tuple(image.part for image in images))
        check_message(incoming)
        if self._closing:
            raise ShuttingDown(SHUTTING_DOWN_TEXT)
        self.reloading.look()
        found = resolve_session_key(incoming, self.workspace.config)
        return await self._finish_accepting(self._accept(incoming, images, found))

    async def _finish_accepting(self, accepting: Coroutine[Any, Any, AcceptedTurn]) -> AcceptedTurn:
        """Store what a client sent even if it disconnects meanwhile: nothing is stored and left unclaimed."""
        task = asyncio.create_task(accepting)
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        try:
            return await asyncio.shield(task)
        except sqlite3.Error as error:
            raise NotStored(NOT_STORED_TEXT.format(error)) from error

    async def _accept(self, incoming: RoutedMessage, images: Sequence[Image], found: ResolvedKey) -> AcceptedTurn:
        now, key = self.clock(), found.key
        match = await self.writer.read(lambda state: session_manager.find_session(state, incoming, key, now))
        await self._check_model(incoming, key, now, match)
        if images and not (match and match.turn):
            try:
                await asyncio.to_thread(self._images.store, images)
            except OSError as error:
                raise NotStored(NOT_STORED_TEXT.format(error)) from error
        if match is None:
            match = await self.writer.write(
                lambda state: session_manager.find_or_create_session(state, incoming, key, now)
            )
        session = match.session
        if match.turn:
            return AcceptedTurn(turn=match.turn, session=session.id, repeated=True)
        context = session_manager.make_event_context(session, incoming)
        caller = parse_traceparent(incoming.traceparent)
        trace = self.context.trace(context, caller=caller)
        with session_manager.begin_trace(trace, incoming) as step:
            step.emit(EventType.TRUST_RESOLVED, **found.clearance.describe(incoming.situation))
            if match.new:
                step.emit(EventType.SESSION_CREATED)
            live = self._known[trace.id] = LiveTurn(session.id, self._settings.thinking)
            incoming = replace(incoming, before=None, beginning=session_manager.hash_history(incoming.before))
            new = ClaimedTurn(
                turn=trace.id, session=session, incoming=incoming, attempt=1, position=step.position, received=now
            )

            def log_sync_error(error: Exception) -> None:
                step.emit(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))

            added = await self._add(new, log_sync_error)
        if isinstance(added, AcceptedTurn):
            if added.repeated:  # the same message arrived twice at the same time
                self._end(trace.id, live)
                return added
            with suppress(sqlite3.Error):  # it is stored, even if its state cannot be read now
                if (await self._find(trace.id)).state is TurnState.QUEUED:
                    self._end(trace.id, live)
        return AcceptedTurn(turn=trace.id, session=session.id)

    async def _add(self, new: ClaimedTurn, on_sync_error: Callable[[Exception], None]) -> ClaimedTurn | AcceptedTurn:
        """Store a message, or raise NotStored; the caller's step logs the error."""
        try:
            return await self._inbox.add(new, self._start, on_sync_error)
        except BaseException as error:
            if self._known[new.turn].task is None:
                del self._known[new.turn]
            if isinstance(error, sqlite3.Error):
                raise NotStored(NOT_STORED_TEXT.format(error), is_recorded=True) from error
            raise

    async def resume(self, call: CallReference, results: Mapping[int, str], message: InboundMessage) -> AcceptedTurn:
        """Continue a turn with the results of its client's tools: when this returns they are stored.

        `message` has the sender, the agent and the options of the request with the results.
        """
        if self._closing:
            raise ShuttingDown(SHUTTING_DOWN_TEXT)
        self.reloading.look()
        incoming = route(message, self.workspace.config).incoming
        key = resolve_session_key(incoming, self.workspace.config).key
        return await self._finish_accepting(self._resume(call, results, key, incoming.request))

    async def _resume(
        self, call: CallReference, results: Mapping[int, str], key: SessionKey, request: ClientRequest
    ) -> AcceptedTurn:
        accepted = await self._inbox.resume(call, results, key, request)
        if not accepted.repeated:
            self._known.setdefault(call.turn, LiveTurn(accepted.session, self._settings.thinking))
            self._wake.set()
        return accepted

    async def list_client_calls(self, turn: str) -> Sequence[ClientCall]:
        """List the calls that the client of a turn is to run."""
        return await self._inbox.list_client_calls(turn)

    async def hear(self, turn: str) -> AsyncIterator[ShownEvent]:
        """Stream a turn: the text so far, then each delta, until it has ended or is queued."""
        live = self._known.get(turn)
        if live:
            async for delta in live.broadcast.listen():
                yield delta

    async def wait(self, turn: str) -> TurnReply:
        """Wait until a turn has ended or is queued, or the gateway closes."""
        while True:
            live = self._known.get(turn)
            if live:
                await live.broadcast.ended.wait()
                if live.reply:
                    return live.reply
            try:
                reply = await self._find(turn)
            except sqlite3.Error:  # the state is locked; poll again
                if self._closing:
                    raise
                await asyncio.sleep(POLL_INTERVAL_S)
                continue
            if reply.state.ended or reply.state is TurnState.QUEUED or self._closing:
                return reply
            if turn not in self._known:
                await asyncio.sleep(POLL_INTERVAL_S)

    async def find(self, turn: str) -> TurnReply | None:
        """Find the current result of a turn."""
        live = self._known.get(turn)
        if live and live.unstored:
            return live.unstored
        return await self.writer.read(lambda state: find_reply(state, turn))

    async def prove(self) -> None:
        """Check that the state is writable, or raise the error; nothing is changed."""
        await self.writer.write(probe_write)

    async def foresee(self, incoming: RoutedMessage) -> Assembly:
        """Assemble the prompt for a message; nothing is sent or stored."""
        self.workspace.refresh()
        key, now = resolve_session_key(incoming, self.workspace.config).key, self.clock()
        session = Session(id="", key=key, situation=incoming.situation, created=now, used=now)
        if incoming.session:
            session = await self.writer.write(
                lambda state: session_manager.find_session_by_id(state, incoming.session, key)
            )
        claimed = ClaimedTurn(
            turn="", session=session, incoming=incoming, attempt=0, position=NO_POSITION, received=now
        )
        return await self.preparing.preview(claimed)

    async def _check_model(
        self, incoming: RoutedMessage, key: SessionKey, now: datetime, match: SessionMatch | None
    ) -> None:
        """Raise BadMessage for a format or images that the session's model rejects, before anything is stored."""
        wanted = incoming.request.response_format
        if not (wanted or incoming.images) or (match and match.turn):
            return
        chosen = await self.writer.read(lambda state: session_manager.find_session_model(state, incoming, key, now))
        if wanted and (refusal := await self.choices.judge_format(key.agent, wanted, chosen)):
            raise BadMessage("response_format", refusal)
        if incoming.images and (refusal := await self.choices.judge_images(key.agent, incoming.images, chosen)):
            raise BadMessage("images", refusal)

    async def retry(self, session: str = "") -> int:
        """Retry the queued messages of a session, or all of them, now; return their number."""
        count = await self._inbox.hasten(session)
        self._wake.set()
        return count

    async def set_model(self, session: str, model: str) -> int:
        """Choose another model for a session and retry its queued messages; return their number."""
        await self.sessions.set_model(session, model)
        return await self.retry(session)

    async def stop(self, turn: str) -> bool:
        """Stop a running or waiting turn; return whether there was one."""
        live = self._known.get(turn)
        if live and live.stop():
            await live.broadcast.ended.wait()
            try:
                state = (await self._find(turn)).state
            except sqlite3.Error:
                return True
            if state.ended:  # it may have ended before
                return state is TurnState.STOPPED
            # The turn was queued before the stop reached it, so it is stopped below.
        before = await self.find(turn)
        if before is not None and before.state is TurnState.CALLED:
            return await self._inbox.forget_called(before.session)
        if before is None or before.state.ended:
            return False
        after = await self._inbox.stop(turn)
        if after is TurnState.STOPPED:
            if live:
                self._end(turn, live)
            claimed = await self.writer.write(lambda state: get_claimed(state, turn))
            self._make_trace(claimed).emit(
                EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error="stopped before it began"
            )
        self._wake.set()
        return after in (TurnState.STOPPED, TurnState.RUNNING)

    def decide(self, turn: str, question: str, *, allowed: bool) -> bool:
        """Answer a question of a turn; return whether it was open."""
        live = self._known.get(turn)
        return live.decide(question, allowed=allowed) if live else False

    async def allow_held(self, user: str, clearance: Trust, identifier: str, *, asks: bool = False) -> AcceptedTurn:
        """Run a held call as a turn of its session; a second approval returns the same turn."""
        run = await self.held.make_run(user, clearance, identifier, asks=asks)
        return run if isinstance(run, AcceptedTurn) else await self.accept(run)

    def start(self) -> None:
        """Start working, first on turns that an earlier process left."""
        self._wake.set()
        loops = [self._claim_periodically(), self._renew(), *([self._deliver(self._outbox)] if self._outbox else [])]
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """Accept no more messages, let running turns finish, and leave the rest to the next start."""
        self._closing = True
        self._wake.set()
        claiming, renewing, *delivering = self._tasks
        # These tasks are not cancelled: their claims would stay leased to this process until the lease ends.
        await asyncio.gather(*self._accepting, claiming, return_exceptions=True)
        await self._finish([live.task for live in self._known.values() if live.task])
        for live in self._known.values():
            live.broadcast.end()
        self._ended.set()
        await self._finish(delivering)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)

    async def _finish(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for tasks for the grace period, then cancel the rest."""
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _claim_periodically(self) -> None:
        """Claim due turns, when woken or periodically."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._settings.look)
            self._wake.clear()
            if self._closing:
                return
            await self._try(self._claim())
            await self._try(self.held.expire())

    async def _claim(self) -> None:
        room = self._settings.most - len(self._known)
        for claimed in await self._inbox.claim(max(1, room)):
            self._start(claimed)

    async def _try(self, what: Awaitable[None]) -> None:
        """Run a periodic step: ignore database errors, which are retried, and log all others."""
        try:
            await what
        except sqlite3.Error:
            pass
        except Exception as error:  # noqa: BLE001 - without this loop the gateway would answer no message
            self.context.log_error(error)

    async def _deliver(self, outbox: Outbox) -> None:
        """Deliver replies as soon as there are any."""
        last = False
        async with asyncio.TaskGroup() as rounds:  # a hanging delivery must not block other addresses
            while not last:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), self._settings.look)
                self._ended.clear()
                last = self._closing and not any(live.task for live in self._known.values())
                rounds.create_task(self._try(outbox.deliver_all()))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.renew)
            await self._try(self._renew_all())

    async def _renew_all(self) -> None:
        """Renew our leases, stop turns on request, and release waiters of turns that ended in another process."""
        for turn in await self._inbox.renew():
            if live := self._known.get(turn):
                live.stop()
        waiting = [turn for turn, live in self._known.items() if live.task is None]
        for turn in waiting:
            reply, live = await self.find(turn), self._known.get(turn)
            if reply and live and live.task is None and (reply.state.ended or reply.state is TurnState.QUEUED):
                self._end(turn, live)

    def _start(self, claimed: ClaimedTurn) -> None:
        live = self._known.get(claimed.turn)
        if live is None or live.broadcast.ended.is_set():
            live = self._known[claimed.turn] = LiveTurn(claimed.session.id, self._settings.thinking)
        live.task = asyncio.create_task(self._run(claimed, live))

    async def _run(self, claimed: ClaimedTurn, live: LiveTurn) -> None:
        """Run a turn; in every case the next turn of its session can begin."""
        try:
            async with typing_indicator(self._outbox, claimed.incoming):
                live.reply = await self._worker.work(self._make_trace(claimed), claimed, live)
        except LeaseLost:
            return
        except asyncio.CancelledError:
            with suppress(sqlite3.Error, LeaseLost):
                await self._inbox.release(claimed)
            raise
        else:
            if live.reply.state is TurnState.QUEUED:
                self._end_session(claimed.session.id)
        finally:
            self._end(claimed.turn, live)
            self._wake.set()
            self._ended.set()

    def _make_trace(self, claimed: ClaimedTurn) -> Tracer:
        """Continue the trace of a turn."""
        context = session_manager.make_event_context(claimed.session, claimed.incoming)
        return self.context.trace(context, parent=claimed.position)

    def _end(self, turn: str, live: LiveTurn) -> None:
        live.broadcast.end()
        if self._known.get(turn) is live:
            del self._known[turn]

    def _end_session(self, session: str) -> None:
        """Release waiters of turns that are queued behind a postponed one."""
        for turn, live in list(self._known.items()):
            if live.session == session and live.task is None:
                self._end(turn, live)

    async def _find(self, turn: str) -> TurnReply:
        reply = await self.find(turn)
        if reply is None:
            raise NotFound("turn")
        return reply
