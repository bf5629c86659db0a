"""What sessions have sent to providers, what was decided about edits, and what was learned about tokens."""

from sqlalchemy import Column, Double, Index, Integer, MetaData, Table, Text


def add_ledgers(metadata: MetaData) -> tuple[Table, Table, Table, Table]:
    """Add the ledgers of sessions, the bases they share, decisions about single edits, and calibrations."""
    ledgers = Table(
        "ledgers",
        metadata,
        Column("session_id", Text, primary_key=True),
        Column("base", Text, nullable=False),  # the name of what it was sent as its stable part
        Column("frozen", Text, nullable=False),  # JSON: all else that it was sent
        Index("idx_ledgers_base", "base"),
        sqlite_with_rowid=False,
    )
    bases = Table(
        "bases",
        metadata,
        Column("name", Text, primary_key=True),  # the hash of its lines
        Column("lines", Text, nullable=False),  # JSON
        sqlite_with_rowid=False,
    )
    edits = Table(
        "edits",
        metadata,
        Column("path", Text, primary_key=True),  # of a file in the workspace
        Column("sha256", Text, nullable=False),  # of the text that was decided about; another is another edit
        Column("policy", Text, nullable=False),
        Column("decided", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    calibrations = Table(
        "calibrations",
        metadata,
        Column("model", Text, primary_key=True),
        Column("calls", Integer, nullable=False),
        Column("ratio", Double, nullable=False),
        Column("raw", Double, nullable=False),
        Column("error", Double, nullable=False),
        sqlite_with_rowid=False,
    )
    return ledgers, bases, edits, calibrations
