"""Bulletins: what memory holds in short, one for each agent and clearance."""

import sqlite3

from foreword.frozen import frozen
from foreword.turn import Bulletin
from foreword.words import Trust

READ = (
    "SELECT clearance, text FROM bulletins WHERE agent = ? AND clearance <= ? AND text != ''"
    " AND substr(source, 1, length(?)) = ? ORDER BY clearance"
)
FIND = "SELECT made, source, author FROM bulletins WHERE agent = ? AND clearance = ?"
BEGIN = (
    "INSERT INTO bulletins (agent, clearance, text, author, made) VALUES (?, ?, '', '', ?)"
    " ON CONFLICT (agent, clearance) DO UPDATE SET made = excluded.made WHERE made = ?"
)
END = "UPDATE bulletins SET text = ?, author = ?, source = ? WHERE agent = ? AND clearance = ?"


@frozen(eq=True)
class Made:
    """When a bulletin was made, from what, and by whom."""

    moment: str = ""
    source: str = ""
    author: str = ""


NEVER = Made()


def read_bulletins(state: sqlite3.Connection, agent: str, clearance: Trust, policy: str) -> tuple[Bulletin, ...]:
    """Read the bulletins of an agent that a clearance may see, and that were made under the policy of now."""
    found = state.execute(READ, (agent, int(clearance), policy, policy))
    return tuple(Bulletin(text=text, trust=Trust(level)) for level, text in found)


def find_made(state: sqlite3.Connection, agent: str, clearance: Trust) -> Made:
    """Find out about the bulletin that there is."""
    row = state.execute(FIND, (agent, int(clearance))).fetchone()
    return Made(moment=row[0], source=row[1], author=row[2]) if row else NEVER


def begin_bulletin(state: sqlite3.Connection, agent: str, clearance: Trust, now: str, before: Made) -> bool:
    """Begin a bulletin, unless another process has begun it since; the old text stays until the new one is there."""
    return state.execute(BEGIN, (agent, int(clearance), now, before.moment)).rowcount == 1


def end_bulletin(state: sqlite3.Connection, agent: str, bulletin: Bulletin, made: Made) -> None:
    """Put a new text in the place of the old one."""
    state.execute(END, (bulletin.text, made.author, made.source, agent, int(bulletin.trust)))


def drop_bulletins(state: sqlite3.Connection) -> None:
    """Take every text away, since a memory was forgotten that may be in it; a new one is made when it is due."""
    state.execute("UPDATE bulletins SET text = '', source = ''")
