"""The worker: prepares a claimed turn, runs it, and stores the result."""

import asyncio
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.agent.agent_events import (
    AgentEvent,
    ApprovalNeeded,
    CallbackError,
    CallRestarted,
    Outcome,
    Settled,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCallbacks,
    decline_to_ask,
)
from foreword.agent.conversation import Messages, close_turn, find_answer, list_tool_calls, make_user_message, read_text
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.model_call import CALL_COSTS, STOPPED_REASON
from foreword.agent.reply_stream import SEPARATOR, StreamedText, ToolCall, parse_calls, strip_no_reply_token
from foreword.errors import BudgetError, InputError, UnusableRules
from foreword.events.event import EventType, Level
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.held_calls import HELD_TEXT, TOO_MANY_HELD_TEXT, show_waiting
from foreword.gateway.inbox import ClaimedTurn, Inbox, TurnResult, estimate_tokens
from foreword.gateway.live import LiveTurn
from foreword.gateway.rooms import write_model_text
from foreword.gateway.session_state import LedgerEntry, TokenLesson
from foreword.gateway.turn_inputs import AccessChanged, PreparedTurn, TurnInputs, count_tokens
from foreword.promptcache.ledger import LedgerState
from foreword.storage.turns import MAX_HELD_CALLS, LeaseLost, TurnReply, TurnState, TurnUsage
from foreword.storage.writer import write_until_stored
from foreword.types import Mode, Trust, frozen

UNREACHABLE_TEXT = "The model could not be reached for a day, so this message was not answered. Please send it again."
SHOWN_ERRORS = (InputError, BudgetError)  # errors whose text is shown to the person
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


class TurnSteps:
    """The steps of one turn, and how they are stored."""

    def __init__(self, claimed: ClaimedTurn, inbox: Inbox, inputs: TurnInputs, live: LiveTurn) -> None:
        self.messages: Messages = claimed.taken
        self.held = claimed.attempt > 1
        """Whether calls of the turn may wait for approval: some do, or an earlier attempt may have held some."""
        self.results: tuple[str, ...] = ()
        """The result of the held call that the turn runs."""
        self._initial: LedgerState | None = None
        self._ledger_state: LedgerState | None = None
        self._lessons: tuple[TokenLesson, ...] = ()
        self._sent = False
        self._recorded = self._has_updates = True
        self._claimed = claimed
        self._inbox = inbox
        self._inputs = inputs
        self._live = live
        self.streamed = StreamedText()
        """The text as streamed."""
        self._partial: list[str] = []
        self.callbacks = TurnCallbacks(
            delta=self._send,
            step=self._store,
            ask=live.ask if claimed.incoming.asks else decline_to_ask,
            hold=self._hold,
            begin=lambda call, name: inbox.begin_call(claimed, call, name),
            advance=self._advance,
        )

    async def _send(self, delta: AgentEvent) -> None:
        """Send a delta; before each tool call, check that the person's access has not changed."""
        if isinstance(delta, ToolStarted) and (change := await self._inputs.find_change(self._claimed)):
            raise AccessChanged(change)
        self.streamed.add(delta)
        if isinstance(delta, TextDelta):
            self._partial.append(delta.text)
        elif isinstance(delta, CallRestarted):
            self._partial.clear()
        await self._live.broadcast.send(delta)

    async def _hold(self, question: ApprovalNeeded, arguments: Mapping[str, Any]) -> str:
        """Hold a call until its person decides; return the tool result for the model."""
        held = await self._inbox.hold(self._claimed, question, arguments)
        if held is None:
            return TOO_MANY_HELD_TEXT.format(name=question.name, count=MAX_HELD_CALLS)
        self.held = True
        return HELD_TEXT.format(name=held.name, id=held.id)

    async def _store(self, messages: Messages) -> None:
        """Store a step; the last answer is stored with the end of the turn instead."""
        if not is_final_answer(messages):
            await self._inbox.store_step(self._claimed, messages, self.make_entry(messages))
            self._lessons = ()
        self.messages = messages
        self._partial.clear()

    def begin(self, prepared: PreparedTurn) -> None:
        """Start from the session's ledger."""
        self._initial = self._ledger_state = prepared.ledger_state
        self._recorded, self._has_updates = prepared.recorded, prepared.assembly.prefix_decision.has_updates

    def _advance(self, settled: Settled) -> None:
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

    def close(self, reason: str) -> Messages:
        """Close an interrupted turn, including the partial answer, so that the next turn can follow."""
        messages = self.messages or (make_user_message(write_model_text(self._claimed.incoming), *self.results),)
        if partial := "".join(self._partial).strip():
            messages = (*messages, ModelResponse(parts=[TextPart(content=f"{partial}{SEPARATOR}({reason})")]))
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
        CALL_COSTS.set([])
        live.begun = True
        steps = TurnSteps(claimed, self._inbox, self._inputs, live)
        if live.is_stopped():  # stopped before it began
            return await self._settle(trace, claimed, live, self._stop(trace, claimed, steps))
        try:
            result = await self._answer(trace, claimed, steps)
        except asyncio.CancelledError as error:
            if not live.is_stopped():
                raise
            result = self._stop(trace, claimed, steps, error)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - the person gets an answer in any case
            result = self._fail(trace, claimed, steps, error)
        ended_first = not live.is_stopped()
        settling = asyncio.ensure_future(self._settle(trace, claimed, live, result))
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            if ended_first and live.is_stopped():  # it had ended before the stop, and that result is stored
                return await settling
            settling.cancel()
            raise

    async def _settle(self, trace: Tracer, claimed: ClaimedTurn, live: LiveTurn, result: TurnResult) -> TurnReply:
        """Store the result of a turn, or at least that it failed."""
        try:
            result = await self._write(trace, claimed, live, result)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - a result that cannot be stored must not block its session
            trace.emit(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
            result = self._end(claimed, TurnState.FAILED, INTERNAL_ERROR_TEXT, ())
            result = await self._write(trace, claimed, live, result)
        return make_reply(claimed, result)

    def _stop(
        self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps, error: BaseException | None = None
    ) -> TurnResult:
        """End a turn that a person stopped, and log it unless the loop did."""
        if error is None or trace.failure is not error:
            trace.emit(EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error=STOPPED_REASON)
        return self._end(claimed, TurnState.STOPPED, "", steps.close(STOPPED_REASON), steps)

    def _fail(self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps, error: Exception) -> TurnResult:
        """End a failed turn, and log it unless the loop did; raise LeaseLost if another process took it over."""
        cause = error.__cause__ if isinstance(error, CallbackError) else error
        if isinstance(cause, LeaseLost):
            raise cause from error
        if trace.failure is not error:
            trace.emit(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
        shown = isinstance(error, SHOWN_ERRORS) or isinstance(cause, AccessChanged)
        text = str(cause) if shown else INTERNAL_ERROR_TEXT
        if isinstance(error, UnusableRules) and claimed.session.key.clearance is not Trust.FULL:
            text = error.public
        # A message that was rejected before any model saw it stays out of the history: it may be too long.
        messages = () if shown and not steps.messages else steps.close("the turn failed")
        return self._end(claimed, TurnState.FAILED, text, messages, steps)

    async def _answer(self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps) -> TurnResult:
        prepared = await self._inputs.prepare(trace, claimed)
        if claimed.incoming.held:
            steps.results = (await self._run_held(trace, claimed, prepared, steps),)
        outcome = await self._run(trace, claimed, prepared, steps)
        if outcome.too_long and prepared.history:
            # The last message is the error; the tool results before it stay, so no tool runs twice.
            taken = outcome.messages[:-1] if find_answer(outcome.messages[:-1]) else ()
            prepared = await self._inputs.prepare(trace, replace(claimed, taken=taken), compact=True)
            outcome = await self._run(trace, claimed, prepared, steps)
        state, text = TurnState(outcome.end.value), strip_no_reply_token(outcome.text)
        if state.ended and (change := await self._inputs.find_change(claimed)):
            state, text = TurnState.FAILED, change
        if state in (TurnState.FAILED, TurnState.REFUSED):  # no model reports the result of the held call
            text = "\n\n".join((*steps.results, text))
        formatted = state is TurnState.ANSWERED and claimed.incoming.request.response_format
        if state.ended and steps.held and not formatted:  # a notice would break the format; the client gets a list
            text = await self._add_waiting(claimed, steps, text)
        # A scheduled run with nothing to report adds nothing to the history.
        idle = claimed.incoming.scheduled_run and state is TurnState.ANSWERED and not text
        messages = () if idle else outcome.messages
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            spent=add_up_usage(claimed),
            now=self._inputs.now(),
            prompt_hash=outcome.prompt_hash,
            tokens=count_tokens(prepared.assembly.meter, messages),
            cut=outcome.cut,
            entry=steps.make_entry(messages),
            plan=state is TurnState.ANSWERED and bool(text) and prepared.assembly.turn.plan,
            wait=outcome.wait,
            spoken=strip_no_reply_token(steps.streamed.text),
            brief=prepared.assembly.plan.mode is Mode.BRIEF,
        )

    async def _run_held(self, trace: Tracer, claimed: ClaimedTurn, prepared: PreparedTurn, steps: TurnSteps) -> str:
        """Run the turn's held call once; return its result for the model."""
        held = await self._inbox.find_held(claimed)
        if held.result is not None:
            return held.result
        await steps.callbacks.emit(ToolStarted(name=held.name))
        call = ToolCall(name=held.name, arguments=held.arguments)
        callbacks = replace(steps.callbacks, ask=approve)
        result = await self._loop.call_tool(prepared.assembly, call, trace, callbacks, held.id)
        text = HELD_RESULT.format(name=held.name, id=held.id, text=result.text)
        await self._inbox.store_held_result(claimed, text)
        await steps.callbacks.emit(ToolFinished(name=held.name, done=result.done))
        return text

    async def _add_waiting(self, claimed: ClaimedTurn, steps: TurnSteps, text: str) -> str:
        """Add the notice about waiting calls to a reply, and stream it."""
        waiting = await self._inbox.list_held(claimed)
        if not waiting:
            return text
        telegram = self._inputs.workspace.config.telegram is not None
        notice = show_waiting(waiting, telegram=telegram, room=bool(claimed.incoming.room))
        notice = f"\n\n{notice}" if text else notice
        await steps.callbacks.emit(TextDelta(text=notice))
        return f"{text}{notice}"

    async def _run(self, trace: Tracer, claimed: ClaimedTurn, prepared: PreparedTurn, steps: TurnSteps) -> Outcome:
        steps.begin(prepared)
        work = TurnInput(
            assembly=prepared.assembly,
            history=prepared.history,
            taken=prepared.taken,
            attempt=claimed.attempt,
            ledger_state=prepared.ledger_state,
            results=steps.results,
            response_format=claimed.incoming.request.response_format,
        )
        return await self._loop.run(work, trace, steps.callbacks)

    def _end(
        self, claimed: ClaimedTurn, state: TurnState, text: str, messages: Messages, steps: TurnSteps | None = None
    ) -> TurnResult:
        """Make the result of a turn that has no prompt to count tokens with."""
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            spent=add_up_usage(claimed),
            now=self._inputs.now(),
            tokens=estimate_tokens(messages),
            entry=steps.make_entry(messages) if steps else None,
        )

    async def _write(self, trace: Tracer, claimed: ClaimedTurn, live: LiveTurn, result: TurnResult) -> TurnResult:
        """Store the result of a turn, and retry until the disk accepts it."""
        incoming, policy = claimed.incoming, self._retry_policy
        if result.state is TurnState.QUEUED and result.now - claimed.received > policy.give_up:
            messages = result.messages or (make_user_message(write_model_text(incoming)),)
            result = self._end(claimed, TurnState.FAILED, UNREACHABLE_TEXT, close_turn(messages, "not answered"))

        def publish(error: sqlite3.Error) -> None:
            live.publish(make_reply(claimed, result))
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


async def approve(_: ApprovalNeeded) -> bool:
    """Approve: the person has allowed the held call."""
    return True


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


def add_up_usage(claimed: ClaimedTurn) -> TurnUsage:
    """Add up the usage of a turn, including earlier attempts and subagents."""
    spent = claimed.spent
    for usage, usd in CALL_COSTS.get([]):
        spent = spent.add(usage, usd)
    return spent


def is_final_answer(messages: Messages) -> bool:
    """Return whether the newest message ends the turn: an answer without a tool call, native or written as text."""
    newest = messages[-1]
    return isinstance(newest, ModelResponse) and not list_tool_calls(newest) and not parse_calls(read_text(newest))
