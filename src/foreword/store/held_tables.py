"""The table of held calls: tool calls that wait for a person's yes."""

from sqlalchemy import Column, Double, Index, MetaData, Table, Text


def add_held_calls(metadata: MetaData) -> Table:
    """Add the table of held calls."""
    return Table(
        "held_calls",
        metadata,
        Column("id", Text, primary_key=True),
        Column("turn_id", Text, nullable=False),  # the turn that made the call
        Column("call_id", Text, nullable=False),  # its id in that turn
        Column("session_id", Text, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("name", Text, nullable=False),
        Column("arguments", Text, nullable=False),  # JSON
        Column("question", Text, nullable=False),  # the call as a person is shown it
        Column("state", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("expires", Double, nullable=False),
        Column("decided", Text),
        Column("run_id", Text),  # the turn that runs it
        Column("result", Text),
        Index("idx_held_calls_turn", "turn_id", "call_id", unique=True),
        Index("idx_held_calls_user", "user_id", "state"),
        Index("idx_held_calls_expires", "state", "expires"),
    )
