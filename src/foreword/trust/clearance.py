"""The clearance of a turn: the least of what the person, the situation, the room and the turn itself allow."""

from foreword.config.schema import Config
from foreword.frozen import frozen
from foreword.turn import Turn
from foreword.words import Trust

GROUP = "group"
PRIVATE = ("dm", "system")


@frozen(eq=True)
class Clearance:
    """The effective level, what it was made from, and why it is so."""

    level: Trust
    user: str
    user_trust: Trust
    ceiling: Trust
    reason: str
    warnings: tuple[str, ...] = ()

    def describe(self, situation: str) -> dict[str, str]:
        """Return the facts of a `trust_resolved` event: the person, their own level, the ceiling and the result."""
        return {
            "user": self.user,
            "trust": str(self.user_trust),
            "situation": situation,
            "ceiling": str(self.ceiling),
            "effective": str(self.level),
        }


@frozen(eq=True)
class Audience:
    """The readers of a reply: their clearance, and the person if it is only one."""

    clearance: Trust
    person: str = ""
    """The person in a private conversation; nothing where others read the reply."""


@frozen(eq=True)
class Bound:
    """One thing that limits the clearance."""

    level: Trust
    allows: str


def resolve(turn: Turn, config: Config) -> Clearance:
    """Decide the clearance of a turn, failing closed on every name that nobody vouches for."""
    person = config.users.get(turn.user) if turn.user else None
    trust = person.trust if person else Trust.PUBLIC
    room = config.rooms.get(turn.room)
    named = turn.situation or (room.situation if room else "")
    bounds = [bound_of_situation(named, config), *bounds_of_room(turn, config), *bounds_of_turn(turn)]
    lowest = min(bounds, key=lambda bound: bound.level)
    level = min(trust, lowest.level)
    return Clearance(
        level=level,
        user=turn.user,
        user_trust=trust,
        ceiling=lowest.level,
        reason=explain(turn, trust, lowest, known=person is not None),
        warnings=tuple(warn(turn, config)),
    )


def bound_of_situation(name: str, config: Config) -> Bound:
    """Say what a situation allows; an unknown one allows what is public."""
    situation = config.situations.get(name)
    if situation is None:
        label = f"situation {name!r} is not known, which" if name else "no situation is named, which"
        return Bound(level=Trust.PUBLIC, allows=label)
    return Bound(level=situation.ceiling, allows=f"a {name}")


def bounds_of_room(turn: Turn, config: Config) -> list[Bound]:
    """Say what a room allows: its own ceiling and its situation's, and never what a private chat would."""
    if not turn.room:
        return []
    room = config.rooms.get(turn.room)
    if room is None:
        return [bound_of_situation(GROUP, config)] if turn.situation in PRIVATE else []
    bounds = [bound_of_situation(room.situation, config)]
    if room.ceiling is not None:
        bounds.append(Bound(level=room.ceiling, allows=f"room {turn.room}"))
    if room.members is not None and turn.user not in room.members:
        bounds.append(Bound(level=Trust.PUBLIC, allows=f"room {turn.room}, which does not list them as a member,"))
    return bounds


def bounds_of_turn(turn: Turn) -> list[Bound]:
    """Say what a turn allows by itself, such as one of a schedule; it can only lower what the others allow."""
    return [] if turn.ceiling is None else [Bound(level=turn.ceiling, allows="the ceiling of this turn")]


def find_situation(turn: Turn, config: Config) -> str:
    """Name the situation that governs a turn: a room has its own, and a turn can only name a lower one."""
    room = config.rooms.get(turn.room)
    if turn.room and room is None and turn.situation in PRIVATE:
        return GROUP
    if room is None or not turn.situation:
        return room.situation if room else turn.situation
    named, own = bound_of_situation(turn.situation, config), bound_of_situation(room.situation, config)
    return turn.situation if named.level < own.level else room.situation


def has_company(turn: Turn) -> bool:
    """Whether others read the reply, so that nobody's own slots may be in it."""
    return bool(turn.room) or turn.situation == GROUP


def find_audience(turn: Turn, clearance: Trust) -> Audience:
    """Find who reads the reply of a turn."""
    return Audience(clearance=clearance, person="" if has_company(turn) else turn.user)


def explain(turn: Turn, trust: Trust, lowest: Bound, *, known: bool) -> str:
    """Say in one sentence why the level is what it is."""
    if not known:
        who = f"{turn.user!r} is not a known user" if turn.user else "no user is named"
        return f"{who}; {lowest.allows} allows up to {lowest.level}"
    has = f"{turn.user} is {trust}"
    if lowest.level < trust:
        return f"{has} but {lowest.allows} allows {lowest.level} at most"
    return f"{has} and {lowest.allows} allows {lowest.level}"


def warn(turn: Turn, config: Config) -> list[str]:
    """Name the unknown names that made this turn public."""
    warnings = []
    if turn.user and turn.user not in config.users:
        warnings.append(f"user {turn.user!r} is not known and is treated as public; list them under users")
    if turn.situation and turn.situation not in config.situations:
        warnings.append(f"situation {turn.situation!r} is not known and is treated as public; list it under situations")
    return warnings
