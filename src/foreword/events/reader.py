"""Who asks in a turn: the reader that its person, its clearance and its place make."""

from foreword.config.schema import Config
from foreword.events.event import Reader
from foreword.trust.clearance import has_company
from foreword.turn import Turn
from foreword.words import Trust

# No room has this name, so that in company that nobody has named there is nothing to tell.
UNNAMED = "\x00"


def find_reader(turn: Turn, clearance: Trust, config: Config) -> Reader:
    """Find who asks; in company it is the room that asks, in its own zone."""
    if has_company(turn):
        room = config.rooms.get(turn.room)
        zone = room.timezone if room else ""
        return Reader(user=turn.user, clearance=clearance, room=turn.room or UNNAMED, timezone=zone)
    person = config.users.get(turn.user)
    zone = turn.client.zone or (person.timezone if person else "")
    return Reader(user=turn.user, clearance=clearance, timezone=zone)
