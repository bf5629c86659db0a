"""Designs of prompts: how each writes the requests of a scripted session, call by call, with its breakpoints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol, TypeVar

from foreword.engine.blueprint import Blueprint
from foreword.engine.render import Layout, Prompt, Span
from foreword.engine.render import PromptBlock as Text
from foreword.promptcache.cache_usage import Breakpoint, choose_breakpoints
from foreword.promptcache.changes import WantedPrefix
from foreword.promptcache.decision import CacheContext, decide_prefix
from foreword.promptcache.ledger import (
    CacheIdentity,
    LedgerState,
    Prefix,
    PrefixDecision,
    SectionSnapshot,
    SentBlock,
    SentRequest,
    advance_ledger,
    list_stable_blocks,
    make_sent_blocks,
    predict_usage,
    render_blocks,
)
from foreword.promptcache.rules import CacheBlock, CacheUsage
from foreword.promptcache.scenario import CALL_INTERVAL_S, Scenario, ScriptedSection, TextGenerator, list_times
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import CacheFacts, ModelFacts, Prices
from foreword.types import EditPolicy, Pace, Placement, Trust, frozen


@frozen(eq=True)
class SectionText:
    """The current text of a section at a call."""

    part: ScriptedSection
    text: str
    policy: EditPolicy = EditPolicy.AUTO


@frozen(eq=True)
class ScriptedItem:
    """An item of a conversation; a `user` item begins a turn, and the design adds its tail."""

    kind: str  # `user`, `answer`, `call` or `result`
    text: str
    turn: int
    message: int  # the number of the message it belongs to


@frozen
class SessionCall:
    """A model call."""

    number: int
    turn: int
    first: bool  # whether it is the turn's first call
    at: datetime
    sections: tuple[SectionText, ...]
    said: tuple[ScriptedItem, ...]  # the conversation up to this call, including the newest user message


def list_calls(scenario: Scenario) -> list[SessionCall]:
    """Play a scenario and return its calls."""
    calls: list[SessionCall] = []
    said: list[ScriptedItem] = []
    words, message = TextGenerator(scenario.seed), 0

    def say(kind: str, name: str, tokens: int) -> None:
        said.append(ScriptedItem(kind=kind, text=words.write(name, tokens), turn=turn, message=message))

    for turn, begin in enumerate(list_times(scenario), 1):
        if turn in scenario.folded:
            said = [
                ScriptedItem(kind="summary", text=words.write(f"summary {turn}", 300), turn=0, message=0),
                ScriptedItem(kind="answer", text="Understood.", turn=0, message=1),
            ]
            message = 2
        sections = tuple(list_sections(scenario, words, turn))
        say("user", f"message {turn}", scenario.message)
        for step, tools in enumerate((*scenario.list_steps(turn), 0)):
            at = begin + timedelta(seconds=CALL_INTERVAL_S * step)
            call = SessionCall(
                number=len(calls), turn=turn, first=step == 0, at=at, sections=sections, said=tuple(said)
            )
            calls.append(call)
            message += 1
            for each in range(tools):
                say("call", f"call {turn} {step} {each}", 30)
            if not tools:
                say("answer", f"answer {turn}", scenario.answer)
            message += 1
            for each in range(tools):
                say("result", f"result {turn} {step} {each}", scenario.result)
    return calls


def list_sections(scenario: Scenario, words: TextGenerator, turn: int) -> Iterator[SectionText]:
    """List the current sections of a turn."""
    for part in scenario.sections:
        edits = [edit for edit in scenario.edits if edit.section == part.id and edit.turn <= turn]
        if part.from_turn > turn or (edits and edits[-1].remove):
            continue
        text = words.write(part.id, part.tokens)
        for edit in edits:
            lines, more = text.split("\n"), words.write(f"{part.id} {edit.turn}", edit.grow)
            middle = len(lines) // 2  # new lines replace one in the middle
            text = "\n".join([*lines[:middle], more, *lines[middle + 1 :]])
        yield SectionText(part=part, text=text, policy=edits[-1].policy if edits else EditPolicy.AUTO)


NO_TEXTS: Mapping[int, str] = {}


class Design(Protocol):
    """Writes requests."""

    def write(self, call: SessionCall) -> Sequence[CacheBlock]:
        """Write the request of a call as blocks with breakpoints."""
        ...


@frozen
class ScenarioStage:
    """The part that all designs share: the tools, and how messages are rendered."""

    scenario: Scenario
    tools: tuple[CacheBlock, ...]

    def converse(
        self, said: Iterable[ScriptedItem], tails: Mapping[int, str] = NO_TEXTS, inserted: Mapping[int, str] = NO_TEXTS
    ) -> Iterator[CacheBlock]:
        """Render a conversation; a turn's tail precedes the user's text, its system message follows it."""
        for one in said:
            role = "user" if one.kind in ("user", "result", "summary") else "assistant"
            if one.kind == "user" and tails.get(one.turn):
                yield make_cache_block(f"{one.message} {role}", tails[one.turn])
            yield make_cache_block(f"{one.message} {role}", one.text)
            if one.kind == "user" and inserted.get(one.turn):
                yield make_cache_block(f"{one.message} system", inserted[one.turn])


@lru_cache(maxsize=8_192)
def make_cache_block(place: str, text: str, ttl: str = "") -> CacheBlock:
    """Make a block."""
    return CacheBlock(key=f"{place} {text}", text=text, ttl=ttl, name=place)


def make_stage(scenario: Scenario) -> ScenarioStage:
    """Prepare the shared part for a scenario."""
    words, equipped = TextGenerator(scenario.seed), scenario.tools
    tools = [
        make_cache_block(f"tool tool_{at}", words.write(f"tool {at}", equipped.tokens)) for at in range(equipped.count)
    ]
    return ScenarioStage(scenario=scenario, tools=tuple(tools))


def write_clock(call: SessionCall, stage: ScenarioStage) -> str:
    """Write the text that changes every turn: the time and other facts."""
    more = TextGenerator(stage.scenario.seed).write(f"tail {call.turn}", max(12, stage.scenario.tail - 15))
    return f"It is {call.at:%A, %d %B %Y, %H:%M} (UTC).\n{more}"


def join_sections(told: Iterable[SectionText]) -> str:
    """Join sections into one text."""
    return "\n\n".join(f"## {one.part.title or one.part.id}\n{one.text}" for one in told)


@frozen
class OneStringDesign:
    """Everything in one system string that ends with a clock; a breakpoint on the newest message."""

    stage: ScenarioStage

    def write(self, call: SessionCall) -> Sequence[CacheBlock]:
        """Write a request with the turn's clock in the system string."""
        clock = write_clock(call, self.stage)
        system = make_cache_block("system", f"{join_sections(call.sections)}\n\n{clock}")
        blocks = [*self.stage.tools, system, *self.stage.converse(call.said)]
        return [*blocks[:-1], replace(blocks[-1], ttl="5m")]


@frozen
class SplitDesign:
    """A static part with the only breakpoint, and a dynamic part with the clock."""

    stage: ScenarioStage

    def write(self, call: SessionCall) -> Sequence[CacheBlock]:
        """Write a request."""
        static = [one for one in call.sections if one.part.pace is Pace.STATIC]
        dynamic = [one for one in call.sections if one.part.pace is not Pace.STATIC]
        clock = write_clock(call, self.stage)
        return [
            *self.stage.tools,
            make_cache_block("system", join_sections(static), "5m"),
            make_cache_block("system", f"{join_sections(dynamic)}\n\n{clock}"),
            *self.stage.converse(call.said),
        ]


T = TypeVar("T", CacheBlock, SentBlock)
NO_EDITS: Mapping[str, EditPolicy] = {}
SIMULATED_BLUEPRINT = Blueprint(name="simulated", marker="", marker_without_call="", slots=())


@frozen
class SimulatedModel:
    """A model with its cache rules, prices and token counter."""

    model: ModelFacts
    prices: Prices | None
    meter: Meter

    @property
    def cache(self) -> CacheFacts:
        """Its cache rules."""
        return self.model.cache


@frozen
class PreparedRequest:
    """A request without breakpoints."""

    blocks: tuple[CacheBlock, ...]
    sent: SentRequest
    stable: Sequence[int]  # the positions of the system blocks


class LedgerDesign:
    """Writes the requests of one session with a ledger."""

    def __init__(self, stage: ScenarioStage, service: SimulatedModel) -> None:
        self._stage = stage
        self._service = service
        self._layout = Layout(SIMULATED_BLUEPRINT, service.meter)
        self._tails: dict[int, str] = {}
        self._inserted: dict[int, str] = {}
        self.state: LedgerState | None = None
        self.decision: PrefixDecision | None = None
        self.decisions: list[PrefixDecision] = []
        self.breakpoints: list[tuple[Breakpoint, ...]] = []
        self.predicted: list[CacheUsage] = []

    def write(self, call: SessionCall) -> Sequence[CacheBlock]:
        """Write a request and record it as accepted."""
        prepared = self.prepare(call)
        return self.send(prepared, choose_breakpoints(self.state, prepared.sent, self._service.cache, prepared.stable))

    def prepare(self, call: SessionCall, edits: Mapping[str, EditPolicy] = NO_EDITS) -> PreparedRequest:
        """Decide what to send, without breakpoints; `edits` overrides the ledger's own choices."""
        stage, facts = self._stage, self._service.cache
        if call.first:
            moment = CacheContext(now=call.at, facts=facts, prices=self._service.prices)
            self.decision = decide_prefix(self.state, self.want(call, edits), moment)
            self.decisions.append(self.decision)
            self._tails[call.turn] = "".join(
                block.text for block in self.decision.prompt.blocks if block.placement is Placement.TAIL
            )
            self._inserted[call.turn] = self.decision.inserted
        decision = self.decision
        if decision is None:
            raise ValueError("a session must begin with the first call of a turn")
        system = [make_cache_block("system", block.text) for block in list_stable_blocks(decision.prompt.blocks)]
        blocks = (*stage.tools, *system, *stage.converse(call.said, self._tails, self._inserted))
        sent = SentRequest(
            model=self._service.model.name,
            pieces=make_sent_blocks(blocks, facts, self._service.meter.count),
            at=call.at,
            turn=str(call.turn),
        )
        return PreparedRequest(blocks=blocks, sent=sent, stable=range(len(stage.tools), len(stage.tools) + len(system)))

    def send(self, prepared: PreparedRequest, marks: tuple[Breakpoint, ...]) -> Sequence[CacheBlock]:
        """Add breakpoints to a request and record it as accepted."""
        facts, decision = self._service.cache, self.decision
        if decision is None:
            raise ValueError("prepare a request before sending it")
        self.breakpoints.append(marks)
        ttls = {one.at: one.ttl for one in marks}
        sent = replace(prepared.sent, pieces=set_breakpoints(prepared.sent.pieces, ttls))
        self.predicted.append(predict_usage(self.state, sent, facts))
        self.state = advance_ledger(self.state, decision, sent, facts)
        return set_breakpoints(prepared.blocks, ttls)

    def fork(self) -> "LedgerDesign":
        """Copy the session so that it can continue differently."""
        other = copy(self)
        for name in ("_tails", "_inserted", "decisions", "breakpoints", "predicted"):
            setattr(other, name, copy(getattr(self, name)))
        return other

    def want(self, call: SessionCall, edits: Mapping[str, EditPolicy]) -> WantedPrefix:
        """Return the prefix a call wants."""
        prefix = make_scripted_prefix(call.sections, self._service.meter)
        clock = write_clock(call, self._stage)
        span = Span("time", 0, len(clock), self._service.meter.count(clock))
        tail = Text(pace=Pace.TURN, placement=Placement.TAIL, text=clock, tokens=span.tokens, spans=(span,))
        before = self._stage.converse(call.said[:-1], self._tails, self._inserted) if call.first else ()
        return WantedPrefix(
            identity=CacheIdentity(clearance=Trust.FULL, model=self._service.model.name, tools="tools"),
            prompt=Prompt(blocks=(*render_blocks(prefix), tail)),
            prefix=prefix,
            layout=self._layout,
            edits=edits,
            said=tuple(block.text for block in before),
        )


def set_breakpoints(items: Sequence[T], ttls: Mapping[int, str]) -> tuple[T, ...]:
    """Set breakpoints on some blocks of a request."""
    marked = list(items)
    for at, ttl in ttls.items():
        one = marked[at]
        marked[at] = one._replace(ttl=ttl) if isinstance(one, SentBlock) else replace(one, ttl=ttl)
    return tuple(marked)


def make_scripted_prefix(sections: Sequence[SectionText], meter: Meter) -> Prefix:
    """Make a prefix from sections."""
    lines = []
    for one in sections:
        title = one.part.title or one.part.id
        text = f"## {title}\n{one.text}\n\n"
        line = SectionSnapshot(
            id=one.part.id,
            title=title,
            pace=one.part.pace,
            text=text,
            piece=text,
            tokens=meter.count(text),
            governs=one.part.governs,
            policy=one.policy,
        )
        lines.append(line)
    blocks = [tuple(line for line in lines if line.pace is pace) for pace in (Pace.STATIC, Pace.SESSION)]
    return Prefix(blocks=tuple(block for block in blocks if block))


def make_simulated_model(model: ModelFacts, prices: Prices | None) -> SimulatedModel:
    """Make a service from a model and its prices."""
    return SimulatedModel(model=model, prices=prices, meter=Meter(model, Counter(model.tokenizer)))
