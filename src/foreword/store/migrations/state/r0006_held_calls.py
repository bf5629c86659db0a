"""Held calls: tool calls that wait for a person's yes."""

from alembic import op
from sqlalchemy import MetaData

from foreword.store.held_tables import add_held_calls

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    made = MetaData()
    add_held_calls(made)
    made.create_all(op.get_bind())
