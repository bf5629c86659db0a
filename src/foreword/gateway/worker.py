"""The worker: prepares a claimed turn, runs it, and stores the result."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
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
    TurnEnd,
)
from foreword.agent.conversation import Messages, close_turn, find_answer, list_tool_calls, make_user_message, read_text
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.model_call import CALL_COSTS, STOPPED_REASON
from foreword.agent.reply_stream import SEPARATOR, StreamedText, ToolCall, parse_calls, strip_no_reply_token
from foreword.errors import BudgetError, InputError, UnusableRules
from foreword.events.event import EventType, Level
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.held_calls import HELD_TEXT, MAX_HELD_CALLS, TOO_MANY_HELD_TEXT, show_waiting
from foreword.gateway.inbox import ClaimedTurn, Inbox, LeaseLost, TurnResult, TurnUsage, estimate_tokens
from foreword.gateway.messages import TurnState
from foreword.gateway.rooms import write_model_text
from foreword.gateway.session_state import LedgerEntry, TokenLesson
from foreword.gateway.turn_inputs import AccessChanged, PreparedTurn, TurnInputs, count_tokens
from foreword.promptcache.ledger import LedgerState
from foreword.storage.writer import write_until_stored
from foreword.types import Mode, Trust, frozen

UNREACHABLE_TEXT = "The model could not be reached for a day, so this message was not answered. Please send it again."
SHOWN_ERRORS = (InputError, BudgetError)  # errors whose text is shown to the person
INTERNAL_ERROR_TEXT = "An internal error occurred. The log has the details."
HELD_RESULT = "What came of {name} (held call {id}; the text comes from the tool, not from the person):\n{text}"
STATE_OF_OUTCOME = {
    TurnEnd.ANSWERED: TurnState.ANSWERED,
    TurnEnd.REFUSED: TurnState.REFUSED,
    TurnEnd.FAILED: TurnState.FAILED,
    TurnEnd.QUEUED: TurnState.QUEUED,
}


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

    def __init__(self, claimed: ClaimedTurn, inbox: Inbox, preparing: TurnInputs, ears: TurnCallbacks) -> None:
        self.messages: Messages = claimed.taken
        self.held = claimed.attempt > 1
        """Whether calls of the turn may wait for approval: some do, or an earlier attempt may have held some."""
        self.results: tuple[str, ...] = ()
        """The result of the held call that the turn runs."""
        self._began: LedgerState | None = None
        self._frozen: LedgerState | None = None
        self._lessons: tuple[TokenLesson, ...] = ()
        self._sent = False
        self._recorded = self._says = True
        self._claimed = claimed
        self._inbox = inbox
        self._preparing = preparing
        self._hear = ears.delta
        self.spoken = StreamedText()
        """The text as streamed."""
        self._words: list[str] = []
        self.ears = replace(ears, delta=self._pass_on, step=self._keep, hold=self._hold, advance=self._advance)

    async def _pass_on(self, delta: AgentEvent) -> None:
        """Send a delta; before each tool call, check that the person's access has not changed."""
        if isinstance(delta, ToolStarted) and (fault := await self._preparing.find_change(self._claimed)):
            raise AccessChanged(fault)
        self.spoken.add(delta)
        if isinstance(delta, TextDelta):
            self._words.append(delta.text)
        elif isinstance(delta, CallRestarted):
            self._words.clear()
        await self._hear(delta)

    async def _hold(self, asking: ApprovalNeeded, arguments: Mapping[str, Any]) -> str:
        """Hold a call until its person decides; return the tool result for the model."""
        held = await self._inbox.hold(self._claimed, asking, arguments)
        if held is None:
            return TOO_MANY_HELD_TEXT.format(name=asking.name, count=MAX_HELD_CALLS)
        self.held = True
        return HELD_TEXT.format(name=held.name, id=held.id)

    async def _keep(self, messages: Messages) -> None:
        """Store a step; the last answer is stored with the end of the turn instead."""
        if not is_final_answer(messages):
            await self._inbox.keep(self._claimed, messages, self.enter(messages))
            self._lessons = ()
        self.messages = messages
        self._words.clear()

    def begin(self, prepared: PreparedTurn) -> None:
        """Start from the session's ledger."""
        self._began = self._frozen = prepared.frozen
        self._recorded, self._says = prepared.recorded, prepared.assembly.standing.says

    def _advance(self, settled: Settled) -> None:
        """Record a call that the provider accepted."""
        sent = settled.frozen.last
        self._frozen, self._sent = settled.frozen, True
        if settled.account:
            lesson = TokenLesson(model=sent.model, counted=settled.counted, reported=settled.account.reported.total)
            self._lessons = (*self._lessons, lesson)

    def enter(self, messages: Messages) -> LedgerEntry | None:
        """Return the ledger entry for these messages; without messages, the turn's updates do not count as sent."""
        if not self._sent or not self._recorded:
            return None
        anew = bool(self._began and not self._began.base.blocks)
        return LedgerEntry(
            frozen=self._frozen if messages or not self._says else self._began, lessons=self._lessons, anew=anew
        )

    def close(self, words: str) -> Messages:
        """Close an interrupted turn, including the partial answer, so that the next turn can follow."""
        messages = self.messages or (make_user_message(write_model_text(self._claimed.incoming), *self.results),)
        if said := "".join(self._words).strip():
            messages = (*messages, ModelResponse(parts=[TextPart(content=f"{said}{SEPARATOR}({words})")]))
        return close_turn(messages, words)


class Worker:
    """Runs turns; to stop a turn, cancel its task. `aside` publishes a result that cannot be stored yet."""

    def __init__(
        self,
        inbox: Inbox,
        preparing: TurnInputs,
        loop: AgentLoop,
        aside: Callable[[ClaimedTurn, TurnResult], None],
        patience: WorkerRetryPolicy = DEFAULT_WORKER_RETRY_POLICY,
    ) -> None:
        self._inbox = inbox
        self._preparing = preparing
        self._loop = loop
        self._aside = aside
        self._patience = patience

    async def work(
        self, trace: Tracer, claimed: ClaimedTurn, ears: TurnCallbacks, stopped: Callable[[], bool]
    ) -> TurnResult:
        """Run a turn to its end or until it is queued; a process that ends leaves it to the next one."""
        CALL_COSTS.set([])
        steps = TurnSteps(claimed, self._inbox, self._preparing, ears)
        if stopped():  # stopped before it began
            return await self._settle(trace, claimed, self._stop(trace, claimed, steps))
        try:
            ending = await self._answer(trace, claimed, steps)
        except asyncio.CancelledError as error:
            if not stopped():
                raise
            ending = self._stop(trace, claimed, steps, error)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - the person gets an answer in any case
            ending = self._fail(trace, claimed, steps, error)
        late = not stopped()
        settling = asyncio.ensure_future(self._settle(trace, claimed, ending))
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            if late and stopped():  # it had ended before the stop, and that result is stored
                return await settling
            settling.cancel()
            raise

    async def _settle(self, trace: Tracer, claimed: ClaimedTurn, ending: TurnResult) -> TurnResult:
        """Store the result of a turn, or at least that it failed."""
        try:
            return await self._write(trace, claimed, ending)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - a result that cannot be stored must not block its session
            trace.tell(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
            return await self._write(trace, claimed, self._end(claimed, TurnState.FAILED, INTERNAL_ERROR_TEXT, ()))

    def _stop(
        self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps, error: BaseException | None = None
    ) -> TurnResult:
        """End a turn that a person stopped, and log it unless the loop did."""
        if error is None or trace.failure is not error:
            trace.tell(EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error=STOPPED_REASON)
        return self._end(claimed, TurnState.STOPPED, "", steps.close(STOPPED_REASON), steps)

    def _fail(self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps, error: Exception) -> TurnResult:
        """End a failed turn, and log it unless the loop did; raise LeaseLost if another process took it over."""
        if isinstance(error, CallbackError) and isinstance(error.__cause__, LeaseLost):
            raise error.__cause__ from error
        changed = isinstance(error, CallbackError) and isinstance(error.__cause__, AccessChanged)
        if trace.failure is not error:
            trace.tell(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
        told = (
            str(error.__cause__ if changed else error)
            if changed or isinstance(error, SHOWN_ERRORS)
            else INTERNAL_ERROR_TEXT
        )
        if isinstance(error, UnusableRules) and claimed.session.lane.clearance is not Trust.FULL:
            told = error.public
        # A message that was rejected before any model saw it stays out of the history: it may be too long.
        unseen = told is not INTERNAL_ERROR_TEXT and not steps.messages
        return self._end(claimed, TurnState.FAILED, told, () if unseen else steps.close("the turn failed"), steps)

    async def _answer(self, trace: Tracer, claimed: ClaimedTurn, steps: TurnSteps) -> TurnResult:
        prepared = await self._preparing.prepare(trace, claimed)
        if claimed.incoming.held:
            steps.results = (await self._run_held(trace, claimed, prepared, steps),)
        outcome = await self._run(trace, claimed, prepared, steps)
        if outcome.too_long and prepared.history:
            # The last message is the error; the tool results before it stay, so no tool runs twice.
            taken = outcome.messages[:-1] if find_answer(outcome.messages[:-1]) else ()
            prepared = await self._preparing.prepare(trace, replace(claimed, taken=taken), fold=True)
            outcome = await self._run(trace, claimed, prepared, steps)
        state, text = STATE_OF_OUTCOME[outcome.end], strip_no_reply_token(outcome.text)
        if state.ended and (fault := await self._preparing.find_change(claimed)):
            state, text = TurnState.FAILED, fault
        if state in (TurnState.FAILED, TurnState.REFUSED):  # no model reports the result of the held call
            text = "\n\n".join((*steps.results, text))
        formatted = state is TurnState.ANSWERED and claimed.incoming.request.response_format
        if state.ended and steps.held and not formatted:  # a notice would break the format; the client gets a list
            text = await self._add_waiting(claimed, steps, text)
        # A scheduled run with nothing to report adds nothing to the history.
        idle = claimed.incoming.errand and state is TurnState.ANSWERED and not text
        messages = () if idle else outcome.messages
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            spent=add_up_usage(claimed),
            now=self._preparing.now(),
            prompt_hash=outcome.prompt_hash,
            tokens=count_tokens(prepared.assembly.terms.meter, messages),
            cut=outcome.cut,
            entry=steps.enter(messages),
            plan=state is TurnState.ANSWERED and bool(text) and prepared.assembly.turn.plan,
            wait=outcome.wait,
            spoken=strip_no_reply_token(steps.spoken.text),
            brief=prepared.assembly.plan.mode is Mode.BRIEF,
        )

    async def _run_held(self, trace: Tracer, claimed: ClaimedTurn, prepared: PreparedTurn, steps: TurnSteps) -> str:
        """Run the turn's held call once; return its result for the model."""
        held = await self._inbox.find_held(claimed)
        if held.result is not None:
            return held.result
        await steps.ears.hear(ToolStarted(name=held.name))
        asked = ToolCall(name=held.name, arguments=held.arguments)
        ears = replace(steps.ears, ask=approve)
        result = await self._loop.call_tool(prepared.assembly, asked, trace, ears, held.id)
        text = HELD_RESULT.format(name=held.name, id=held.id, text=result.text)
        await self._inbox.keep_result(claimed, text)
        await steps.ears.hear(ToolFinished(name=held.name, done=result.done))
        return text

    async def _add_waiting(self, claimed: ClaimedTurn, steps: TurnSteps, text: str) -> str:
        """Add the notice about waiting calls to a reply, and stream it."""
        waiting = await self._inbox.list_held(claimed)
        if not waiting:
            return text
        telegram = self._preparing.workspace.config.telegram is not None
        words = show_waiting(waiting, telegram=telegram, room=bool(claimed.incoming.room))
        words = f"\n\n{words}" if text else words
        await steps.ears.hear(TextDelta(text=words))
        return f"{text}{words}"

    async def _run(self, trace: Tracer, claimed: ClaimedTurn, prepared: PreparedTurn, steps: TurnSteps) -> Outcome:
        steps.begin(prepared)
        work = TurnInput(
            assembly=prepared.assembly,
            history=prepared.history,
            taken=prepared.taken,
            attempt=claimed.attempt,
            frozen=prepared.frozen,
            results=steps.results,
            response_format=claimed.incoming.request.response_format,
        )
        return await self._loop.run(work, trace, steps.ears)

    def _end(
        self, claimed: ClaimedTurn, state: TurnState, text: str, messages: Messages, steps: TurnSteps | None = None
    ) -> TurnResult:
        """Make the result of a turn that has no prompt to count tokens with."""
        return TurnResult(
            state=state,
            text=text,
            messages=messages,
            spent=add_up_usage(claimed),
            now=self._preparing.now(),
            tokens=estimate_tokens(messages),
            entry=steps.enter(messages) if steps else None,
        )

    async def _write(self, trace: Tracer, claimed: ClaimedTurn, ending: TurnResult) -> TurnResult:
        """Store the result of a turn, and retry until the disk accepts it."""
        if ending.state is TurnState.QUEUED and ending.now - claimed.received > self._patience.give_up:
            closed = close_turn(
                ending.messages or (make_user_message(write_model_text(claimed.incoming)),), "not answered"
            )
            ending = self._end(claimed, TurnState.FAILED, UNREACHABLE_TEXT, closed)
        if ending.state is TurnState.QUEUED:
            due = ending.now + timedelta(seconds=self._choose_wait(claimed.attempt, ending.wait))
            await self._insist(trace, claimed, ending, lambda: self._inbox.postpone(claimed, ending, due))
            return ending
        await self._insist(trace, claimed, ending, lambda: self._inbox.finish(claimed, ending))
        if not claimed.incoming.address and claimed.incoming.errand is None and not is_suppressed(ending):
            trace.tell(EventType.MESSAGE_SENT, length=len(ending.text), attempt=claimed.attempt)
        return ending

    def _choose_wait(self, attempt: int, asked: float | None) -> float:
        later = self._patience.later
        longest = self._patience.give_up.total_seconds()
        return min(max(later[min(attempt, len(later)) - 1], asked or 0.0), longest)

    async def _insist(
        self, trace: Tracer, claimed: ClaimedTurn, ending: TurnResult, write: Callable[[], Awaitable[None]]
    ) -> None:
        def publish(error: sqlite3.Error) -> None:
            self._aside(claimed, ending)
            trace.tell(EventType.CHANNEL_ERROR, **describe_error(error))

        await write_until_stored(write, self._patience.disk, publish)


async def approve(_: ApprovalNeeded) -> bool:
    """Approve: the person has allowed the held call."""
    return True


def is_suppressed(ending: TurnResult) -> bool:
    """Return whether the agent answered with a suppressed reply."""
    return ending.state is TurnState.ANSWERED and not ending.text


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
