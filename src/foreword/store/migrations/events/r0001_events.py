"""The events, and the sums that are kept with them."""

from alembic import op
from sqlalchemy import Column, Double, Integer, PrimaryKeyConstraint, Text, text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

COUNTS = ("turns", "calls", "unpriced", "tokens_in", "tokens_out", "cache_read", "cache_write")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "events",
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
    )
    op.create_index("idx_events_session", "events", ["session_id", "timestamp"])
    add_partial("idx_events_error", ["level", "timestamp"], "level IN ('warn', 'error')")
    add_partial("idx_events_own_error", ["user_id", "timestamp"], "level IN ('warn', 'error')")
    op.create_index("idx_events_type", "events", ["event_type", "timestamp"])
    op.create_index("idx_events_user", "events", ["user_id", "timestamp"])
    op.create_index("idx_events_channel", "events", ["channel", "timestamp"])
    add_partial("idx_events_room", ["room", "timestamp"], "room IS NOT NULL")
    add_partial("idx_events_trace", ["trace_id"], "trace_id IS NOT NULL")
    op.create_index("idx_events_time", "events", ["timestamp"])
    add_totals("totals_quarter", "kind", "owner", "room", "start", "name", "trust")
    add_totals("totals_day", "kind", "owner", "room", "name", "start", "trust")


def add_partial(name: str, columns: list[str], condition: str) -> None:
    """Add an index of some rows only."""
    op.create_index(name, "events", columns, sqlite_where=text(condition), postgresql_where=text(condition))


def add_totals(name: str, *key: str) -> None:
    """Add a table of sums."""
    op.create_table(
        name,
        *(Column(part, Integer if part == "trust" else Text, nullable=False) for part in key),
        *(Column(figure, Integer, nullable=False) for figure in COUNTS),
        Column("cost_usd", Double, nullable=False),
        PrimaryKeyConstraint(*key),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("totals_day", "totals_quarter", "events"):
        op.drop_table(table)
