"""What belongs to people and places while the agents live among them, beyond their sessions.

Times are as in the tables of the state. `clearance` is that at which something was learned or made (laws 12 and 13).
"""

from sqlalchemy import Column, Double, Index, Integer, MetaData, Table, Text, text

NOTHING, ZERO = text("''"), text("0")


def add_people(metadata: MetaData) -> tuple[Table, Table, Table]:
    """Add who is who on the channels: identities, codes that make one, and what was said in rooms beside every turn."""
    identities = Table(
        "identities",
        metadata,
        Column("identity", Text, primary_key=True),  # channel:id
        Column("user_id", Text, nullable=False),
        Column("name", Text, nullable=False, server_default=NOTHING),
        Column("paired", Text, nullable=False),
        Index("idx_identities_user", "user_id"),
    )
    pairings = Table(
        "pairings",
        metadata,
        Column("hash", Text, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("expires", Text, nullable=False),
        Index("idx_pairings_user", "user_id"),
    )
    overheard = Table(
        "overheard",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("channel", Text, nullable=False),
        Column("room", Text, nullable=False),
        Column("user_id", Text, nullable=False, server_default=NOTHING),
        Column("name", Text, nullable=False, server_default=NOTHING),
        Column("text", Text, nullable=False),
        Column("heard", Text, nullable=False),
        Column("key", Text, unique=True),  # the channel's own id of the message
        Index("idx_overheard_room", "channel", "room", "id"),
        Index("idx_overheard_user", "user_id"),
    )
    return identities, pairings, overheard


def add_schedules(metadata: MetaData) -> Table:
    """Add what is to be done later, and when it is due next."""
    return Table(
        "schedules",
        metadata,
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False, server_default=NOTHING),
        Column("origin", Text, nullable=False),  # the configuration, a person, or the agent at its user's wish
        Column("agent", Text, nullable=False),
        Column("user_id", Text, nullable=False),  # as whom it acts
        Column("kind", Text, nullable=False),  # cron, at or heartbeat
        Column("moment", Text, nullable=False),  # the cron line, or the time
        Column("zone", Text, nullable=False, server_default=NOTHING),
        Column("say", Text, nullable=False, server_default=NOTHING),
        Column("delivery", Text, nullable=False),
        Column("channel", Text, nullable=False, server_default=NOTHING),  # where the reply goes
        Column("address", Text, nullable=False, server_default=NOTHING),
        Column("room", Text, nullable=False, server_default=NOTHING),
        Column("situation", Text, nullable=False),
        Column("clearance", Integer, nullable=False),
        Column("missed", Text, nullable=False),  # what happens with runs that fell into a downtime
        Column("created", Text, nullable=False),
        Column("due", Double),
        Column("ran", Double),  # up to when everything has been seen to
        Column("note", Text, nullable=False, server_default=NOTHING),  # why the newest run did not come about
        Column("state", Text, nullable=False),
        Column("lease_until", Double, nullable=False, server_default=ZERO),
        Column("lease_owner", Text, nullable=False, server_default=NOTHING),
        Index("idx_schedules_due", "state", "due"),
        Index("idx_schedules_user", "user_id"),
    )


def add_archives(metadata: MetaData) -> Table:
    """Add which file holds the transcript of which session, and at which clearance."""
    return Table(
        "archives",
        metadata,
        Column("path", Text, primary_key=True),  # in the workspace
        Column("session_id", Text, nullable=False, unique=True),
        Column("agent", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("room", Text, nullable=False, server_default=NOTHING),
        Column("user_id", Text, nullable=False, server_default=NOTHING),  # empty in a room
        Column("clearance", Integer, nullable=False),
        Column("people", Text, nullable=False, server_default=text("'[]'")),  # JSON: who speaks in it
        Column("upto", Integer, nullable=False, server_default=ZERO),  # how much of the history it has
        Column("written", Text),
        Index("idx_archives_user", "user_id"),
        sqlite_with_rowid=False,
    )


def add_living(metadata: MetaData) -> tuple[Table, Table, Table, Table]:
    """Add what the living sections are made from: workflows, profiles, bulletins, and what an agent has taken on."""
    workflows = Table(
        "workflows",
        metadata,
        Column("session_id", Text, primary_key=True),
        Column("text", Text, nullable=False),
        Column("updated", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    profiles = Table(
        "profiles",
        metadata,
        Column("user_id", Text, primary_key=True),
        Column("clearance", Integer, primary_key=True),
        Column("learned", Text, nullable=False),  # JSON
        Column("messages", Integer, nullable=False, server_default=ZERO),
        Column("updated", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    bulletins = Table(
        "bulletins",
        metadata,
        Column("agent", Text, primary_key=True),
        Column("clearance", Integer, primary_key=True),
        Column("text", Text, nullable=False),
        Column("author", Text, nullable=False),  # the model, or the rule
        Column("made", Text, nullable=False),
        Column("source", Text, nullable=False, server_default=NOTHING),  # the hash of what it was made from
        sqlite_with_rowid=False,
    )
    responsibilities = Table(
        "responsibilities",
        metadata,
        Column("agent", Text, primary_key=True),
        Column("title", Text, primary_key=True),
        Column("content", Text, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("added", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    return workflows, profiles, bulletins, responsibilities
