"""Who may read a row of the log, and who may read the words of a turn."""

from typing import Any

from foreword.events.event import Reader
from foreword.words import Trust


def sees_all(reader: Reader) -> bool:
    """Whether a reader is told every row, so that how many there are is no secret."""
    return reader.clearance is Trust.FULL and not reader.room


def reads_words(reader: Reader, person: str) -> bool:
    """Whether a reader is shown the prompt and the reply of a turn; those of a private turn only its person is.

    `person` is the person of a private conversation, and empty in a room. A reader without a name has full trust only
    inside the program, as in an erasure.
    """
    inside = not reader.user and reader.clearance is Trust.FULL
    return not person or inside or (reader.user == person and not reader.room)


def visible(reader: Reader) -> tuple[str, list[Any]]:
    """Return the condition under which a row is told to a reader, for a WHERE, and its parameters.

    The table has the columns `trust`, `user_id` and `room`. A reader without a name has no rows of their own: what
    belongs to nobody is stored as NULL, which equals nothing.
    """
    terms: list[tuple[str, Any]] = [("trust <= ?", int(reader.clearance))]
    if reader.clearance is not Trust.FULL:
        terms.append(("user_id = ?", reader.user))
    if reader.room:
        terms.append(("room = ?", reader.room))
    return " AND ".join(term for term, _ in terms), [value for _, value in terms]
