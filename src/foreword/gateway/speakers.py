"""Who speaks in a transcript: the lines by which each message is known as somebody's, and how theirs are left out.

No word of anybody stands at the beginning of a line, so a line that names a speaker is always ours.
"""

import re

from foreword.sources.document import normalise, one_line

LONGEST = 64  # characters of who speaks
SIGNS = " ._@:+-"  # that a name may have beside letters and digits, so that none can look like a label of ours
AGENT = " (agent), "
PEOPLE = re.compile(r'(?m)\A(---\n(?:(?!---).*\n)*?people: ")([^"\n]*)(?=")')


def name_person(name: str) -> str:
    """Name who speaks with letters, digits and few signs, on one line."""
    plain = "".join(sign for sign in one_line(normalise(name)) if sign.isalnum() or sign in SIGNS)
    return one_line(plain)[:LONGEST].strip() or "somebody"


def open_message(name: str, moment: str, *, agent: bool = False) -> str:
    """Write the line above a message."""
    return f"## {name_person(name)}{AGENT if agent else ', '}{moment}"


def has_speakers(text: str) -> bool:
    """Whether anybody says something in a transcript."""
    return any(line.startswith("## ") for line in text.split("\n"))


def leave_out(text: str, user: str) -> str:
    """Leave out what somebody says in a transcript, and what that was answered."""
    theirs, kept = False, []
    for line in text.split("\n"):
        if line.startswith("## ") and AGENT not in line:
            theirs = line.startswith(f"## {name_person(user)}, ")
        if not theirs:
            kept.append(line)
    if len(kept) == text.count("\n") + 1:
        return text
    return PEOPLE.sub(lambda found: found[1] + leave_name(found[2], user), "\n".join(kept))


def leave_name(people: str, user: str) -> str:
    """Leave a name out of the list of those who speak."""
    return ", ".join(name for name in people.split(", ") if name != name_person(user))
