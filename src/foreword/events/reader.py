"""Whose a turn is: who asks in it, and whom its events belong to."""

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.events.event import Context, Reader
from foreword.trust.clearance import has_company
from foreword.turn import Turn
from foreword.words import Trust

# No room has this name, so that in company that nobody has named there is nothing to tell.
UNNAMED = "\x00"


def find_reader(turn: Turn, clearance: Trust, config: Config) -> Reader:
    """Find who asks; in company it is the room that asks, in its own zone."""
    if has_company(turn):
        room = config.rooms.get(turn.room)
        zone = (room.timezone if room else "") or config.host.timezone
        return Reader(user=turn.user, clearance=clearance, room=turn.room or UNNAMED, timezone=zone)
    person = config.users.get(turn.user)
    zone = turn.client.zone or (person.timezone if person else "") or config.host.timezone
    return Reader(user=turn.user, clearance=clearance, timezone=zone)


def find_context(assembly: Assembly, schedule: str = "") -> Context:
    """Find whom the events of a turn belong to."""
    turn = assembly.turn
    return Context(
        trust=assembly.clearance.level,
        session=turn.session,
        agent=turn.agent,
        user=turn.user,
        channel=turn.channel,
        room=turn.room,
        schedule=schedule,
    )
