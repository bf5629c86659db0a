"""A record: one row of the log as a reader gets it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from foreword.events import row
from foreword.events.event import Reader
from foreword.events.moment import read_stamp, stamp
from foreword.events.visible import sees_all
from foreword.frozen import frozen
from foreword.words import Trust

COLUMNS = ("id", *row.COLUMNS)
SELECTED = ", ".join(COLUMNS)
TRUSTS = tuple(Trust)


@frozen(eq=True)
class Record:
    """One recorded event; a text that was not told is empty, a number that was not is None."""

    id: int
    time: datetime
    level: str
    category: str
    type: str
    session: str
    agent: str
    user: str
    channel: str
    room: str
    schedule: str
    trust: Trust
    model: str
    trace: str
    span: str
    parent: str
    prompt_hash: str
    duration_ms: int | None
    tokens_in: int | None
    tokens_out: int | None
    cache_read: int | None
    cache_write: int | None
    cost_usd: float | None
    error: str
    facts: Mapping[str, Any]

    def to_dict(self, reader: Reader) -> dict[str, Any]:
        """Return the record as JSON-ready values for a reader, under the names of its columns.

        Numbers have gaps where rows of others are, so they are told to who sees those, too.
        """
        names = COLUMNS if sees_all(reader) else row.COLUMNS
        values = {name: getattr(self, FIELDS.get(name, name)) for name in names}
        plain = {name: None if value == "" else value for name, value in values.items()}
        return plain | {"timestamp": stamp(self.time), "trust": str(self.trust), "metadata": dict(self.facts)}


FIELDS = {
    "timestamp": "time",
    "session_id": "session",
    "agent_id": "agent",
    "user_id": "user",
    "event_type": "type",
    "metadata": "facts",
    "trace_id": "trace",
    "span_id": "span",
    "parent_id": "parent",
}


def read_record(values: Sequence[Any]) -> Record:
    """Read a row whose columns are those of `SELECTED`."""
    (
        number, time, level, category, session, agent, user, channel, kind, duration, tokens_in, tokens_out, cost,
        error, metadata, room, schedule, trust, model, trace, span, parent, prompt, cache_read, cache_write,
    ) = values  # fmt: skip
    return Record(
        id=number,
        time=read_stamp(time),
        level=level,
        category=category,
        type=kind,
        session=session or "",
        agent=agent or "",
        user=user or "",
        channel=channel or "",
        room=room or "",
        schedule=schedule or "",
        trust=TRUSTS[trust],
        model=model or "",
        trace=trace or "",
        span=span or "",
        parent=parent or "",
        prompt_hash=prompt or "",
        duration_ms=duration,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=cost,
        error=error or "",
        facts=read_facts(metadata),
    )


def read_facts(text: str | None) -> Mapping[str, Any]:
    """Read the facts of an event; what is no JSON object is kept as a text, since a log hides nothing."""
    if not text:
        return {}
    try:
        facts = json.loads(text)
    except ValueError:
        return {"text": text}
    return facts if isinstance(facts, dict) else {"value": facts}


def total_cost(records: Iterable[Record]) -> float | None:
    """Add up what is priced, or return None where nothing is."""
    prices = [record.cost_usd for record in records if record.cost_usd is not None]
    return sum(prices) if prices else None
