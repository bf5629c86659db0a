"""The tables of sent prompts: each distinct text once, and the prompts as lists of them."""

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, Table, Text, text


def add_prompts(metadata: MetaData) -> tuple[Table, ...]:
    """Add the tables of sent prompts to a schema."""
    sections = Table(
        "sections",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("hash", Text, unique=True),  # NULL once some of the text was forgotten: a hash confirms a guess
        Column("text", Text, nullable=False),
        Column("forgotten", Integer, nullable=False, server_default=text("0")),
    )
    prompts = Table(
        "prompts",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("hash", Text, nullable=False, unique=True),
        Column("first_used", Text, nullable=False),
        Column("last_used", Text, nullable=False),
        Column("facts", Text, nullable=False),  # JSON: what the table of the turn says above and below its rows
        Index("idx_prompts_last_used", "last_used"),
    )
    pieces = Table(
        "prompt_pieces",
        metadata,
        Column("prompt_id", Integer, ForeignKey("prompts.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("kind", Text, nullable=False),  # text, tools or report
        Column("block", Integer, nullable=False),  # the number of the block (of the run, for a report)
        Column("name", Text, nullable=False),  # the section's id
        Column("tokens", Integer, nullable=False),
        Column("section_id", Integer, ForeignKey("sections.id"), nullable=False),
        Index("idx_prompt_pieces_section", "section_id"),
        sqlite_with_rowid=False,
    )
    return sections, prompts, pieces
