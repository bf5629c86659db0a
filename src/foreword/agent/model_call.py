"""Model calls: reserve budget, set cache breakpoints, send, account for the answer, and retry transient errors."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from foreword.agent.agent_events import BudgetExceeded, CallRestarted, ProviderError, Settled, TextDelta, TurnCallbacks
from foreword.agent.conversation import HistorySegment, SegmentedHistory, convert_to_texts, list_user_messages
from foreword.agent.providers.model_clients import ENGINE_HOST, OpenModel
from foreword.agent.providers.transport import OutgoingPrompt, request_diagnosis, use_prompt
from foreword.agent.reply_stream import FencedCallParser, ReplyPart
from foreword.agent.retry import RetryPolicy, translate_provider_error
from foreword.assembly import Assembly
from foreword.config.schema import Config, ModelOverride
from foreword.envelope import (
    Envelope,
    MarkedRequest,
    RequestTarget,
    Segment,
    count_opening,
    mark_request,
    write_request,
)
from foreword.errors import ForewordError
from foreword.events.cost import BudgetGuard, Cost, PricedCall, Reservation, estimate_max_cost, price_call, split_cost
from foreword.events.event import EventType, Level, Usage
from foreword.events.sinks import EventStream
from foreword.events.tracer import TraceStep
from foreword.promptcache.cache_usage import (
    AnsweredRequest,
    CacheAccount,
    account_for_call,
    confirm_cause,
    redact_blame,
)
from foreword.promptcache.ledger import LedgerState, Reason, SentRequest, advance_ledger, list_stable_blocks, mark_lost
from foreword.promptcache.ledger_json import account_to_json
from foreword.promptcache.rules import NO_CALIBRATION, REQUEST_SHAPES, CacheUsage, Calibration
from foreword.tokens.prices import PricedRequest, find_prices
from foreword.turn import Turn
from foreword.types import Trust, frozen

HOUR_TTL = "1h"
DIAGNOSTIC_SHAPES = ("anthropic", "responses")  # the shapes that support cache diagnostics


class TurnLedger:
    """Keeps the ledger of one turn, call by call."""

    def __init__(
        self,
        assembly: Assembly,
        opened: OpenModel,
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
        self._diagnosis = ""

    def write(self, request: Mapping[str, Any], past: Sequence[Segment], at: datetime) -> bytes:
        """Set the cache breakpoints of a finished request, and serialize it with its history."""
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
        shape, self._diagnosis = self._opened.shape, ""
        self._marked = mark_request(shape, request, self._ledger_state, to, past)
        marked = self._marked.request
        if self.diagnosed:
            marked = request_diagnosis(shape, marked, self._ledger_state.last.answer if self._ledger_state else "")
        return write_request(shape, marked, self._marked.past)

    def record_diagnosis(self, reason: str) -> None:
        """Store the provider's diagnosis of the request."""
        self._diagnosis = reason

    @property
    def hour(self) -> bool:
        """Whether the last request writes to the cache with a lifetime of one hour."""
        return self._marked is not None and any(one.ttl == HOUR_TTL for one in self._marked.breakpoints)

    def settle(self, usage: Usage | None, overrides: Mapping[str, ModelOverride], answer: str = "") -> Settled | None:
        """Account for an answered request, and record it as sent."""
        if self._marked is None:
            return None
        sent, facts = self._marked.sent, self._assembly.meter.facts
        self._check_engine(sent.at)  # the request may have restarted the embedded engine
        made = self._account(sent, usage, overrides) if usage else None
        sent = replace(sent, answer=answer) if self.diagnosed else sent
        self._ledger_state = advance_ledger(self._ledger_state, self._assembly.prefix_decision, sent, facts.cache)
        return Settled(account=made, ledger_state=self._ledger_state, counted=sent.tokens)

    def _check_engine(self, at: datetime) -> None:
        """Mark the cached prefix as lost if the engine was restarted."""
        since = self._opened.find_cache_start(at) if self._opened.find_cache_start else None
        if since and self._ledger_state and self._ledger_state.last.at < since:
            self._ledger_state = mark_lost(self._ledger_state)

    def _account(self, sent: SentRequest, usage: Usage, overrides: Mapping[str, ModelOverride]) -> CacheAccount:
        """Account for a request, including the provider's diagnosis."""
        facts, decision = self._assembly.meter.facts, self._assembly.prefix_decision
        prices = find_prices(facts.name, overrides, PricedRequest(tokens=usage.tokens_in, now=sent.at))
        answered = AnsweredRequest(prefix=decision.prefix, sent=sent, reported=self._count(usage))
        made = account_for_call(self._ledger_state, answered, facts.cache, prices, self._calibration)
        if made.blame and self._diagnosis:
            made = replace(made, blame=confirm_cause(made.blame, self._diagnosis))
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
CALL_COSTS: ContextVar[list[tuple[Usage, float | None]]] = ContextVar("spent")
"""Collects the usage and cost of calls, including those of subagents, for the total of a turn."""
# Our transport puts the tools into the request. The library gets none: it would copy and validate all schemas in every
# call.
NO_TOOLS = ModelRequestParameters()
MIN_ANSWER_TOKENS = 64  # minimum output tokens requested; the provider refuses the call if they do not fit


@frozen
class CallContext:
    """What all model calls of a turn share."""

    assembly: Assembly
    opened: OpenModel
    envelope: Envelope
    ledger: TurnLedger
    prompt_hash: str
    config: Config
    event_stream: EventStream
    callbacks: TurnCallbacks
    retry_policy: RetryPolicy
    max_tokens: int
    seconds: float
    response_format: str = ""


class ModelCaller:
    """Calls the model of one turn."""

    def __init__(self, context: CallContext, history: Sequence[HistorySegment] = ()) -> None:
        self._context = context
        shape, meter = context.opened.shape, context.assembly.meter
        opening = count_opening(context.envelope.request[REQUEST_SHAPES[shape].field])
        self._before = SegmentedHistory(history, shape, meter, opening)
        self._is_streaming = False
        self._used: list[tuple[Usage, float | None]] = []
        self._native = context.assembly.meter.facts.native_tools

    async def call(self, turn: TraceStep, own: Sequence[ModelMessage]) -> ModelResponse:
        """Call the model with the history and this turn's messages; retry transient errors."""
        context, waits = self._context, self._context.retry_policy.waits
        for number, wait in enumerate((*waits, None), 1):
            pause = None
            try:
                model = context.assembly.turn.model
                with turn.step(
                    EventType.API_CALL, model=model, prompt_hash=context.prompt_hash, attempt=number
                ) as call:
                    try:
                        return await self._call(call, own)
                    except ProviderError as error:
                        error.tries, error.model_title = number, self._name_model()
                        if error.passing and wait is not None:
                            pause = context.retry_policy.choose_delay(wait, error.wait)
                        call.note(**describe_retry(error, pause, last=wait is None))
                        raise
            except ProviderError:
                if pause is None:
                    raise
            if self._is_streaming:
                await context.callbacks.emit(CallRestarted())
            await context.retry_policy.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _name_model(self) -> str:
        """Return the model's name and address for people with enough trust; "The model" for others."""
        assembly = self._context.assembly
        if assembly.clearance.level < Trust.INNER:
            return "The model"
        address = strip_credentials(self._context.opened.model.base_url)
        return f"The model {assembly.turn.model}{f' at {address}' if address else ''}"

    async def _call(self, call: TraceStep, own: Sequence[ModelMessage]) -> ModelResponse:
        """Make one call: reserve budget, send, settle, and record the usage."""
        guard, reservation = self._context.event_stream.budgets, Reservation(allowed=True)
        if guard and not guard.has_limits(call.trace.context):
            guard = None
        if guard:
            reservation = await reserve_budget(guard, call, self._estimate_max_cost(own))
        self._is_streaming = False
        try:
            response = await self._ask(call, own)
        except BaseException as error:
            if guard and self._is_streaming:
                guard.settle(reservation, None)
            elif guard:
                guard.release(reservation)
            if isinstance(error, asyncio.CancelledError):
                call.note(error=STOPPED_REASON, level=Level.WARN)
            if not isinstance(error, Exception) or isinstance(error, ForewordError):
                raise
            raise translate_provider_error(error) from error
        usd = self._record_usage(call, response)
        if guard:
            await asyncio.to_thread(guard.settle, reservation, usd)
        if reservation.warnings:
            call.note(level=Level.WARN, budget="; ".join(reservation.warnings))
        return response

    def _estimate_max_cost(self, own: Sequence[ModelMessage]) -> Cost:
        """Return the maximum cost of a call, including the messages added since the prompt was assembled."""
        context = self._context
        most = estimate_max_cost(context.assembly, context.config.models, context.max_tokens)
        if most.usd is None or most.prices is None:
            return most
        return Cost(
            usd=most.usd + self._count_added(own) * max(most.prices.cache_write, most.prices.input), prices=most.prices
        )

    def _count_added(self, own: Sequence[ModelMessage]) -> int:
        """Count the tokens of the messages added since the prompt was assembled."""
        count = self._context.assembly.meter.count
        return sum(count(message.text) for message in convert_to_texts(own[1:]))

    def _bound_answer(self, own: Sequence[ModelMessage]) -> int:
        """Return the output limit: the model's maximum or the rest of its context window."""
        assembly = self._context.assembly
        facts = assembly.meter.facts
        left = facts.window - assembly.used - assembly.conversation - self._count_added(own)
        return max(MIN_ANSWER_TOKENS, min(self._context.max_tokens, facts.answer or left, left))

    def _record_usage(self, call: TraceStep, response: ModelResponse) -> float | None:
        """Record the usage and cost of a call, by section."""
        context = self._context
        used = response.usage
        if response.finish_reason == "length":
            call.note(cut=True)
        if not used.has_values():
            call.note(unpriced="the provider reported no usage")
            self._settle(call, None, response.provider_response_id or "")
            self._add_usage(Usage(), None)
            return None
        usage = Usage(
            tokens_in=used.input_tokens,
            tokens_out=used.output_tokens,
            cache_read=used.cache_read_tokens,
            cache_write=used.cache_write_tokens,
        )
        done = PricedCall(
            model=context.assembly.turn.model,
            usage=usage,
            time=call.trace.clock(),
            hour=context.ledger.hour,
        )
        cost = price_call(done, context.config.models)
        shares = [share.row for share in split_cost(context.assembly, done, cost)]
        call.note(usage=usage, cost_usd=cost.usd, sections=shares)
        if cost.usd is None:
            call.note(unpriced=cost.reason)
        self._settle(call, usage, response.provider_response_id or "")
        self._add_usage(usage, cost.usd)
        return cost.usd

    def _settle(self, call: TraceStep, usage: Usage | None, answer: str) -> None:
        """Advance the ledger, and record the cache reads and the reason for misses."""
        context = self._context
        settled = context.ledger.settle(usage, context.config.models, answer)
        if settled:
            context.callbacks.advance(settled)
            if settled.account:
                call.note(cache=account_to_json(settled.account))

    def _add_usage(self, usage: Usage, usd: float | None) -> None:
        self._used.append((usage, usd))
        if (spent := CALL_COSTS.get(None)) is not None:
            spent.append((usage, usd))

    def add_up(self) -> tuple[Usage, float | None]:
        """Return the total usage and cost of this turn; the cost is None if that of any call is unknown."""
        usage = Usage(
            tokens_in=sum(used.tokens_in for used, _ in self._used),
            tokens_out=sum(used.tokens_out for used, _ in self._used),
            cache_read=sum(used.cache_read for used, _ in self._used),
            cache_write=sum(used.cache_write for used, _ in self._used),
        )
        known = [usd for _, usd in self._used if usd is not None]
        return usage, sum(known) if len(known) == len(self._used) else None

    async def _ask(self, call: TraceStep, own: Sequence[ModelMessage]) -> ModelResponse:
        """Send one request and stream its answer."""
        context, messages = self._context, (*self._before.list_unwritten(), *own)
        fences = None if self._native else FencedCallParser()
        longest = self._bound_answer(own)
        what = OutgoingPrompt(
            envelope=context.envelope,
            user_messages=list_user_messages(messages),
            max_tokens=longest,
            cache_key=make_cache_key(context.assembly.turn) if context.opened.keyed else "",
            system_messages=context.assembly.meter.facts.cache.system_messages,
            write=lambda owned: context.ledger.write(*self._before.take(owned), call.trace.clock()),
            response_format=context.response_format,
            report_diagnosis=context.ledger.record_diagnosis if context.ledger.diagnosed else None,
        )
        settings = ModelSettings(max_tokens=longest)
        # Call the model object directly: the library's agents and `direct` functions would rewrite the messages.
        async with asyncio.timeout(context.seconds):
            with use_prompt(what):
                async with context.opened.model.request_stream(list(messages), settings, NO_TOOLS) as stream:
                    async for event in stream:
                        self._is_streaming = True
                        piece = read_delta_text(event)
                        await self._emit_text(fences.feed(piece) if fences else [piece])
                    response = stream.get()
        if fences:
            await self._emit_text(fences.finish())
        return response

    async def _emit_text(self, parts: Iterable[ReplyPart]) -> None:
        """Emit the text of an answer, without its fenced calls."""
        for text in parts:
            if text and isinstance(text, str):
                await self._context.callbacks.emit(TextDelta(text=text))


async def reserve_budget(guard: BudgetGuard, call: TraceStep, most: Cost) -> Reservation:
    """Reserve the maximum cost of a call; release it if the turn is cancelled meanwhile."""
    trace = call.trace
    pending = asyncio.ensure_future(asyncio.to_thread(guard.reserve, trace.context, trace.id, most))
    try:
        reservation = await asyncio.shield(pending)
    except asyncio.CancelledError:
        guard.release(await pending)
        raise
    for line in filter(None, (*reservation.sums, reservation.reason)):
        call.emit_restricted(EventType.API_ERROR, level=Level.WARN, budget=line)
    if not reservation.allowed:
        raise BudgetExceeded(reservation)
    return reservation


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


def read_delta_text(event: ModelResponseStreamEvent) -> str:
    """Return the text of a stream event."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def describe_retry(error: ProviderError, pause: float | None, *, last: bool) -> dict[str, float | str]:
    """Return event fields that describe what follows a failed attempt."""
    if pause is not None:
        return {"retry_in_s": round(pause, 2)}
    if not error.passing:
        return {"retry": "would not help"}
    return {"retry": "none left"} if last else {"retry": f"asked to wait {error.wait:g} s"}
