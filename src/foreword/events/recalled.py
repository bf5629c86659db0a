"""A recorded turn by its id, or by the hash of its prompt: what its model was told, and what happened in it."""

import re
import sqlite3

from foreword.events.branch import lay_out
from foreword.events.event import EventType, Reader
from foreword.events.filter import Filter
from foreword.events.prompts import read_prompt
from foreword.events.question import choose_ways, find_trace, make_condition, walk
from foreword.events.record import Record, read_record
from foreword.events.sent import Sent
from foreword.frozen import frozen

NAME = re.compile(r"[0-9a-f]{6,64}")  # of a turn, or of a prompt
LONGEST = 32  # digits of a turn's id; what has more of them is the hash of a prompt
BUILT = EventType.PROMPT_BUILT.value


@frozen
class Recalled:
    """A turn that was recorded."""

    turn: str
    records: tuple[Record, ...]
    sent: Sent | None
    """What its model was told; None where that is not kept."""


def is_recorded_name(text: str) -> bool:
    """Whether a text can be the name of a turn or of a prompt."""
    return NAME.fullmatch(text.lower()) is not None


def recall(connection: sqlite3.Connection, reader: Reader, name: str) -> Recalled | None:
    """Recall a turn that the reader may see; one that they may not is like one that does not exist."""
    name = name.lower()
    records = find_trace(connection, reader, name).records if len(name) <= LONGEST else ()
    key = find_own_prompt(records)
    if not records and (built := find_built(connection, reader, name)):
        records, key = find_trace(connection, reader, built.trace).records, built.prompt_hash
    if not records:
        return None
    return Recalled(turn=records[0].trace, records=records, sent=read_prompt(connection, reader, key) if key else None)


def find_own_prompt(records: tuple[Record, ...]) -> str:
    """Find the hash of the prompt that a turn ended with; what other agents were told for it stands further below."""
    built = [branch for branch in lay_out(records) if branch.record.type == BUILT and branch.record.prompt_hash]
    least = min((branch.depth for branch in built), default=0)
    return next((branch.record.prompt_hash for branch in reversed(built) if branch.depth == least), "")


def find_built(connection: sqlite3.Connection, reader: Reader, beginning: str) -> Record | None:
    """Find the newest turn whose prompt has a hash that begins so, of those that the reader may see."""
    wanted = Filter(type=BUILT)
    where, values = make_condition(reader, wanted)
    (way,) = choose_ways(connection, reader, wanted)
    terms = f"{where} AND prompt_hash >= ? AND prompt_hash < ?"
    # No digit sorts as high as a g, so this is every hash that begins so.
    row = next(walk(connection, way, terms, [*values, beginning, f"{beginning}g"]), None)
    return read_record(row) if row else None
