"""The gateway: accepts messages, has their turns worked on, and lets people hear, stop and fetch them.

    async with open_gateway(workspace) as gateway:
        accepted = await gateway.accept(Incoming(user="alice", text="What is on today?"))
        async for delta in gateway.hear(accepted.turn):
            ...
        reply = await gateway.wait(accepted.turn)

A message is durable when `accept` returns, or the log says that the disk did not take it. One turn of a session runs at
a time, and many sessions at once.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from foreword.assembly import Assembly
from foreword.errors import ForewordError
from foreword.events.event import NOBODY, NOWHERE, EventType, Level
from foreword.events.listening import Listeners
from foreword.events.notices import Board
from foreword.events.span import read_traceparent
from foreword.events.trace import Timepiece, Trace, describe_error
from foreword.gateway.admission import Admitted, admit, find_admitted, find_named, find_session_model, summarise_before
from foreword.gateway.belonging import begin, find_context
from foreword.gateway.channel import Heard, NotKept
from foreword.gateway.checking import check
from foreword.gateway.choices import Choices
from foreword.gateway.held_calls import HeldCalls
from foreword.gateway.housekeeping import Housekeeping
from foreword.gateway.inbox import Arrival, Claimed, Ending, Inbox, LeaseLost
from foreword.gateway.lane import Found, Lane, find_lane
from foreword.gateway.message import Accepted, BadMessage, Incoming, NotFound, Reply, State
from foreword.gateway.outbox import Outbox
from foreword.gateway.receiving import Received, Receiving
from foreword.gateway.reloading import Reloading
from foreword.gateway.replies import find_reply, make_reply
from foreword.gateway.rhythm import USUAL, Rhythm
from foreword.gateway.running import Running
from foreword.gateway.session import Session
from foreword.gateway.sessions import Sessions
from foreword.gateway.showing import showing_work
from foreword.gateway.sqlite_inbox import get_claimed
from foreword.gateway.working import Working
from foreword.gateway.writer import Writer, rewrite
from foreword.runtime.ears import Delta
from foreword.turn import Turn
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.gateway.schedule.scheduler import Scheduler

ELSEWHERE = 0.5  # seconds between two looks at a turn that another process works on
GOING = "this gateway is about to end; write again in a moment"
UNKEPT = "the message could not be kept ({}), so it was not accepted; try again later"


class Closing(ForewordError):
    """The gateway is about to end and accepts nothing any more."""


class Gateway:
    """Runs the turns of a workspace for everybody who writes to it."""

    def __init__(
        self,
        workspace: Workspace,
        listeners: Listeners,
        writer: Writer,
        inbox: Inbox,
        clock: Callable[[], datetime],
        *,
        choices: Choices,
        housekeeping: Housekeeping,
        rhythm: Rhythm = USUAL,
        board: Board | None = None,
    ) -> None:
        self.workspace = workspace
        self.listeners = listeners
        self.sessions = Sessions(writer, clock)
        self.scheduler: Scheduler | None = None
        """Who fires what is due; set once it is made, since it hands its messages in here."""
        self._writer = writer
        self._inbox = inbox
        self._clock = clock
        self._choices = choices
        self.housekeeping = housekeeping
        self._rhythm = rhythm
        self._timepiece = Timepiece(now=clock)
        self.reloading = Reloading(workspace, listeners, self._timepiece, board or Board())
        self.held = HeldCalls(workspace, writer, listeners.recorder, clock, self.accept)
        """The tool calls that wait for a person's yes."""
        self._receiving = Receiving(
            workspace, writer, listeners.recorder, clock, accept=self.accept, stop=self.stop, held=self.held
        )
        self._working: Working | None = None
        self._outbox: Outbox | None = None
        self._known: dict[str, Running] = {}
        self._accepting: set[asyncio.Task[Accepted]] = set()
        self._aside: dict[str, Reply] = {}
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._closing = False
        self._looking: asyncio.Task[None] | None = None
        self._delivering: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def receive(self, heard: Heard) -> Received:
        """Receive what a channel heard: when this returns it is kept, whatever becomes of it."""
        if self._closing:
            raise Closing(GOING)
        self.reloading.look()
        try:
            received = await self._receiving.receive(heard)
        except sqlite3.Error as error:
            raise NotKept(UNKEPT.format(error)) from error
        if received.accepted is None:
            self._ended.set()  # there may be a letter
        return received

    async def accept(self, incoming: Incoming) -> Accepted:
        """Accept a message: when this returns it is kept, and it will be answered."""
        check(incoming)
        if self._closing:
            raise Closing(GOING)
        self.reloading.look()
        found = find_lane(incoming, self.workspace.config)
        # Who goes away meanwhile leaves no message behind that is kept and that nobody works on.
        task = asyncio.create_task(self._accept(incoming, found))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        try:
            return await asyncio.shield(task)
        except sqlite3.Error as error:
            raise NotKept(UNKEPT.format(error)) from error

    async def _accept(self, incoming: Incoming, found: Found) -> Accepted:
        now = self._clock()
        lane = found.lane
        admitted = await self._writer.look(lambda state: find_admitted(state, incoming, lane, now))
        await self._check_format(incoming, lane, now, admitted)
        if admitted is None:
            admitted = await self._writer.do(lambda state: admit(state, incoming, lane, now))
        session = admitted.session
        if admitted.turn:
            return Accepted(turn=admitted.turn, session=session.id, repeated=True)
        caller = read_traceparent(incoming.traceparent)
        trace = Trace(self.listeners.recorder, find_context(session, incoming), self._timepiece, caller=caller)
        with begin(trace, incoming) as received:
            clearance = found.clearance
            received.tell(
                EventType.TRUST_RESOLVED,
                **clearance.describe(incoming.situation),
            )
            if admitted.new:
                received.tell(EventType.SESSION_CREATED)
            running = self._known[trace.id] = Running(session.id, self._rhythm.thinking)
            incoming = replace(incoming, before=None, beginning=summarise_before(incoming.before))
            arrival = Arrival(turn=trace.id, session=session, incoming=incoming, place=received.place, now=now)

            def unsealed(fault: Exception) -> None:
                received.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(fault))

            got = await self._keep(arrival, unsealed)
        if isinstance(got, Accepted):
            if got.repeated:  # it was delivered twice at the same moment
                self._end(trace.id, running)
                return got
            with suppress(sqlite3.Error):  # it is kept, whether its state can be read now or not
                if (await self._find(trace.id)).state is State.QUEUED:
                    self._end(trace.id, running)
        return Accepted(turn=trace.id, session=session.id)

    async def _keep(self, arrival: Arrival, unsealed: Callable[[Exception], None]) -> Claimed | Accepted:
        """Store a message, or raise NotKept; the step of the caller records that."""
        try:
            return await self._inbox.add(arrival, self._start, unsealed)
        except BaseException as error:
            if self._known[arrival.turn].task is None:
                del self._known[arrival.turn]
            if isinstance(error, sqlite3.Error):
                raise NotKept(UNKEPT.format(error), is_recorded=True) from error
            raise

    async def hear(self, turn: str) -> AsyncIterator[Delta]:
        """Hear a turn: what it said so far, then each piece, until it has ended or is left for later."""
        running = self._known.get(turn)
        if running:
            async for delta in running.broadcast.listen():
                yield delta

    async def wait(self, turn: str) -> Reply:
        """Wait until a turn has ended or is left for later, which a gateway that closes does, too."""
        while True:
            running = self._known.get(turn)
            if running:
                await running.broadcast.ended.wait()
                if running.reply:
                    return running.reply
            try:
                reply = await self._find(turn)
            except sqlite3.Error:  # somebody holds the state; who waits can wait a little longer
                if self._closing:
                    raise
                await asyncio.sleep(ELSEWHERE)
                continue
            if reply.state.ended or reply.state is State.QUEUED or self._closing:
                return reply
            if turn not in self._known:
                await asyncio.sleep(ELSEWHERE)

    async def find(self, turn: str) -> Reply | None:
        """Find what came of a turn so far."""
        return self._aside.get(turn) or await self._writer.look(lambda state: find_reply(state, turn))

    async def prove(self) -> None:
        """Prove that the state can be written, or raise why not; nothing in it is changed."""
        await self._writer.do(rewrite)

    async def foresee(self, incoming: Incoming) -> Assembly:
        """Assemble what an agent would be told with a message; nothing is sent, kept or begun."""
        assert self._working is not None
        self.workspace.refresh()
        found, now = find_lane(incoming, self.workspace.config), self._clock()
        session = Session(id="", lane=found.lane, situation=incoming.situation, created=now, used=now)
        if incoming.session:
            session = await self._writer.do(lambda state: find_named(state, incoming.session, found.lane))
        claimed = Claimed(turn="", session=session, incoming=incoming, attempt=0, place=NOWHERE, received=now)
        return await self._working.foresee(claimed)

    async def assemble(self, turn: Turn) -> Assembly:
        """Assemble a turn that nobody sends, one at a time with those that are sent."""
        assert self._working is not None
        return await self._working.assemble(turn)

    async def _check_format(self, incoming: Incoming, lane: Lane, now: datetime, admitted: Admitted | None) -> None:
        """Refuse a response format that the model of the session does not take, before anything is stored."""
        if not incoming.request.response_format or (admitted and admitted.turn):
            return
        chosen = await self._writer.look(lambda state: find_session_model(state, incoming, lane, now))
        if refusal := await self._choices.judge_format(lane.agent, incoming.request.response_format, chosen):
            raise BadMessage("response_format", refusal)

    async def judge_format(self, agent: str, wanted: str, *, tools: bool) -> str:
        """Return why the model of an agent does not take a response format; empty if it does."""
        return await self._choices.judge_format(agent, wanted, tools=tools)

    async def retry(self, session: str = "") -> int:
        """Try the queued messages of a session now, or all of them; return how many there are."""
        count = await self._inbox.hasten(session)
        self._wake.set()
        return count

    async def set_model(self, session: str, model: str) -> int:
        """Choose another model for a session and try its queued messages with it; return how many there are."""
        await self.sessions.set_model(session, model)
        return await self.retry(session)

    async def stop(self, turn: str) -> bool:
        """Stop a turn that runs or waits; return whether there was anything to stop."""
        running = self._known.get(turn)
        if running and running.stop():
            await running.broadcast.ended.wait()
            try:
                state = (await self._find(turn)).state
            except sqlite3.Error:
                return True
            if state.ended:  # it may have come to its end before
                return state is State.STOPPED
            # It was queued before the stop reached it, so it waits and is stopped below.
        before = await self.find(turn)
        if before is None or before.state.ended:
            return False
        after = await self._inbox.stop(turn)
        if after is State.STOPPED:
            if running:
                self._end(turn, running)
            claimed = await self._writer.do(lambda state: get_claimed(state, turn))
            self._make_trace(claimed).tell(
                EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error="stopped before it began"
            )
        self._wake.set()
        return after in (State.STOPPED, State.RUNNING)

    def decide(self, turn: str, question: str, *, allowed: bool) -> bool:
        """Answer what a turn asks; return whether it had asked."""
        running = self._known.get(turn)
        return running.decide(question, allowed=allowed) if running else False

    def start(self, working: Working, outbox: Outbox | None = None) -> None:
        """Begin to work, with what an earlier process left first."""
        self._working, self._outbox = working, outbox
        self._wake.set()
        self._looking = asyncio.create_task(self._look_around())
        self._renewing = asyncio.create_task(self._renew())
        self._delivering = asyncio.create_task(self._deliver(outbox)) if outbox else None

    async def close(self) -> None:
        """Accept nothing more, give running turns their time, and leave the others to the next start."""
        self._closing = True
        self._wake.set()
        # Those are not cut short: what they have claimed would belong to this process until its lease ends.
        await asyncio.gather(*self._accepting, *filter(None, [self._looking]), return_exceptions=True)
        await self._finish([running.task for running in self._known.values() if running.task])
        for running in self._known.values():
            running.broadcast.end()
        self._ended.set()
        await self._finish(list(filter(None, [self._delivering])))
        if self._renewing:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    async def _finish(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Give tasks their time, and end those that need more."""
        if tasks:
            await asyncio.wait(tasks, timeout=self._rhythm.grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def set_aside(self, claimed: Claimed, ending: Ending) -> None:
        """Let nobody wait for a disk that takes nothing: what came of the turn is known here."""
        self._aside[claimed.turn] = make_reply(claimed, ending)
        self._known[claimed.turn].broadcast.end()

    async def _look_around(self) -> None:
        """Claim what is due, when something may have become so."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._rhythm.look)
            self._wake.clear()
            if self._closing:
                return
            await self._try(self._claim())
            await self._try(self.held.expire())

    async def _claim(self) -> None:
        room = self._rhythm.most - len(self._known)
        for claimed in await self._inbox.claim(max(1, room)):
            self._start(claimed)

    async def _try(self, what: Awaitable[None]) -> None:
        """Do what is done again soon: a disk that is full or busy now is looked at again, and other faults are told."""
        try:
            await what
        except sqlite3.Error:
            pass
        except Exception as error:  # noqa: BLE001 - a gateway that looks around no more would answer nobody
            trace = Trace(self.listeners.recorder, NOBODY, self._timepiece)
            trace.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))

    async def _deliver(self, outbox: Outbox) -> None:
        """Deliver replies as soon as there are any."""
        last = False
        async with asyncio.TaskGroup() as rounds:  # one that hangs holds up nobody at another address
            while not last:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), self._rhythm.look)
                self._ended.clear()
                last = self._closing and not any(running.task for running in self._known.values())
                rounds.create_task(self._try(outbox.deliver_all()))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._rhythm.renew)
            await self._try(self._renew_all())

    async def _renew_all(self) -> None:
        """Renew what is ours, stop what somebody wants stopped, and let nobody wait for what has ended elsewhere."""
        for turn in await self._inbox.renew():
            if running := self._known.get(turn):
                running.stop()
        waiting = [turn for turn, running in self._known.items() if running.task is None]
        for turn in waiting:
            reply, running = await self.find(turn), self._known.get(turn)
            if reply and running and running.task is None and (reply.state.ended or reply.state is State.QUEUED):
                self._end(turn, running)

    def _start(self, claimed: Claimed) -> None:
        running = self._known.get(claimed.turn)
        if running is None or running.broadcast.ended.is_set():
            running = self._known[claimed.turn] = Running(claimed.session.id, self._rhythm.thinking)
        running.task = asyncio.create_task(self._run(claimed, running))

    async def _run(self, claimed: Claimed, running: Running) -> None:
        """Work on a turn; whatever comes of it, the next one of its session can begin."""
        assert self._working is not None
        trace = self._make_trace(claimed)
        ears = running.make_ears(self._inbox, claimed)
        try:
            async with showing_work(self._outbox, claimed.incoming):
                ending = await self._working.work(trace, claimed, ears, running.is_stopped)
        except LeaseLost:
            return
        except asyncio.CancelledError:
            with suppress(sqlite3.Error, LeaseLost):
                await self._inbox.release(claimed)
            raise
        else:
            running.reply = make_reply(claimed, ending)
            if ending.state is State.QUEUED:
                self._end_session(claimed.session.id)
        finally:
            self._end(claimed.turn, running)
            self._aside.pop(claimed.turn, None)
            self._wake.set()
            self._ended.set()

    def _make_trace(self, claimed: Claimed) -> Trace:
        """Go on with the trace of a turn."""
        context = find_context(claimed.session, claimed.incoming)
        return Trace(self.listeners.recorder, context, self._timepiece, goes_on=claimed.place)

    def _end(self, turn: str, running: Running) -> None:
        running.broadcast.end()
        if self._known.get(turn) is running:
            del self._known[turn]

    def _end_session(self, session: str) -> None:
        """Let nobody wait for turns behind one that is left for later."""
        for turn, running in list(self._known.items()):
            if running.session == session and running.task is None:
                self._end(turn, running)

    async def _find(self, turn: str) -> Reply:
        reply = await self.find(turn)
        if reply is None:
            raise NotFound("turn")
        return reply
