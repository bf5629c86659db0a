"""Sent prompts by content hash: each distinct text is stored once, and every sent prompt can be read back."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from foreword.assembly import ASSEMBLY_SCHEMA, Assembly, ReportRow, list_run_rows, write_row, write_table
from foreword.engine.sources.sections import Missing
from foreword.events.event import (
    EventType,
    Reader,
    format_timestamp,
    may_read_text,
    read_utc_now,
)
from foreword.events.log import EventLog
from foreword.events.period import Period
from foreword.events.query import Filter, find_turn_events, iterate_rows, lay_out_turn
from foreword.events.record import Record, read_record, replace_surrogates
from foreword.types import Pace, Placement, Trust, Verdict, frozen

TEXT_KIND, TOOLS_KIND, REPORT_KIND = "text", "tools", "report"
INTERNAL_FACTS = ("blocks", "summary", "person")  # facts of a recorded prompt that are not part of its schema


@frozen(eq=True)
class PromptPiece:
    """One text of a prompt."""

    kind: str  # `text` of a section, `tools` for a schema, `report` for rows of the table
    block: int
    name: str
    tokens: int
    text: str
    key: str = ""  # the hash of the text; each text is stored once


@frozen(eq=True)
class SentPrompt:
    """A recorded prompt, limited to what its reader may see."""

    hash: str
    facts: Mapping[str, Any]
    pieces: tuple[PromptPiece, ...]
    clearance: Trust  # the reader's clearance; rows of the table above it are hidden
    forgotten: bool = False  # whether parts were removed later and replaced by a marker

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
        texts = [(piece.block, piece.text) for piece in self.pieces if piece.kind == TEXT_KIND]
        return [
            {**block, "text": "".join(text for number, text in texts if number == at)}
            for at, block in enumerate(self.facts["blocks"])
        ]

    @property
    def rows(self) -> list[ReportRow]:
        """The verdict for every slot that the reader may see."""
        reports = (json.loads(piece.text) for piece in self.pieces if piece.kind == REPORT_KIND)
        return [row for report in reports for row in map(parse_report_row, report) if row.trust <= self.clearance]

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
    """Return the hash of a turn's prompt and decisions."""
    clearance, turn = assembly.clearance, assembly.turn
    parts = [
        assembly.meter.facts.name,
        assembly.plan.blueprint.name,
        *(str(part) for part in (clearance.level, clearance.user, clearance.ceiling, clearance.reason, turn.agent)),
        assembly.audience.person,
        str(assembly.conversation),
        *assembly.tools.schemas,
        *(str(ttl) for ttl in assembly.marks),
    ]
    for block in assembly.prompt.blocks:
        spans = [(span.id, span.start, span.end, span.tokens) for span in block.spans]
        parts.append(hash_text(f"{block.pace}\0{block.placement}\0{spans}\0{block.text}"))
    for run in assembly.fit.runs:  # withheld slots must not change what the reader sees
        trusts = [each.trust if isinstance(each, Missing) else each.item.trust for each in run.items]
        visible = [each for each, trust in zip(run.items, trusts, strict=True) if trust <= clearance.level]
        verdicts = [(each.verdict, each.reason, getattr(each, "wanted", 0)) for each in visible]
        parts.append(hash_text(repr(verdicts)))
    return hash_text("\0".join(parts))


def hash_text(text: str) -> str:
    """Return the hash of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def split_prompt(assembly: Assembly) -> Iterator[PromptPiece]:
    """Split an assembly into its texts: sections and the text between them, tool schemas, and rows of the table."""
    for number, block in enumerate(assembly.prompt.blocks):
        end = 0
        for span in block.spans:
            if span.start > end:
                yield make_piece(TEXT_KIND, number, block.text[end : span.start])
            yield make_piece(TEXT_KIND, number, block.text[span.start : span.end], span.id, span.tokens)
            end = span.end
        if end < len(block.text):
            yield make_piece(TEXT_KIND, number, block.text[end:])
    tools = assembly.tools
    for tool, schema in zip(tools.tools, tools.schemas, strict=True):
        yield make_piece(TOOLS_KIND, 0, schema, tool.name)
    spans = {span.id: span for span in assembly.prompt.spans}
    for number, run in enumerate(assembly.fit.runs):
        rows = list_run_rows(run, spans, assembly.count_cached(), Trust.FULL)
        if written := [{**write_row(row), "cached": row.cached} for row in rows]:
            yield make_piece(REPORT_KIND, number, json.dumps(written, ensure_ascii=False))


def make_piece(kind: str, block: int, text: str, name: str = "", tokens: int = 0) -> PromptPiece:
    """Make a piece for storage. Characters that UTF-8 cannot encode are replaced."""
    name, text = replace_surrogates(name), replace_surrogates(text)
    return PromptPiece(kind=kind, block=block, name=name, tokens=tokens, text=text, key=hash_text(text))


def describe_prompt(assembly: Assembly) -> dict[str, Any]:
    """Return the facts of an assembly that the pieces do not contain."""
    facts = {name: value for name, value in assembly.to_summary_dict().items() if name not in ("schema", "text")}
    blocks = [{name: value for name, value in block.items() if name != "text"} for block in assembly.list_block_dicts()]
    return {**facts, "blocks": blocks, "summary": assembly.summary, "person": assembly.audience.person}


def parse_report_row(row: Mapping[str, Any]) -> ReportRow:
    """Convert a stored row of the table."""
    values = {name: row[name] for name in ("id", "title", "reason", "tokens", "source", "sha256", "cached")}
    return ReportRow(
        **values,
        pace=Pace[row["pace"].upper()],
        placement=Placement(row["placement"]),
        trust=Trust[row["trust"].upper()],
        verdict=Verdict(row["verdict"]),
        wanted=row["wanted_tokens"],
        span=(row["span"][0], row["span"][1]) if row["span"] else None,
    )


class PromptStore:
    """Stores sent prompts in the event log. A turn waits only for the hash; the log's thread writes the rest."""

    def __init__(self, log: EventLog, clock: Callable[[], datetime] = read_utc_now) -> None:
        self._log, self._clock = log, clock

    def keep(self, assembly: Assembly) -> str:
        """Store the prompt of a turn and return the hash for its events."""
        key, time = hash_prompt(assembly), self._clock()
        self._log.record_prompt(lambda connection: write_prompt(connection, key, assembly, time))
        return key


def write_prompt(connection: sqlite3.Connection, key: str, assembly: Assembly, time: datetime) -> None:
    """Write a prompt, or update its last use. The caller holds the transaction."""
    now = format_timestamp(time)
    used = connection.execute("SELECT last_used FROM prompts WHERE hash = ?", (key,)).fetchone()
    if used:
        if used[0][:10] < now[:10]:  # one update per day is enough
            connection.execute("UPDATE prompts SET last_used = ? WHERE hash = ?", (now, key))
        return
    facts = replace_surrogates(json.dumps(describe_prompt(assembly), ensure_ascii=False))
    row = connection.execute(
        "INSERT INTO prompts (hash, first_used, last_used, facts) VALUES (?, ?, ?, ?)", (key, now, now, facts)
    )
    pieces = list(split_prompt(assembly))
    texts = {piece.key: piece.text for piece in pieces}
    connection.executemany(
        "INSERT INTO sections (hash, text) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", texts.items()
    )
    rows = [
        (row.lastrowid, position, piece.kind, piece.block, piece.name, piece.tokens, piece.key)
        for position, piece in enumerate(pieces)
    ]
    section = "(SELECT id FROM sections WHERE hash = ?)"
    connection.executemany(f"INSERT INTO prompt_pieces VALUES (?, ?, ?, ?, ?, ?, {section})", rows)


def find_prompts(connection: sqlite3.Connection, reader: Reader, turn: str) -> list[SentPrompt]:
    """Find the prompts of a turn in order. Turns of others are not found."""
    hashes = dict.fromkeys(record.prompt_hash for record in find_turn_events(connection, reader, turn).records)
    found = (read_prompt(connection, reader, each) for each in hashes if each)
    return [sent for sent in found if sent]


def find_prompt_at(connection: sqlite3.Connection, reader: Reader, moment: datetime) -> SentPrompt | None:
    """Find the last prompt sent before or at a time that the reader may see."""
    query = Filter(type=EventType.PROMPT_BUILT.value, period=Period(until=moment + timedelta(microseconds=1)))
    rows = iterate_rows(connection, reader, query, "AND prompt_hash IS NOT NULL")
    found = (read_prompt(connection, reader, read_record(row).prompt_hash) for row in rows)
    return next(filter(None, found), None)


def read_prompt(connection: sqlite3.Connection, reader: Reader, key: str) -> SentPrompt | None:
    """Read a prompt, or return None if it is above the reader's clearance or from another's private turn."""
    prompt = connection.execute("SELECT id, facts FROM prompts WHERE hash = ?", (key,)).fetchone()
    if prompt is None:
        return None
    facts = json.loads(prompt[1])
    if Trust[facts["clearance"]["level"].upper()] > reader.clearance:
        return None
    if not may_read_text(reader, facts.get("person", facts["clearance"]["user"])):  # older prompts lack the person
        return None
    rows = connection.execute(
        "SELECT kind, block, name, tokens, text, forgotten FROM prompt_pieces JOIN sections ON sections.id = section_id"
        " WHERE prompt_id = ? ORDER BY position",
        (prompt[0],),
    ).fetchall()
    names = ("kind", "block", "name", "tokens", "text")
    pieces = tuple(PromptPiece(**dict(zip(names, row, strict=False))) for row in rows)
    forgotten = any(row[-1] for row in rows)
    return SentPrompt(hash=key, facts=facts, pieces=pieces, clearance=reader.clearance, forgotten=forgotten)


RECORDED_NAME = re.compile(r"[0-9a-f]{6,64}")  # of a turn id or a prompt hash
TURN_ID_DIGITS = 32  # digits of a turn id; a longer name is a prompt hash


@frozen
class LoggedTurn:
    """A recorded turn."""

    turn: str
    records: tuple[Record, ...]
    sent: SentPrompt | None  # the prompt of the turn, or None if it is not stored


def is_recorded_name(text: str) -> bool:
    """Return whether a text can be a turn id or a prompt hash."""
    return RECORDED_NAME.fullmatch(text.lower()) is not None


def find_recorded_turn(connection: sqlite3.Connection, reader: Reader, name: str) -> LoggedTurn | None:
    """Find a turn that the reader may see. A hidden turn is treated as missing."""
    name = name.lower()
    records = find_turn_events(connection, reader, name).records if len(name) <= TURN_ID_DIGITS else ()
    key = find_last_prompt(records)
    if not records:
        # No digit sorts as high as `g`, so this range contains every hash with the prefix.
        within, query = "AND prompt_hash >= ? AND prompt_hash < ?", Filter(type=EventType.PROMPT_BUILT.value)
        if row := next(iterate_rows(connection, reader, query, within, name, f"{name}g"), None):
            built = read_record(row)
            records, key = find_turn_events(connection, reader, built.trace).records, built.prompt_hash
    if not records:
        return None
    sent = read_prompt(connection, reader, key) if key else None
    return LoggedTurn(turn=records[0].trace, records=records, sent=sent)


def find_last_prompt(records: tuple[Record, ...]) -> str:
    """Return the hash of the turn's last prompt. Prompts of other agents are deeper in the tree."""
    kind = EventType.PROMPT_BUILT.value
    built = [(depth, one) for depth, one in lay_out_turn(records) if one.type == kind and one.prompt_hash]
    least = min((depth for depth, _ in built), default=0)
    return next((record.prompt_hash for depth, record in reversed(built) if depth == least), "")
