"""Calls a model: reserved, sent, told and settled; tried again while that may help."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from hashlib import blake2b
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

from foreword.assembly import Assembly
from foreword.caching.blocks import LISTS
from foreword.config.schema import Config
from foreword.errors import ForewordError
from foreword.events.budget import Grant, Purse
from foreword.events.cost import Call, Cost, foresee, price_call, split
from foreword.events.event import EventType, Level, Usage
from foreword.events.listening import Listeners
from foreword.events.trace import Step
from foreword.frozen import frozen
from foreword.ledger.telling import tell_account
from foreword.runtime.accounting import Accounting
from foreword.runtime.calls import Fences
from foreword.runtime.ears import Anew, Ears, Words
from foreword.runtime.history import list_said, recount
from foreword.runtime.models import ENGINE, Opened
from foreword.runtime.outcome import OverBudget, ProviderError
from foreword.runtime.own import Sending
from foreword.runtime.retrying import Retrying
from foreword.runtime.stretch import Before, Stretch
from foreword.runtime.trouble import explain
from foreword.runtime.wire import sending
from foreword.turn import Turn
from foreword.wire import Envelope, count_opening
from foreword.words import Trust

STOPPED = "stopped before the end"
SPENT: ContextVar[list[tuple[Usage, float | None]]] = ContextVar("spent")
"""Where calls note what they used, for whoever adds up a turn with all that it led to, however it ends."""
# The tools are ours and are put into the finished request, so the library is told of none: it would copy, rewrite and
# check all their schemas in every call, for nothing.
NO_TOOLS = ModelRequestParameters()
SHORTEST = 64  # tokens of an answer that are asked for in any case: where they do not fit, the provider says so


@frozen
class Line:
    """What all calls of one turn have in common."""

    assembly: Assembly
    opened: Opened
    envelope: Envelope
    accounting: Accounting
    key: str
    """The hash of the prompt."""
    config: Config
    listeners: Listeners
    ears: Ears
    retrying: Retrying
    max_tokens: int
    seconds: float
    response_format: str = ""
    """The format that the answer must have; nothing for plain text."""


class Caller:
    """Calls the model of one turn."""

    def __init__(self, line: Line, history: Sequence[Stretch] = ()) -> None:
        self._line = line
        shape, meter = line.opened.shape, line.assembly.terms.meter
        opening = count_opening(line.envelope.request[LISTS[shape].field])
        self._before = Before(history, shape, meter, opening)
        self._heard = False
        self._used: list[tuple[Usage, float | None]] = []
        self._native = line.assembly.terms.meter.facts.native_tools

    async def call(self, turn: Step, own: Sequence[ModelMessage]) -> ModelResponse:
        """Call the model with what was said before and in this turn, and again after each wait if that may help."""
        line, waits = self._line, self._line.retrying.waits
        for number, wait in enumerate((*waits, None), 1):
            pause = None
            try:
                with turn.step(
                    EventType.API_CALL, model=line.assembly.turn.model, prompt_hash=line.key, attempt=number
                ) as call:
                    try:
                        return await self._call(call, own)
                    except ProviderError as error:
                        error.tries, error.whom = number, self._name_model()
                        pause = line.retrying.choose(wait, error.wait) if error.passing and wait is not None else None
                        call.note(**describe_retry(error, pause, last=wait is None))
                        raise
            except ProviderError:
                if pause is None:
                    raise
            if self._heard:
                await line.ears.hear(Anew())
            await line.retrying.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _name_model(self) -> str:
        """Name the model and its address for people who may know of the host; to others it is just the model."""
        assembly = self._line.assembly
        if assembly.clearance.level < Trust.INNER:
            return "The model"
        address = show_address(self._line.opened.model.base_url)
        return f"The model {assembly.turn.model}{f' at {address}' if address else ''}"

    async def _call(self, call: Step, own: Sequence[ModelMessage]) -> ModelResponse:
        """Make one call: reserve, ask, settle, and tell what it used."""
        purse = self._line.listeners.purse
        purse = purse if purse and purse.concerns(call.trace.context) else None
        grant = await reserve(purse, call, self._foresee(own)) if purse else Grant(allowed=True)
        self._heard = False
        try:
            response = await self._ask(call, own)
        except BaseException as error:
            if purse and self._heard:
                purse.settle(grant, None)
            elif purse:
                purse.release(grant)
            if isinstance(error, asyncio.CancelledError):
                call.note(error=STOPPED, level=Level.WARN)
            if not isinstance(error, Exception) or isinstance(error, ForewordError):
                raise
            raise explain(error) from error
        usd = self._tell(call, response)
        if purse:
            await asyncio.to_thread(purse.settle, grant, usd)
        if grant.warnings:
            call.note(level=Level.WARN, budget="; ".join(grant.warnings))
        return response

    def _foresee(self, own: Sequence[ModelMessage]) -> Cost:
        """Foresee the most that a call can cost, with what the turn has appended since its prompt was assembled."""
        line = self._line
        most = foresee(line.assembly, line.config.models, line.max_tokens)
        if most.usd is None or most.prices is None:
            return most
        return Cost(
            usd=most.usd + self._weigh(own) * max(most.prices.cache_write, most.prices.input), prices=most.prices
        )

    def _weigh(self, own: Sequence[ModelMessage]) -> int:
        """Count what the turn has appended since its prompt was assembled."""
        count = self._line.assembly.terms.meter.count
        return sum(count(message.text) for message in recount(own[1:]))

    def _bound_answer(self, own: Sequence[ModelMessage]) -> int:
        """Bound the answer by what the model is good for, and by what the window leaves after all that is sent."""
        assembly = self._line.assembly
        facts = assembly.terms.meter.facts
        left = facts.window - assembly.used - assembly.conversation - self._weigh(own)
        return max(SHORTEST, min(self._line.max_tokens, facts.answer or left, left))

    def _tell(self, call: Step, response: ModelResponse) -> float | None:
        """Tell what a call used and cost, section by section."""
        line = self._line
        used = response.usage
        if response.finish_reason == "length":
            call.note(cut=True)
        if not used.has_values():
            call.note(unpriced="the provider did not say what the call used")
            self._settle(call, None, response.provider_response_id or "")
            self._note(Usage(), None)
            return None
        usage = Usage(
            tokens_in=used.input_tokens,
            tokens_out=used.output_tokens,
            cache_read=used.cache_read_tokens,
            cache_write=used.cache_write_tokens,
        )
        done = Call(
            model=line.assembly.turn.model,
            usage=usage,
            time=call.trace.timepiece.now(),
            hour=line.accounting.hour,
        )
        cost = price_call(done, line.config.models)
        shares = [share.row for share in split(line.assembly, done, cost)]
        call.note(usage=usage, cost_usd=cost.usd, sections=shares)
        if cost.usd is None:
            call.note(unpriced=cost.reason)
        self._settle(call, usage, response.provider_response_id or "")
        self._note(usage, cost.usd)
        return cost.usd

    def _settle(self, call: Step, usage: Usage | None, answer: str) -> None:
        """Bring the ledger forward, and tell what was read from the cache and why it was not more."""
        line = self._line
        settled = line.accounting.settle(usage, line.config.models, answer)
        if settled:
            line.ears.advance(settled)
            if settled.account:
                call.note(cache=tell_account(settled.account))

    def _note(self, usage: Usage, usd: float | None) -> None:
        self._used.append((usage, usd))
        if (spent := SPENT.get(None)) is not None:
            spent.append((usage, usd))

    def add_up(self) -> tuple[Usage, float | None]:
        """Add up what the calls of this turn used and cost; None where the cost of one of them is not known."""
        usage = Usage(
            tokens_in=sum(used.tokens_in for used, _ in self._used),
            tokens_out=sum(used.tokens_out for used, _ in self._used),
            cache_read=sum(used.cache_read for used, _ in self._used),
            cache_write=sum(used.cache_write for used, _ in self._used),
        )
        known = [usd for _, usd in self._used if usd is not None]
        return usage, sum(known) if len(known) == len(self._used) else None

    async def _ask(self, call: Step, own: Sequence[ModelMessage]) -> ModelResponse:
        """Send one request and listen to its answer."""
        line, messages = self._line, (*self._before.list_unwritten(), *own)
        fences = None if self._native else Fences()
        longest = self._bound_answer(own)
        what = Sending(
            envelope=line.envelope,
            said=list_said(messages),
            max_tokens=longest,
            cache_key=make_cache_key(line.assembly.turn) if line.opened.keyed else "",
            told=line.assembly.terms.meter.facts.cache.system_messages,
            write=lambda owned: line.accounting.write(*self._before.take(owned), call.trace.timepiece.now()),
            response_format=line.response_format,
            hear=line.accounting.hear if line.accounting.diagnosed else None,
        )
        settings = ModelSettings(max_tokens=longest)
        # The model itself is asked: an agent of the library, or its `direct` functions, would rewrite messages before.
        async with asyncio.timeout(line.seconds):
            with sending(what):
                async with line.opened.model.request_stream(list(messages), settings, NO_TOOLS) as stream:
                    async for event in stream:
                        self._heard = True
                        await self._pass_on(read_piece(event), fences)
                    response = stream.get()
        if fences:
            for found in fences.finish():
                if isinstance(found, str):
                    await line.ears.hear(Words(text=found))
        return response

    async def _pass_on(self, piece: str, fences: Fences | None) -> None:
        """Pass words on, without the calls that are written among them."""
        found = fences.feed(piece) if fences else [piece]
        for text in found:
            if text and isinstance(text, str):
                await self._line.ears.hear(Words(text=text))


async def reserve(purse: Purse, call: Step, most: Cost) -> Grant:
    """Reserve the most that a call can cost; who is stopped meanwhile gives it back."""
    trace = call.trace
    reserving = asyncio.ensure_future(asyncio.to_thread(purse.reserve, trace.context, trace.id, most))
    try:
        grant = await asyncio.shield(reserving)
    except asyncio.CancelledError:
        purse.release(await reserving)
        raise
    for sum_of_all in filter(None, (*grant.sums, grant.reason)):
        call.confide(EventType.API_ERROR, level=Level.WARN, budget=sum_of_all)
    if not grant.allowed:
        raise OverBudget(grant)
    return grant


def make_cache_key(turn: Turn) -> str:
    """Make a key for the conversation of a turn that tells a provider neither who speaks nor where."""
    if not turn.session:
        return ""
    return blake2b(f"{turn.agent}\0{turn.session}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def show_address(url: str | None) -> str:
    """Show where a model is reached: scheme, host, port and path, without credentials or a query."""
    parts = urlsplit(url or "")
    if not parts.hostname or parts.hostname == ENGINE:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def read_piece(event: ModelResponseStreamEvent) -> str:
    """Read the words of an event of a stream."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def describe_retry(error: ProviderError, pause: float | None, *, last: bool) -> dict[str, float | str]:
    """Describe what follows a failed try."""
    if pause is not None:
        return {"retry_in_s": round(pause, 2)}
    if not error.passing:
        return {"retry": "would not help"}
    return {"retry": "none left"} if last else {"retry": f"asked to wait {error.wait:g} s"}
