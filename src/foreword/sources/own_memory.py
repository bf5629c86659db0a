"""A person's own memory: where its files lie, under which paths they are shown, and what clearance each needs.

An entry that an agent saves lies in `users/NAME/memory/LEVEL/`, by the clearance at which it was learned. Other files
of `users/NAME/memory/` were written by hand and need `familiar`.
"""

import re

from foreword.words import Trust

OWN_STORE = "own"  # the name of each person's own memory, in a search and on the menu
PEOPLE, FOLDER, STORES = "users", "memory", "memory/"
LEVELS = (Trust.FAMILIAR, Trust.INNER, Trust.FULL)
NAMED = {str(level): level for level in LEVELS}
# A name may have spaces, so a path reaches to its .md, or to the next space where the line has none.
PATHS = re.compile(rf"""\b(?:{OWN_STORE}|{PEOPLE}/[^/\n'"]+/{FOLDER})/(?:[^\n'"]*?\.md\b|[^\s'"]+)""", re.IGNORECASE)


def find_own_folder(person: str) -> str:
    """Return the folder of a person's own memory."""
    return f"{PEOPLE}/{person}/{FOLDER}"


def find_own_person(path: str) -> str:
    """Return whose own memory a file is in, or nothing."""
    if not path.startswith(f"{PEOPLE}/"):
        return ""
    parts = path.split("/", 3)
    return parts[1] if len(parts) > 3 and parts[2] == FOLDER else ""


def find_own_level(path: str) -> Trust:
    """Return the least clearance that may see a file of a person's own memory, by the folder it lies in."""
    return NAMED.get(find_level_folder(path), Trust.FAMILIAR)


def is_own_entry(path: str) -> bool:
    """Whether an agent saved a file of a person's own memory, by the folder it lies in."""
    return bool(find_own_person(path)) and find_level_folder(path) in NAMED


def find_level_folder(path: str) -> str:
    """Return the folder of a file below a person's own memory, however its letters are written."""
    parts = path.split("/")
    return parts[3].casefold() if len(parts) > 4 else ""


def is_memory(path: str) -> bool:
    """Whether a file lies in a store or in a person's own memory."""
    return path.startswith(STORES) or bool(find_own_person(path))


def show_path(path: str) -> str:
    """Return the path by which memory_get reads a file: the store, then the file."""
    person = find_own_person(path)
    return path.replace(find_own_folder(person), OWN_STORE, 1) if person else path.removeprefix(STORES)


def hide_own_paths(text: str) -> str:
    """Hide the paths of people's own memory in a text that others read."""
    return PATHS.sub(f"{OWN_STORE}/…", text)


def locate_path(shown: str, person: str) -> str:
    """Return the file of a path that was shown to a person, or to a room if none is named.

    For a room `own/…` is no file: the answer is empty, as no store has that name.
    """
    store, _, rest = shown.partition("/")
    if store != OWN_STORE:
        return f"{STORES}{shown}"
    return f"{find_own_folder(person)}/{rest}" if person else ""


def list_index_stores(person: str, clearance: Trust) -> list[str]:
    """Name the stores of the index that hold a person's own memory, as far as a clearance may see it."""
    return [f"{PEOPLE}/{person}/{level}" for level in LEVELS if level <= clearance] if person else []


def find_index_store(path: str) -> str:
    """Name the store of the index that holds a file; each store has separate word statistics."""
    person = find_own_person(path)
    return f"{PEOPLE}/{person}/{find_own_level(path)}" if person else path.removeprefix(STORES).partition("/")[0]


def find_store_folder(store: str) -> str:
    """Return the folder of a store of the index."""
    top, _, rest = store.partition("/")
    return find_own_folder(rest.partition("/")[0]) if rest and top == PEOPLE else f"{STORES}{store}"
