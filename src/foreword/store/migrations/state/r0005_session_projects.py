"""The project that a session works in."""

from alembic import op
from sqlalchemy import Column, Text, text

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("sessions", Column("project", Text, nullable=False, server_default=text("''")))
