"""Model calls: reserve budget, set cache breakpoints, send, account for the answer, and retry transient errors."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from foreword.agent.agent_events import (
    BudgetExceeded,
    CallRestarted,
    CallSettled,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    TurnSpending,
)
from foreword.agent.conversation import Answer, HistoryMessage, convert_to_texts
from foreword.agent.images import ImageFolder
from foreword.agent.providers.model_clients import ENGINE_HOST, ModelWire, OpenModel
from foreword.agent.providers.provider import AnswerBegan, AnswerDone, ProviderEvent, RequestOptions
from foreword.agent.reply_stream import FencedCallParser
from foreword.agent.retry import RetryPolicy
from foreword.agent.segments import HistorySegment, MessageWriter, write_history
from foreword.assembly import Assembly
from foreword.config.schema import Config, ModelOverride
from foreword.envelope import Envelope, MarkedRequest, RequestTarget, Segment, count_opening, mark_request
from foreword.events.cost import BudgetGuard, Cost, PricedCall, Reservation, estimate_max_cost, price_call, split_cost
from foreword.events.event import EventType, Level, Usage
from foreword.events.sinks import EventStream
from foreword.events.tracer import TraceNode, TraceStep
from foreword.promptcache.cache_usage import (
    AnsweredRequest,
    CacheAccount,
    account_for_call,
    confirm_cause,
    redact_blame,
)
from foreword.promptcache.ledger import (
    Action,
    LedgerState,
    Reason,
    SentRequest,
    advance_ledger,
    list_stable_blocks,
    mark_lost,
)
from foreword.promptcache.ledger_json import account_to_json, decision_to_json
from foreword.promptcache.rules import NO_CALIBRATION, REQUEST_SHAPES, CacheUsage, Calibration
from foreword.tokens.models import PricedRequest, find_prices
from foreword.turn import Turn
from foreword.types import Trust, frozen

HOUR_TTL = "1h"
DIAGNOSTIC_SHAPES = ("anthropic", "responses")  # the shapes that support cache diagnostics


class TurnLedger:
    """Keeps the ledger of one turn, call by call."""

    def __init__(
        self,
        assembly: Assembly,
        opened: ModelWire,
        ledger_state: LedgerState | None,
        turn: str,
        *,
        diagnosed: bool = False,
        calibration: Calibration = NO_CALIBRATION,
    ) -> None:
        self._assembly = assembly
        self._opened = opened
        self._ledger_state = ledger_state
        self._turn = turn
        self.diagnosed = diagnosed and opened.shape in DIAGNOSTIC_SHAPES
        self._calibration = calibration
        self._stable = len(list_stable_blocks(assembly.prompt.blocks))
        self._marked: MarkedRequest | None = None

    @property
    def diagnosis_of(self) -> str | None:
        """The id of the answer that the provider shall compare its cache with; None if it is not asked."""
        if not self.diagnosed:
            return None
        return self._ledger_state.last.answer if self._ledger_state else ""

    def mark(self, request: Mapping[str, Any], past: Sequence[Segment], at: datetime) -> Envelope:
        """Set the cache breakpoints of a finished request and its history."""
        self._check_engine(at)
        meter = self._assembly.meter
        to = RequestTarget(
            model=meter.facts.name,
            facts=meter.facts.cache,
            count=meter.count,
            at=at,
            stable=self._stable,
            turn=self._turn,
        )
        marked = self._marked = mark_request(self._opened.shape, request, self._ledger_state, to, past)
        return Envelope(
            shape=self._opened.shape,
            model=meter.facts.name,
            request=marked.request,
            breakpoints=marked.breakpoints,
            past=marked.past,
        )

    @property
    def hour(self) -> bool:
        """Whether the last request writes to the cache with a lifetime of one hour."""
        return self._marked is not None and any(one.ttl == HOUR_TTL for one in self._marked.breakpoints)

    def settle(self, done: AnswerDone, overrides: Mapping[str, ModelOverride]) -> CallSettled:
        """Account for an answered request, and record it as sent."""
        if self._marked is None:
            raise AssertionError("an answered request was marked")
        sent, facts = self._marked.sent, self._assembly.meter.facts
        self._check_engine(sent.at)  # the request may have restarted the embedded engine
        made = self._account(sent, done, overrides)
        sent = replace(sent, answer=done.response_id) if self.diagnosed else sent
        self._ledger_state = advance_ledger(self._ledger_state, self._assembly.prefix_decision, sent, facts.cache)
        return CallSettled(answer=done.answer, account=made, ledger_state=self._ledger_state, counted=sent.tokens)

    def _check_engine(self, at: datetime) -> None:
        """Mark the cached prefix as lost if the engine was restarted."""
        since = self._opened.find_cache_start(at) if self._opened.find_cache_start else None
        if since and self._ledger_state and self._ledger_state.last.at < since:
            self._ledger_state = mark_lost(self._ledger_state)

    def _account(
        self, sent: SentRequest, done: AnswerDone, overrides: Mapping[str, ModelOverride]
    ) -> CacheAccount | None:
        """Account for a request, including the provider's diagnosis; None if the provider reported no usage."""
        usage = done.usage
        if usage is None:
            return None
        facts, decision = self._assembly.meter.facts, self._assembly.prefix_decision
        prices = find_prices(facts.name, overrides, PricedRequest(tokens=usage.tokens_in, now=sent.at))
        answered = AnsweredRequest(prefix=decision.prefix, sent=sent, reported=self._count(usage))
        made = account_for_call(self._ledger_state, answered, facts.cache, prices, self._calibration)
        if made.blame and done.diagnosis:
            made = replace(made, blame=confirm_cause(made.blame, done.diagnosis))
        if decision.rebase and decision.rebase.code is Reason.PRIVATE:
            made = redact_blame(made)
        return made

    def _count(self, usage: Usage) -> CacheUsage:
        """Convert reported usage; without cache figures all input tokens count as uncached."""
        return CacheUsage(
            read=usage.cache_read,
            write=usage.cache_write,
            hour=usage.cache_write if self.hour else 0,
            fresh=max(0, usage.tokens_in - usage.cache_read - usage.cache_write),
        )


STOPPED_REASON = "stopped before the end"
CallEvent = TextDelta | ThinkingDelta | CallRestarted | CallSettled
MIN_ANSWER_TOKENS = 64  # minimum output tokens requested; the provider refuses the call if they do not fit


def record_prompt(node: TraceNode, assembly: Assembly, prompt_hash: str) -> None:
    """Record that a prompt was built, and what the ledger decided about its prefix."""
    decision = assembly.prefix_decision
    node.emit(
        EventType.PROMPT_BUILT,
        prompt_hash=prompt_hash,
        layers=assembly.prompt.section_count,
        tokens=assembly.used,
        cached_tokens=assembly.count_cached_tokens(),
        **assembly.count_losses(),
        **({} if decision.action is Action.REUSE else {"ledger": decision_to_json(decision)}),
    )


@frozen
class RequestInputs:
    """The inputs of a turn's requests; the sender may be the caller of the library."""

    assembly: Assembly
    opened: ModelWire
    envelope: Envelope
    ledger: TurnLedger
    prompt_hash: str
    config: Config
    images: ImageFolder
    spending: TurnSpending
    max_tokens: int
    response_format: str = ""


@frozen
class CallContext(RequestInputs):
    """What all model calls of a turn share."""

    opened: OpenModel
    event_stream: EventStream
    retry_policy: RetryPolicy
    seconds: float


class RequestWriter:
    """Writes the requests of one turn and accounts for their answers."""

    def __init__(self, context: RequestInputs, history: Sequence[HistorySegment] = ()) -> None:
        self._context = context
        opened, meter = context.opened, context.assembly.meter
        self._writer = MessageWriter(wire=opened.wire, family=opened.family, meter=meter, images=context.images)
        self._opening = count_opening(context.envelope.request[REQUEST_SHAPES[opened.shape].field])
        self._history = history
        self.drops_thinking = False
        """Whether the provider is asked to ignore thoughts that followed another prompt."""

    def write(self, own: Sequence[HistoryMessage], at: datetime, *, stream: bool = True) -> Envelope:
        """Write the next request: the prompt, the history, and the messages of this turn."""
        context = self._context
        past = write_history(self._history, self._writer, self._opening)
        self.drops_thinking = (
            self.drops_thinking
            or any(one.drops_thinking for one in self._history)
            or any(message.drops_thinking for message in own if isinstance(message, Answer))
        )
        options = RequestOptions(
            max_tokens=self._bound_answer(own),
            cache_key=make_cache_key(context.assembly.turn) if context.opened.keyed else "",
            response_format=context.response_format,
            drops_thinking=self.drops_thinking,
            diagnosis_of=context.ledger.diagnosis_of,
            stream=stream,
        )
        request, field = context.envelope.request, REQUEST_SHAPES[context.opened.shape].field
        messages = [*request[field][: self._opening], *self._writer.write(own)]
        return context.ledger.mark(context.opened.wire.complete({**request, field: messages}, options), past, at)

    def estimate_max_cost(self, own: Sequence[HistoryMessage]) -> Cost:
        """Return the maximum cost of a call, including the messages added since the prompt was assembled."""
        context = self._context
        most = estimate_max_cost(context.assembly, context.config.models, context.max_tokens)
        if most.usd is None or most.prices is None:
            return most
        return Cost(
            usd=most.usd + self._count_added(own) * max(most.prices.cache_write, most.prices.input), prices=most.prices
        )

    def _count_added(self, own: Sequence[HistoryMessage]) -> int:
        """Count the tokens of the messages added since the prompt was assembled."""
        count = self._context.assembly.meter.count
        return sum(count(message.text) for message in convert_to_texts(own[1:]))

    def _bound_answer(self, own: Sequence[HistoryMessage]) -> int:
        """Return the output limit: the model's maximum or the rest of its context window."""
        assembly = self._context.assembly
        facts = assembly.meter.facts
        left = facts.window - assembly.used - assembly.conversation - self._count_added(own)
        return max(MIN_ANSWER_TOKENS, min(self._context.max_tokens, facts.answer or left, left))

    def settle(self, call: TraceStep, done: AnswerDone) -> CallSettled:
        """Advance the ledger; record the usage and cost of a call by section, its cache reads and why it missed."""
        context, usage, usd = self._context, done.usage, None
        if done.answer.cut:
            call.note(cut=True)
        if usage is None:
            call.note(unpriced="the provider reported no usage")
        else:
            priced = PricedCall(
                model=context.assembly.turn.model, usage=usage, time=call.trace.clock(), hour=context.ledger.hour
            )
            cost = price_call(priced, context.config.models)
            shares = [share.row for share in split_cost(context.assembly, priced, cost)]
            usd = cost.usd
            call.note(usage=usage, cost_usd=usd, sections=shares)
            if usd is None:
                call.note(unpriced=cost.reason)
        settled = replace(context.ledger.settle(done, context.config.models), usage=usage or Usage(), usd=usd)
        if settled.account:
            call.note(cache=account_to_json(settled.account))
        context.spending.add(settled.usage, usd)
        return settled


class ModelCaller:
    """Calls the model of one turn."""

    def __init__(self, context: CallContext, history: Sequence[HistorySegment] = ()) -> None:
        self._context = context
        self._requests = RequestWriter(context, history)
        self._has_begun = self._is_streaming = False
        self._native = context.assembly.meter.facts.native_tools

    async def call(self, turn: TraceStep, own: Sequence[HistoryMessage]) -> AsyncGenerator[CallEvent]:
        """Call the model with the history and this turn's messages; retry transient errors.

        Yield the answer as it arrives, and `CallSettled` with the whole answer at the end.
        """
        context, waits = self._context, self._context.retry_policy.waits
        model, number = context.assembly.turn.model, 0
        while True:
            number += 1
            try:
                step = turn.step(EventType.API_CALL, model=model, prompt_hash=context.prompt_hash, attempt=number)
                with step as call:
                    try:
                        async with aclosing(self._call(call, own)) as events:
                            async for event in events:
                                yield event
                    except ProviderError as error:
                        error.tries, error.model_title = number, self._name_model()
                        pause = self._choose_pause(error, waits[number - 1 : number])
                        call.note(**describe_retry(error, pause, last=number > len(waits)))
                        raise
            except ProviderError:
                if pause is None:
                    raise
            else:
                return
            if self._is_streaming:
                yield CallRestarted()
            await context.retry_policy.sleep(pause)

    def _choose_pause(self, error: ProviderError, waits: Sequence[float]) -> float | None:
        """Choose the pause before the next attempt; None if there is none."""
        if error.stale_thinking and not self._requests.drops_thinking:
            self._requests.drops_thinking = True
            return 0.0
        return self._context.retry_policy.choose_delay(waits[0], error.wait) if error.passing and waits else None

    def _name_model(self) -> str:
        """Return the model's name and address for people with enough trust; "The model" for others."""
        assembly = self._context.assembly
        if assembly.clearance.level < Trust.INNER:
            return "The model"
        address = strip_credentials(self._context.opened.base_url)
        return f"The model {assembly.turn.model}{f' at {address}' if address else ''}"

    async def _call(self, call: TraceStep, own: Sequence[HistoryMessage]) -> AsyncGenerator[CallEvent]:
        """Make one call: reserve budget, send, settle, and record the usage."""
        guard, reservation = await self._reserve(call, own)
        self._has_begun = self._is_streaming = False
        settled: CallSettled | None = None
        try:
            async with aclosing(self._stream(call, own)) as events:
                async for event in events:
                    if isinstance(event, AnswerDone):
                        settled = self._requests.settle(call, event)
                    elif not isinstance(event, AnswerBegan):
                        yield event
        except BaseException as error:
            if guard:
                self._end_reservation(guard, reservation, settled)
            if isinstance(error, asyncio.CancelledError | GeneratorExit):
                call.note(error=STOPPED_REASON, level=Level.WARN)
            raise
        if settled is None:
            raise AssertionError("a provider's stream ends with the answer or an error")
        if guard:
            await asyncio.to_thread(guard.settle, reservation, settled.usd)
        if reservation.warnings:
            call.note(level=Level.WARN, budget="; ".join(reservation.warnings))
        yield settled

    def _end_reservation(self, guard: BudgetGuard, reservation: Reservation, settled: CallSettled | None) -> None:
        """End the reservation of a broken call, which costs something once the provider has begun to answer."""
        if self._has_begun:
            guard.settle(reservation, settled.usd if settled else None)
        else:
            guard.release(reservation)

    async def _reserve(self, call: TraceStep, own: Sequence[HistoryMessage]) -> tuple[BudgetGuard | None, Reservation]:
        """Reserve the maximum cost of a call; no guard if the turn has no limits."""
        guard = self._context.event_stream.budgets
        if guard is None or not guard.has_limits(call.trace.context):
            return None, Reservation(allowed=True)
        return guard, await reserve_budget(guard, call, self._requests.estimate_max_cost(own))

    async def _stream(self, call: TraceStep, own: Sequence[HistoryMessage]) -> AsyncGenerator[ProviderEvent]:
        """Send one request and yield its answer as it arrives, without its fenced calls."""
        fences = None if self._native else FencedCallParser()
        envelope = self._requests.write(own, call.trace.clock())
        deadline = asyncio.get_running_loop().time() + self._context.seconds
        async with aclosing(self._context.opened.provider.stream(envelope)) as events:
            while event := await read_next(events, deadline):
                self._has_begun = True
                self._is_streaming = self._is_streaming or not isinstance(event, AnswerBegan)
                if isinstance(event, AnswerDone):
                    for text in fences.finish() if fences else ():
                        if text and isinstance(text, str):
                            yield TextDelta(text=text)
                    flagged = replace(event.answer, drops_thinking=self._requests.drops_thinking)
                    yield replace(event, answer=flagged)
                elif fences and isinstance(event, TextDelta):
                    for text in fences.feed(event.text):
                        if isinstance(text, str):
                            yield TextDelta(text=text)
                else:
                    yield event


async def read_next(events: AsyncGenerator[ProviderEvent], deadline: float) -> ProviderEvent | None:
    """Return the next event of a stream; None at its end. Raise ProviderError after the deadline."""
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(events, None)
    except TimeoutError as error:
        raise ProviderError("the provider did not answer in time", passing=True) from error


def release_unused(guard: BudgetGuard, reserving: asyncio.Future[Reservation]) -> None:
    """Release the reservation of a turn that was cancelled while it was made."""
    if not reserving.cancelled() and reserving.exception() is None:
        guard.release(reserving.result())


async def reserve_budget(guard: BudgetGuard, call: TraceStep, most: Cost) -> Reservation:
    """Reserve the maximum cost of a call; release it if the turn is cancelled meanwhile."""
    trace = call.trace
    pending = asyncio.ensure_future(asyncio.to_thread(guard.reserve, trace.context, trace.id, most))
    try:
        reservation = await asyncio.shield(pending)
    except asyncio.CancelledError:
        pending.add_done_callback(lambda done: release_unused(guard, done))
        raise
    check_reservation(call, reservation)
    return reservation


def check_reservation(call: TraceStep, reservation: Reservation) -> None:
    """Record the warnings of a reservation; raise BudgetExceeded if the call is refused."""
    for line in filter(None, (*reservation.sums, reservation.reason)):
        call.emit_restricted(EventType.API_ERROR, level=Level.WARN, budget=line)
    if not reservation.allowed:
        raise BudgetExceeded(reservation)


def make_cache_key(turn: Turn) -> str:
    """Return a cache key of the conversation that reveals neither person nor channel to the provider."""
    if not turn.session:
        return ""
    return blake2b(f"{turn.agent}\0{turn.session}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def strip_credentials(url: str | None) -> str:
    """Return the address of a model without credentials and query."""
    parts = urlsplit(url or "")
    if not parts.hostname or parts.hostname == ENGINE_HOST:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def describe_retry(error: ProviderError, pause: float | None, *, last: bool) -> dict[str, float | str]:
    """Return event fields that describe what follows a failed attempt."""
    if pause is not None:
        return {"retry_in_s": round(pause, 2)}
    if not error.passing:
        return {"retry": "would not help"}
    return {"retry": "none left"} if last else {"retry": f"asked to wait {error.wait:g} s"}
