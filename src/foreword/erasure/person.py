"""A person as the files know them: which sessions, turns and traces are theirs, and which words."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from foreword.erasure.runs import Runs
from foreword.frozen import frozen

if TYPE_CHECKING:
    from foreword.erasure.holding import Bases

NOBODY = ""
NAMES = "(SELECT id FROM theirs WHERE kind = 'name')"
SAID = (
    f"SELECT text FROM overheard WHERE user_id IN {NAMES}",
    f"SELECT instructions FROM user_agent_prompt_customizations WHERE user_id IN {NAMES}",
    f"SELECT say FROM schedules WHERE user_id IN {NAMES}",
)
OTHERS = (
    f"SELECT text FROM turns WHERE user_id NOT IN {NAMES}",
    f"SELECT text FROM overheard WHERE user_id NOT IN {NAMES}",
    f"SELECT instructions FROM user_agent_prompt_customizations WHERE user_id NOT IN {NAMES}",
)
NAMED = (
    "sessions", "turns", "tokens", "user_agent_prompt_customizations", "identities", "pairings", "overheard",
    "schedules", "profiles", "responsibilities", "held_calls",
)  # fmt: skip


@frozen
class Person:
    """Somebody, and what is needed to find what is kept of them."""

    name: str
    names: frozenset[str]
    """Their name, and their identities on the channels, by which they were known while they were strangers."""
    sessions: frozenset[str] = frozenset()
    """Those that nobody else reads."""
    turns: frozenset[str] = frozenset()
    traces: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()
    """The hashes of what models saw in their turns."""
    said: tuple[str, ...] = ()
    """Their own words."""
    replies: tuple[str, ...] = ()
    """What they were answered."""
    kept: tuple[str, ...] = ()
    """What is remembered of them: the entries and facts that they are the author of."""
    duties: tuple[tuple[str, str], ...] = ()
    """The title and the text of each responsibility that they gave to an agent, which others' prompts show, too."""

    paths: tuple[str, ...] = ()
    """Where these lie in stores that others read: the store, then the file."""
    own: Runs
    """What only they have said, by the words."""
    remembered: Runs
    """What is remembered of them and of nobody else, by the words."""


def find_others(state: sqlite3.Connection | None) -> Iterator[str]:
    """Find what other people said."""
    return (text for asked in OTHERS for text in find_all(state, asked))


def find_said(state: sqlite3.Connection | None) -> Iterator[str]:
    """Find what a person said beside their turns."""
    return (text for asked in SAID for text in find_all(state, asked))


def find_all(base: sqlite3.Connection | None, asked: str, *values: str) -> list[str]:
    """Find one column of some rows; a base that is not there has none."""
    return [value for (value,) in base.execute(asked, values) if value] if base else []


def mark(base: sqlite3.Connection | None, marks: Mapping[str, Iterable[str]]) -> None:
    """Mark ids as theirs, in a table that this connection alone has and that no file holds."""
    if base is None:
        return
    base.execute("CREATE TEMP TABLE IF NOT EXISTS theirs(kind TEXT, id TEXT, PRIMARY KEY (kind, id)) WITHOUT ROWID")
    for kind, ids in marks.items():
        base.execute("DELETE FROM theirs WHERE kind = ?", (kind,))
        base.executemany("INSERT INTO theirs VALUES (?, ?)", [(kind, one) for one in sorted(ids)])


def list_known(bases: "Bases") -> list[str]:
    """List everybody of whom something is kept, whether the configuration still has them or not."""
    names = set(bases.config.users)
    for table in NAMED:
        names.update(find_all(bases.state, f"SELECT DISTINCT user_id FROM {table}"))
    names.update(find_all(bases.log, "SELECT DISTINCT user_id FROM events WHERE user_id IS NOT NULL"))
    names.update(list_folders(os.path.join(bases.root, "users")))
    memory = os.path.join(bases.root, "memory")
    for store in list_folders(memory):
        names.update(list_folders(os.path.join(memory, store, "inbox")))
    return sorted(names - {NOBODY})


def list_folders(path: str) -> Sequence[str]:
    """List the folders in a folder; there are none in one that is not there."""
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []
