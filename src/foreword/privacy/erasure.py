"""Erasure of a person's data in all locations, with a second search that verifies it."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

from foreword.config.schema import Config
from foreword.config.structure import convert_node, format_keys
from foreword.config.yaml import parse_nodes
from foreword.engine.trust import find_author, find_own_person
from foreword.errors import InputError, UnknownName, quote_name
from foreword.events.redaction import DAMAGED_LOG_NAME, list_names
from foreword.memory.index import FILE as INDEX_FILE
from foreword.memory.notes import remove_added
from foreword.privacy import database_locations as tables
from foreword.privacy import file_locations as files
from foreword.privacy import subject
from foreword.privacy.database_locations import DataLocation, RowLocation
from foreword.privacy.subject import OWN_NAMES_SQL, OWN_ROWS_SQL, OWN_SESSIONS_SQL, OWN_TURNS_SQL, Databases, Subject
from foreword.storage import database
from foreword.storage.legacy_import import NOTES_TABLE, OLD_NOTES_TABLE
from foreword.storage.writer import is_dead_owner
from foreword.types import frozen
from foreword.workspace import CONFIG_FILE, Workspace

OWN_BUDGETS_SQL = (
    f"scope = 'user' AND name IN {subject.LOGGED_NAMES_SQL} OR scope = 'turn' AND name IN {subject.select_ids('trace')}"
)
# An outbound message is addressed to an identity on a channel, or its key names the recipient.
CHANNEL_PREFIX_SQL = "substr(channel || ':', 1, instr(channel || ':', ':'))"
OUTBOX_ROWS_SQL = (
    f"{OWN_TURNS_SQL} OR {CHANNEL_PREFIX_SQL} || address IN {OWN_NAMES_SQL}"
    " OR EXISTS (SELECT 1 FROM subject_ids AS own WHERE kind = 'name'"
    " AND (instr(outbox.key, char(0) || own.id || char(0)) OR instr(own.id, {prefix}) = 1"
    " AND instr(outbox.key, '/' || substr(own.id, length({prefix}) + 1) || char(0))))"
).format(prefix=CHANNEL_PREFIX_SQL)
HISTORY_ROWS_SQL = (
    f"{OWN_SESSIONS_SQL} OR {OWN_TURNS_SQL} OR kind = 'outside' AND (SELECT user_id FROM turns"
    f" WHERE turns.session_id = history.session_id ORDER BY number LIMIT 1) IN {OWN_NAMES_SQL}"
)
PLAN_ROWS_SQL = (
    f"{OWN_SESSIONS_SQL} OR (session_id, text) IN"
    f" (SELECT session_id, trim(reply) FROM turns WHERE id IN {subject.select_ids('turn')})"
)
EDIT_ROWS_SQL = (
    "EXISTS (SELECT 1 FROM subject_ids AS own WHERE kind = 'name' AND instr(path, 'users/' || own.id || '/') = 1)"
)

# The clearance of a row's session; full for a session that only the log has (a custom agent loop).
SESSION_CLEARANCE_SQL = "coalesce((SELECT clearance FROM sessions WHERE sessions.id = {table}.session_id), 3)"
OUTBOX_CLEARANCE_SQL = (
    "iif(turn_id IS NULL, 0, coalesce((SELECT clearance FROM sessions JOIN turns ON turns.session_id = sessions.id"
    " WHERE turns.id = outbox.turn_id), 3))"
)
BUDGET_ROWS: dict[str, Any] = {"base": tables.BUDGETS, "exported": "scope = 'user'"}
# In the order of erasure.
DATA_LOCATIONS: tuple[DataLocation, ...] = (
    tables.PromptLocation(),
    tables.QuotingSectionLocation(),
    files.QuotingMemoryLocation(),
    files.TerminalHistoryLocation(),
    RowLocation("bulletins", f"EXISTS {subject.select_ids('memory')}", exported="0", columns="text author source"),
    files.ImageLocation(),
    tables.SummaryLocation(),
    tables.LedgerLocation(),
    tables.RoomLineLocation(),
    tables.QuoteLocation(),
    RowLocation("begun", OWN_TURNS_SQL, "calls begun"),
    RowLocation("held_calls", f"{OWN_ROWS_SQL} OR {OWN_TURNS_SQL}", "held calls", trust=SESSION_CLEARANCE_SQL),
    RowLocation("outbox", OUTBOX_ROWS_SQL, trust=OUTBOX_CLEARANCE_SQL),
    RowLocation(
        "history", HISTORY_ROWS_SQL, trust=SESSION_CLEARANCE_SQL, exported="kind != 'room'", columns="messages turn_id"
    ),
    RowLocation("plans", PLAN_ROWS_SQL, trust=SESSION_CLEARANCE_SQL, columns="text"),
    RowLocation("tasks", OWN_SESSIONS_SQL, trust=SESSION_CLEARANCE_SQL, columns="id title description steps"),
    RowLocation("workflows", OWN_SESSIONS_SQL, trust=SESSION_CLEARANCE_SQL, columns="text"),
    RowLocation("edits", EDIT_ROWS_SQL, "decisions about edits", columns="path sha256"),
    RowLocation("tokens", OWN_ROWS_SQL),
    RowLocation("pairings", OWN_ROWS_SQL),
    RowLocation("overheard", OWN_ROWS_SQL, "overheard words"),
    RowLocation("schedules", OWN_ROWS_SQL, trust="clearance"),
    RowLocation("profiles", OWN_ROWS_SQL, trust="clearance"),
    RowLocation("user_agent_prompt_customizations", OWN_ROWS_SQL, "instructions", trust="clearance"),
    RowLocation("old_user_agent_prompt_customizations", OWN_ROWS_SQL, trust="3", optional=True),
    RowLocation(OLD_NOTES_TABLE, OWN_ROWS_SQL, trust="3", optional=True),
    RowLocation(NOTES_TABLE, OWN_ROWS_SQL, trust="3", optional=True),
    RowLocation("turns", f"id IN {subject.select_ids('turn')} OR {OWN_ROWS_SQL}", trust=SESSION_CLEARANCE_SQL),
    RowLocation("sessions", OWN_ROWS_SQL, trust="clearance", columns="id user_id parent"),
    files.TranscriptLocation(),
    files.FactLocation(),
    files.NoteAdditionLocation(),
    files.MemoryLocation(),
    files.SearchIndexLocation(),
    RowLocation("budget_spent", OWN_BUDGETS_SQL, "money spent", columns="scope name", **BUDGET_ROWS),
    RowLocation("budget_reserved", OWN_BUDGETS_SQL, "money reserved", columns="scope name reservation", **BUDGET_ROWS),
    tables.TotalLocation(),
    tables.EventLocation(),
    files.UserFolderLocation(),
    files.TokenCountLocation(),
    RowLocation("responsibilities", OWN_ROWS_SQL, trust="3"),
    RowLocation("identities", f"{OWN_ROWS_SQL} OR identity IN {OWN_NAMES_SQL}"),
)
# Locations in which turns of other users quote the person.
QUOTING_LOCATIONS = (
    tables.QuoteLocation, tables.QuotingSectionLocation, tables.LedgerLocation, files.TranscriptLocation,
    files.QuotingMemoryLocation,
)  # fmt: skip
PENDING_FILE = "forgetting"  # file with the name of the person in an unfinished run
MAX_ROUNDS = 3  # data written during an erasure, such as the last event of a turn, is erased in the next round
FLUSH_WAIT_S = 0.3  # seconds for a gateway to write buffered data of an ended turn
MAX_USER_NAME_CHARS = 1_000


@frozen(eq=True)
class LocationResult:
    """The result for one data location."""

    name: str
    where: str
    found: int
    removed: int = 0
    left: int = 0  # items that the second search still found


@frozen(eq=True)
class ErasureReport:
    """The report of an erasure: counts per data location and the reasons for retained data, without personal data."""

    user: str
    lines: tuple[LocationResult, ...]
    stays: tuple[str, ...] = ()
    done: bool = False  # whether the second search found nothing and no file contains bytes of deleted data
    trouble: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        """The number of items found."""
        return sum(line.found for line in self.lines)


def preview_erasure(workspace: Workspace, user: str) -> ErasureReport:
    """Report what data of a person exists, without changes."""
    with subject.open_databases(workspace) as databases:
        check_erasable(workspace, databases, user)
        person = subject.identify_subject(databases, user)
        lines = tuple(make_result(location, user, location.find(databases, person)) for location in DATA_LOCATIONS)
        return ErasureReport(user=user, lines=lines, stays=tuple(list_retained(workspace, databases, person)))


def erase_person(
    workspace: Workspace, user: str, timeout_s: float = 30.0, locations: Sequence[DataLocation] = DATA_LOCATIONS
) -> ErasureReport:
    """Erase all data of a person, search again and report the result.

    A run can be interrupted at any time and repeated. Running turns of the person are stopped. Rows of the state are
    only removed while no turn runs that could write the person's words again; `timeout_s` is how many seconds to wait.
    """
    with subject.open_databases(workspace) as databases:
        check_erasable(workspace, databases, user)
        with lock_erasure(workspace.state, user, timeout_s):
            person = subject.identify_subject(databases, user)
            retained = tuple(list_retained(workspace, databases, person))
            running = list_running_turns(databases.state)
            lines = erase_once(databases, user, timeout_s, locations)
            running |= list_running_turns(databases.state)
            trouble: list[str] = []
            for attempt in range(MAX_ROUNDS - 1):
                if not attempt and running:  # turns of other users; their prompts may contain the person's memories
                    trouble += wait_for_turns(databases.state, running, timeout_s)
                elif not any(line.left for line in lines):
                    break
                time.sleep(FLUSH_WAIT_S)  # a gateway writes its log in batches
                again = erase_once(databases, user, timeout_s, locations)
                lines = [
                    replace(new, found=old.found, removed=old.removed + new.removed)
                    for old, new in zip(lines, again, strict=True)
                ]
            if running:  # later rounds no longer know the deleted words, so this uses the first subject
                redact_quotes(databases, person, locations)
            trouble += vacuum_databases(databases, timeout_s)
            done = not trouble and not any(line.left for line in lines)
            if done:
                os.unlink(os.path.join(workspace.state, PENDING_FILE))
            return ErasureReport(user=user, lines=tuple(lines), stays=retained, done=done, trouble=tuple(trouble))


def redact_quotes(databases: Databases, person: Subject, locations: Sequence[DataLocation]) -> None:
    """Redact what running turns of other users wrote meanwhile; their prompts may contain the person's memories."""
    for location in locations:
        if isinstance(location, QUOTING_LOCATIONS):
            with database.writing(getattr(databases, location.base)) if location.base else nullcontext():
                location.erase(databases, person)


def erase_once(
    databases: Databases, user: str, timeout_s: float, locations: Sequence[DataLocation]
) -> list[LocationResult]:
    """Erase in all data locations once; those of one database change in one transaction."""
    person = subject.identify_subject(databases, user)
    found = [location.find(databases, person) for location in locations]
    removed: list[int] = []
    for base, group in groupby(locations, key=lambda location: location.base):
        if base == tables.STATE:
            with lock_idle_state(databases, person, timeout_s):
                person = subject.identify_subject(databases, user)  # with messages that arrived while waiting
                removed += [location.erase(databases, person) for location in group]
        else:
            with database.writing(getattr(databases, base)) if base else nullcontext():
                removed += [location.erase(databases, person) for location in group]
    time.sleep(min(FLUSH_WAIT_S, timeout_s / 100))
    person = subject.identify_subject(databases, user)
    left = [location.find(databases, person) for location in locations]
    return [
        make_result(location, user, before, max(erased, before - after), after)  # another location removed some as well
        for location, before, erased, after in zip(locations, found, removed, left, strict=True)
    ]


def make_result(location: DataLocation, user: str, found: int, removed: int = 0, left: int = 0) -> LocationResult:
    """Return the result for a data location."""
    where = format_location(location, user)
    return LocationResult(name=location.name, where=where, found=found, removed=removed, left=left)


def wait_for_turns(state: sqlite3.Connection, turns: set[str], timeout_s: float) -> Iterator[str]:
    """Wait until turns have ended; yield a message if they are still running in the end."""
    end = time.monotonic() + timeout_s
    while turns & list_running_turns(state):
        if time.monotonic() > end:
            yield "a turn of another user is still running and may quote a memory of this person; check its answer"
            return
        time.sleep(TURN_POLL_S)


def format_location(location: DataLocation, user: str) -> str:
    """Return the path of a data location for this person."""
    return (location.where or tables.PATHS[location.base]).replace("NAME", user)


def check_erasable(workspace: Workspace, databases: Databases, user: str) -> None:
    """Raise InputError for an unknown person and for the owner."""
    check_person(workspace, databases, user)
    if user == workspace.config.owner:
        raise InputError(
            f"{user} owns this workspace and cannot be erased; set another owner in foreword.yaml first, "
            "or delete the whole folder"
        )


def check_person(workspace: Workspace, databases: Databases, user: str) -> None:
    """Raise InputError for an invalid name, and for a person without any data."""
    if not user.strip() or len(user) > MAX_USER_NAME_CHARS or not user.isprintable():
        raise InputError(f"{quote_name(user)} is not a valid user name")
    if user not in (people := subject.list_people(databases)) and user != read_pending(workspace.state):
        raise UnknownName("user", user, people)


@contextmanager
def lock_erasure(folder: str, user: str, timeout_s: float) -> Iterator[None]:
    """Allow one erasure at a time, and store the person's name, so that an interrupted run can be repeated."""
    os.makedirs(folder, database.FOLDER_MODE, exist_ok=True)
    path = os.path.join(folder, PENDING_FILE)
    with ExitStack() as stack:
        try:
            stack.enter_context(database.lock_file(path, min(timeout_s, database.LOCK_TIMEOUT_S)))
        except sqlite3.OperationalError:
            raise InputError("another erasure is running; wait until it ends, then try again") from None
        pending = read_pending(folder)
        if pending and pending != user:
            command = f"foreword forget {pending} --yes"
            raise InputError(f"the erasure of {quote_name(pending)} was interrupted; finish it first: {command}")
        database.create_private_file(path)
        files.replace_file(path, user)
        yield


def read_pending(folder: str) -> str:
    """Return the name of the person in an unfinished run; empty if there is none."""
    with suppress(OSError), open(os.path.join(folder, PENDING_FILE), encoding="utf-8") as file:
        return file.read()
    return ""


TURN_POLL_S = 0.05
RUNNING_SQL = "finished IS NULL AND state = 'running' AND lease_until > ?"
# The person's turns, and those of others in rooms where the person spoke: these may be writing a summary.
BLOCKING_TURNS_SQL = f"""
SELECT user_id, lease_owner FROM turns WHERE {RUNNING_SQL} AND ({OWN_ROWS_SQL} OR {OWN_SESSIONS_SQL}
    OR session_id IN (SELECT session_id FROM history WHERE {OWN_TURNS_SQL})
    OR session_id IN (SELECT session_id FROM turns AS own WHERE own.user_id IN {OWN_NAMES_SQL}))"""


@contextmanager
def lock_idle_state(databases: Databases, person: Subject, timeout_s: float) -> Iterator[None]:
    """Lock the state while no turn uses the person's words; stop the person's turns, or raise InputError in the end."""
    state, end = databases.state, time.monotonic() + timeout_s
    while True:
        with database.writing(state):
            blocking = query_running(state, BLOCKING_TURNS_SQL)
            if not blocking:
                yield
                return
            state.execute(f"UPDATE turns SET stop = 1 WHERE {OWN_ROWS_SQL} AND state = 'running'")
        if time.monotonic() > end:
            whose = f"a turn of {person.name} is" if blocking & person.names else "a turn in a shared room is"
            raise InputError(
                f"{whose} still running and could write the erased words again; nothing more was removed: "
                "wait until it ends or stop the gateway, then run this command again"
            )
        time.sleep(TURN_POLL_S)


def list_running_turns(state: sqlite3.Connection) -> set[str]:
    """List the turns that a live process is running."""
    return query_running(state, f"SELECT id, lease_owner FROM turns WHERE {RUNNING_SQL}")


def query_running(state: sqlite3.Connection, query: str) -> set[str]:
    """Return the first column of the turns whose lease belongs to a live process."""
    rows = state.execute(query, (time.time(),)).fetchall()
    return {value for value, owner in rows if owner and not is_dead_owner(owner)}


CHECKPOINT_POLL_S = 0.1


def vacuum_databases(databases: Databases, timeout_s: float) -> Iterator[str]:
    """Remove the bytes of deleted rows from each database; yield a message for a file that may still have some."""
    with ExitStack() as stack:
        names = (database.STATE_FILE, database.EVENTS_FILE, database.BUDGETS_FILE)
        connections = dict(zip(names, (databases.state, databases.log, databases.budgets), strict=True))
        path = os.path.join(databases.folder, INDEX_FILE)
        if os.path.isfile(path):
            connections[INDEX_FILE] = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
        for name, connection in connections.items():
            if fault := vacuum_database(connection, timeout_s):
                yield (
                    f".foreword/{name} or {name}-wal may still contain deleted data ({fault}); "
                    "stop the processes that use it and run this command again"
                )


def vacuum_database(connection: sqlite3.Connection, timeout_s: float) -> str:
    """Vacuum a database and truncate its write-ahead log; return the reason of a failure, or an empty string."""
    end = time.monotonic() + timeout_s
    try:
        connection.execute(f"PRAGMA busy_timeout={timeout_s * 1_000:.0f}")
        connection.execute("PRAGMA secure_delete=ON")
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


def list_retained(workspace: Workspace, databases: Databases, person: Subject) -> Iterator[str]:
    """List the retained data and where the owner can remove it."""
    text = workspace.files.read_text(CONFIG_FILE)
    yield from list_config_mentions(text if isinstance(text, str) else "", person.name)
    for name in list_related_users(databases, person):
        yield f"{name} has one of their identities; if both are the same person, run: foreword forget {name}"
    for path in dict.fromkeys(path for path, text in subject.list_additions(databases.root, person.names) if not text):
        yield f"{path}: one of their texts was edited after its promotion and stays"
    yield from list_quoting_files(databases, person)
    if damaged := [name for name in sorted(list_names(databases.folder)) if DAMAGED_LOG_NAME.match(name)]:
        yield f"a damaged log that was set aside may contain their events; delete it manually: {', '.join(damaged)}"
    if databases.config.events.otlp:
        yield f"spans were sent to {databases.config.events.otlp}; remove them there"
    yield from ALWAYS_RETAINED


def list_config_mentions(text: str, name: str) -> Iterator[str]:
    """List the lines of foreword.yaml that name the person; only the owner edits them."""
    if not text:
        return
    places = convert_node(parse_nodes(text, CONFIG_FILE), Config, CONFIG_FILE).values
    named = {
        (place.line, format_keys(keys))
        for keys, place in places.items()
        if (keys[-1:] == (name,) and "users" in keys) or (place.value == name and keys[0] not in UNRELATED_KEYS)
    }
    for line, keys in sorted(named):
        yield f"{CONFIG_FILE}:{line}: {keys} names them; the owner can edit the configuration"


def list_related_users(databases: Databases, person: Subject) -> list[str]:
    """List other users with one of the person's identities, for example after a rename."""
    query = f"SELECT user_id FROM identities WHERE identity IN {OWN_NAMES_SQL}"
    configured = [name for name, user in databases.config.users.items() if set(user.identities) & person.names]
    return sorted({*subject.query_column(databases.state, query), *configured} - {person.name})


def list_quoting_files(databases: Databases, person: Subject) -> Iterator[str]:
    """List the hand-written memory files that quote the person."""
    root, redactor = databases.root, subject.Redactor(person, memories=False)
    authored = frozenset(subject.list_authored_files(root, person.names))
    paths = [path for path in subject.list_memory_files(root) if path not in authored and not find_author(path)]
    if os.path.isfile(os.path.join(root, "MEMORY.md")):
        paths.append("MEMORY.md")
    people: set[str] = set()
    for path in paths:
        if redactor.finds_words(remove_added(subject.read_file_text(os.path.join(root, path)), person.names)):
            if other := find_own_person(path):  # file names are private
                people.add(other)
            else:
                yield f"{path} was written by hand and quotes them; edit the file"
    for other in sorted(people):
        yield f"the private memory of {other} quotes them; ask {other} to edit it"
