"""The assembly: everything one turn was made of; explain, diff and the tests are views of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from foreword.blueprint import Plan
from foreword.budget import Fit, Fitted, FittedRun
from foreword.budget.verdict import Terms
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.ledger import Deed, Standing
from foreword.render import Prompt, Span
from foreword.render.layout import UPDATES
from foreword.report import Row, draw_table, show_row
from foreword.sources import Missing
from foreword.sources.passage import Passage
from foreword.trust import Audience, Clearance, find_audience
from foreword.turn import NO_TOOLS, Turn
from foreword.wire import Envelope, count_cached, mark, shape
from foreword.wire.envelope import PROVIDERS, Letter
from foreword.words import Mode, Pace, Placement, Trust, Verdict

SCHEMA = "foreword/1"
TOLD = "updates"  # the span of what is said about the prompt with a message


@frozen
class Assembly:
    """One assembled turn."""

    turn: Turn
    plan: Plan
    terms: Terms
    message: str
    """The person's words as they are sent."""
    conversation: int
    """What the message and the history weigh."""
    fit: Fit
    prompt: Prompt
    standing: Standing

    @property
    def clearance(self) -> Clearance:
        """The level this turn was assembled at, and why."""
        return self.plan.clearance

    @property
    def audience(self) -> Audience:
        """Who reads the reply: the clearance, and the person where nobody else does."""
        return find_audience(self.turn, self.plan.clearance.level)

    @property
    def system_tokens(self) -> int:
        """What the cached part uses of the system budget, tool schemas included."""
        return self.fit.tool_tokens + sum(block.tokens for block in self.prompt.blocks if block.pace is not Pace.TURN)

    @property
    def used(self) -> int:
        """What the prompt uses of the window: text and tool schemas."""
        return self.prompt.tokens + self.fit.tool_tokens

    @property
    def remaining(self) -> int:
        """What is left of the window after the prompt, the conversation and the reserve."""
        window = self.terms.meter.facts.window
        return window - self.plan.blueprint.budget.keep_back(window) - self.used - self.conversation

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages of memory and files that the model was given for the message, now or earlier in the session."""
        items = (one.item if isinstance(one, Fitted) else one for run in self.fit.runs for one in run.items)
        return tuple(passage for item in items for passage in item.passages)

    @property
    def marks(self) -> tuple[str | None, ...]:
        """The cache mark of each block."""
        return mark(self.prompt.blocks, self.terms.meter.facts, self.fit.tool_tokens)

    def envelope(self, name: str = "") -> Envelope:
        """Return the request for this turn, in the shape of its model's provider unless another is named."""
        facts = self.terms.meter.facts
        letter = Letter(
            prompt=self.prompt,
            marks=self.marks,
            model=facts.name.partition(":")[2] or facts.name,
            history=self.turn.history,
            message=self.message,
            tools=self.terms.tools if facts.native_tools else NO_TOOLS,
            inserted=self.standing.inserted,
        )
        return shape(letter, name or PROVIDERS.get(facts.provider, "openai"))

    def rows(self, reader: Trust | None = None) -> Iterator[Row]:
        """Tell a reader what became of every slot; what they are not cleared for is not mentioned."""
        level = self.admit(reader)
        spans = {span.id: span for span in self.prompt.spans}
        cached, changed = self.count_cached(), dict(tell_changed(self.standing))
        for run in self.fit.runs:
            for row in tell_run(run, spans, cached, level):
                yield replace(row, reason=changed[row.id]) if row.id in changed else row
        yield from tell_left_out(self.terms, level)
        if told := spans.get(TOLD):
            yield tell_updates(told, self.clearance.level)

    def count_cached(self) -> int:
        """Count the characters that a provider can read from its cache on the next turn."""
        count = count_cached(self.prompt.blocks, self.terms.meter.facts, self.fit.tool_tokens)
        return sum(len(block.text) for block in self.prompt.blocks[:count])

    def admit(self, reader: Trust | None) -> Trust:
        """Return the level of a reader, or refuse one who is below the turn itself."""
        level = self.clearance.level if reader is None else reader
        if level < self.clearance.level:
            raise InputError(f"this turn was assembled at {self.clearance.level}; a {level} reader may not see it")
        return level

    def count_losses(self) -> dict[str, Any]:
        """Count the sections that were shortened and dropped, and name them; nothing where none was."""
        sections = [(item_id(one), one.verdict) for run in self.fit.runs for one in run.items]
        tools = [(f"tool:{name}", Verdict.DROPPED) for name in self.terms.toolkit.left_out_names]
        lost = [one for one in (*sections, *tools) if one[1] in (Verdict.SHORTENED, Verdict.DROPPED)]
        counts = Counter(str(verdict) for _, verdict in lost)
        return {**counts, "lost": [name for name, _ in lost]} if lost else {}

    def explain(self, reader: Trust | None = None) -> str:
        """Explain the turn as a plain table."""
        head = f"clearance: {self.clearance.level}, because {self.clearance.reason}"
        return draw_table(head, list(self.rows(reader)), self.summary)

    @property
    def summary(self) -> str:
        """What the prompt uses, of what, and how it is cached, in one line."""
        facts = self.terms.meter.facts
        marked = sum(ttl is not None for ttl in self.marks)
        blocks = f" in {marked} cached block{'' if marked == 1 else 's'}" if marked else ""
        tools = f" (tool schemas {self.fit.tool_tokens:,})" if self.fit.tool_tokens else ""
        parts = [
            f"system {self.system_tokens:,} of {self.fit.limit:,} tokens{tools}{blocks}",
            f"turn {self.used - self.system_tokens:,}",
            f"window {facts.window:,}",
            f"prompt mode {self.plan.mode}" if self.plan.mode is not Mode.FULL else "",
            facts.method,
            facts.assumed,
        ]
        return " · ".join(filter(None, parts))

    def to_dict(self, reader: Trust | None = None) -> dict[str, Any]:
        """Return the whole assembly as JSON-ready values, in a stable schema."""
        sections = [show_row(row) for row in self.rows(reader)]
        return {**self.tell_facts(), "sections": sections, "blocks": self.tell_blocks()}

    def tell_facts(self) -> dict[str, Any]:
        """Tell all of it but its parts: what the prompt was made for and by, and what it weighs."""
        facts = self.terms.meter.facts
        return {
            "schema": SCHEMA,
            "blueprint": self.plan.blueprint.name,
            "model": facts.name,
            "clearance": {
                "level": str(self.clearance.level),
                "user": self.clearance.user,
                "ceiling": str(self.clearance.ceiling),
                "reason": self.clearance.reason,
            },
            "text": self.prompt.text,
            "tokens": self.prompt.tokens,
            "tools": sha256("\n".join(self.terms.tools.schemas).encode()).hexdigest(),
            "tokenizer": facts.tokenizer.value,
            "margin": facts.margin,
            "budget": {
                "window": facts.window,
                "system": self.fit.limit,
                "reserve": self.plan.blueprint.budget.keep_back(facts.window),
                "used": self.used,
                "remaining": self.remaining,
            },
        }

    def tell_blocks(self) -> list[dict[str, Any]]:
        """Tell of each block what it is and how it is cached."""
        return [
            {
                "pace": str(block.pace),
                "placement": str(block.placement),
                "text": block.text,
                "tokens": block.tokens,
                "cache": {"ttl": ttl} if ttl else None,
            }
            for block, ttl in zip(self.prompt.blocks, self.marks, strict=True)
        ]


def tell_run(run: FittedRun, spans: Mapping[str, Span], cached: int, level: Trust) -> Iterator[Row]:
    """Tell a reader of this level what became of the slots of a run."""
    for one in run.items:
        if isinstance(one, Missing):
            if one.trust <= level:
                yield tell_missing(one)
        elif one.item.trust <= level and (one.item.text or one.item.opens or one.item.id in spans):
            yield tell_section(one, spans.get(one.item.id), run, cached)


def item_id(item: Fitted | Missing) -> str:
    """Return the id of an item of a fitted run."""
    return item.id if isinstance(item, Missing) else item.item.id


def tell_left_out(terms: Terms, level: Trust) -> Iterator[Row]:
    """Tell a reader of this level which tools the turn is not offered because their schemas do not fit."""
    for one in terms.toolkit.left_out:
        if one.tool.trust <= level:
            yield Row(
                id=f"tool:{one.tool.name}",
                title=one.tool.name,
                pace=Pace.STATIC,
                placement=Placement.SYSTEM,
                trust=one.tool.trust,
                verdict=Verdict.DROPPED,
                reason=f"tool schemas have {terms.toolkit.limit:,} of {terms.limit:,} tokens; wants {one.tokens:,}",
                wanted=one.tokens,
            )


def tell_changed(standing: Standing) -> Iterator[tuple[str, str]]:
    """Tell of each section that stands as it was sent why that is not what it says by now."""
    for update in standing.updates:
        yield update.id, "as it was sent; what changed since stands in an update"
    for one in standing.decisions:
        if one.deed is Deed.HOLD:
            yield one.section, f"as it was sent; what changed since {one.reason}"


def tell_updates(span: Span, level: Trust) -> Row:
    """Tell of what is said about the prompt with this message."""
    return Row(
        id=TOLD,
        title=UPDATES,
        pace=Pace.TURN,
        placement=Placement.TAIL,
        trust=level,
        verdict=Verdict.KEPT,
        reason="what changed since it was sent",
        tokens=span.tokens,
        wanted=span.tokens,
        span=(span.start, span.end),
    )


def tell_missing(missing: Missing) -> Row:
    """Tell a reader of a slot that has no text."""
    return Row(
        id=missing.id,
        title=missing.slot.title,
        pace=missing.slot.pace,
        placement=missing.slot.placement,
        trust=missing.trust,
        verdict=missing.verdict,
        reason=missing.reason,
    )


def is_built_in(fitted: Fitted) -> bool:
    """Whether a text of ours stands where a file could."""
    section = fitted.item
    return fitted.verdict is Verdict.KEPT and bool(section.entry.paths) and section.origin.startswith("built-in")


def tell_section(fitted: Fitted, span: Span | None, run: FittedRun, cached: int) -> Row:
    """Tell a reader what became of a section, and whether it stands among the characters that are cached."""
    section = fitted.item
    return Row(
        id=section.id,
        title=section.title or section.slot.title,
        pace=run.pace,
        placement=run.placement,
        trust=section.trust,
        verdict=fitted.verdict,
        reason=fitted.reason or (section.origin if is_built_in(fitted) else ""),
        tokens=span.tokens if span else 0,
        wanted=fitted.wanted,
        source=section.origin,
        sha256=section.sha256 or sha256(section.text.encode()).hexdigest(),
        span=(span.start, span.end) if span else None,
        cached=span is not None and span.end <= cached,
    )
