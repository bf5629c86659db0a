"""Responsibilities: what an agent has taken on while it runs, each known by its title alone."""

import sqlite3

from foreword.config.schema import Responsibility
from foreword.errors import InputError
from foreword.store.instructions import is_whole, stamp

MANY = 20  # of one agent, beside those of its configuration
TITLE, CONTENT = 100, 2_000  # characters
LIST = "SELECT title, content FROM responsibilities WHERE agent = ? ORDER BY added, title"
ADD = "INSERT INTO responsibilities (agent, title, content, user_id, added) VALUES (?, ?, ?, ?, ?)"


def list_responsibilities(state: sqlite3.Connection, agent: str) -> tuple[Responsibility, ...]:
    """List what an agent has taken on, in the order in which it did."""
    return tuple(Responsibility(title=title, content=content) for title, content in state.execute(LIST, (agent,)))


def add_responsibility(state: sqlite3.Connection, agent: str, one: Responsibility, user: str) -> None:
    """Keep what an agent takes on at somebody's wish; a title that it has already is refused."""
    held = [kept.title.casefold() for kept in list_responsibilities(state, agent)]
    check(one)
    if one.title.casefold() in held:
        raise InputError(f"there is a responsibility {one.title!r} already; remove it first, or choose another title")
    if len(held) >= MANY:
        raise InputError(f"{MANY} responsibilities are the most that are taken on so; remove one first")
    state.execute(ADD, (agent, one.title, one.content, user, stamp()))


def remove_responsibility(state: sqlite3.Connection, agent: str, title: str) -> bool:
    """Remove what an agent has taken on, by its exact title; return whether there was such a one."""
    return state.execute("DELETE FROM responsibilities WHERE agent = ? AND title = ?", (agent, title)).rowcount == 1


def check(one: Responsibility) -> None:
    """Refuse a responsibility that could not be shown under its title, or has no words."""
    if not one.title or one.title != " ".join(one.title.split()):
        raise InputError("a title is one line of words")
    if not one.content.strip():
        raise InputError("a responsibility says what it asks of you; its content is empty")
    for what, text, most in (("title", one.title, TITLE), ("content", one.content, CONTENT)):
        if len(text) > most:
            raise InputError(f"the {what} has {len(text):,} characters, and {most:,} are kept at most")
        if "\0" in text or not is_whole(text):
            raise InputError(f"the {what} has signs that are no characters")
