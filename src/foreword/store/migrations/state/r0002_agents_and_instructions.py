"""Soul and identity of agents, and the standing instructions of users: the tables of SPEC-010."""

from alembic import op
from sqlalchemy import JSON, Column, Integer, Text, UniqueConstraint, text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "agent_configurations",
        Column("id", Integer, primary_key=True),
        Column("agent_name", Text, nullable=False, unique=True),
        Column("soul", Text, nullable=False, server_default=text("''")),
        Column("identity", JSON),
        Column("updated", Text, nullable=False, server_default=text("''")),
    )
    op.create_table(
        "user_agent_prompt_customizations",
        Column("id", Integer, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("agent_name", Text, nullable=False),
        Column("instructions", Text, nullable=False, server_default=text("''")),
        Column("updated", Text, nullable=False, server_default=text("''")),
        UniqueConstraint("user_id", "agent_name", name="uq_user_agent_instructions"),
    )
