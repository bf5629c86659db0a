"""Sessions, turns, histories, what is to be sent, plans, tasks and tokens."""

from alembic import op
from sqlalchemy import Column, Double, ForeignKey, Integer, LargeBinary, Text, text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NOTHING, ZERO = text("''"), text("0")
UNFINISHED, CURRENT, BEGUN_SO = text("finished IS NULL"), text("current = 1"), text("beginning IS NOT NULL")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "sessions",
        Column("id", Text, primary_key=True),
        Column("agent", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("room", Text, nullable=False, server_default=NOTHING),
        Column("clearance", Integer, nullable=False),
        Column("user_id", Text, nullable=False, server_default=NOTHING),
        Column("situation", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("used", Text, nullable=False),
        Column("parent", Text),
        Column("current", Integer, nullable=False, server_default=ZERO),
        Column("plan", Integer, nullable=False, server_default=ZERO),
        Column("model", Text, nullable=False, server_default=NOTHING),
    )
    op.create_index(
        "idx_sessions_current",
        "sessions",
        ["agent", "channel", "room", "clearance", "user_id"],
        unique=True,
        sqlite_where=CURRENT,
        postgresql_where=CURRENT,
    )
    op.create_index("idx_sessions_place", "sessions", ["agent", "channel", "room", "clearance", "user_id", "used"])
    op.create_index("idx_sessions_user", "sessions", ["user_id", "used"])
    op.create_index("idx_sessions_used", "sessions", ["used"])
    op.create_table(
        "turns",
        Column("number", Integer, primary_key=True),
        Column("id", Text, nullable=False, unique=True),
        Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
        Column("user_id", Text, nullable=False, server_default=NOTHING),
        Column("channel", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("request", Text, nullable=False, server_default=text("'{}'")),
        Column("state", Text, nullable=False),
        Column("attempt", Integer, nullable=False, server_default=ZERO),
        Column("due", Double, nullable=False, server_default=ZERO),
        Column("lease_until", Double, nullable=False, server_default=ZERO),
        Column("lease_owner", Text, nullable=False, server_default=NOTHING),
        Column("taken", LargeBinary),
        Column("reply", Text),
        Column("cut", Integer, nullable=False, server_default=ZERO),
        Column("usage", Text),
        Column("cost_usd", Double),
        Column("prompt_hash", Text),
        Column("place", Text),
        Column("received", Text, nullable=False),
        Column("finished", Text),
        Column("stop", Integer, nullable=False, server_default=ZERO),
        Column("key", Text, unique=True),
    )
    op.create_index("idx_turns_due", "turns", ["state", "due"], sqlite_where=UNFINISHED, postgresql_where=UNFINISHED)
    op.create_index(
        "idx_turns_open", "turns", ["session_id", "number"], sqlite_where=UNFINISHED, postgresql_where=UNFINISHED
    )
    op.create_index("idx_turns_session", "turns", ["session_id", "number"])
    op.create_index("idx_turns_user", "turns", ["user_id", "received"])
    op.create_table(
        "history",
        Column("session_id", Text, ForeignKey("sessions.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("turn_id", Text, ForeignKey("turns.id")),
        Column("kind", Text, primary_key=True),
        Column("messages", LargeBinary, nullable=False),
        Column("tokens", Integer, nullable=False, server_default=ZERO),
        Column("folded", Integer, nullable=False, server_default=ZERO),
        Column("beginning", Text),
    )
    op.create_index("idx_history_beginning", "history", ["beginning"], sqlite_where=BEGUN_SO, postgresql_where=BEGUN_SO)
    op.create_index("idx_history_turn", "history", ["turn_id"])
    op.create_table(
        "outbox",
        Column("id", Integer, primary_key=True),
        Column("turn_id", Text, ForeignKey("turns.id"), nullable=False, unique=True),
        Column("channel", Text, nullable=False),
        Column("address", Text, nullable=False, server_default=NOTHING),
        Column("text", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("attempt", Integer, nullable=False, server_default=ZERO),
        Column("due", Double, nullable=False, server_default=ZERO),
        Column("lease_until", Double, nullable=False, server_default=ZERO),
        Column("lease_owner", Text, nullable=False, server_default=NOTHING),
        Column("sent", Text),
    )
    op.create_index("idx_outbox_due", "outbox", ["state", "due"])
    op.create_table(
        "begun",
        Column("turn_id", Text, ForeignKey("turns.id"), primary_key=True),
        Column("call_id", Text, primary_key=True),
        Column("name", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "plans",
        Column("id", Integer, primary_key=True),
        Column("session_id", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("state", Text, nullable=False),
    )
    op.create_index("idx_plans_session", "plans", ["session_id", "id"])
    op.create_table(
        "tasks",
        Column("session_id", Text, primary_key=True),
        Column("id", Text, primary_key=True),
        Column("title", Text, nullable=False),
        Column("description", Text, nullable=False, server_default=NOTHING),
        Column("status", Text, nullable=False),
        Column("steps", Text, nullable=False, server_default=text("'[]'")),
        Column("position", Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        Column("id", Text, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("hash", Text, nullable=False, unique=True),
        Column("name", Text, nullable=False, server_default=NOTHING),
        Column("created", Text, nullable=False),
        Column("used", Text),
        Column("expires", Text),
    )
    op.create_index("idx_tokens_user", "tokens", ["user_id"])
