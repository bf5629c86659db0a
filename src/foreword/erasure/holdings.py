"""The table of everything that is kept of people, in the order in which it goes.

What was made of somebody's words goes before the words themselves: by these it is found. So whoever is interrupted
begins again and finds the rest. Responsibilities and identities go last: by them it is known which sections showed
their words, and which stranger this person was.
"""

from foreword.erasure.archived import Archives
from foreword.erasure.filed import Counts, Folder, Typed
from foreword.erasure.holding import PURSE, STATE, Holding
from foreword.erasure.knowing import LOGGED
from foreword.erasure.ledgered import Ledgers
from foreword.erasure.logged import Events, Prompts, Sections, Sums
from foreword.erasure.person import NAMES
from foreword.erasure.remembered import Additions, Entries, Facts, Indexed, Retold
from foreword.erasure.room import Quotes, RoomLines, Summaries
from foreword.erasure.rows import Rows
from foreword.store.legacy import NOTES

IN_STATE, IN_PURSE = ".foreword/state.sqlite", ".foreword/budgets.sqlite"
TRACES = "(SELECT id FROM theirs WHERE kind = 'trace')"
SESSIONS = "(SELECT id FROM theirs WHERE kind = 'session')"
TURNS = "(SELECT id FROM theirs WHERE kind = 'turn')"
MINE = f"user_id IN {NAMES}"
# A letter is for an identity on the family of a channel, or its key says whom it answers.
FAMILY = "substr(channel || ':', 1, instr(channel || ':', ':'))"
LETTERS = (
    f"turn_id IN {TURNS} OR {FAMILY} || address IN {NAMES}"
    " OR EXISTS (SELECT 1 FROM theirs WHERE kind = 'name' AND (instr(outbox.key, char(0) || id || char(0))"
    f" OR instr(id, {FAMILY}) = 1 AND instr(outbox.key, '/' || substr(id, length({FAMILY}) + 1) || char(0))))"
)
# Of a session that only a loop of one's own knows, nobody can tell at which clearance it was.
AT = "coalesce((SELECT clearance FROM sessions WHERE sessions.id = {}), 3)"

OF_TURN = "(SELECT session_id FROM turns WHERE turns.id = outbox.turn_id)"


def keep(name: str, table: str, mine: str, *, trust: str = "0", given: str = "", columns: str = "*") -> Rows:
    """Name rows of the state."""
    claims = tuple(f"state.{table}.{column}" for column in columns.split())
    return Rows(name=name, base=STATE, where=IN_STATE, table=table, mine=mine, trust=trust, given=given, claims=claims)


def keep_old(table: str) -> Rows:
    """Name rows of a database that became the state, which keeps its tables."""
    return Rows(name=table, base=STATE, where=IN_STATE, table=table, mine=MINE, trust="3", optional=True)


def spend(name: str, table: str) -> Rows:
    """Name rows of the budgets."""
    mine = f"scope = 'user' AND name IN {LOGGED} OR scope = 'turn' AND name IN {TRACES}"
    columns = ("scope", "name", "reservation") if table == "budget_reserved" else ("scope", "name")
    claims = tuple(f"log.{table}.{column}" for column in columns)
    return Rows(name=name, base=PURSE, where=IN_PURSE, table=table, mine=mine, given="scope = 'user'", claims=claims)


HOLDINGS: tuple[Holding, ...] = (
    Prompts(),
    Sections(),
    Retold(),
    Typed(),
    keep("bulletins", "bulletins", ":kept > 0", given="0", columns="text author source"),
    Summaries(),
    Ledgers(),
    RoomLines(),
    Quotes(),
    keep("calls begun", "begun", f"turn_id IN {TURNS}"),
    keep("held calls", "held_calls", f"{MINE} OR turn_id IN {TURNS}", trust=AT.format("held_calls.session_id")),
    keep("outbox", "outbox", LETTERS,
         trust=f"iif(turn_id IS NULL, 0, {AT.format(OF_TURN)})"),
    keep("history", "history",
         f"session_id IN {SESSIONS} OR turn_id IN {TURNS} OR kind = 'outside' AND (SELECT user_id FROM turns"
         f" WHERE turns.session_id = history.session_id ORDER BY number LIMIT 1) IN {NAMES}",
         trust=AT.format("history.session_id"), given="kind != 'room'", columns="messages turn_id"),
    keep("plans", "plans",
         f"session_id IN {SESSIONS} OR (session_id, text) IN (SELECT session_id, trim(reply) FROM turns"
         f" WHERE id IN {TURNS})", trust=AT.format("plans.session_id"), columns="text"),
    keep("tasks", "tasks", f"session_id IN {SESSIONS}", trust=AT.format("tasks.session_id"),
         columns="id title description steps"),
    keep("workflows", "workflows", f"session_id IN {SESSIONS}", trust=AT.format("workflows.session_id"),
         columns="text"),
    keep("decisions about edits", "edits",
         "EXISTS (SELECT 1 FROM theirs WHERE kind = 'name' AND instr(path, 'users/' || id || '/') = 1)",
         columns="path sha256"),
    keep("tokens", "tokens", MINE),
    keep("pairings", "pairings", MINE),
    keep("overheard words", "overheard", MINE),
    keep("schedules", "schedules", MINE, trust="clearance"),
    keep("profiles", "profiles", MINE, trust="clearance"),
    keep("instructions", "user_agent_prompt_customizations", MINE, trust="clearance"),
    keep_old("old_user_agent_prompt_customizations"),
    keep_old(f"old_{NOTES}"),
    keep_old(NOTES),
    keep("turns", "turns", f"id IN {TURNS} OR {MINE}", trust=AT.format("turns.session_id")),
    keep("sessions", "sessions", MINE, trust="clearance", columns="id user_id parent"),
    Archives(),
    Facts(),
    Additions(),
    Entries(),
    Indexed(),
    spend("money spent", "budget_spent"),
    spend("money reserved", "budget_reserved"),
    Sums(),
    Events(),
    Folder(),
    Counts(),
    keep("responsibilities", "responsibilities", MINE, trust="3"),
    keep("identities", "identities", f"{MINE} OR identity IN {NAMES}"),
)  # fmt: skip
