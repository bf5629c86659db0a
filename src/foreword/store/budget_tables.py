"""The tables of budgets: what was spent in each period, and what calls under way have reserved."""

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text, text


def add_budgets(metadata: MetaData) -> tuple[Table, ...]:
    """Add the tables of budgets to a schema."""
    spent = Table(
        "budget_spent",
        metadata,
        Column("scope", Text, primary_key=True),  # all, agent, user, channel, schedule or turn
        Column("name", Text, primary_key=True),  # whose; empty for all, the trace id for a turn
        Column("period", Text, primary_key=True),  # 2026-11-16, 2026-11, or empty for a turn
        Column("usd", Float, nullable=False),
        Column("calls", Integer, nullable=False),
        Column("warned", Integer, nullable=False, server_default=text("0")),
        Column("updated", Text, nullable=False),
        Index("idx_budget_spent_updated", "updated"),
        sqlite_with_rowid=False,
    )
    reserved = Table(
        "budget_reserved",
        metadata,
        Column("scope", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("period", Text, primary_key=True),
        Column("reservation", Text, primary_key=True),  # the id of one call
        Column("usd", Float, nullable=False),
        Column("made", Text, nullable=False),
        Index("idx_budget_reserved_reservation", "reservation"),
        sqlite_with_rowid=False,
    )
    return spent, reserved
