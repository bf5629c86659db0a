"""Laws 12 and 13, as far as the engine goes: nobody meets another person's own words."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from world_turns import make_turn, see, turns
from worlds import PEOPLE, open_at, worlds

from foreword.trust import has_company
from foreword.turn import Client, Communication
from foreword.words import Mode


@given(worlds(), turns() | turns(situation="dm", room="", mode=Mode.FULL), st.booleans())
def test_ones_own_text_is_nobody_elses(world, turn, bare):
    """A file that belongs to one person is in nobody else's prompt, report or request, and in no room's.

    Seen to fail when `find_candidates` fell back to the root's file for everybody.
    """
    if bare:
        world = replace(world, planted=tuple(file for file in world.planted if not file.path.startswith("users/")))
    with world.opened() as workspace:
        for user in (turn.user, *PEOPLE):
            seen = "\n".join(see(workspace, replace(turn, user=user)).values())
            for file in world.planted:
                if file.owner and (file.owner != user or turn.room):
                    assert file.canary not in seen


@given(worlds(), turns())
def test_interleaved_people_get_what_each_would_get_alone(world, turn):
    """One workspace that serves many people in turns gives each the bytes that a fresh one would give, and no other's.

    Seen to fail when the key of `choose` lacked the user, and when `fill_form` forgot the values of its fields.
    """
    others = [make_turn(Random(f"{world.seed} {at}")) for at in range(2)]
    crowd = [*others, *(speak(turn, user, room) for user in PEOPLE for room in ("", "den"))]
    crowd += [replace(crowd[2], instructions="", situation="dm"), replace(crowd[2], situation="dm")]
    with world.opened() as shared:
        alone = [see(open_at(shared.files.root), one) for one in crowd]
        assert [see(shared, one) for one in crowd] == alone
        assert [see(shared, one) for one in reversed(crowd)] == alone[::-1]
    for one, seen in zip(crowd, alone, strict=True):
        told = "\n".join(seen.values())
        mine = {one.user} if one.user in PEOPLE and not has_company(one) else set()
        assert not [user for user in PEOPLE if user not in mine and f"kanariof{user}" in told]


def speak(turn, user, room):
    """The same turn, spoken by somebody else, who has instructions and a way of writing of their own."""
    manner = Communication(formality=f"kanariof{user}", length="short", topics=(f"kanariof{user}",))
    state = replace(turn.state, communication=manner)
    client = Client(location=f"kanariof{user}")
    return replace(turn, user=user, room=room, instructions=f"kanariof{user}", state=state, client=client)
