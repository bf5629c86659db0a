"""Claims about clearances."""

from itertools import product

import pytest

from foreword.config.load import load_config
from foreword.config.schema import Config
from foreword.engine.trust import find_situation, has_other_readers, resolve_trust
from foreword.turn import Turn
from foreword.types import Trust

CONFIG = load_config("""\
owner: alice
users:
  alice: {trust: full}
  carol: {trust: inner}
  bob: {trust: familiar}
  eve: {}
situations:
  stage: {ceiling: inner}
  vault: {ceiling: public}
rooms:
  family: {situation: group}
  lobby: {situation: group, ceiling: public}
  board: {situation: stage, ceiling: full}
  study: {situation: dm}
""")
PUBLIC, FAMILIAR, INNER, FULL = Trust
USERS = {"alice": FULL, "carol": INNER, "bob": FAMILIAR, "eve": PUBLIC, "mallory": PUBLIC, "": PUBLIC}
SITUATIONS = {
    "dm": FULL,
    "system": FULL,
    "stage": INNER,
    "group": FAMILIAR,
    "vault": PUBLIC,
    "moon": PUBLIC,
    "": PUBLIC,
}
ROOMS = {"": FULL, "family": FAMILIAR, "lobby": PUBLIC, "board": INNER, "study": FULL}


def decide(user: str, situation: str, room: str = "", config: Config = CONFIG):
    """Resolve the clearance of a person in a place."""
    return resolve_trust(Turn(user=user, situation=situation, room=room), config)


def test_least_of_all() -> None:
    """The clearance is the lowest of person, situation and room, in every combination."""
    for user, situation, room in product(USERS, SITUATIONS, ROOMS):
        clearance = decide(user, situation, room)
        # A configured room has a situation, which governs if no other is named.
        named = FULL if room and not situation else SITUATIONS[situation]
        ceiling = min(named, ROOMS[room])
        assert clearance.level == min(USERS[user], ceiling)
        assert clearance.ceiling == ceiling
        assert clearance.user_trust == USERS[user]
        assert clearance.user == user


@pytest.mark.parametrize("situation", ["dm", "system"])
@pytest.mark.parametrize("user", USERS)
def test_unknown_room_in_private(user: str, situation: str) -> None:
    """A room that is not configured is a group, even where the caller calls it private."""
    assert decide(user, situation, "attic").level == min(USERS[user], FAMILIAR)


@pytest.mark.parametrize("situation", ["dm", "system", "group", "vault", "moon", ""])
def test_unknown_room(situation: str) -> None:
    """A room that is not configured allows no more than a group, even if the situation would allow all."""
    assert decide("alice", situation, "attic").level <= FAMILIAR


def test_room_never_raises() -> None:
    """A room's own ceiling can lower the ceiling of its situation, never raise it."""
    assert decide("alice", "group", "board").level == FAMILIAR
    assert decide("alice", "dm", "board").level == INNER


def test_room_without_a_named_situation() -> None:
    """A known room has its own situation where the turn names none; an unknown one stays public."""
    assert decide("alice", "", "family").reason == "alice is full but a group allows familiar at most"
    assert find_situation(Turn(room="board"), CONFIG) == "stage"
    assert decide("alice", "", "attic").level == PUBLIC


def test_name_cannot_speak() -> None:
    """An unknown user's name appears in the reason as a quoted text, on the same line."""
    reason = decide("x\nalice is full", "dm").reason
    assert reason == "'x\\nalice is full' is not a known user; a dm allows up to full"


def test_lower_group() -> None:
    """A lower ceiling for groups also applies to rooms that are not configured."""
    config = load_config("owner: alice\nusers: {alice: {trust: full}}\nsituations: {group: {ceiling: public}}\n")
    assert decide("alice", "dm", "attic", config).level == PUBLIC
    assert decide("alice", "system", "attic", config).level == PUBLIC


@pytest.mark.parametrize(
    ("situation", "room", "company"),
    [("dm", "", False), ("system", "", False), ("stage", "", False), ("group", "", True), ("dm", "attic", True)],
)
def test_company(situation: str, room: str, company: bool) -> None:
    """Others read the reply in every room, and in a group that has none."""
    assert has_other_readers(Turn(situation=situation, room=room)) == company


@pytest.mark.parametrize(
    ("user", "situation", "room", "reason"),
    [
        ("alice", "dm", "", "alice is full and a dm allows full"),
        ("alice", "group", "", "alice is full but a group allows familiar at most"),
        ("bob", "dm", "", "bob is familiar and a dm allows full"),
        ("alice", "dm", "lobby", "alice is full but room lobby allows public at most"),
        ("alice", "dm", "family", "alice is full but a group allows familiar at most"),
        ("alice", "moon", "", "alice is full but situation 'moon' is not known, which allows public at most"),
        ("alice", "", "", "alice is full but no situation is named, which allows public at most"),
        ("mallory", "dm", "", "'mallory' is not a known user; a dm allows up to full"),
        ("", "dm", "", "no user is named; a dm allows up to full"),
    ],
)
def test_reason(user: str, situation: str, room: str, reason: str) -> None:
    """The reason names the deciding factor in plain English."""
    assert decide(user, situation, room).reason == reason


@pytest.mark.parametrize(
    ("user", "situation", "names"),
    [
        ("alice", "dm", []),
        ("mallory", "dm", ["user 'mallory'"]),
        ("alice", "moon", ["situation 'moon'"]),
        ("mallory", "moon", ["user 'mallory'", "situation 'moon'"]),
        ("", "", []),
    ],
)
def test_warnings(user: str, situation: str, names: list[str]) -> None:
    """Each unknown name gives one warning with the place to list it; an omitted name gives none."""
    warnings = decide(user, situation).warnings
    assert [warning.partition(" is not known")[0] for warning in warnings] == names
    assert all("list " in warning for warning in warnings)


def test_bare_turn() -> None:
    """A bare turn is a stranger's."""
    assert resolve_trust(Turn(), CONFIG).level == PUBLIC
