"""What the store says of agents, and of what users want of them: the two tables of SPEC-010, under its names."""

from sqlalchemy import JSON, Column, Integer, MetaData, Table, Text, UniqueConstraint, text


def add_agents(metadata: MetaData) -> tuple[Table, Table]:
    """Add the two tables to a schema."""
    agents = Table(
        "agent_configurations",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("agent_name", Text, nullable=False, unique=True),
        Column("soul", Text, nullable=False, server_default=text("''")),
        Column("identity", JSON),  # {name, vibe, description}
        Column("updated", Text, nullable=False, server_default=text("''")),
    )
    instructions = Table(
        "user_agent_prompt_customizations",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("agent_name", Text, nullable=False),
        Column("instructions", Text, nullable=False, server_default=text("''")),
        Column("clearance", Integer, nullable=False, server_default=text("1")),  # at which they were learned
        Column("updated", Text, nullable=False, server_default=text("''")),
        UniqueConstraint("user_id", "agent_name", name="uq_user_agent_instructions"),
    )
    return agents, instructions
