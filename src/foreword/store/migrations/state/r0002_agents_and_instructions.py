"""Soul and identity of agents, and the standing instructions of users: the tables of SPEC-010.

Where there are tables of these names already, from before SPEC-010, they stay beside as old_…, with all they hold.
"""

from alembic import op
from sqlalchemy import JSON, Column, Integer, Text, UniqueConstraint, inspect, text

from foreword.store.instructions import stamp
from foreword.store.legacy import (
    ADD_AGENT,
    ADD_INSTRUCTIONS,
    AGENTS,
    CUSTOMIZATIONS,
    convert_agents,
    merge_customizations,
)

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and fill them with what old ones of their names hold."""
    old = {name: set_aside(name) for name in (AGENTS, CUSTOMIZATIONS)}
    make_tables()
    now = stamp()
    for agent in convert_agents(old[AGENTS]):
        op.get_bind().exec_driver_sql(ADD_AGENT, (*agent, now))
    for instructions in merge_customizations(old[CUSTOMIZATIONS]):
        op.get_bind().exec_driver_sql(ADD_INSTRUCTIONS, (*instructions, now))


def set_aside(name: str) -> list[dict[str, object]]:
    """Give a table that is there already another name, and return its rows."""
    connection = op.get_bind()
    if name not in inspect(connection).get_table_names():
        return []
    op.rename_table(name, f"old_{name}")
    rows = connection.exec_driver_sql(f"SELECT * FROM old_{name} ORDER BY rowid")  # noqa: S608 - one of our two names
    return [{str(key): value for key, value in row.items()} for row in rows.mappings()]


def make_tables() -> None:
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
