"""The tables of the state, in words that SQLite and PostgreSQL both understand.

Only migrations and tests import this: rows are written and read with the standard library. Times are ISO 8601 in UTC;
those that a worker compares with its clock (`due`, `lease_until`) are seconds since 1970.
"""

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, text

from foreword.store.agent_tables import add_agents
from foreword.store.held_tables import add_held_calls
from foreword.store.ledger_tables import add_ledgers
from foreword.store.living_tables import add_archives, add_living, add_people, add_schedules

METADATA = MetaData()
NOTHING, ZERO = text("''"), text("0")
UNFINISHED, CURRENT, BEGUN_SO = text("finished IS NULL"), text("current = 1"), text("beginning IS NOT NULL")

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("room", Text, nullable=False, server_default=NOTHING),
    Column("clearance", Integer, nullable=False),
    Column("user_id", Text, nullable=False, server_default=NOTHING),  # empty in a room
    Column("situation", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("used", Text, nullable=False),
    Column("parent", Text),  # the session it was forked from
    Column("current", Integer, nullable=False, server_default=ZERO),
    Column("plan", Integer, nullable=False, server_default=ZERO),
    Column("model", Text, nullable=False, server_default=NOTHING),  # empty: the agent's own
    Column("overheard", Integer, nullable=False, server_default=ZERO),  # the newest that it was told
    Column("project", Text, nullable=False, server_default=NOTHING),  # the directory that it works in
    # A place has one current session: two messages that arrive at once do not begin two.
    Index(
        "idx_sessions_current",
        "agent",
        "channel",
        "room",
        "clearance",
        "user_id",
        unique=True,
        sqlite_where=CURRENT,
        postgresql_where=CURRENT,
    ),
    Index("idx_sessions_place", "agent", "channel", "room", "clearance", "user_id", "used"),
    Index("idx_sessions_user", "user_id", "used"),
    Index("idx_sessions_used", "used"),
)

TURNS = Table(
    "turns",
    METADATA,
    Column("number", Integer, primary_key=True),  # in the order in which they were accepted
    Column("id", Text, nullable=False, unique=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("user_id", Text, nullable=False, server_default=NOTHING),
    Column("channel", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("request", Text, nullable=False, server_default=text("'{}'")),  # JSON
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=ZERO),
    Column("due", Double, nullable=False, server_default=ZERO),
    Column("lease_until", Double, nullable=False, server_default=ZERO),
    Column("lease_owner", Text, nullable=False, server_default=NOTHING),
    Column("taken", LargeBinary),  # the steps that are done, from which a restarted turn goes on
    Column("reply", Text),
    Column("cut", Integer, nullable=False, server_default=ZERO),  # the reply ends because it became too long
    Column("usage", Text),  # JSON
    Column("cost_usd", Double),
    Column("prompt_hash", Text),
    Column("place", Text),
    Column("received", Text, nullable=False),
    Column("finished", Text),
    Column("stop", Integer, nullable=False, server_default=ZERO),  # somebody wants it stopped
    Column("key", Text, unique=True),  # the channel's own id of the message
    Index("idx_turns_due", "state", "due", sqlite_where=UNFINISHED, postgresql_where=UNFINISHED),
    Index("idx_turns_open", "session_id", "number", sqlite_where=UNFINISHED, postgresql_where=UNFINISHED),
    Index("idx_turns_session", "session_id", "number"),
    Index("idx_turns_user", "user_id", "received"),
)

HISTORY = Table(
    "history",
    METADATA,
    Column("session_id", Text, ForeignKey("sessions.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("turn_id", Text, ForeignKey("turns.id")),
    Column("kind", Text, primary_key=True),  # turn, summary or outside
    Column("messages", LargeBinary, nullable=False),
    Column("tokens", Integer, nullable=False, server_default=ZERO),
    Column("folded", Integer, nullable=False, server_default=ZERO),  # told by a summary since
    Column("beginning", Text),  # the hash of all that was said up to here
    Index("idx_history_beginning", "beginning", sqlite_where=BEGUN_SO, postgresql_where=BEGUN_SO),
    Index("idx_history_turn", "turn_id"),
)

OUTBOX = Table(
    "outbox",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False, unique=True),  # one letter has one, however often it is posted
    Column("turn_id", Text, ForeignKey("turns.id")),  # the turn that it answers or comes from
    Column("channel", Text, nullable=False),
    Column("address", Text, nullable=False, server_default=NOTHING),
    Column("text", Text, nullable=False),
    Column("part", Integer, nullable=False, server_default=ZERO),  # how many of its parts have arrived
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=ZERO),
    Column("due", Double, nullable=False, server_default=ZERO),
    Column("lease_until", Double, nullable=False, server_default=ZERO),
    Column("lease_owner", Text, nullable=False, server_default=NOTHING),
    Column("sent", Text),
    Index("idx_outbox_due", "state", "due"),
    Index("idx_outbox_turn", "turn_id"),
)

BEGUN = Table(
    "begun",
    METADATA,
    Column("turn_id", Text, ForeignKey("turns.id"), primary_key=True),
    Column("call_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    sqlite_with_rowid=False,
)

HELD_CALLS = add_held_calls(METADATA)

# Plans and tasks are held to no session: a loop of one's own may have them without a gateway.
PLANS = Table(
    "plans",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("state", Text, nullable=False),
    Index("idx_plans_session", "session_id", "id"),
)

TASKS = Table(
    "tasks",
    METADATA,
    Column("session_id", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=NOTHING),
    Column("status", Text, nullable=False),
    Column("steps", Text, nullable=False, server_default=text("'[]'")),  # JSON
    Column("position", Integer, nullable=False),
    sqlite_with_rowid=False,
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, server_default=NOTHING),
    Column("created", Text, nullable=False),
    Column("used", Text),
    Column("expires", Text),
    Index("idx_tokens_user", "user_id"),
)

AGENTS, INSTRUCTIONS = add_agents(METADATA)
IDENTITIES, PAIRINGS, OVERHEARD = add_people(METADATA)
SCHEDULES = add_schedules(METADATA)
ARCHIVES = add_archives(METADATA)
WORKFLOWS, PROFILES, BULLETINS, RESPONSIBILITIES = add_living(METADATA)
LEDGERS, BASES, EDITS, CALIBRATIONS = add_ledgers(METADATA)
