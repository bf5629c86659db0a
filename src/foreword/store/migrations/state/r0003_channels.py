"""An outbox for letters of every kind; people, schedules, archives, and what living sections are made from."""

from alembic import op
from sqlalchemy import Column, Double, ForeignKey, Integer, MetaData, Text, column, table, text

from foreword.store.living_tables import add_archives, add_living, add_people, add_schedules

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NOTHING, ZERO = text("''"), text("0")

SESSIONS, TURNS = table("sessions", column("channel")), table("turns", column("channel"))


def upgrade() -> None:
    """Make the tables, and put what is on its way into the new outbox."""
    op.drop_index("idx_outbox_due", "outbox")
    op.rename_table("outbox", "old_outbox")
    op.create_table(
        "outbox",
        Column("id", Integer, primary_key=True),
        Column("key", Text, nullable=False, unique=True),
        Column("turn_id", Text, ForeignKey("turns.id")),
        Column("channel", Text, nullable=False),
        Column("address", Text, nullable=False, server_default=NOTHING),
        Column("text", Text, nullable=False),
        Column("part", Integer, nullable=False, server_default=ZERO),
        Column("state", Text, nullable=False),
        Column("attempt", Integer, nullable=False, server_default=ZERO),
        Column("due", Double, nullable=False, server_default=ZERO),
        Column("lease_until", Double, nullable=False, server_default=ZERO),
        Column("lease_owner", Text, nullable=False, server_default=NOTHING),
        Column("sent", Text),
    )
    op.execute(
        "INSERT INTO outbox"
        " (id, key, turn_id, channel, address, text, state, attempt, due, lease_until, lease_owner, sent)"
        " SELECT id, turn_id, turn_id, channel, address, text, state, attempt, due, lease_until, lease_owner, sent"
        " FROM old_outbox"
    )
    op.drop_table("old_outbox")
    op.create_index("idx_outbox_due", "outbox", ["state", "due"])
    op.create_index("idx_outbox_turn", "outbox", ["turn_id"])
    op.add_column("sessions", Column("overheard", Integer, nullable=False, server_default=ZERO))
    for old, new in (("api", "web"), ("openai", "web:openai")):  # what came over HTTP is of one family
        op.execute(SESSIONS.update().where(SESSIONS.c.channel == old).values(channel=new))
        op.execute(TURNS.update().where(TURNS.c.channel == old).values(channel=new))
    # What was kept before was read at familiar.
    learned = Column("clearance", Integer, nullable=False, server_default=text("1"))
    op.add_column("user_agent_prompt_customizations", learned)
    made = MetaData()
    add_people(made)
    add_schedules(made)
    add_archives(made)
    add_living(made)
    made.create_all(op.get_bind())
