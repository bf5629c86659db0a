"""What was sent, each text once, and what was spent and reserved."""

from alembic import op
from sqlalchemy import Column, Float, ForeignKey, Integer, Text, text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "sections",
        Column("id", Integer, primary_key=True),
        Column("hash", Text, unique=True),
        Column("text", Text, nullable=False),
        Column("forgotten", Integer, nullable=False, server_default=text("0")),
    )
    op.create_table(
        "prompts",
        Column("id", Integer, primary_key=True),
        Column("hash", Text, nullable=False, unique=True),
        Column("first_used", Text, nullable=False),
        Column("last_used", Text, nullable=False),
        Column("facts", Text, nullable=False),
    )
    op.create_index("idx_prompts_last_used", "prompts", ["last_used"])
    op.create_table(
        "prompt_pieces",
        Column("prompt_id", Integer, ForeignKey("prompts.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("kind", Text, nullable=False),
        Column("block", Integer, nullable=False),
        Column("name", Text, nullable=False),
        Column("tokens", Integer, nullable=False),
        Column("section_id", Integer, ForeignKey("sections.id"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("idx_prompt_pieces_section", "prompt_pieces", ["section_id"])
    op.create_table(
        "budget_spent",
        Column("scope", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("period", Text, primary_key=True),
        Column("usd", Float, nullable=False),
        Column("calls", Integer, nullable=False),
        Column("warned", Integer, nullable=False, server_default=text("0")),
        Column("updated", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("idx_budget_spent_updated", "budget_spent", ["updated"])
    op.create_table(
        "budget_reserved",
        Column("scope", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("period", Text, primary_key=True),
        Column("reservation", Text, primary_key=True),
        Column("usd", Float, nullable=False),
        Column("made", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("idx_budget_reserved_reservation", "budget_reserved", ["reservation"])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("budget_reserved", "budget_spent", "prompt_pieces", "prompts", "sections"):
        op.drop_table(table)
