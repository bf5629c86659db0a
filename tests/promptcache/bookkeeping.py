"""Sessions for the ledger's tests: sections as plain texts, requests as blocks, a provider with its own cache."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from foreword.engine.render import Layout, Prompt, Span
from foreword.engine.render import PromptBlock as Text
from foreword.promptcache.cache_usage import AnsweredRequest, account_for_call, choose_breakpoints
from foreword.promptcache.changes import WantedPrefix
from foreword.promptcache.decision import CacheContext, decide_prefix
from foreword.promptcache.designs import SIMULATED_BLUEPRINT, make_cache_block, set_breakpoints
from foreword.promptcache.ledger import (
    Action,
    CacheIdentity,
    Prefix,
    SectionSnapshot,
    SentRequest,
    advance_ledger,
    list_stable_blocks,
    make_sent_blocks,
    predict_usage,
    render_blocks,
)
from foreword.promptcache.rules import CacheBlock, PrefixCache
from foreword.testing import NOON
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import CacheFacts, find_model
from foreword.types import EditPolicy, Pace, Placement, Trust

SONNET = "anthropic:claude-sonnet-5"  # takes no system message in mid-conversation
OPUS = "anthropic:claude-opus-5"  # takes one
GPT = "openai:gpt-5.4"
MARKED_GPT = "openai:gpt-5.6"
GEMINI = "google:gemini-3-pro-preview"
LOCAL = "local:smollm2"
MODELS = (SONNET, OPUS, GPT, MARKED_GPT, GEMINI, LOCAL)


def lines(name, count=30):
    """Write a text of so many lines, each about ten tokens."""
    return "\n".join(f"{name} says on line {number} what it always says." for number in range(count))


def list_held(decision):
    """List the sections whose change is held."""
    return tuple(one.section for one in decision.decisions if one.action is Action.HOLD)


SECTIONS = {
    "core": (Pace.STATIC, lines("core")),
    "soul": (Pace.STATIC, lines("soul", 60)),
    "agents": (Pace.STATIC, lines("agents", 90)),
    "user": (Pace.SESSION, lines("user")),
    "overlay": (Pace.SESSION, lines("overlay", 20)),
    "menu": (Pace.SESSION, lines("menu", 20)),
}
GOVERNING = ("core", "overlay")
TOOLS = {f"tool_{number}": lines(f"tool {number}", 20) for number in range(6)}


def make_base(sections, meter, policies):
    """Make the snapshots of sections."""
    made = {}
    for name, (pace, body) in sections.items():
        text = f"## {name.title()}\n{body}\n\n"
        line = SectionSnapshot(id=name, title=name.title(), pace=pace, text=text, piece=text, tokens=meter.count(text),
                    governs=name in GOVERNING, policy=policies.get(name, EditPolicy.AUTO))  # fmt: skip
        made.setdefault(pace, []).append(line)
    return Prefix(blocks=tuple(tuple(made[pace]) for pace in sorted(made)))


@dataclass
class House:
    """One session and its surroundings, advanced by hand."""

    model: str = SONNET
    sections: dict = field(default_factory=lambda: dict(SECTIONS))
    tools: dict = field(default_factory=lambda: dict(TOOLS))
    policies: dict = field(default_factory=dict)
    edits: dict = field(default_factory=dict)
    withheld: frozenset = frozenset()
    clearance: Trust = Trust.FULL
    now: datetime = NOON
    facts: CacheFacts | None = None
    state = None
    decision = None
    turn: int = 0
    said: list = field(default_factory=list)
    """The conversation as blocks of the wire."""
    provider: PrefixCache | None = None
    compacted: bool = False
    moment: dict = field(default_factory=dict)
    """What the tail says of a turn beside the time: plan mode, what was recalled."""

    def __post_init__(self):
        self.meter = Meter(find_model(self.model, {}), Counter(find_model(self.model, {}).tokenizer))
        self.facts = self.facts or find_model(self.model, {}).cache
        self.layout = Layout(SIMULATED_BLUEPRINT, self.meter)
        self.provider = PrefixCache(lambda: self.now, self.meter.count)

    def become(self, model):
        """Use another model from now on."""
        self.model, self.facts = model, find_model(model, {}).cache

    def wait(self, seconds):
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def want(self):
        """Return the prompt that the next turn wants."""
        prefix = make_base(self.sections, self.meter, self.policies)
        clock = "\n\n".join([f"It is {self.now:%H:%M:%S}.", *self.moment.values()])
        span = Span("time", 0, len(clock), self.meter.count(clock))
        tail = Text(pace=Pace.TURN, placement=Placement.TAIL, text=clock, tokens=span.tokens, spans=(span,))
        return WantedPrefix(
            identity=CacheIdentity(clearance=self.clearance, model=self.model, tools=repr(sorted(self.tools.items()))),
            prompt=Prompt(blocks=(*render_blocks(prefix), tail)),
            prefix=prefix,
            layout=self.layout,
            edits=dict(self.edits),
            withheld=self.withheld,
            said=tuple(block.text for block in self.said),
            compacted=self.compacted,
        )

    def begin(self):
        """Begin a turn: compare, and add the newest message after the history."""
        self.turn += 1
        self.decision = decide_prefix(self.state, self.want(), CacheContext(now=self.now, facts=self.facts))
        for gone in self.decision.scrub:
            self.said = [replace_text(block, gone) for block in self.said]
        tail = "".join(b.text for b in self.decision.prompt.blocks if b.placement is Placement.TAIL)
        place = f"{len(self.said)} user"
        self.said += [make_cache_block(place, tail), make_cache_block(place, f"Message {self.turn}.")]
        if self.decision.inserted:
            self.said.append(make_cache_block(f"{len(self.said)} system", self.decision.inserted))
        return self.decision

    def request(self):
        """Make the blocks of the next request, without breakpoints."""
        tools = [make_cache_block(f"tool {name}", text) for name, text in self.tools.items()]
        system = [make_cache_block("system", block.text) for block in list_stable_blocks(self.decision.prompt.blocks)]
        return [*tools, *system, *self.said], range(len(tools), len(tools) + len(system))

    def send(self, blocks=None, marks=None):
        """Send a request unchanged, or with other blocks or breakpoints; return the request and its usage."""
        own, stable = self.request()
        blocks = own if blocks is None else blocks
        sent = SentRequest(model=self.model, pieces=make_sent_blocks(blocks, self.facts, self.meter.count), at=self.now,
                    turn=str(self.turn))  # fmt: skip
        if marks is None:
            marks = {one.at: one.ttl for one in choose_breakpoints(self.state, sent, self.facts, stable)}
        sent = replace(sent, pieces=set_breakpoints(sent.pieces, marks))
        self.marks = marks
        self.predicted = predict_usage(self.state, sent, self.facts)
        counted = self.provider.use(self.model, set_breakpoints(blocks, marks), self.facts)
        self.account = account_for_call(
            self.state, AnsweredRequest(prefix=self.decision.prefix, sent=sent, reported=counted), self.facts
        )
        self.state = advance_ledger(self.state, self.decision, sent, self.facts)
        self.compacted = False
        return counted

    def answer(self, calls=0):
        """Let the model answer, with so many calls of tools at once and their results."""
        at = len(self.said)
        if not calls:
            self.said.append(make_cache_block(f"{at} assistant", f"Answer {self.turn}."))
            return
        self.said += [make_cache_block(f"{at} assistant", f"call {self.turn}.{number}") for number in range(calls)]
        self.said += [
            make_cache_block(f"{at + calls} user", f"result {self.turn}.{at}.{number}") for number in range(calls)
        ]

    def talk(self, *loops):
        """Have a whole turn, with tool loops of so many calls at once."""
        self.begin()
        counted = self.send()
        for calls in loops:
            self.answer(calls)
            self.wait(5)
            counted = self.send()
        self.answer()
        return counted

    def edit(self, name, old="line 3 ", new="line three "):
        """Edit a section."""
        pace, text = self.sections[name]
        self.sections[name] = (pace, text.replace(old, new, 1))


def replace_text(block, gone):
    """Take a text out of a block."""
    if gone not in block.text:
        return block
    return CacheBlock(key=block.key.replace(gone, "…"), text=block.text.replace(gone, "…"), name=block.name)
