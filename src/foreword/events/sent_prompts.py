"""Sent prompts by content hash: each distinct text is stored once, and every sent prompt can be read back.

Sent prompts: their pieces, their hash, and their presentation. Lookup of a recorded turn by its id or the hash of its
prompt.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from foreword.assembly import ASSEMBLY_SCHEMA, Assembly, ReportRow, list_run_rows, write_row, write_table
from foreword.engine.budget import FittedRun
from foreword.engine.render import PromptBlock, Span
from foreword.engine.sources.sections import Missing
from foreword.events.event import EventType, Reader, build_visibility_condition, may_read_text
from foreword.events.log import EventLog, read_utc_now
from foreword.events.period import format_timestamp
from foreword.events.query import Filter, build_condition, choose_paths, find_turn_events, iterate_rows, lay_out_turn
from foreword.events.record import Record, read_record, replace_surrogates
from foreword.turn import Toolset
from foreword.types import Pace, Placement, Trust, Verdict, frozen

TEXT_KIND, TOOLS_KIND, REPORT_KIND = "text", "tools", "report"
INTERNAL_FACTS = ("blocks", "summary", "person")  # facts of a recorded prompt that are not part of its schema
MAX_CACHED_PIECES = 256  # cached blocks and runs; turns of a session share the same objects


@frozen(eq=True)
class PromptPiece:
    """One text of a prompt."""

    kind: str
    """`text` of a section, `tools` for a schema, `report` for rows of the table."""
    block: int
    name: str
    tokens: int
    text: str
    key: str = ""
    """The hash of the text. Each text is stored once."""


@frozen(eq=True)
class SentPrompt:
    """A recorded prompt, limited to what its reader may see."""

    hash: str
    facts: Mapping[str, Any]
    pieces: tuple[PromptPiece, ...]
    clearance: Trust
    """The reader's clearance. Rows of the table above it are hidden."""
    forgotten: bool = False
    """Whether parts were removed later and replaced by a marker."""

    @property
    def text(self) -> str:
        """The prompt exactly as sent."""
        return "".join(piece.text for piece in self.pieces if piece.kind == TEXT_KIND)

    @property
    def tools(self) -> tuple[Any, ...]:
        """The tool schemas that were sent with it."""
        return tuple(json.loads(piece.text) for piece in self.pieces if piece.kind == TOOLS_KIND)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks as sent, each with its cache breakpoint."""
        texts: dict[int, str] = {}
        for piece in self.pieces:
            if piece.kind == TEXT_KIND:
                texts[piece.block] = texts.get(piece.block, "") + piece.text
        return [{**block, "text": texts.get(at, "")} for at, block in enumerate(self.facts["blocks"])]

    @property
    def rows(self) -> list[ReportRow]:
        """The verdict for every slot that the reader may see."""
        rows = (parse_report_row(row) for one in self.pieces if one.kind == REPORT_KIND for row in json.loads(one.text))
        return [row for row in rows if row.trust <= self.clearance]

    def explain(self) -> str:
        """Return the table of the turn."""
        clearance = self.facts["clearance"]
        head = f"clearance: {clearance['level']}, because {clearance['reason']}"
        return write_table(head, self.rows, self.facts["summary"])

    def to_dict(self) -> dict[str, Any]:
        """Return the prompt in the schema of an assembly, with its hash."""
        facts = {name: value for name, value in self.facts.items() if name not in INTERNAL_FACTS}
        shown = {"schema": ASSEMBLY_SCHEMA, "hash": self.hash, "forgotten": self.forgotten, **facts, "text": self.text}
        return {**shown, "sections": [write_row(row) for row in self.rows], "blocks": self.blocks}


def hash_prompt(assembly: Assembly) -> str:
    """Return the hash of a turn's prompt and decisions. Frozen parts use cached hashes."""
    clearance, turn = assembly.clearance, assembly.turn
    parts = [
        assembly.terms.meter.facts.name,
        assembly.plan.blueprint.name,
        *(str(part) for part in (clearance.level, clearance.user, clearance.ceiling, clearance.reason, turn.agent)),
        assembly.audience.person,
        str(assembly.conversation),
        *assembly.terms.tools.schemas,
        *(str(ttl) for ttl in assembly.marks),
        *(hash_block(block) for block in assembly.prompt.blocks),
        *(hash_run(run, clearance.level) for run in assembly.fit.runs),
    ]
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=MAX_CACHED_PIECES)
def hash_block(block: PromptBlock) -> str:
    """Return the hash of a block."""
    spans = [(span.id, span.start, span.end, span.tokens) for span in block.spans]
    return hash_text(f"{block.pace}\0{block.placement}\0{spans}\0{block.text}")


@lru_cache(maxsize=MAX_CACHED_PIECES)
def hash_run(run: FittedRun, level: Trust) -> str:
    """Return the hash of a run's verdicts. Withheld slots must not change what the reader sees."""
    known = [one for one in run.items if (one.trust if isinstance(one, Missing) else one.item.trust) <= level]
    return hash_text(repr([(one.verdict, one.reason, getattr(one, "wanted", 0)) for one in known]))


def hash_text(text: str) -> str:
    """Return the hash of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def split_prompt(assembly: Assembly) -> Iterator[PromptPiece]:
    """Split an assembly into its texts. Pieces of unchanged blocks are cached."""
    for number, block in enumerate(assembly.prompt.blocks):
        yield from split_block(block, number)
    yield from split_tools(assembly.terms.tools)
    spans = {span.id: span for span in assembly.prompt.spans}
    cached = assembly.count_cached()
    for number, run in enumerate(assembly.fit.runs):
        names = (one.id if isinstance(one, Missing) else one.item.id for one in run.items)
        yield from split_report(run, number, tuple(spans[name] for name in names if name in spans), cached)


@lru_cache(maxsize=MAX_CACHED_PIECES)
def split_block(block: PromptBlock, number: int) -> tuple[PromptPiece, ...]:
    """Split a block into its sections and the text between them."""
    pieces, at = [], 0
    for span in block.spans:
        if span.start > at:
            pieces.append(make_piece(TEXT_KIND, number, block.text[at : span.start]))
        pieces.append(make_piece(TEXT_KIND, number, block.text[span.start : span.end], span.id, span.tokens))
        at = span.end
    if at < len(block.text):
        pieces.append(make_piece(TEXT_KIND, number, block.text[at:]))
    return tuple(pieces)


@lru_cache(maxsize=MAX_CACHED_PIECES)
def split_tools(tools: Toolset) -> tuple[PromptPiece, ...]:
    """Split a toolset into its schemas."""
    return tuple(
        make_piece(TOOLS_KIND, 0, text, tool.name) for tool, text in zip(tools.tools, tools.schemas, strict=True)
    )


@lru_cache(maxsize=MAX_CACHED_PIECES)
def split_report(run: FittedRun, number: int, spans: tuple[Span, ...], cached: int) -> tuple[PromptPiece, ...]:
    """Return the rows of one run in the table of a turn."""
    told = list_run_rows(run, {span.id: span for span in spans}, cached, Trust.FULL)
    rows = [{**write_row(row), "cached": row.cached} for row in told]
    return (make_piece(REPORT_KIND, number, json.dumps(rows, ensure_ascii=False)),) if rows else ()


def make_piece(kind: str, block: int, text: str, name: str = "", tokens: int = 0) -> PromptPiece:
    """Make a piece for storage. Characters that UTF-8 cannot encode are replaced."""
    text = replace_surrogates(text)
    return PromptPiece(
        kind=kind, block=block, name=replace_surrogates(name), tokens=tokens, text=text, key=hash_text(text)
    )


def describe_prompt(assembly: Assembly) -> dict[str, Any]:
    """Return the facts of an assembly that the pieces do not contain."""
    kept = {name: value for name, value in assembly.to_summary_dict().items() if name not in ("schema", "text")}
    blocks = [{name: value for name, value in block.items() if name != "text"} for block in assembly.list_block_dicts()]
    return {**kept, "blocks": blocks, "summary": assembly.summary, "person": assembly.audience.person}


def parse_report_row(row: Mapping[str, Any]) -> ReportRow:
    """Convert a stored row of the table."""
    return ReportRow(
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
        span=parse_span(row["span"]),
        cached=row["cached"],
    )


def parse_span(span: Sequence[int] | None) -> tuple[int, int] | None:
    """Convert the span of a row."""
    return (span[0], span[1]) if span else None


@frozen
class PendingPrompt:
    """A prompt to be written."""

    hash: str
    assembly: Assembly
    time: datetime


class PromptStore:
    """Stores sent prompts in the event log. A turn waits only for the hash; the log's thread writes the rest."""

    def __init__(self, log: EventLog, clock: Callable[[], datetime] = read_utc_now) -> None:
        self._log = log
        self._clock = clock

    def keep(self, assembly: Assembly) -> str:
        """Store the prompt of a turn and return the hash for its events."""
        sending = PendingPrompt(hash=hash_prompt(assembly), assembly=assembly, time=self._clock())
        self._log.record_prompt(lambda connection: write_prompt(connection, sending))
        return sending.hash


def write_prompt(connection: sqlite3.Connection, sending: PendingPrompt) -> None:
    """Write a prompt, or update its last use. The caller holds the transaction."""
    now = format_timestamp(sending.time)
    used = connection.execute("SELECT last_used FROM prompts WHERE hash = ?", (sending.hash,)).fetchone()
    if used:
        if used[0][:10] < now[:10]:  # one update per day is enough
            connection.execute("UPDATE prompts SET last_used = ? WHERE hash = ?", (now, sending.hash))
        return
    facts = replace_surrogates(json.dumps(describe_prompt(sending.assembly), ensure_ascii=False))
    row = connection.execute(
        "INSERT INTO prompts (hash, first_used, last_used, facts) VALUES (?, ?, ?, ?)", (sending.hash, now, now, facts)
    )
    pieces = list(split_prompt(sending.assembly))
    texts = find_text_rows(connection, pieces)
    rows = [
        (row.lastrowid, position, piece.kind, piece.block, piece.name, piece.tokens, texts[piece.key])
        for position, piece in enumerate(pieces)
    ]
    connection.executemany("INSERT INTO prompt_pieces VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def find_text_rows(connection: sqlite3.Connection, pieces: Sequence[PromptPiece]) -> dict[str, int]:
    """Return the row ids of the pieces' texts by hash. Insert missing texts."""
    texts = {piece.key: piece.text for piece in pieces}
    asked = "SELECT hash, id FROM sections WHERE hash IN (SELECT value FROM json_each(?))"
    found: dict[str, int] = dict(connection.execute(asked, (json.dumps(list(texts)),)).fetchall())
    for key, text in texts.items():
        if key not in found:
            made = connection.execute("INSERT INTO sections (hash, text) VALUES (?, ?)", (key, text)).lastrowid
            found[key] = made or 0
    return found


def find_prompts(connection: sqlite3.Connection, reader: Reader, turn: str) -> list[SentPrompt]:
    """Find the prompts of a turn in order. Turns of others are not found."""
    hashes = dict.fromkeys(record.prompt_hash for record in find_turn_events(connection, reader, turn).records)
    found = (read_prompt(connection, reader, each) for each in hashes if each)
    return [sent for sent in found if sent]


def find_prompt_at(connection: sqlite3.Connection, reader: Reader, moment: datetime) -> SentPrompt | None:
    """Find the last prompt sent before or at a time that the reader may see."""
    where, values = build_visibility_condition(reader)
    rows = connection.execute(
        "SELECT prompt_hash FROM events INDEXED BY idx_events_type WHERE event_type = 'prompt_built'"
        f" AND timestamp <= ? AND prompt_hash IS NOT NULL AND {where} ORDER BY timestamp DESC, id DESC",
        [format_timestamp(moment), *values],
    )
    return next((sent for row in rows if (sent := read_prompt(connection, reader, row[0]))), None)


def read_prompt(connection: sqlite3.Connection, reader: Reader, key: str) -> SentPrompt | None:
    """Read a prompt, or return None if it is above the reader's clearance or from another's private turn."""
    prompt = connection.execute("SELECT id, facts FROM prompts WHERE hash = ?", (key,)).fetchone()
    if prompt is None:
        return None
    facts = json.loads(prompt[1])
    if Trust[facts["clearance"]["level"].upper()] > reader.clearance:
        return None
    if not may_read_text(
        reader, facts.get("person", facts["clearance"]["user"])
    ):  # older prompts do not name the person
        return None
    rows = connection.execute(
        "SELECT kind, block, name, tokens, text, forgotten FROM prompt_pieces JOIN sections ON sections.id = section_id"
        " WHERE prompt_id = ? ORDER BY position",
        (prompt[0],),
    ).fetchall()
    pieces = [PromptPiece(kind=row[0], block=row[1], name=row[2], tokens=row[3], text=row[4]) for row in rows]
    return SentPrompt(
        hash=key,
        facts=facts,
        pieces=tuple(pieces),
        clearance=reader.clearance,
        forgotten=any(row[5] for row in rows),
    )


RECORDED_NAME = re.compile(r"[0-9a-f]{6,64}")  # of a turn id or a prompt hash
TURN_ID_DIGITS = 32  # digits of a turn id; a longer name is a prompt hash
PROMPT_BUILT_TYPE = EventType.PROMPT_BUILT.value


@frozen
class LoggedTurn:
    """A recorded turn."""

    turn: str
    records: tuple[Record, ...]
    sent: SentPrompt | None
    """The prompt of the turn, or None if it is not stored."""


def is_recorded_name(text: str) -> bool:
    """Return whether a text can be a turn id or a prompt hash."""
    return RECORDED_NAME.fullmatch(text.lower()) is not None


def find_recorded_turn(connection: sqlite3.Connection, reader: Reader, name: str) -> LoggedTurn | None:
    """Find a turn that the reader may see. A hidden turn is treated as missing."""
    name = name.lower()
    records = find_turn_events(connection, reader, name).records if len(name) <= TURN_ID_DIGITS else ()
    key = find_last_prompt(records)
    if not records and (built := find_turn_by_prompt(connection, reader, name)):
        records, key = find_turn_events(connection, reader, built.trace).records, built.prompt_hash
    if not records:
        return None
    return LoggedTurn(
        turn=records[0].trace, records=records, sent=read_prompt(connection, reader, key) if key else None
    )


def find_last_prompt(records: tuple[Record, ...]) -> str:
    """Return the hash of the turn's last prompt. Prompts of other agents are deeper in the tree."""
    built = [
        branch
        for branch in lay_out_turn(records)
        if branch.record.type == PROMPT_BUILT_TYPE and branch.record.prompt_hash
    ]
    least = min((branch.depth for branch in built), default=0)
    return next((branch.record.prompt_hash for branch in reversed(built) if branch.depth == least), "")


def find_turn_by_prompt(connection: sqlite3.Connection, reader: Reader, beginning: str) -> Record | None:
    """Find the newest visible turn whose prompt hash has a prefix."""
    wanted = Filter(type=PROMPT_BUILT_TYPE)
    where, values = build_condition(reader, wanted)
    (way,) = choose_paths(connection, reader, wanted)
    terms = f"{where} AND prompt_hash >= ? AND prompt_hash < ?"
    # No digit sorts as high as `g`, so this range contains every hash with the prefix.
    row = next(iterate_rows(connection, way, terms, [*values, beginning, f"{beginning}g"]), None)
    return read_record(row) if row else None
