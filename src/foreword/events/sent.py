"""A sent prompt: its pieces, the hash it is known by, and how it is shown again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from foreword.assembly import SCHEMA, Assembly, tell_run
from foreword.budget import FittedRun
from foreword.events.row import clean
from foreword.frozen import frozen
from foreword.render import Block, Span
from foreword.report import Row, draw_table, show_row
from foreword.sources import Missing
from foreword.turn import Toolset
from foreword.words import Pace, Placement, Trust, Verdict

TEXT, TOOLS, REPORT = "text", "tools", "report"
INTERNAL = ("blocks", "summary", "person")  # facts of a recorded prompt that its schema does not have
REMEMBERED = 256  # blocks and runs that are remembered: those of a session are the same objects in every turn


@frozen(eq=True)
class Piece:
    """One text that a prompt is made of."""

    kind: str
    """`text` of a section, `tools` for a schema, `report` for rows of the table."""
    block: int
    name: str
    tokens: int
    text: str
    key: str = ""
    """The hash of its text, under which that is kept once."""


@frozen(eq=True)
class Sent:
    """A recorded prompt as its reader may see it."""

    hash: str
    facts: Mapping[str, Any]
    pieces: tuple[Piece, ...]
    clearance: Trust
    """The reader's; rows of the table above it are not told."""
    forgotten: bool = False
    """Whether some of it was removed since, with a word in its place."""

    @property
    def text(self) -> str:
        """The prompt, exactly as it was sent."""
        return "".join(piece.text for piece in self.pieces if piece.kind == TEXT)

    @property
    def tools(self) -> tuple[Any, ...]:
        """The tool schemas that travelled beside it."""
        return tuple(json.loads(piece.text) for piece in self.pieces if piece.kind == TOOLS)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks as they were sent, each with its cache mark."""
        texts: dict[int, str] = {}
        for piece in self.pieces:
            if piece.kind == TEXT:
                texts[piece.block] = texts.get(piece.block, "") + piece.text
        return [{**block, "text": texts.get(at, "")} for at, block in enumerate(self.facts["blocks"])]

    @property
    def rows(self) -> list[Row]:
        """What became of every slot that the reader may know of."""
        rows = (read_row(row) for one in self.pieces if one.kind == REPORT for row in json.loads(one.text))
        return [row for row in rows if row.trust <= self.clearance]

    def explain(self) -> str:
        """Explain the turn as the table that it had."""
        clearance = self.facts["clearance"]
        head = f"clearance: {clearance['level']}, because {clearance['reason']}"
        return draw_table(head, self.rows, self.facts["summary"])

    def to_dict(self) -> dict[str, Any]:
        """Return the prompt in the schema of an assembly, with its hash."""
        facts = {name: value for name, value in self.facts.items() if name not in INTERNAL}
        shown = {"schema": SCHEMA, "hash": self.hash, "forgotten": self.forgotten, **facts, "text": self.text}
        return {**shown, "sections": [show_row(row) for row in self.rows], "blocks": self.blocks}


def identify(assembly: Assembly) -> str:
    """Return the hash of what a turn sends and of how it came about, quickly: what is frozen is not read again."""
    clearance, turn = assembly.clearance, assembly.turn
    parts = [
        assembly.terms.meter.facts.name,
        assembly.plan.blueprint.name,
        *(str(part) for part in (clearance.level, clearance.user, clearance.ceiling, clearance.reason, turn.agent)),
        assembly.audience.person,
        str(assembly.conversation),
        *assembly.terms.tools.schemas,
        *(str(ttl) for ttl in assembly.marks),
        *(digest_block(block) for block in assembly.prompt.blocks),
        *(digest_run(run, clearance.level) for run in assembly.fit.runs),
    ]
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=REMEMBERED)
def digest_block(block: Block) -> str:
    """Return the hash of a block."""
    spans = [(span.id, span.start, span.end, span.tokens) for span in block.spans]
    return hash_text(f"{block.pace}\0{block.placement}\0{spans}\0{block.text}")


@lru_cache(maxsize=REMEMBERED)
def digest_run(run: FittedRun, level: Trust) -> str:
    """Return the hash of what became of the slots of a run; what was withheld must not move what its reader sees."""
    known = [one for one in run.items if (one.trust if isinstance(one, Missing) else one.item.trust) <= level]
    return hash_text(repr([(one.verdict, one.reason, getattr(one, "wanted", 0)) for one in known]))


def hash_text(text: str) -> str:
    """Return the hash of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def take_apart(assembly: Assembly) -> Iterator[Piece]:
    """Take an assembly apart into the texts it is made of; what earlier turns had as well is not cut again."""
    for number, block in enumerate(assembly.prompt.blocks):
        yield from cut_block(block, number)
    yield from cut_tools(assembly.terms.tools)
    spans = {span.id: span for span in assembly.prompt.spans}
    cached = assembly.count_cached()
    for number, run in enumerate(assembly.fit.runs):
        names = (one.id if isinstance(one, Missing) else one.item.id for one in run.items)
        yield from cut_report(run, number, tuple(spans[name] for name in names if name in spans), cached)


@lru_cache(maxsize=REMEMBERED)
def cut_block(block: Block, number: int) -> tuple[Piece, ...]:
    """Cut a block into its sections and what stands between them."""
    pieces, at = [], 0
    for span in block.spans:
        if span.start > at:
            pieces.append(make_piece(TEXT, number, block.text[at : span.start]))
        pieces.append(make_piece(TEXT, number, block.text[span.start : span.end], span.id, span.tokens))
        at = span.end
    if at < len(block.text):
        pieces.append(make_piece(TEXT, number, block.text[at:]))
    return tuple(pieces)


@lru_cache(maxsize=REMEMBERED)
def cut_tools(tools: Toolset) -> tuple[Piece, ...]:
    """Cut a toolset into its schemas."""
    return tuple(make_piece(TOOLS, 0, text, tool.name) for tool, text in zip(tools.tools, tools.schemas, strict=True))


@lru_cache(maxsize=REMEMBERED)
def cut_report(run: FittedRun, number: int, spans: tuple[Span, ...], cached: int) -> tuple[Piece, ...]:
    """Cut out of the table of a turn what it says of one run."""
    told = tell_run(run, {span.id: span for span in spans}, cached, Trust.FULL)
    rows = [{**show_row(row), "cached": row.cached} for row in told]
    return (make_piece(REPORT, number, json.dumps(rows, ensure_ascii=False)),) if rows else ()


def make_piece(kind: str, block: int, text: str, name: str = "", tokens: int = 0) -> Piece:
    """Make a piece as it is kept: what cannot be written as UTF-8 is replaced."""
    text = clean(text)
    return Piece(kind=kind, block=block, name=clean(name), tokens=tokens, text=text, key=hash_text(text))


def describe(assembly: Assembly) -> dict[str, Any]:
    """Describe what the pieces do not say."""
    kept = {name: value for name, value in assembly.tell_facts().items() if name not in ("schema", "text")}
    blocks = [{name: value for name, value in block.items() if name != "text"} for block in assembly.tell_blocks()]
    return {**kept, "blocks": blocks, "summary": assembly.summary, "person": assembly.audience.person}


def read_row(row: Mapping[str, Any]) -> Row:
    """Read a row of the table again."""
    return Row(
        id=row["id"],
        title=row["title"],
        pace=Pace[row["pace"].upper()],
        placement=Placement(row["placement"]),
        trust=Trust[row["trust"].upper()],
        verdict=Verdict(row["verdict"]),
        reason=row["reason"],
        tokens=row["tokens"],
        wanted=row["wanted_tokens"],
        source=row["source"],
        sha256=row["sha256"],
        span=read_span(row["span"]),
        cached=row["cached"],
    )


def read_span(span: Sequence[int] | None) -> tuple[int, int] | None:
    """Read the span of a row."""
    return (span[0], span[1]) if span else None
