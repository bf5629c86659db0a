"""The assembly: the result of a turn with all its inputs, and its report with one row per slot."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from foreword.engine.budget import Fit, FittedRun
from foreword.engine.cuts import FitInputs, Fitted
from foreword.engine.render import UPDATES_TITLE, Prompt, Span
from foreword.engine.selection import Plan
from foreword.engine.sources.sections import Missing, Passage, Section
from foreword.engine.sources.texts import FALLBACK_NOTE
from foreword.engine.trust import Audience, Clearance, find_audience
from foreword.envelope import (
    SHAPE_OF_PROVIDER,
    Envelope,
    EnvelopeContent,
    build_envelope,
    choose_block_ttls,
    count_cached_blocks,
)
from foreword.errors import InputError
from foreword.promptcache.ledger import Action, PrefixDecision
from foreword.tokens.count import Meter
from foreword.turn import NO_TOOLS, Toolset, Turn
from foreword.types import Mode, Pace, Placement, Trust, Verdict, frozen

TABLE_HEAD = ("slot", "pace", "needs", "tokens", "verdict", "why")


@frozen(eq=True)
class ReportRow:
    """One slot or section in the report."""

    id: str
    title: str
    pace: Pace
    placement: Placement
    trust: Trust
    verdict: Verdict
    reason: str
    tokens: int = 0
    wanted: int = 0
    source: str = ""
    sha256: str | None = None
    span: tuple[int, int] | None = None
    cached: bool = False


def write_row(row: ReportRow) -> dict[str, Any]:
    """Write a row in the format of the JSON schema."""
    return {
        "id": row.id,
        "title": row.title,
        "pace": str(row.pace),
        "placement": str(row.placement),
        "trust": str(row.trust),
        "verdict": str(row.verdict),
        "reason": row.reason,
        "tokens": row.tokens,
        "wanted_tokens": row.wanted,
        "source": row.source,
        "sha256": row.sha256,
        "span": list(row.span) if row.span else None,
    }


def write_table(head: str, rows: Sequence[ReportRow], foot: str) -> str:
    """Format rows as an aligned plain-text table."""
    shown = ((row.id, row.pace, row.trust, show_tokens(row), row.verdict, row.reason) for row in rows)
    cells = [TABLE_HEAD, *(tuple(map(str, line)) for line in shown)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(TABLE_HEAD) - 1)]
    lines = []
    for slot, pace, needs, tokens, verdict, why in cells:
        start = f" {slot:{widths[0]}}  {pace:{widths[1]}}  {needs:{widths[2]}}  {tokens:>{widths[3]}}"
        lines.append(f"{start}  {verdict:{widths[4]}}  {why}".rstrip())
    return "\n".join([head, "", *lines, "", f" {foot}"])


def show_tokens(row: ReportRow) -> str:
    """Return the tokens of a row, or a dash if it is not in the prompt."""
    return f"{row.tokens:,}" if row.span else "–"


ASSEMBLY_SCHEMA = "foreword/1"
UPDATES_ID = "updates"  # the span of the message about changes of the prompt


@frozen
class Assembly:
    """One assembled turn."""

    turn: Turn
    plan: Plan
    inputs: FitInputs
    message: str
    """The user's message as sent."""
    conversation: int
    """The tokens of the message and the history."""
    fit: Fit
    prompt: Prompt
    prefix_decision: PrefixDecision

    @property
    def clearance(self) -> Clearance:
        """The clearance of this turn, with its reason."""
        return self.plan.clearance

    @property
    def meter(self) -> Meter:
        """The token meter of the model."""
        return self.inputs.meter

    @property
    def tools(self) -> Toolset:
        """The tools that the turn offers."""
        return self.inputs.tools

    @property
    def audience(self) -> Audience:
        """The readers of the reply: the clearance, and the user if there is only one reader."""
        return find_audience(self.turn, self.plan.clearance.level)

    @property
    def system_tokens(self) -> int:
        """The tokens of the system budget that the cached part uses, tool schemas included."""
        return self.fit.tool_tokens + sum(block.tokens for block in self.prompt.blocks if block.pace is not Pace.TURN)

    @property
    def used(self) -> int:
        """The tokens of the window that the prompt uses: text and tool schemas."""
        return self.prompt.tokens + self.fit.tool_tokens

    @property
    def remaining(self) -> int:
        """The tokens of the window left after the prompt, the conversation and the reserve."""
        window = self.meter.facts.window
        return window - self.plan.blueprint.budget.get_answer_reserve(window) - self.used - self.conversation

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages of memory and files that the model got for the message, now or earlier in the session."""
        items = (one.item if isinstance(one, Fitted) else one for run in self.fit.runs for one in run.items)
        return tuple(passage for item in items for passage in item.passages)

    @property
    def marks(self) -> tuple[str | None, ...]:
        """The TTL of each block's cache breakpoint, or None."""
        return choose_block_ttls(self.prompt.blocks, self.meter.facts, self.fit.tool_tokens)

    def envelope(self, name: str = "") -> Envelope:
        """Return the request of this turn, in the shape of its model's provider unless another is named."""
        facts = self.meter.facts
        content = EnvelopeContent(
            prompt=self.prompt,
            marks=self.marks,
            model=facts.name.partition(":")[2] or facts.name,
            history=self.turn.history,
            message=self.message,
            tools=self.tools if facts.native_tools else NO_TOOLS,
            inserted=self.prefix_decision.inserted,
        )
        return build_envelope(content, name or SHAPE_OF_PROVIDER.get(facts.provider, "openai"))

    def rows(self, reader: Trust | None = None) -> Iterator[ReportRow]:
        """Yield one row per slot for a reader, without slots above their clearance; refuse one below the turn's."""
        level = self.clearance.level if reader is None else reader
        if level < self.clearance.level:
            raise InputError(f"this turn was assembled at {self.clearance.level}; a {level} reader may not see it")
        spans = {span.id: span for span in self.prompt.spans}
        decision, cached = self.prefix_decision, self.count_cached()
        # Sections that still have their sent text although their source has changed.
        changed = {one.id: "as sent earlier; an update carries the change" for one in decision.updates}
        held = (one for one in decision.decisions if one.action is Action.HOLD)
        changed |= {one.section: f"as sent earlier; the change {one.reason}" for one in held}
        for run in self.fit.runs:
            for row in list_run_rows(run, spans, cached, level):
                yield replace(row, reason=changed[row.id]) if row.id in changed else row
        yield from list_omitted_tools(self.inputs, level)
        if span := spans.get(UPDATES_ID):
            yield ReportRow(
                id=UPDATES_ID,
                title=UPDATES_TITLE,
                pace=Pace.TURN,
                placement=Placement.TAIL,
                trust=self.clearance.level,
                verdict=Verdict.KEPT,
                reason="changes since it was sent",
                tokens=span.tokens,
                wanted=span.tokens,
                span=(span.start, span.end),
            )

    def count_cached(self) -> int:
        """Count the characters that a provider can read from its cache in the next turn."""
        count = count_cached_blocks(self.prompt.blocks, self.meter.facts, self.fit.tool_tokens)
        return sum(len(block.text) for block in self.prompt.blocks[:count])

    def count_cached_tokens(self) -> int:
        """Count the tokens of the prefix that the provider caches: tool schemas and the leading stable blocks."""
        blocks, tools = self.prompt.blocks, self.fit.tool_tokens
        count = count_cached_blocks(blocks, self.meter.facts, tools)
        return tools + sum(block.tokens for block in blocks[:count]) if count else 0

    def count_losses(self) -> dict[str, Any]:
        """Count and name the shortened and dropped sections; empty if there are none."""
        items = (one for run in self.fit.runs for one in run.items)
        sections = [(one.id if isinstance(one, Missing) else one.item.id, one.verdict) for one in items]
        tools = [(f"tool:{name}", Verdict.DROPPED) for name in self.inputs.toolkit.left_out_names]
        lost = [one for one in (*sections, *tools) if one[1] in (Verdict.SHORTENED, Verdict.DROPPED)]
        counts = Counter(str(verdict) for _, verdict in lost)
        return {**counts, "lost": [name for name, _ in lost]} if lost else {}

    def explain(self, reader: Trust | None = None) -> str:
        """Explain the turn as a plain table."""
        head = f"clearance: {self.clearance.level}, because {self.clearance.reason}"
        return write_table(head, list(self.rows(reader)), self.summary)

    @property
    def summary(self) -> str:
        """Token use, window and cached blocks in one line."""
        facts = self.meter.facts
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
        sections = [write_row(row) for row in self.rows(reader)]
        return {**self.to_summary_dict(), "sections": sections, "blocks": self.list_block_dicts()}

    def to_summary_dict(self) -> dict[str, Any]:
        """Return the assembly without its sections and blocks: the inputs, the text and the token counts."""
        facts = self.meter.facts
        return {
            "schema": ASSEMBLY_SCHEMA,
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
            "tools": sha256("\n".join(self.tools.schemas).encode()).hexdigest(),
            "tokenizer": facts.tokenizer.value,
            "margin": facts.margin,
            "budget": {
                "window": facts.window,
                "system": self.fit.limit,
                "reserve": self.plan.blueprint.budget.get_answer_reserve(facts.window),
                "used": self.used,
                "remaining": self.remaining,
            },
        }

    def list_block_dicts(self) -> list[dict[str, Any]]:
        """Describe each block and its cache breakpoint."""
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


def list_run_rows(run: FittedRun, spans: Mapping[str, Span], cached: int, level: Trust) -> Iterator[ReportRow]:
    """Yield the rows of a run for a reader of this level."""
    for one in run.items:
        if isinstance(one, Missing):
            if one.trust <= level:
                yield ReportRow(
                    id=one.id,
                    title=one.slot.title,
                    pace=one.slot.pace,
                    placement=one.slot.placement,
                    trust=one.trust,
                    verdict=one.verdict,
                    reason=one.reason,
                )
        elif one.item.trust <= level and (one.item.text or one.item.opens or one.item.id in spans):
            yield make_section_row(one, spans.get(one.item.id), run, cached)


def list_omitted_tools(inputs: FitInputs, level: Trust) -> Iterator[ReportRow]:
    """Yield a row for each tool that is not offered because its schema does not fit."""
    for one in inputs.toolkit.left_out:
        if one.tool.trust <= level:
            yield ReportRow(
                id=f"tool:{one.tool.name}",
                title=one.tool.name,
                pace=Pace.STATIC,
                placement=Placement.SYSTEM,
                trust=one.tool.trust,
                verdict=Verdict.DROPPED,
                reason=f"tool schemas have {inputs.toolkit.limit:,} of {inputs.limit:,} tokens; wants {one.tokens:,}",
                wanted=one.tokens,
            )


def make_section_row(fitted: Fitted, span: Span | None, run: FittedRun, cached: int) -> ReportRow:
    """Build the row of a section; it is cached if its span ends within the cached characters."""
    section = fitted.item
    # A built-in text is named where a file could be.
    replaceable = fitted.verdict is Verdict.KEPT and section.entry.paths and section.origin.startswith("built-in")
    return ReportRow(
        id=section.id,
        title=section.title or section.slot.title,
        pace=run.pace,
        placement=run.placement,
        trust=section.trust,
        verdict=fitted.verdict,
        reason=fitted.reason or (section.origin if replaceable else ""),
        tokens=span.tokens if span else 0,
        wanted=fitted.wanted,
        source=section.origin,
        sha256=section.sha256 or sha256(section.text.encode()).hexdigest(),
        span=(span.start, span.end) if span else None,
        cached=span is not None and span.end <= cached,
    )


def list_unusable_files(assembly: Assembly) -> Iterator[str]:
    """Yield the unusable files that the turn may see, with their problems."""
    for one in list_sections(assembly):
        if one.note and (one.lost or one.broken or one.note.endswith(FALLBACK_NOTE)):
            yield f"{one.origin}: {one.note}" if one.note.startswith("its ") else one.note


def list_file_hints(assembly: Assembly) -> list[str]:
    """Return the hints of the prompt's files to the owner, each once."""
    hinted = [one.slot.hint for one in list_sections(assembly) if one.slot.hint in one.note]
    return [*dict.fromkeys(filter(None, hinted))] if assembly.clearance.level is Trust.FULL else []


def list_sections(assembly: Assembly) -> Iterator[Section]:
    """Yield the sections of the turn, dropped ones included."""
    items = (getattr(one, "item", one) for run in assembly.fit.runs for one in run.items)
    return (item for item in items if isinstance(item, Section))
