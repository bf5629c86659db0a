"""Transcripts in the workspace: which paths hold them, and who may read one."""

from foreword.frozen import frozen
from foreword.trust import has_company
from foreword.turn import Turn
from foreword.words import Trust

CONVERSATIONS = "conversations"
OWNERS = ("groups", "users")  # folders of rooms and of people, each with transcripts of their own
DEPTH = 4  # parts of a path to a transcript: groups/NAME/conversations/FILE


@frozen(eq=True)
class Archived:
    """The session whose transcript a file is, as the archive has recorded it; what the file says proves nothing."""

    clearance: Trust
    channel: str
    room: str = ""
    user: str = ""
    """Whose session it was, where nobody else read it."""


def keep_no_archive(_: str) -> Archived | None:
    """Know of no transcript."""
    return None


def is_archive(path: str) -> bool:
    """Whether a path lies where transcripts are, however its letters are written."""
    parts = path.split("/")
    return len(parts) >= DEPTH and parts[0].casefold() in OWNERS and parts[2].casefold() == CONVERSATIONS


def may_read(archived: Archived | None, turn: Turn, level: Trust) -> bool:
    """Whether a turn may read a transcript, at the clearance of its session or above.

    One of a private session is its person's, in private. One of a room is read in that room, and elsewhere only in
    private at full. A file that the archive does not know needs full.
    """
    if archived is None:
        return level is Trust.FULL
    if level < archived.clearance:
        return False
    if archived.user:
        return archived.user == turn.user and not has_company(turn)
    here = (turn.channel, turn.room) == (archived.channel, archived.room)
    return here or (level is Trust.FULL and not has_company(turn))
