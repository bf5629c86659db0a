"""Our own design: the prompt that the ledger keeps, with the marks that it chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from foreword.blueprint import Blueprint
from foreword.caching import Block
from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.ledger import (
    Base,
    Frozen,
    Identity,
    Line,
    Moment,
    Piece,
    Sent,
    Standing,
    Wanted,
    advance,
    capture,
    compare,
    predict,
)
from foreword.ledger.breakpoints import Breakpoint, choose
from foreword.ledger.line import draw_blocks, lead
from foreword.money import Prices
from foreword.render import Block as Text
from foreword.render import Layout, Prompt, Span
from foreword.simulate.design import Stage, make, write_clock
from foreword.simulate.session import Call, Told
from foreword.tokens import Counter, Meter, ModelFacts
from foreword.tokens.caches import CacheFacts
from foreword.words import Pace, Placement, Policy, Trust

T = TypeVar("T", Block, Piece)
PLAIN = Blueprint(name="simulated", marker="", marker_without_call="", slots=())


@frozen
class Service:
    """Who is asked: a model, its cache, its prices, and how its tokens are counted."""

    model: ModelFacts
    prices: Prices | None
    meter: Meter

    @property
    def cache(self) -> CacheFacts:
        """The rules of its cache."""
        return self.model.cache


class Guide(Protocol):
    """Decides what the ledger would otherwise decide by itself."""

    def guide(self, call: Call) -> Mapping[str, Policy]:
        """Say what is to be done about edits before a call."""
        ...


class Unguided:
    """Leaves everything to the ledger."""

    def guide(self, call: Call) -> Mapping[str, Policy]:  # noqa: ARG002 - nothing is decided here
        """Decide nothing."""
        return {}


class Kept:
    """Writes the requests of one session as its ledger has them."""

    def __init__(self, stage: Stage, service: Service, guide: Guide | None = None) -> None:
        self._stage = stage
        self._service = service
        self._guide = guide or Unguided()
        self._layout = Layout(PLAIN, service.meter)
        self._tails: dict[int, str] = {}
        self._inserted: dict[int, str] = {}
        self.frozen: Frozen | None = None
        self.standing: Standing | None = None
        self.standings: list[Standing] = []
        self.breakpoints: list[tuple[Breakpoint, ...]] = []
        self.predicted: list[Counted] = []

    def write(self, call: Call) -> Sequence[Block]:
        """Write a request, and take it as accepted."""
        stage, facts = self._stage, self._service.cache
        if call.first:
            self.standing = self._compare(call)
            self.standings.append(self.standing)
            self._tails[call.turn] = "".join(
                block.text for block in self.standing.prompt.blocks if block.placement is Placement.TAIL
            )
            self._inserted[call.turn] = self.standing.inserted
        standing = self.standing
        if standing is None:
            raise ValueError("a session begins with the first call of a turn")
        system = [make("system", block.text) for block in lead(standing.prompt.blocks)]
        blocks = [*stage.tools, *system, *stage.converse(call.said, self._tails, self._inserted)]
        sent = Sent(
            model=self._service.model.name,
            pieces=capture(blocks, facts, self._service.meter.count),
            at=call.at,
            turn=str(call.turn),
        )
        stable = range(len(stage.tools), len(stage.tools) + len(system))
        marks = self.mark(call, sent, stable)
        self.breakpoints.append(marks)
        ttls = {one.at: one.ttl for one in marks}
        sent = replace(sent, pieces=mark(sent.pieces, ttls))
        self.predicted.append(predict(self.frozen, sent, facts))
        self.frozen = advance(self.frozen, standing, sent, facts)
        return mark(blocks, ttls)

    def mark(self, call: Call, sent: Sent, stable: Sequence[int]) -> tuple[Breakpoint, ...]:  # noqa: ARG002 - an oracle looks at the call
        """Choose the marks of a request."""
        return choose(self.frozen, sent, self._service.cache, stable)

    def _compare(self, call: Call) -> Standing:
        """Compare what is true now with what the session was told."""
        moment = Moment(now=call.at, facts=self._service.cache, prices=self._service.prices)
        return compare(self.frozen, self.want(call), moment)

    def want(self, call: Call) -> Wanted:
        """Say what a call wants to be known."""
        base = make_base(call.sections, self._service.meter)
        clock = write_clock(call, self._stage.scenario.tail, self._stage)
        span = Span("time", 0, len(clock), self._service.meter.count(clock))
        tail = Text(pace=Pace.TURN, placement=Placement.TAIL, text=clock, tokens=span.tokens, spans=(span,))
        before = self._stage.converse(call.said[:-1], self._tails, self._inserted) if call.first else ()
        return Wanted(
            identity=Identity(clearance=Trust.FULL, model=self._service.model.name, tools="tools"),
            prompt=Prompt(blocks=(*draw_blocks(base), tail)),
            base=base,
            layout=self._layout,
            tool_tokens=sum(self._service.meter.count(tool.text) for tool in self._stage.tools),
            edits=self._guide.guide(call),
            said=tuple(block.text for block in before),
        )


def mark(items: Sequence[T], ttls: Mapping[int, str]) -> tuple[T, ...]:
    """Put marks on some of the blocks, or pieces, of a request."""
    marked = list(items)
    for at, ttl in ttls.items():
        marked[at] = replace(marked[at], ttl=ttl)
    return tuple(marked)


def make_base(sections: Sequence[Told], meter: Meter) -> Base:
    """Make the lines of sections."""
    lines = [make_line(one, meter) for one in sections]
    blocks = [tuple(line for line in lines if line.pace is pace) for pace in (Pace.STATIC, Pace.SESSION)]
    return Base(blocks=tuple(block for block in blocks if block))


def make_line(one: Told, meter: Meter) -> Line:
    """Make the line of a section."""
    part = one.part
    text = f"## {part.title or part.id}\n{one.text}\n\n"
    return Line(
        id=part.id,
        title=part.title or part.id,
        pace=part.pace,
        text=text,
        piece=text,
        tokens=meter.count(text),
        governs=part.governs,
        policy=one.policy,
    )


def make_service(model: ModelFacts, prices: Prices | None) -> Service:
    """Make a service of a model and its prices."""
    return Service(model=model, prices=prices, meter=Meter(model, Counter(model.tokenizer)))
