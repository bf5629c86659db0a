"""Standing instructions: what a person wants of an agent in every conversation, one text for each of the two."""

import sqlite3
from datetime import UTC, datetime

from foreword.errors import InputError
from foreword.words import Trust

LONGEST = 20_000  # characters; a prompt shows fewer, the store keeps them whole
FIND = (
    "SELECT instructions FROM user_agent_prompt_customizations WHERE user_id = ? AND agent_name = ? AND clearance <= ?"
)
REPLACE = (
    "INSERT INTO user_agent_prompt_customizations (user_id, agent_name, instructions, clearance, updated)"
    " VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, agent_name) DO UPDATE"
    " SET instructions = excluded.instructions, clearance = excluded.clearance, updated = excluded.updated"
)


def find_instructions(state: sqlite3.Connection, user: str, agent: str, clearance: Trust = Trust.FULL) -> str | None:
    """Find a person's instructions for an agent, as far as a clearance may know of them.

    Cleared ones are empty, and None says that there never were any.
    """
    row = state.execute(FIND, (user, agent, int(clearance))).fetchone()
    return None if row is None else str(row[0])


def replace_instructions(
    state: sqlite3.Connection, user: str, agent: str, text: str, learned: Trust = Trust.FAMILIAR
) -> str:
    """Keep a text in the place of a person's instructions for an agent, whole or not at all; a blank one clears them.

    What an agent learned at a clearance is not told below it; a person's own hand may write for all. Returns what is
    kept.
    """
    if not user:
        raise InputError("instructions belong to a person, and nobody is named")
    kept = check_text(text)
    state.execute(REPLACE, (user, agent, kept, int(learned), stamp()))
    return kept


def check_text(text: str) -> str:
    """Refuse a text that cannot be kept whole, and take the blank lines from its ends."""
    kept = text.strip()
    if len(kept) > LONGEST:
        raise InputError(
            f"the instructions have {len(kept):,} characters, and {LONGEST:,} are kept at most; nothing was changed"
        )
    if "\0" in kept or not is_whole(kept):
        raise InputError("the instructions have signs that are no characters; nothing was changed")
    return kept


def is_whole(text: str) -> bool:
    """Whether a text can be written as UTF-8, which half of a character cannot."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def stamp() -> str:
    """Say when it is, as the state writes times."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
