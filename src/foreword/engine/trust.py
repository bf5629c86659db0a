"""Access: the clearance of a turn, and the clearance that a file, a memory or a transcript needs."""

import re
from collections.abc import Iterable
from functools import cache

from foreword.config.load import is_hidden
from foreword.config.schema import Config
from foreword.engine.blueprint import SKILLS_SOURCE, Blueprint, Slot
from foreword.engine.sources.documents import Document, join_lines
from foreword.turn import Turn
from foreword.types import Trust, frozen

USERS_FOLDER = "users"  # the folder with one subfolder of personal files per user
GROUP_SITUATION = "group"
PRIVATE_SITUATIONS = ("dm", "system")


@frozen(eq=True)
class Clearance:
    """The effective level of a turn, the levels it was computed from, and the reason."""

    level: Trust
    user: str
    user_trust: Trust
    ceiling: Trust
    reason: str
    warnings: tuple[str, ...] = ()

    def describe(self, situation: str) -> dict[str, str]:
        """Return the fields of a `trust_resolved` event: the user, their level, the ceiling and the result."""
        return {
            "user": self.user,
            "trust": str(self.user_trust),
            "situation": situation,
            "ceiling": str(self.ceiling),
            "effective": str(self.level),
        }


@frozen(eq=True)
class Audience:
    """The readers of a reply: their clearance, and the user if there is only one reader."""

    clearance: Trust
    person: str = ""
    """The user of a private conversation; empty where others read the reply."""


Bound = tuple[Trust, str]
"""An upper bound of the clearance, and the words that name it in the reason."""


def resolve_trust(turn: Turn, config: Config) -> Clearance:
    """Resolve the clearance of a turn. Unknown names fail closed: they get `public`."""
    person = config.users.get(turn.user) if turn.user else None
    trust = person.trust if person else Trust.PUBLIC
    ceiling, source = min(list_bounds(turn, config), key=lambda bound: bound[0])
    if person is None:
        who = f"{turn.user!r} is not a known user" if turn.user else "no user is named"
        reason = f"{who}; {source} allows up to {ceiling}"
    elif ceiling < trust:
        reason = f"{turn.user} is {trust} but {source} allows {ceiling} at most"
    else:
        reason = f"{turn.user} is {trust} and {source} allows {ceiling}"
    warnings = [
        f"{kind} {name!r} is not known and is treated as public; list {pronoun} under {kind}s"
        for kind, name, known, pronoun in (
            ("user", turn.user, config.users, "them"),
            ("situation", turn.situation, config.situations, "it"),
        )
        if name and name not in known
    ]
    return Clearance(
        level=min(trust, ceiling),
        user=turn.user,
        user_trust=trust,
        ceiling=ceiling,
        reason=reason,
        warnings=tuple(warnings),
    )


def list_bounds(turn: Turn, config: Config) -> list[Bound]:
    """List the bounds by situation, room and turn; a turn's own ceiling, such as a schedule's, can only lower it."""
    room = config.rooms.get(turn.room)
    situations = [turn.situation or (room.situation if room else "")]
    if turn.room and room is None and turn.situation in PRIVATE_SITUATIONS:
        situations.append(GROUP_SITUATION)  # a room is never a private chat
    elif room:
        situations.append(room.situation)
    bounds: list[Bound] = []
    for name in situations:
        unknown = f"situation {name!r} is not known, which" if name else "no situation is named, which"
        bounds.append((get_ceiling(name, config), f"a {name}" if name in config.situations else unknown))
    if room:
        if room.ceiling is not None:
            bounds.append((room.ceiling, f"room {turn.room}"))
        if room.members is not None and turn.user not in room.members:
            bounds.append((Trust.PUBLIC, f"room {turn.room}, which does not list them as a member,"))
    if turn.ceiling is not None:
        bounds.append((turn.ceiling, "the ceiling of this turn"))
    return bounds


def get_ceiling(situation: str, config: Config) -> Trust:
    """Return the ceiling of a situation; an unknown one allows only `public`."""
    known = config.situations.get(situation)
    return known.ceiling if known else Trust.PUBLIC


def find_situation(turn: Turn, config: Config) -> str:
    """Return the situation of a turn: the room's, unless the turn names one with a lower ceiling."""
    room = config.rooms.get(turn.room)
    if turn.room and room is None and turn.situation in PRIVATE_SITUATIONS:
        return GROUP_SITUATION
    if room is None or not turn.situation:
        return room.situation if room else turn.situation
    is_lower = get_ceiling(turn.situation, config) < get_ceiling(room.situation, config)
    return turn.situation if is_lower else room.situation


def has_other_readers(turn: Turn) -> bool:
    """Return whether others read the reply, so that personal slots must stay out of the prompt."""
    return bool(turn.room) or turn.situation == GROUP_SITUATION


def find_audience(turn: Turn, clearance: Trust) -> Audience:
    """Return the audience of a turn's reply."""
    return Audience(clearance=clearance, person="" if has_other_readers(turn) else turn.user)


CONVERSATIONS = "conversations"
TRANSCRIPT_ROOTS = ("groups", "users")  # folders of rooms and of users, each with its own transcripts
TRANSCRIPT_PATH_DEPTH = 4  # components of a transcript's path: groups/NAME/conversations/FILE


@frozen(eq=True)
class ArchivedSession:
    """The session of a transcript as the archive recorded it; the content of the file proves nothing."""

    clearance: Trust
    channel: str
    room: str = ""
    user: str = ""
    """The user of a private session; empty for a room."""


def is_archive(path: str) -> bool:
    """Return whether a path is in a folder of transcripts, ignoring case."""
    parts = path.split("/")
    is_below = len(parts) >= TRANSCRIPT_PATH_DEPTH and parts[0].casefold() in TRANSCRIPT_ROOTS
    return is_below and parts[2].casefold() == CONVERSATIONS


def may_read_transcript(archived: ArchivedSession | None, turn: Turn, level: Trust) -> bool:
    """Return whether a turn may read a transcript. It needs at least the clearance of the recorded session.

    A private transcript is for its user alone, in private. A room's transcript may be read in that room, and elsewhere
    only in private with `full` trust. A file that the archive does not know needs `full`.
    """
    if archived is None:
        return level is Trust.FULL
    if level < archived.clearance:
        return False
    if archived.user:
        return archived.user == turn.user and not has_other_readers(turn)
    here = (turn.channel, turn.room) == (archived.channel, archived.room)
    return here or (level is Trust.FULL and not has_other_readers(turn))


PLACEHOLDER = re.compile(r"\\\{\w+\\\}")
PERSONAL_PLACEHOLDERS = ("{group}", "{user}")  # such a path belongs to some users; only its own slot knows to whom


class FileGuard:
    """Decides the clearance of a file that is reached by a path other than its slot's, such as a link."""

    def __init__(self, blueprint: Blueprint, config: Config) -> None:
        self.blueprint = blueprint
        self.listed = {entry.path: entry.trust for entry in config.prompt.files}
        self._owner = config.owner
        self._stores = config.stores
        self._overlays = {situation.prompt_overlay for situation in config.situations.values()}
        # The overlay has a separate rule.
        self._slots = [
            slot
            for slot in blueprint.slots
            if not slot.per_user
            and (place := slot.file or slot.folder) != "{overlay}"
            and not any(name in place for name in PERSONAL_PLACEHOLDERS)
        ]
        own = [slot.file for slot in blueprint.slots if slot.per_user and slot.file]
        own += [entry.path for entry in config.prompt.files if entry.per_user]
        self._own = [compile_path_template(path) for path in own]

    def find_person(self, path: str) -> str:
        """Return the user who owns a personal file, or an empty string for a shared one."""
        top, _, rest = path.partition("/")
        if top == USERS_FOLDER:
            return rest.partition("/")[0]
        return self._owner if any(own.fullmatch(path) for own in self._own) else ""

    def find_required_trust(self, path: str) -> Trust:
        """Return the lowest clearance that may see a file; unlisted and personal files need `full`."""
        if is_hidden(path) or self.find_person(path):
            return Trust.FULL
        if path in self.listed:
            return self.listed[path]
        if path in self._overlays:
            return Trust.PUBLIC
        top, _, rest = path.partition("/")
        if top == "memory":
            store = self._stores.get(rest.partition("/")[0]) if path.endswith(".md") else None
            return store.trust if store else Trust.FULL
        if top == "agents":
            return self.find_required_trust(rest.partition("/")[2]) if rest.count("/") else Trust.FULL
        files = [slot for slot in self._slots if slot.file and compile_path_template(slot.file).fullmatch(path)]
        folders = [slot for slot in self._slots if slot.folder and lists_file(slot, path)]
        matches = [*(slot.file_required_trust for slot in files), *(slot.trust for slot in folders)]
        return max(matches, default=Trust.FULL)


def lists_file(slot: Slot, path: str) -> bool:
    """Return whether the source of a slot would find a file in its folder."""
    last = "/SKILL.md" if slot.source == SKILLS_SOURCE else ".md"
    return path.endswith(last) and compile_path_template(f"{slot.folder}/").match(path) is not None


@cache
def compile_path_template(template: str) -> re.Pattern[str]:
    """Compile a path template into a pattern in which each placeholder matches any name."""
    return re.compile(PLACEHOLDER.sub("[^/]+", re.escape(template)))


OWN_STORE = "own"  # the store name of a user's personal memory, in a search and on the menu
MEMORY_FOLDER, STORES_PREFIX = "memory", "memory/"
LEVELS = (Trust.FAMILIAR, Trust.INNER, Trust.FULL)
LEVELS_BY_NAME = {str(level): level for level in LEVELS}
# A name may have spaces, so a path extends to its .md, or to the next space if the line has none.
OWN_PATHS = re.compile(
    rf"""\b(?:{OWN_STORE}|{USERS_FOLDER}/[^/\n'"]+/{MEMORY_FOLDER})/(?:[^\n'"]*?\.md\b|[^\s'"]+)""", re.IGNORECASE
)


def find_own_folder(person: str) -> str:
    """Return the folder of a user's personal memory."""
    return f"{USERS_FOLDER}/{person}/{MEMORY_FOLDER}"


def find_own_person(path: str) -> str:
    """Return the user whose own memory holds a file, or an empty string."""
    if not path.startswith(f"{USERS_FOLDER}/"):
        return ""
    parts = path.split("/", 3)
    return parts[1] if len(parts) > 3 and parts[2] == MEMORY_FOLDER else ""


def find_own_level(path: str) -> Trust:
    """Return the lowest clearance that may see a file of a user's personal memory, by its folder."""
    return find_entry_level(path) or Trust.FAMILIAR


def is_own_entry(path: str) -> bool:
    """Return whether an agent saved a file of a user's personal memory, by its folder."""
    return bool(find_own_person(path)) and find_entry_level(path) is not None


def find_entry_level(path: str) -> Trust | None:
    """Return the level of the folder of a file in a user's personal memory, or None if the folder has no level."""
    parts = path.split("/")
    return LEVELS_BY_NAME.get(parts[3].casefold()) if len(parts) > 4 else None


def is_memory(path: str) -> bool:
    """Return whether a file is in a store or in a user's personal memory."""
    return path.startswith(STORES_PREFIX) or bool(find_own_person(path))


def show_path(path: str) -> str:
    """Return the path by which memory_get reads a file: the store, then the file."""
    person = find_own_person(path)
    return path.replace(find_own_folder(person), OWN_STORE, 1) if person else path.removeprefix(STORES_PREFIX)


def hide_own_paths(text: str) -> str:
    """Hide the paths of users' personal memory in a text that others read."""
    return OWN_PATHS.sub(f"{OWN_STORE}/…", text)


def locate_path(shown: str, person: str) -> str:
    """Return the file of a displayed path, for a user, or for a room if no user is given.

    In a room `own/…` is not a file, and the result is empty: no store has that name.
    """
    store, _, rest = shown.partition("/")
    if store != OWN_STORE:
        return f"{STORES_PREFIX}{shown}"
    return f"{find_own_folder(person)}/{rest}" if person else ""


def list_index_stores(person: str, clearance: Trust) -> list[str]:
    """List the index stores of a user's personal memory that a clearance may see."""
    return [f"{USERS_FOLDER}/{person}/{level}" for level in LEVELS if level <= clearance] if person else []


def find_index_store(path: str) -> str:
    """Return the index store of a file; each store has separate word statistics."""
    if person := find_own_person(path):
        return f"{USERS_FOLDER}/{person}/{find_own_level(path)}"
    return path.removeprefix(STORES_PREFIX).partition("/")[0]


def find_store_folder(store: str) -> str:
    """Return the folder of an index store."""
    top, _, rest = store.partition("/")
    return find_own_folder(rest.partition("/")[0]) if rest and top == USERS_FOLDER else f"{STORES_PREFIX}{store}"


INBOX = "inbox"  # the folder of a store for entries by agents, with one folder per author
UNKNOWN_AUTHOR = "unknown"  # the author of an entry that is not in an author's folder
IMITATED_PROVENANCE = re.compile(r"(?m)^\((?=unreviewed|saved for )")  # a line that imitates our provenance line


@frozen(eq=True)
class Provenance:
    """The origin of an entry: its author by folder, the rest as the entry itself states."""

    author: str
    clearance: str = ""
    channel: str = ""
    session: str = ""
    time: str = ""
    wanted: str = ""
    """The intended store of an entry of an older version; unconfirmed."""
    own: bool = False
    """Whether it is in the author's personal memory, which no owner reviews."""

    def __str__(self) -> str:
        at = f" at {self.clearance}" if self.clearance else ""
        on = f" on {self.channel}" if self.channel else ""
        review = "" if self.own else "unreviewed, "
        return f"{review}saved for {self.author}{at}{on}{', ' + self.time[:10] if self.time else ''}"


def find_author(path: str) -> str:
    """Return the user for whom an agent saved a memory, by its folder; empty for a file written by hand."""
    if is_own_entry(path):
        return find_own_person(path)
    parts = path.split("/")
    if len(parts) < 4 or parts[0] != "memory" or parts[2] != INBOX:
        return ""
    return parts[3] if len(parts) > 4 else UNKNOWN_AUTHOR


def find_provenance(path: str, document: Document) -> Provenance | None:
    """Return the provenance of an entry; None for any other file."""
    author = find_author(path)
    if not author:
        return None
    names = ("clearance", "channel", "session", "time", "wanted")
    stated = {name: join_lines(document.field(name)) for name in names}
    return Provenance(author=author, **stated, own=is_own_entry(path))


def write_entries(entries: Iterable[Document]) -> str:
    """Write entries of one author, each with its provenance."""
    return "\n\n".join(f"({find_provenance(entry.path, entry)})\n{escape_provenance(entry.body)}" for entry in entries)


def escape_provenance(text: str) -> str:
    """Escape unreviewed text so that no line of it imitates a provenance line."""
    return IMITATED_PROVENANCE.sub(r"\\(", text)
