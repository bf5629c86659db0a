"""The tables of the event log, in words that SQLite and PostgreSQL both understand.

Only migrations and tests import this: rows are written and read with the standard library.
"""

from sqlalchemy import Column, Double, Index, Integer, MetaData, PrimaryKeyConstraint, Table, Text, text

from foreword.store.budget_tables import add_budgets
from foreword.store.prompt_tables import add_prompts

METADATA = MetaData()
FLAGGED = text("level IN ('warn', 'error')")

EVENTS = Table(
    "events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("timestamp", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("session_id", Text),
    Column("agent_id", Text),
    Column("user_id", Text),
    Column("channel", Text),
    Column("event_type", Text, nullable=False),
    Column("duration_ms", Integer),
    Column("tokens_in", Integer),
    Column("tokens_out", Integer),
    Column("cost_usd", Double),
    Column("error", Text),
    Column("metadata", Text),
    Column("room", Text),
    Column("schedule", Text),
    Column("trust", Integer, nullable=False),
    Column("model", Text),
    Column("trace_id", Text),
    Column("span_id", Text),
    Column("parent_id", Text),
    Column("prompt_hash", Text),
    Column("cache_read", Integer),
    Column("cache_write", Integer),
    Index("idx_events_session", "session_id", "timestamp"),
    Index("idx_events_error", "level", "timestamp", sqlite_where=FLAGGED, postgresql_where=FLAGGED),
    Index("idx_events_own_error", "user_id", "timestamp", sqlite_where=FLAGGED, postgresql_where=FLAGGED),
    Index("idx_events_type", "event_type", "timestamp"),
    Index("idx_events_user", "user_id", "timestamp"),
    Index("idx_events_channel", "channel", "timestamp"),
    Index(
        "idx_events_room",
        "room",
        "timestamp",
        sqlite_where=text("room IS NOT NULL"),
        postgresql_where=text("room IS NOT NULL"),
    ),
    Index(
        "idx_events_trace",
        "trace_id",
        sqlite_where=text("trace_id IS NOT NULL"),
        postgresql_where=text("trace_id IS NOT NULL"),
    ),
    Index("idx_events_time", "timestamp"),
)


FIGURES = ("turns", "calls", "unpriced", "tokens_in", "tokens_out", "cache_read", "cache_write")


def describe_totals(name: str, *key: str) -> Table:
    """Describe a table of sums; what its key begins with decides which sums are a short walk."""
    return Table(
        name,
        METADATA,
        *(Column(part, Integer if part == "trust" else Text, nullable=False) for part in key),
        *(Column(figure, Integer, nullable=False) for figure in FIGURES),
        Column("cost_usd", Double, nullable=False),
        PrimaryKeyConstraint(*key),
        sqlite_with_rowid=False,
    )


# A stretch of a day begins at some quarter; a month by session walks names that stand in order.
QUARTERS = describe_totals("totals_quarter", "kind", "owner", "room", "start", "name", "trust")
DAYS = describe_totals("totals_day", "kind", "owner", "room", "name", "start", "trust")
SECTIONS, PROMPTS, PROMPT_PIECES = add_prompts(METADATA)
BUDGET_SPENT, BUDGET_RESERVED = add_budgets(METADATA)
