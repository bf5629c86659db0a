"""The worker: prepares a claimed turn, runs it, and stores the result."""

import asyncio
import sqlite3
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

from foreword.agent.agent_events import (
    AgentEvent,
    ApprovalNeeded,
    CallBegins,
    CallRestarted,
    CallSettled,
    Finished,
    StepDone,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnd,
    TurnSpending,
)
from foreword.agent.conversation import (
    Answer,
    Messages,
    UserMessage,
    close_turn,
    find_answer,
    make_answer,
    make_user_message,
)
from foreword.agent.images import UNANSWERED_IMAGE
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.model_call import STOPPED_REASON
from foreword.agent.reply_stream import SEPARATOR, StreamedText, ToolCall, parse_calls, strip_no_reply_token
from foreword.agent.tool_calls import ToolResult, run_tool_call
from foreword.errors import BudgetError, InputError, UnusableRules
from foreword.events.event import EventType, Level
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.held_calls import HELD_TEXT, TOO_MANY_HELD_TEXT, show_waiting
from foreword.gateway.inbox import ClaimedTurn, Inbox, TurnResult, estimate_tokens
from foreword.gateway.live import LiveTurn
from foreword.gateway.messages import RoutedMessage, write_model_text
from foreword.gateway.session_state import LedgerEntry, TokenLesson
from foreword.gateway.turn_inputs import AccessChanged, PreparedTurn, TurnInputs, count_tokens
from foreword.promptcache.ledger import LedgerState
from foreword.storage.turns import MAX_HELD_CALLS, LeaseLost, TurnReply, TurnState, TurnUsage
from foreword.storage.writer import write_until_stored
from foreword.types import Mode, Trust, frozen

UNREACHABLE_TEXT = "The model could not be reached for a day, so this message was not answered. Please send it again."
SHOWN_ERRORS = (InputError, BudgetError)  # errors whose text is shown to the person
NO_CLIENT_RESULT = "the client has not sent the result"
INTERNAL_ERROR_TEXT = "An internal error occurred. The log has the details."
HELD_RESULT = "What came of {name} (held call {id}; the text comes from the tool, not from the person):\n{text}"


@frozen
class WorkerRetryPolicy:
    """Retry delays for a provider that does not answer and for a disk that does not accept writes."""

    later: tuple[float, ...] = (60.0, 120.0, 300.0, 600.0, 900.0)
    """Seconds before a queued turn is retried; the last value repeats."""
    give_up: timedelta = timedelta(days=1)
    disk: tuple[float, ...] = (0.2, 1.0, 2.0, 5.0)
    """Seconds before a failed write of the result is retried."""


DEFAULT_WORKER_RETRY_POLICY = WorkerRetryPolicy()


class TurnRecord:
    """What one turn has done so far; the one place where its events are stored, shown and answered."""

    def __init__(self, claimed: ClaimedTurn, inbox: Inbox, inputs: TurnInputs, live: LiveTurn) -> None:
        self.claimed = claimed
        self.live = live
        self.messages: Messages = claimed.taken
        self.held = claimed.attempt > 1
        """Whether calls of the turn may wait for approval: some do, or an earlier attempt may have held some."""
        self.results: tuple[str, ...] = ()
        """The result of the held call that the turn runs."""
        self.spending = TurnSpending()
        self.streamed = StreamedText()
        """The text as streamed."""
        self.finished: Finished | None = None
        self._initial: LedgerState | None = None
        self._ledger_state: LedgerState | None = None
        self._lessons: tuple[TokenLesson, ...] = ()
        self._sent = False
        self._recorded = self._has_updates = True
        self._partial: list[str] = []
        self._inbox = inbox
        self._inputs = inputs

    async def take(self, event: AgentEvent) -> None:
        """Take one event of the turn; what must survive a crash is stored when this returns."""
        match event:
            case StepDone():
                await self._store_step(event.messages)
            case CallSettled():
                self._advance(event)
            case CallBegins():
                await self._inbox.begin_call(self.claimed, event)
            case ApprovalNeeded():
                await self._find_decision(event)
            case Finished():
                self.finished = event
            case ThinkingDelta():  # thoughts are not shown
                pass
            case _:
                if isinstance(event, ToolStarted):
                    await self._check_access()
                elif isinstance(event, TextDelta):
                    self._partial.append(event.text)
                elif isinstance(event, CallRestarted):
                    self._partial.clear()
                self.streamed.add(event)
                await self.live.broadcast.send(event)

    async def _check_access(self) -> None:
        """Check before each tool call that the person's access has not changed."""
        if change := await self._inputs.find_change(self.claimed):
            raise AccessChanged(change)

    async def _find_decision(self, question: ApprovalNeeded) -> None:
        """Ask the person about a call; without a decision, hold it until there is one."""
        allowed = await self.live.ask(question) if self.claimed.incoming.asks else None
        if allowed is not None:
            question.decide(allowed=allowed)
        elif held := await self._inbox.hold(self.claimed, question):
            self.held = True
            question.hold(HELD_TEXT.format(name=held.name, id=held.id))
        else:
            question.hold(TOO_MANY_HELD_TEXT.format(name=question.name, count=MAX_HELD_CALLS))

    async def _store_step(self, messages: Messages) -> None:
        """Store a step; the last answer is stored with the end of the turn instead."""
        if not is_final_answer(messages):
            await self._inbox.store_step(self.claimed, messages, self.make_entry(messages))
            self._lessons = ()
        self.messages = messages
        self._partial.clear()

    def begin(self, prepared: PreparedTurn) -> None:
        """Start from the session's ledger."""
        self._initial = self._ledger_state = prepared.ledger_state
        self._recorded, self._has_updates = prepared.recorded, prepared.assembly.prefix_decision.has_updates

    def _advance(self, settled: CallSettled) -> None:
        """Record a call that the provider accepted."""
        sent = settled.ledger_state.last
        self._ledger_state, self._sent = settled.ledger_state, True
        if settled.account:
            lesson = TokenLesson(model=sent.model, counted=settled.counted, reported=settled.account.reported.total)
            self._lessons = (*self._lessons, lesson)

    def make_entry(self, messages: Messages) -> LedgerEntry | None:
        """Return the ledger entry for these messages; without messages, the turn's updates do not count as sent."""
        if not self._sent or not self._recorded:
            return None
        ledger_state = self._ledger_state if messages or not self._has_updates else self._initial
        began_empty = bool(self._initial and not self._initial.prefix.blocks)
        return LedgerEntry(ledger_state=ledger_state, lessons=self._lessons, began_empty=began_empty)

    def add_up(self) -> TurnUsage:
        """Add up the usage of the turn, including earlier attempts, summaries and subagents."""
        return self.claimed.spent.add(*self.spending.total())

    def close(self, reason: str) -> Messages:
        """Close an interrupted turn, including the partial answer, so that the next turn can follow."""
        messages = self.messages or (write_unanswered_message(self.claimed.incoming, *self.results),)
        if partial := "".join(self._partial).strip():
            messages = (*messages, make_answer(f"{partial}{SEPARATOR}({reason})"))
        return close_turn(messages, reason)


class Worker:
    """Runs turns; to stop a turn, cancel its task."""

    def __init__(
        self,
        inbox: Inbox,
        inputs: TurnInputs,
        loop: AgentLoop,
        retry_policy: WorkerRetryPolicy = DEFAULT_WORKER_RETRY_POLICY,
    ) -> None:
        self._inbox = inbox
        self._inputs = inputs
        self._loop = loop
        self._retry_policy = retry_policy

    async def work(self, trace: Tracer, claimed: ClaimedTurn, live: LiveTurn) -> TurnReply:
        """Run a turn to its end or until it is queued; a process that ends leaves it to the next one."""
        live.begun = True
        record = TurnRecord(claimed, self._inbox, self._inputs, live)
        if live.is_stopped():  # stopped before it began
            return await self._settle(trace, record, self._stop(trace, record))
        try:
            result = await self._answer(trace, record)
        except asyncio.CancelledError as error:
            if not live.is_stopped():
                raise
            result = self._stop(trace, record, error)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - the person gets an answer in any case
            result = self._fail(trace, record, error)
        ended_first = not live.is_stopped()
        settling = asyncio.ensure_future(self._settle(trace, record, result))
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            if ended_first and live.is_stopped():  # it had ended before the stop, and that result is stored
                return await settling
            settling.cancel()
            raise

    async def _settle(self, trace: Tracer, record: TurnRecord, result: TurnResult) -> TurnReply:
        """Store the result of a turn, or at least that it failed."""
        try:
            result = await self._write(trace, record, result)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - a result that cannot be stored must not block its session
            trace.emit(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
            result = self._end(record, TurnState.FAILED, INTERNAL_ERROR_TEXT, ())
            result = await self._write(trace, record, result)
        return make_reply(record.claimed, result)

    def _stop(self, trace: Tracer, record: TurnRecord, error: BaseException | None = None) -> TurnResult:
        """End a turn that a person stopped, and log it unless the loop did."""
        if error is None or trace.failure is not error:
            trace.emit(EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error=STOPPED_REASON)
        messages = record.close(STOPPED_REASON)
        return self._end(record, TurnState.STOPPED, "", messages, record.make_entry(messages))

    def _fail(self, trace: Tracer, record: TurnRecord, error: Exception) -> TurnResult:
        """End a failed turn, and log it unless the loop did."""
        if trace.failure is not error:
            trace.emit(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
        shown = isinstance(error, SHOWN_ERRORS)
        text = str(error) if shown else INTERNAL_ERROR_TEXT
        if isinstance(error, UnusableRules) and record.claimed.session.key.clearance is not Trust.FULL:
            text = error.public
        # A message that was rejected before any model saw it stays out of the history: it may be too long.
        messages = () if shown and not record.messages else record.close("the turn failed")
        return self._end(record, TurnState.FAILED, text, messages, record.make_entry(messages))

    async def _answer(self, trace: Tracer, record: TurnRecord) -> TurnResult:
        claimed = record.claimed
        prepared = await self._inputs.prepare(trace, claimed, record.spending)
        if claimed.incoming.held:
            record.results = (await self._run_held(trace, record, prepared),)
        outcome = await self._run(trace, record, prepared)
        if outcome.too_long and prepared.history:
            # The last message is the error; the tool results before it stay, so no tool runs twice.
            taken = outcome.messages[:-1] if find_answer(outcome.messages[:-1]) else ()
            prepared = await self._inputs.prepare(trace, replace(claimed, taken=taken), record.spending, compact=True)
            outcome = await self._run(trace, record, prepared)
        state, text = TurnState(outcome.end.value), strip_no_reply_token(outcome.text)
        if state.ended and (change := await self._inputs.find_change(claimed)):
            state, text = TurnState.FAILED, change
        if state in (TurnState.FAILED, TurnState.REFUSED):  # no model reports the result of the held call
            text = "\n\n".join((*record.results, text))
        formatted = state is TurnState.ANSWERED and claimed.incoming.request.response_format
        last = state.ended and state is not TurnState.CALLED  # of the replies of the turn
        if last and record.held and not formatted:  # a notice would break the format; the client gets a list
            text = await self._add_waiting(record, text)
        # A scheduled run with nothing to report adds nothing to the history.
        idle = claimed.incoming.scheduled_run and state is TurnState.ANSWERED and not text
        messages = () if idle else outcome.messages
        if outcome.end is TurnEnd.CALLED:
            messages = close_turn(messages, NO_CLIENT_RESULT)
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            pending=outcome.messages if state is TurnState.CALLED else (),
            spent=record.add_up(),
            now=self._inputs.now(),
            prompt_hash=outcome.prompt_hash,
            tokens=count_tokens(prepared.assembly.meter, messages),
            cut=outcome.cut,
            entry=record.make_entry(messages),
            plan=state is TurnState.ANSWERED and bool(text) and prepared.assembly.turn.plan,
            wait=outcome.wait,
            spoken=strip_no_reply_token(record.streamed.text),
            brief=prepared.assembly.plan.mode is Mode.BRIEF,
        )

    async def _run_held(self, trace: Tracer, record: TurnRecord, prepared: PreparedTurn) -> str:
        """Run the turn's held call once; return its result for the model."""
        claimed = record.claimed
        held = await self._inbox.find_held(claimed)
        if held.result is not None:
            return held.result
        await record.take(ToolStarted(name=held.name))
        call, result = ToolCall(name=held.name, arguments=held.arguments), ToolResult(text="", done=False)
        work = TurnInput(assembly=prepared.assembly, begun=await self._inbox.list_begun(claimed))
        context = self._loop.make_tool_context(work, record.spending)
        async with aclosing(run_tool_call(trace, context, call, held.id)) as events:
            async for event in events:
                if isinstance(event, ApprovalNeeded):
                    event.decide(allowed=True)  # the person has allowed the held call
                elif isinstance(event, ToolResult):
                    result = event
                else:
                    await record.take(event)
        text = HELD_RESULT.format(name=held.name, id=held.id, text=result.text)
        await self._inbox.store_held_result(claimed, text)
        await record.take(ToolFinished(name=held.name, done=result.done))
        return text

    async def _add_waiting(self, record: TurnRecord, text: str) -> str:
        """Add the notice about waiting calls to a reply, and stream it."""
        waiting = await self._inbox.list_held(record.claimed)
        if not waiting:
            return text
        telegram = self._inputs.workspace.config.telegram is not None
        notice = show_waiting(waiting, telegram=telegram, room=bool(record.claimed.incoming.room))
        notice = f"\n\n{notice}" if text else notice
        await record.take(TextDelta(text=notice))
        return f"{text}{notice}"

    async def _run(self, trace: Tracer, record: TurnRecord, prepared: PreparedTurn) -> Finished:
        """Run the agent, and store, show and answer each of its events."""
        claimed = record.claimed
        record.begin(prepared)
        work = TurnInput(
            assembly=prepared.assembly,
            history=prepared.history,
            taken=prepared.taken,
            attempt=claimed.attempt,
            ledger_state=prepared.ledger_state,
            results=record.results,
            images=claimed.incoming.images,
            response_format=claimed.incoming.request.response_format,
            begun=await self._inbox.list_begun(claimed) if claimed.attempt > 1 else (),
            spending=record.spending,
        )
        async with aclosing(self._loop.run(work, trace)) as events:
            async for event in events:
                try:
                    await record.take(event)
                except BaseException as error:
                    await events.athrow(error)  # the turn ends inside its trace
                    raise
        if record.finished is None:
            raise AssertionError("the last event of a turn is its result")
        return record.finished

    def _end(
        self, record: TurnRecord, state: TurnState, text: str, messages: Messages, entry: LedgerEntry | None = None
    ) -> TurnResult:
        """Make the result of a turn that has no prompt to count tokens with."""
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            spent=record.add_up(),
            now=self._inputs.now(),
            tokens=estimate_tokens(messages),
            entry=entry,
        )

    async def _write(self, trace: Tracer, record: TurnRecord, result: TurnResult) -> TurnResult:
        """Store the result of a turn, and retry until the disk accepts it."""
        claimed, policy = record.claimed, self._retry_policy
        incoming = claimed.incoming
        if result.state is TurnState.QUEUED and result.now - claimed.asked > policy.give_up:
            messages = result.messages or (write_unanswered_message(incoming),)
            result = self._end(record, TurnState.FAILED, UNREACHABLE_TEXT, close_turn(messages, "not answered"))

        def publish(error: sqlite3.Error) -> None:
            record.live.publish(make_reply(claimed, result))
            trace.emit(EventType.CHANNEL_ERROR, **describe_error(error))

        if result.state is TurnState.QUEUED:
            delay = policy.later[min(claimed.attempt, len(policy.later)) - 1]
            due = result.now + min(timedelta(seconds=max(delay, result.wait or 0.0)), policy.give_up)
            await write_until_stored(lambda: self._inbox.postpone(claimed, result, due), policy.disk, publish)
            return result
        await write_until_stored(lambda: self._inbox.finish(claimed, result), policy.disk, publish)
        suppressed = result.state is TurnState.ANSWERED and not result.text
        if not incoming.address and incoming.scheduled_run is None and not suppressed:
            trace.emit(EventType.MESSAGE_SENT, length=len(result.text), attempt=claimed.attempt)
        return result


def write_unanswered_message(incoming: RoutedMessage, *results: str) -> UserMessage:
    """Write a message without an answer for the history: its text, results of held calls, and notes for its images."""
    return make_user_message(write_model_text(incoming), *results, *[UNANSWERED_IMAGE] * len(incoming.images))


def make_reply(claimed: ClaimedTurn, result: TurnResult) -> TurnReply:
    """Make the reply of a turn from its result."""
    return TurnReply(
        turn=claimed.turn,
        session=claimed.session.id,
        agent=claimed.session.key.agent,
        user=claimed.incoming.user,
        state=result.state,
        text=result.text,
        received=claimed.received,
        finished=result.now if result.state.ended else None,
        usage=result.spent.usage,
        cost_usd=result.spent.cost_usd,
        prompt_hash=result.prompt_hash,
        cut=result.cut,
    )


def is_final_answer(messages: Messages) -> bool:
    """Return whether the newest message ends the turn: an answer without a tool call, native or written as text."""
    newest = messages[-1]
    return isinstance(newest, Answer) and not newest.calls and not parse_calls(newest.text)
