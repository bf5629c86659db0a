"""Who speaks in a transcript: the lines by which each message is known as somebody's.

No word of anybody stands at the beginning of a line, so a line that names a speaker is always ours.
"""

from foreword.sources.document import normalise, one_line

LONGEST = 64  # characters of who speaks
SIGNS = " ._@:+-"  # that a name may have beside letters and digits, so that none can look like a label of ours
AGENT = " (agent), "


def name_person(name: str) -> str:
    """Name who speaks with letters, digits and few signs, on one line."""
    plain = "".join(sign for sign in one_line(normalise(name)) if sign.isalnum() or sign in SIGNS)
    return one_line(plain)[:LONGEST].strip() or "somebody"


def open_message(name: str, moment: str, *, agent: bool = False) -> str:
    """Write the line above a message."""
    return f"## {name_person(name)}{AGENT if agent else ', '}{moment}"
