"""Ledgers of sessions, decisions about edits, and calibrations."""

from alembic import op
from sqlalchemy import MetaData

from foreword.store.ledger_tables import add_ledgers

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    made = MetaData()
    add_ledgers(made)
    made.create_all(op.get_bind())
