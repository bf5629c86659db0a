"""Erasure of a person's data in all locations, with a second search that verifies it.

Running turns: data is only erased while no turn runs that could write the person's words again. The list of all data
locations, in the order of erasure. Vacuum: removes the bytes of deleted rows from database files and their write-ahead
logs. Retained data: what an erasure does not remove, and why.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import groupby

from foreword.config.schema import Config
from foreword.config.structure import convert_node, format_keys
from foreword.engine.file_access import find_author, find_own_person
from foreword.errors import InputError, UnknownName, quote_name
from foreword.events.redaction import DAMAGED_LOG_NAME, list_names
from foreword.memory.notes import remove_added
from foreword.memory.sqlite_index import FILE as INDEX
from foreword.privacy.database_locations import (
    LOGGED_NAMES_SQL,
    EventLocation,
    LedgerLocation,
    PromptLocation,
    QuoteLocation,
    QuotingSectionLocation,
    RoomLineLocation,
    SummaryLocation,
    TotalLocation,
    identify_subject,
)
from foreword.privacy.file_locations import (
    FactLocation,
    MemoryLocation,
    NoteAdditionLocation,
    QuotingMemoryLocation,
    SearchIndexLocation,
    TerminalHistoryLocation,
    TokenCountLocation,
    TranscriptLocation,
    UserFolderLocation,
    list_additions,
    list_authored_files,
    list_memory_files,
    read_file_text,
)
from foreword.privacy.locations import (
    BUDGET_DATABASE,
    LOG_DATABASE,
    STATE_DATABASE,
    Databases,
    DataLocation,
    RowLocation,
    open_databases,
    open_transaction,
    replace_file,
)
from foreword.privacy.subject import NAMES_SQL, Redactor, Subject, list_known_people
from foreword.storage.database import (
    BUDGETS_FILE,
    EVENTS_FILE,
    LOCK_TIMEOUT_S,
    STATE_FILE,
    create_private_file,
    lock_file,
)
from foreword.storage.legacy_import import NOTES_TABLE
from foreword.storage.writer import is_dead_owner
from foreword.types import frozen
from foreword.workspace import CONFIG_FILE, Workspace

TURN_POLL_S = 0.05
# The person's turns, and those of others in rooms where the person spoke: these may be writing a summary.
RUNNING_TURNS_SQL = f"""
SELECT user_id, lease_owner FROM turns WHERE finished IS NULL AND state = 'running' AND lease_until > ? AND
    (user_id IN {NAMES_SQL} OR session_id IN (SELECT id FROM theirs WHERE kind = 'session')
    OR session_id IN (SELECT session_id FROM history WHERE turn_id IN (SELECT id FROM theirs WHERE kind = 'turn'))
    OR session_id IN (SELECT session_id FROM turns AS said WHERE said.user_id IN {NAMES_SQL}))"""


@contextmanager
def wait_for_turns(bases: Databases, person: Subject, patience: float) -> Iterator[None]:
    """Lock the state while no turn uses the person's words; stop the person's turns, or raise InputError in the end."""
    state = bases.state
    assert state is not None
    end = time.monotonic() + patience
    while True:
        state.execute("BEGIN IMMEDIATE")
        try:
            busy = list_blocking_users(state)
            if not busy:
                yield
                state.execute("COMMIT")
                return
            state.execute(f"UPDATE turns SET stop = 1 WHERE user_id IN {NAMES_SQL} AND state = 'running'")
            state.execute("COMMIT")
        except BaseException:
            if state.in_transaction:
                state.execute("ROLLBACK")
            raise
        if time.monotonic() > end:
            own = sum(user in person.names for user in busy)
            whose = f"a turn of {person.name} is" if own else "a turn in a shared room is"
            raise InputError(
                f"{whose} still running and could write the erased words again; nothing more was removed: "
                "wait until it ends or stop the gateway, then run this command again"
            )
        time.sleep(TURN_POLL_S)


def wait_for_others(state: sqlite3.Connection, patience: float) -> bool:
    """Wait until all turns running now have ended; return False on a timeout."""
    before = list_running_turns(state)
    end = time.monotonic() + patience
    while before & list_running_turns(state):
        if time.monotonic() > end:
            return False
        time.sleep(TURN_POLL_S)
    return True


def list_running_turns(state: sqlite3.Connection) -> set[str]:
    """List the turns that a live process is running."""
    asked = "SELECT id, lease_owner FROM turns WHERE finished IS NULL AND state = 'running' AND lease_until > ?"
    return {turn for turn, owner in state.execute(asked, (time.time(),)) if owner and not is_dead_owner(owner)}


def list_blocking_users(state: sqlite3.Connection) -> list[str]:
    """List the users of running turns that may use the person's words."""
    found = state.execute(RUNNING_TURNS_SQL, (time.time(),)).fetchall()
    return [user for user, owner in found if owner and not is_dead_owner(owner)]


STATE_PATH, BUDGETS_PATH = ".foreword/state.sqlite", ".foreword/budgets.sqlite"
TRACE_IDS_SQL = "(SELECT id FROM theirs WHERE kind = 'trace')"
SESSION_IDS_SQL = "(SELECT id FROM theirs WHERE kind = 'session')"
TURN_IDS_SQL = "(SELECT id FROM theirs WHERE kind = 'turn')"
OWN_ROWS_SQL = f"user_id IN {NAMES_SQL}"
# An outbound message is addressed to an identity on a channel, or its key names the recipient.
CHANNEL_PREFIX_SQL = "substr(channel || ':', 1, instr(channel || ':', ':'))"
OUTBOX_ROWS_SQL = (
    f"turn_id IN {TURN_IDS_SQL} OR {CHANNEL_PREFIX_SQL} || address IN {NAMES_SQL}"
    " OR EXISTS (SELECT 1 FROM theirs WHERE kind = 'name' AND (instr(outbox.key, char(0) || id || char(0))"
    f" OR instr(id, {CHANNEL_PREFIX_SQL}) = 1"
    f" AND instr(outbox.key, '/' || substr(id, length({CHANNEL_PREFIX_SQL}) + 1) || char(0))))"
)
# The clearance of a session that exists only in the log (a custom agent loop) is unknown; assume full.
SESSION_CLEARANCE_SQL = "coalesce((SELECT clearance FROM sessions WHERE sessions.id = {}), 3)"

TURN_SESSION_SQL = "(SELECT session_id FROM turns WHERE turns.id = outbox.turn_id)"


def make_state_rows(
    name: str, table: str, mine: str, *, trust: str = "0", given: str = "", columns: str = "*"
) -> RowLocation:
    """Make the data location of rows in the state."""
    claims = tuple(f"state.{table}.{column}" for column in columns.split())
    return RowLocation(
        name=name,
        base=STATE_DATABASE,
        where=STATE_PATH,
        table=table,
        mine=mine,
        trust=trust,
        given=given,
        claims=claims,
    )


def make_imported_rows(table: str) -> RowLocation:
    """Make the data location of rows in a table of an imported older database."""
    return RowLocation(
        name=table, base=STATE_DATABASE, where=STATE_PATH, table=table, mine=OWN_ROWS_SQL, trust="3", optional=True
    )


def make_budget_rows(name: str, table: str) -> RowLocation:
    """Make the data location of rows in the budgets."""
    mine = f"scope = 'user' AND name IN {LOGGED_NAMES_SQL} OR scope = 'turn' AND name IN {TRACE_IDS_SQL}"
    columns = ("scope", "name", "reservation") if table == "budget_reserved" else ("scope", "name")
    claims = tuple(f"log.{table}.{column}" for column in columns)
    return RowLocation(
        name=name,
        base=BUDGET_DATABASE,
        where=BUDGETS_PATH,
        table=table,
        mine=mine,
        given="scope = 'user'",
        claims=claims,
    )


DATA_LOCATIONS: tuple[DataLocation, ...] = (
    PromptLocation(),
    QuotingSectionLocation(),
    QuotingMemoryLocation(),
    TerminalHistoryLocation(),
    make_state_rows("bulletins", "bulletins", ":kept > 0", given="0", columns="text author source"),
    SummaryLocation(),
    LedgerLocation(),
    RoomLineLocation(),
    QuoteLocation(),
    make_state_rows("calls begun", "begun", f"turn_id IN {TURN_IDS_SQL}"),
    make_state_rows(
        "held calls",
        "held_calls",
        f"{OWN_ROWS_SQL} OR turn_id IN {TURN_IDS_SQL}",
        trust=SESSION_CLEARANCE_SQL.format("held_calls.session_id"),
    ),
    make_state_rows(
        "outbox",
        "outbox",
        OUTBOX_ROWS_SQL,
        trust=f"iif(turn_id IS NULL, 0, {SESSION_CLEARANCE_SQL.format(TURN_SESSION_SQL)})",
    ),
    make_state_rows(
        "history",
        "history",
        f"session_id IN {SESSION_IDS_SQL} OR turn_id IN {TURN_IDS_SQL} OR kind = 'outside'"
        " AND (SELECT user_id FROM turns WHERE turns.session_id = history.session_id ORDER BY number LIMIT 1)"
        f" IN {NAMES_SQL}",
        trust=SESSION_CLEARANCE_SQL.format("history.session_id"),
        given="kind != 'room'",
        columns="messages turn_id",
    ),
    make_state_rows(
        "plans",
        "plans",
        f"session_id IN {SESSION_IDS_SQL} OR (session_id, text) IN (SELECT session_id, trim(reply) FROM turns"
        f" WHERE id IN {TURN_IDS_SQL})",
        trust=SESSION_CLEARANCE_SQL.format("plans.session_id"),
        columns="text",
    ),
    make_state_rows(
        "tasks",
        "tasks",
        f"session_id IN {SESSION_IDS_SQL}",
        trust=SESSION_CLEARANCE_SQL.format("tasks.session_id"),
        columns="id title description steps",
    ),
    make_state_rows(
        "workflows",
        "workflows",
        f"session_id IN {SESSION_IDS_SQL}",
        trust=SESSION_CLEARANCE_SQL.format("workflows.session_id"),
        columns="text",
    ),
    make_state_rows(
        "decisions about edits",
        "edits",
        "EXISTS (SELECT 1 FROM theirs WHERE kind = 'name' AND instr(path, 'users/' || id || '/') = 1)",
        columns="path sha256",
    ),
    make_state_rows("tokens", "tokens", OWN_ROWS_SQL),
    make_state_rows("pairings", "pairings", OWN_ROWS_SQL),
    make_state_rows("overheard words", "overheard", OWN_ROWS_SQL),
    make_state_rows("schedules", "schedules", OWN_ROWS_SQL, trust="clearance"),
    make_state_rows("profiles", "profiles", OWN_ROWS_SQL, trust="clearance"),
    make_state_rows("instructions", "user_agent_prompt_customizations", OWN_ROWS_SQL, trust="clearance"),
    make_imported_rows("old_user_agent_prompt_customizations"),
    make_imported_rows(f"old_{NOTES_TABLE}"),
    make_imported_rows(NOTES_TABLE),
    make_state_rows(
        "turns",
        "turns",
        f"id IN {TURN_IDS_SQL} OR {OWN_ROWS_SQL}",
        trust=SESSION_CLEARANCE_SQL.format("turns.session_id"),
    ),
    make_state_rows("sessions", "sessions", OWN_ROWS_SQL, trust="clearance", columns="id user_id parent"),
    TranscriptLocation(),
    FactLocation(),
    NoteAdditionLocation(),
    MemoryLocation(),
    SearchIndexLocation(),
    make_budget_rows("money spent", "budget_spent"),
    make_budget_rows("money reserved", "budget_reserved"),
    TotalLocation(),
    EventLocation(),
    UserFolderLocation(),
    TokenCountLocation(),
    make_state_rows("responsibilities", "responsibilities", OWN_ROWS_SQL, trust="3"),
    make_state_rows("identities", "identities", f"{OWN_ROWS_SQL} OR identity IN {NAMES_SQL}"),
)


CHECKPOINT_POLL_S = 0.1


def vacuum_databases(bases: Databases, patience: float) -> Iterator[str]:
    """Vacuum each database; yield a message for each file that may still contain deleted data."""
    for base, name in ((STATE_DATABASE, STATE_FILE), (LOG_DATABASE, EVENTS_FILE), (BUDGET_DATABASE, BUDGETS_FILE)):
        connection = bases.get(base)
        if connection is not None and (fault := vacuum_database(connection, patience)):
            yield describe_residue(name, fault)
    place = os.path.join(bases.folder, INDEX)
    if os.path.isfile(place):
        with closing(sqlite3.connect(place, timeout=patience, isolation_level=None)) as index:
            if fault := vacuum_database(index, patience):
                yield describe_residue(INDEX, fault)


def describe_residue(name: str, fault: str) -> str:
    """Return the message that a file may still contain deleted data."""
    return (
        f".foreword/{name} or {name}-wal may still contain deleted data ({fault}); "
        "stop the processes that use it and run this command again"
    )


def vacuum_database(connection: sqlite3.Connection, patience: float) -> str:
    """Vacuum a database and truncate its write-ahead log; return the reason of a failure, or an empty string."""
    end = time.monotonic() + patience
    connection.execute(f"PRAGMA busy_timeout={patience * 1_000:.0f}")
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA secure_delete=ON")
    try:
        connection.execute("VACUUM")
        while True:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return ""
            if time.monotonic() > end:
                return "another process is reading it"
            time.sleep(CHECKPOINT_POLL_S)
    except sqlite3.Error as error:
        return str(error)


UNRELATED_KEYS = ("agents", "models", "providers")  # sections whose names may coincide with a person's
ALWAYS_RETAINED = (
    "money spent stays in the totals of all users, without the name",
    "texts that other people wrote stay, even if they are about this person",
    "copies elsewhere are not removed: backups, exports, data sent to model providers, the history of channels",
)


def list_retained(workspace: Workspace, bases: Databases, person: Subject) -> Iterator[str]:
    """List the retained data and where the owner can remove it."""
    text = workspace.files.read_text(CONFIG_FILE)
    yield from list_config_mentions(text if isinstance(text, str) else "", person.name)
    yield from list_related_users(bases, person)
    yield from list_edited_notes(bases, person)
    yield from list_quoting_files(bases, person)
    if aside := [name for name in sorted(list_names(bases.folder)) if DAMAGED_LOG_NAME.match(name)]:
        yield f"a damaged log that was set aside may contain their events; delete it manually: {', '.join(aside)}"
    if bases.config.events.otlp:
        yield f"spans were sent to {bases.config.events.otlp}; remove them there"
    yield from ALWAYS_RETAINED


def list_config_mentions(text: str, name: str) -> Iterator[str]:
    """List the lines of foreword.yaml that name the person; only the owner edits them."""
    from foreword.config.yaml import parse_nodes

    if not text:
        return
    places = convert_node(parse_nodes(text, CONFIG_FILE), Config, CONFIG_FILE).places
    named = {
        (place.line, format_keys(keys))
        for keys, place in places.items()
        if (keys[-1:] == (name,) and "users" in keys) or (place.value == name and keys[0] not in UNRELATED_KEYS)
    }
    for line, keys in sorted(named):
        yield f"{CONFIG_FILE}:{line}: {keys} names them; the owner can edit the configuration"


def list_related_users(bases: Databases, person: Subject) -> Iterator[str]:
    """List other users with one of the person's identities, for example after a rename."""
    if bases.state is None:
        return
    asked = "SELECT DISTINCT user_id FROM identities WHERE identity = ? AND user_id != ?"
    names = {name for one in person.names for (name,) in bases.state.execute(asked, (one, person.name))}
    for name, user in bases.config.users.items():
        if name != person.name and set(user.identities) & person.names:
            names.add(name)
    for name in sorted(names):
        yield f"{name} has one of their identities; if both are the same person, run: foreword forget {name}"


def list_edited_notes(bases: Databases, person: Subject) -> Iterator[str]:
    """List the notes with a promoted text of the person that was edited later, so that it belongs to the owner."""
    edited = [path for path, text in list_additions(bases.root, person.names) if not text]
    for path in dict.fromkeys(edited):
        yield f"{path}: one of their texts was edited after its promotion and stays"


def list_quoting_files(bases: Databases, person: Subject) -> Iterator[str]:
    """List the hand-written memory files that quote the person."""
    blotter, own = Redactor(person, memories=False), frozenset(list_authored_files(bases.root, person.names))
    paths = [path for path in list_memory_files(bases.root) if path not in own and not find_author(path)]
    if os.path.isfile(os.path.join(bases.root, "MEMORY.md")):
        paths.append("MEMORY.md")
    others: set[str] = set()
    for path in paths:
        text = remove_added(read_file_text(os.path.join(bases.root, path)), person.names)
        if blotter.wipe(text) == text:
            continue
        if other := find_own_person(path):  # file names are private
            others.add(other)
        else:
            yield f"{path} was written by hand and quotes them; edit the file"
    for other in sorted(others):
        yield f"the private memory of {other} quotes them; ask {other} to edit it"


PENDING_FILE = "forgetting"  # file with the name of the person in an unfinished run
MAX_ROUNDS = 3  # data written during an erasure, such as the last event of a turn, is erased in the next round
FLUSH_WAIT_S = 0.3  # seconds for a gateway to write buffered data of an ended turn
MAX_USER_NAME_CHARS = 1_000
REDACTED_LATE = frozenset(
    {
        QuoteLocation.name,
        TranscriptLocation.name,
        QuotingSectionLocation.name,
        QuotingMemoryLocation.name,
        LedgerLocation.name,
    }
)


@frozen(eq=True)
class LocationResult:
    """The result for one data location."""

    name: str
    where: str
    found: int
    removed: int = 0
    left: int = 0
    """Items that the second search still found."""


@frozen(eq=True)
class ErasureReport:
    """The report of an erasure: counts per data location and the reasons for retained data, without personal data."""

    user: str
    lines: tuple[LocationResult, ...]
    stays: tuple[str, ...] = ()
    done: bool = False
    """Whether the second search found nothing and no file contains bytes of deleted data."""
    trouble: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        """The number of items found."""
        return sum(line.found for line in self.lines)


def preview_erasure(workspace: Workspace, user: str) -> ErasureReport:
    """Report what data of a person exists, without changes."""
    with open_databases(workspace) as bases:
        check_erasable(workspace, bases, user)
        person = identify_subject(bases, user)
        lines = [
            LocationResult(name=one.name, where=format_location(one, user), found=one.find(bases, person))
            for one in DATA_LOCATIONS
        ]
        return ErasureReport(user=user, lines=tuple(lines), stays=tuple(list_retained(workspace, bases, person)))


def erase_person(
    workspace: Workspace, user: str, patience: float = 30.0, holdings: Sequence[DataLocation] = DATA_LOCATIONS
) -> ErasureReport:
    """Erase all data of a person, search again and report the result.

    A run can be interrupted at any time and repeated. Running turns of the person are stopped. Rows of the state are
    only removed while no turn runs that could write the person's words again.
    """
    with open_databases(workspace) as bases:
        check_erasable(workspace, bases, user)
        with lock_erasure(workspace.state, user, patience):
            person = identify_subject(bases, user)
            stays = tuple(list_retained(workspace, bases, person))
            lines: list[LocationResult] = []
            begun = list_running_turns(bases.state) if bases.state else set()
            for number in range(MAX_ROUNDS):
                lines = add_results(lines, erase_once(bases, user, patience, holdings))
                if not any(line.left for line in lines):
                    break
                time.sleep(FLUSH_WAIT_S * number)  # a gateway writes its log in batches
            trouble = (*redact_late_writes(bases, person, begun, patience), *vacuum_databases(bases, patience))
            done = not trouble and not any(line.left for line in lines)
            if done:
                os.unlink(os.path.join(workspace.state, PENDING_FILE))
            return ErasureReport(user=user, lines=tuple(lines), stays=stays, done=done, trouble=trouble)


def erase_once(bases: Databases, user: str, patience: float, holdings: Sequence[DataLocation]) -> list[LocationResult]:
    """Erase in all data locations once; those of one database change in one transaction."""
    person = identify_subject(bases, user)
    found = [one.find(bases, person) for one in holdings]
    removed: list[int] = []
    for base, group in groupby(holdings, key=lambda one: one.base):
        connection = bases.get(base)
        if connection is not None and connection is bases.state:
            removed += erase_in_state(bases, person, list(group), patience)
            continue
        with open_transaction(connection):
            removed += [one.forget(bases, person) for one in group]
    time.sleep(min(FLUSH_WAIT_S, patience / 100))
    again = identify_subject(bases, user)
    left = [one.find(bases, again) for one in holdings]
    return [
        # Also count items that another location removed.
        LocationResult(
            name=one.name, where=format_location(one, user), found=there, removed=max(gone, there - still), left=still
        )
        for one, there, gone, still in zip(holdings, found, removed, left, strict=True)
    ]


def erase_in_state(bases: Databases, person: Subject, holdings: Sequence[DataLocation], patience: float) -> list[int]:
    """Remove a person's rows while no turn runs that uses their words."""
    with wait_for_turns(bases, person, patience):
        # Include messages that arrived while waiting.
        person = identify_subject(bases, person.name)
        return [one.forget(bases, person) for one in holdings]


def redact_late_writes(bases: Databases, person: Subject, begun: set[str], patience: float) -> Iterator[str]:
    """Redact what running turns of other users wrote meanwhile; their prompts may contain the person's memories."""
    if bases.state is None or not (begun or list_running_turns(bases.state)):
        return
    ended = wait_for_others(bases.state, patience)
    for holding in DATA_LOCATIONS:
        if holding.name in REDACTED_LATE:
            with open_transaction(bases.get(holding.base)):
                holding.forget(bases, person)
    if not ended:
        yield "a turn of another user is still running and may quote a memory of this person; check its answer"


def add_results(before: list[LocationResult], now: list[LocationResult]) -> list[LocationResult]:
    """Add up the results of two rounds."""
    if not before:
        return now
    return [
        LocationResult(
            name=new.name, where=new.where, found=old.found, removed=old.removed + new.removed, left=new.left
        )
        for old, new in zip(before, now, strict=True)
    ]


def format_location(holding: DataLocation, user: str) -> str:
    """Return the path of a data location for this person."""
    return holding.where.replace("NAME", user)


def check_erasable(workspace: Workspace, bases: Databases, user: str) -> None:
    """Raise InputError for an unknown person and for the owner."""
    check_person(workspace, bases, user)
    if user == workspace.config.owner:
        raise InputError(
            f"{user} owns this workspace and cannot be erased; set another owner in foreword.yaml first, "
            "or delete the whole folder"
        )


def check_person(workspace: Workspace, bases: Databases, user: str) -> None:
    """Raise InputError for an invalid name, and for a person without any data."""
    if not user.strip() or len(user) > MAX_USER_NAME_CHARS or not user.isprintable():
        raise InputError(f"{quote_name(user)} is not a valid user name")
    if user not in (known := list_known_people(bases)) and user != read_pending(workspace.state):
        raise UnknownName("user", user, known)


@contextmanager
def lock_erasure(folder: str, user: str, patience: float) -> Iterator[None]:
    """Allow one erasure at a time, and store the person's name, so that an interrupted run can be repeated."""
    os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, PENDING_FILE)
    with ExitStack() as held:
        try:
            held.enter_context(lock_file(path, min(patience, LOCK_TIMEOUT_S)))
        except sqlite3.OperationalError:
            raise InputError("another erasure is running; wait until it ends, then try again") from None
        pending = read_pending(folder)
        if pending and pending != user:
            raise InputError(
                f"the erasure of {quote_name(pending)} was interrupted;"
                f" finish it first: foreword forget {pending} --yes"
            )
        create_private_file(path)
        replace_file(path, user)
        yield


def read_pending(folder: str) -> str:
    """Return the name of the person in an unfinished run; empty if there is none."""
    with suppress(OSError), open(os.path.join(folder, PENDING_FILE), encoding="utf-8") as file:
        return file.read()
    return ""
