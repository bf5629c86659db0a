"""Laws 12 and 13, as far as the engine goes: nobody meets another person's own words."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, open_at, see, turns, worlds


@given(worlds(), turns(), st.booleans())
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


@given(worlds(), st.lists(turns(), min_size=2, max_size=4), turns())
def test_interleaved_people_get_what_each_would_get_alone(world, others, turn):
    """One workspace that serves many people in turns gives each the bytes that a fresh one would give.

    Seen to fail when the key of `choose` lacked the user.
    """
    crowd = [*others, *(replace(turn, user=user, room=room) for user in PEOPLE for room in ("", "den"))]
    with world.opened() as shared:
        alone = [see(open_at(shared.files.root), one) for one in crowd]
        assert [see(shared, one) for one in crowd] == alone
        assert [see(shared, one) for one in reversed(crowd)] == alone[::-1]
