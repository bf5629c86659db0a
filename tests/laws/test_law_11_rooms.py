"""Law 11: everyone in a room reads the reply."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from world_texts import dump
from world_turns import assemble, fitted, see, turns
from worlds import BASES, PEOPLE, ROOMS, STRANGER, worlds

from foreword.engine.trust import resolve_trust
from foreword.testing import make_workspace
from foreword.turn import Client, Communication, Host, State, Turn
from foreword.types import Trust

SITUATIONS = ("dm", "group", "system", "odd", "nowhere", "")


@given(worlds())
def test_a_room_bounds_whoever_speaks(world):
    """In a known room no clearance exceeds the ceiling of the room or of its situation, whatever situation is named.

    Seen to fail when the room's ceiling replaced the ceiling of its situation.
    """
    config = world.config
    for name, user, named in product(ROOMS, (*PEOPLE, STRANGER, ""), SITUATIONS):
        room = config.rooms[name]
        bound = min(config.situations[room.situation].ceiling, Trust.FULL if room.ceiling is None else room.ceiling)
        clearance = resolve_trust(Turn(room=name, user=user, situation=named), config)
        assert clearance.level <= clearance.ceiling <= bound
        natural = resolve_trust(Turn(room=name, user=user, situation=room.situation), config)
        assert clearance.level <= natural.level


@given(worlds(), turns(room="attic"))
def test_an_unknown_room_is_never_private(world, turn):
    """An unconfigured room allows no more than a group, even if the turn says it is private.

    Seen to fail when an unknown room had no ceiling.
    """
    config = world.config
    clearance = resolve_trust(replace(turn, situation="dm"), config)
    assert clearance.level <= min(config.situations["group"].ceiling, config.situations["dm"].ceiling)


@given(worlds(), st.sampled_from((*ROOMS, "attic")).flatmap(lambda room: turns(room=room)), st.permutations(PEOPLE))
def test_nobodys_own_slots_are_in_a_room(world, turn, people):
    """A room's prompt has no per-user slot, and people with the same clearance get the same prompt.

    Seen to fail when eligibility ignored the room.
    """
    one, other = (replace(turn, user=user) for user in people[:2])
    with world.opened() as workspace:
        first, second = assemble(workspace, one), assemble(workspace, other)
        assume(first is not None and second is not None)
        for assembly in (first, second):
            assert not [item.item.id for item in fitted(assembly) if item.item.slot.per_user]
        seen = "\n".join(see(workspace, one).values())
        assert not [file.path for file in world.planted if file.owner and file.canary in seen]
        assert not [word for word in ("standing", "manner", "location") if f"kanari{word}" in seen]
        if first.clearance.level == second.clearance.level:
            assert first.prompt.text == second.prompt.text


@pytest.mark.parametrize("path", ["SOUL.md", "AGENTS.md", "NOTES.md"])
def test_a_file_listed_per_user_is_in_no_room(tmp_path, path):
    """A file that the configuration lists per user is not in any room's prompt, whichever slot shows it.

    Seen to fail while only the slot's flag was checked.
    """
    config = {
        "owner": "alice",
        "users": {"alice": {"trust": "full"}, "bob": {"trust": "full"}},
        "prompt": {"files": [{"path": path, "per_user": True, "trust": "familiar"}]},
    }
    workspace = make_workspace(tmp_path, {"foreword.yaml": dump(config), f"users/bob/{path}": "kanari"})
    assert "kanari" in see(workspace, Turn(user="bob", situation="dm"))["text"]
    assert "kanari" not in "\n".join(see(workspace, Turn(user="bob", situation="group", room="den")).values())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("where", [{"room": "den"}, {"situation": "group"}], ids=["room", "group"])
def test_nothing_personal_is_told_where_others_read(tmp_path, base, where):
    """Even a room for people of full trust never sees a profile, instructions, writing style or location.

    Seen to fail when a template included a profile, and while a device reported its location.
    """
    config = {
        "owner": "alice",
        "agents": {"reid": {"blueprint": base}},
        "users": {"alice": {"trust": "full"}},
        "situations": {"group": {"ceiling": "full"}},
        "rooms": {"den": {"situation": "group"}},
    }
    profile = "---\nname: kanari\nlocation: kanari\ntimezone: Asia/Tokyo\n---\nkanari"
    files = {"foreword.yaml": dump(config), "USER.md": profile, "SYSTEM.md": "{{ USER_PROFILE }}\nwords"}
    turn = Turn(
        user="alice",
        instructions="kanari",
        state=State(communication=Communication(formality="kanari")),
        client=Client(location="kanari", language="kanari"),
        host=Host(host="h"),
    )
    workspace = make_workspace(tmp_path, files)
    seen = see(workspace, replace(turn, **where))
    assert "kanari" not in "\n".join(seen.values())
    assert "Asia/Tokyo" not in seen["text"]
    alone = see(workspace, replace(turn, situation="dm"))["text"]
    assert "kanari" in alone


def test_an_unknown_room_is_no_private_place_under_any_name(tmp_path):
    """An unconfigured room allows no more than a group, whichever situation the turn names.

    Seen to fail while only the situation dm was lowered to a group's.
    """
    config = "owner: alice\nusers: {alice: {trust: full}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, "BOOT.md": "kanari"})
    turn = Turn(user="alice", situation="system", room="attic")
    assert "kanari" not in "\n".join(see(workspace, turn).values())


def test_a_room_keeps_the_rules_of_its_situation(tmp_path):
    """Naming another situation does not remove the rules of a known room's situation.

    Seen to fail while the overlay depended only on the situation that the turn named.
    """
    config = "owner: alice\nusers: {alice: {trust: full}}\nrooms: {den: {situation: group}}\n"
    config += "situations: {group: {prompt_overlay: prompts/group.md}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, "prompts/group.md": "The rules of the den."})
    assert "The rules of the den." in see(workspace, Turn(user="alice", situation="group", room="den"))["text"]
    assert "The rules of the den." in see(workspace, Turn(user="alice", situation="dm", room="den"))["text"]
