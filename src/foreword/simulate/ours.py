"""Our own design: the prompt that the ledger keeps, with the marks that it chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

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
NOTHING: Mapping[str, Policy] = {}
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


@frozen
class Letter:
    """A request before it is marked."""

    blocks: tuple[Block, ...]
    sent: Sent
    stable: Sequence[int]
    """The blocks of the system part."""


class Kept:
    """Writes the requests of one session as its ledger has them."""

    def __init__(self, stage: Stage, service: Service) -> None:
        self._stage = stage
        self._service = service
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
        letter = self.prepare(call)
        return self.send(letter, choose(self.frozen, letter.sent, self._service.cache, letter.stable))

    def prepare(self, call: Call, edits: Mapping[str, Policy] = NOTHING) -> Letter:
        """Decide what is sent, without marks yet; `edits` decides what the ledger would otherwise decide by itself."""
        stage, facts = self._stage, self._service.cache
        if call.first:
            moment = Moment(now=call.at, facts=facts, prices=self._service.prices)
            self.standing = compare(self.frozen, self.want(call, edits), moment)
            self.standings.append(self.standing)
            self._tails[call.turn] = "".join(
                block.text for block in self.standing.prompt.blocks if block.placement is Placement.TAIL
            )
            self._inserted[call.turn] = self.standing.inserted
        standing = self.standing
        if standing is None:
            raise ValueError("a session begins with the first call of a turn")
        system = [make("system", block.text) for block in lead(standing.prompt.blocks)]
        blocks = (*stage.tools, *system, *stage.converse(call.said, self._tails, self._inserted))
        sent = Sent(
            model=self._service.model.name,
            pieces=capture(blocks, facts, self._service.meter.count),
            at=call.at,
            turn=str(call.turn),
        )
        return Letter(blocks=blocks, sent=sent, stable=range(len(stage.tools), len(stage.tools) + len(system)))

    def send(self, letter: Letter, marks: tuple[Breakpoint, ...]) -> Sequence[Block]:
        """Mark a request, and take it as accepted."""
        facts, standing = self._service.cache, self.standing
        if standing is None:
            raise ValueError("a request is prepared before it is sent")
        self.breakpoints.append(marks)
        ttls = {one.at: one.ttl for one in marks}
        sent = replace(letter.sent, pieces=mark(letter.sent.pieces, ttls))
        self.predicted.append(predict(self.frozen, sent, facts))
        self.frozen = advance(self.frozen, standing, sent, facts)
        return mark(letter.blocks, ttls)

    def fork(self) -> "Kept":
        """Make another session that goes on from here."""
        other = Kept(self._stage, self._service)
        other._tails, other._inserted = dict(self._tails), dict(self._inserted)
        other.frozen, other.standing = self.frozen, self.standing
        other.standings, other.breakpoints = list(self.standings), list(self.breakpoints)
        other.predicted = list(self.predicted)
        return other

    def want(self, call: Call, edits: Mapping[str, Policy]) -> Wanted:
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
            edits=edits,
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
