"""Resolve the clearance of a turn: the lowest level that the user, the situation, the room and the turn allow."""

from foreword.config.schema import Config
from foreword.turn import Turn
from foreword.types import Trust, frozen

GROUP_SITUATION = "group"
PRIVATE_SITUATIONS = ("dm", "system")


@frozen(eq=True)
class Clearance:
    """The effective level of a turn, the levels it was computed from, and the reason."""

    level: Trust
    user: str
    user_trust: Trust
    ceiling: Trust
    reason: str
    warnings: tuple[str, ...] = ()

    def describe(self, situation: str) -> dict[str, str]:
        """Return the fields of a `trust_resolved` event: the user, their level, the ceiling and the result."""
        return {
            "user": self.user,
            "trust": str(self.user_trust),
            "situation": situation,
            "ceiling": str(self.ceiling),
            "effective": str(self.level),
        }


@frozen(eq=True)
class Audience:
    """The readers of a reply: their clearance, and the user if there is only one reader."""

    clearance: Trust
    person: str = ""
    """The user of a private conversation; empty where others read the reply."""


@frozen(eq=True)
class TrustBound:
    """One upper bound of the clearance, with the words that name it in the reason."""

    level: Trust
    allows: str


def resolve_trust(turn: Turn, config: Config) -> Clearance:
    """Resolve the clearance of a turn. Unknown names fail closed: they get `public`."""
    person = config.users.get(turn.user) if turn.user else None
    trust = person.trust if person else Trust.PUBLIC
    room = config.rooms.get(turn.room)
    named = turn.situation or (room.situation if room else "")
    bounds = [get_situation_bound(named, config), *list_room_bounds(turn, config), *list_turn_bounds(turn)]
    lowest = min(bounds, key=lambda bound: bound.level)
    level = min(trust, lowest.level)
    return Clearance(
        level=level,
        user=turn.user,
        user_trust=trust,
        ceiling=lowest.level,
        reason=explain_clearance(turn, trust, lowest, known=person is not None),
        warnings=tuple(list_trust_warnings(turn, config)),
    )


def get_situation_bound(name: str, config: Config) -> TrustBound:
    """Return the bound of a situation; an unknown situation allows only `public`."""
    situation = config.situations.get(name)
    if situation is None:
        label = f"situation {name!r} is not known, which" if name else "no situation is named, which"
        return TrustBound(level=Trust.PUBLIC, allows=label)
    return TrustBound(level=situation.ceiling, allows=f"a {name}")


def list_room_bounds(turn: Turn, config: Config) -> list[TrustBound]:
    """Return the bounds of a room: its ceiling, its situation and its members. A room is never a private chat."""
    if not turn.room:
        return []
    room = config.rooms.get(turn.room)
    if room is None:
        return [get_situation_bound(GROUP_SITUATION, config)] if turn.situation in PRIVATE_SITUATIONS else []
    bounds = [get_situation_bound(room.situation, config)]
    if room.ceiling is not None:
        bounds.append(TrustBound(level=room.ceiling, allows=f"room {turn.room}"))
    if room.members is not None and turn.user not in room.members:
        bounds.append(TrustBound(level=Trust.PUBLIC, allows=f"room {turn.room}, which does not list them as a member,"))
    return bounds


def list_turn_bounds(turn: Turn) -> list[TrustBound]:
    """Return the ceiling that the turn sets for itself, such as a scheduled run's. It can only lower the clearance."""
    return [] if turn.ceiling is None else [TrustBound(level=turn.ceiling, allows="the ceiling of this turn")]


def find_situation(turn: Turn, config: Config) -> str:
    """Return the situation of a turn: the room's, unless the turn names one with a lower ceiling."""
    room = config.rooms.get(turn.room)
    if turn.room and room is None and turn.situation in PRIVATE_SITUATIONS:
        return GROUP_SITUATION
    if room is None or not turn.situation:
        return room.situation if room else turn.situation
    named, own = get_situation_bound(turn.situation, config), get_situation_bound(room.situation, config)
    return turn.situation if named.level < own.level else room.situation


def has_other_readers(turn: Turn) -> bool:
    """Return whether others read the reply, so that personal slots must stay out of the prompt."""
    return bool(turn.room) or turn.situation == GROUP_SITUATION


def find_audience(turn: Turn, clearance: Trust) -> Audience:
    """Return the audience of a turn's reply."""
    return Audience(clearance=clearance, person="" if has_other_readers(turn) else turn.user)


def explain_clearance(turn: Turn, trust: Trust, lowest: TrustBound, *, known: bool) -> str:
    """Explain the clearance in one sentence."""
    if not known:
        who = f"{turn.user!r} is not a known user" if turn.user else "no user is named"
        return f"{who}; {lowest.allows} allows up to {lowest.level}"
    has = f"{turn.user} is {trust}"
    if lowest.level < trust:
        return f"{has} but {lowest.allows} allows {lowest.level} at most"
    return f"{has} and {lowest.allows} allows {lowest.level}"


def list_trust_warnings(turn: Turn, config: Config) -> list[str]:
    """Return a warning for each unknown name that lowered the clearance to `public`."""
    warnings = []
    if turn.user and turn.user not in config.users:
        warnings.append(f"user {turn.user!r} is not known and is treated as public; list them under users")
    if turn.situation and turn.situation not in config.situations:
        warnings.append(f"situation {turn.situation!r} is not known and is treated as public; list it under situations")
    return warnings
