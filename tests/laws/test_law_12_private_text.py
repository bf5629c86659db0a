"""Laws 12 and 13 for the engine: no user sees another user's private text."""

import json
import os
from dataclasses import replace
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from world_turns import make_turn, see, turns
from worlds import PEOPLE, open_at, worlds

from foreword.engine.trust import has_other_readers
from foreword.testing import write_files
from foreword.turn import Client, Communication, Turn
from foreword.types import Mode


@given(worlds(), turns() | turns(situation="dm", room="", mode=Mode.FULL), st.booleans())
def test_ones_own_text_is_nobody_elses(world, turn, bare):
    """A user's file is in no other user's prompt, report or request, and in no room's.

    Seen to fail when a per-user slot fell back to the workspace's file for every user.
    """
    if bare:
        world = replace(world, planted=tuple(file for file in world.planted if not file.path.startswith("users/")))
    with world.opened() as workspace:
        for user in (turn.user, *PEOPLE):
            seen = "\n".join(see(workspace, replace(turn, user=user)).values())
            for file in world.planted:
                if file.owner and (file.owner != user or has_other_readers(turn)):
                    assert file.canary not in seen


@given(worlds(), turns())
def test_interleaved_people_get_what_each_would_get_alone(world, turn):
    """A workspace that serves several users in turn gives each the same bytes as a newly opened workspace.

    Seen to fail when a cache key lacked the user, and when filled forms lost the values of their fields.
    """
    others = [make_turn(Random(f"{world.seed} {at}")) for at in range(2)]
    crowd = [*others, *(speak(turn, user, room) for user in PEOPLE for room in ("", "den"))]
    crowd += [replace(crowd[2], instructions="", situation="dm"), replace(crowd[2], situation="dm")]
    with world.opened() as shared:
        alone = [see(open_at(shared.files.root), one) for one in crowd]
        assert [see(shared, one) for one in crowd] == alone
        assert [see(shared, one) for one in reversed(crowd)] == alone[::-1]
    for one, seen in zip(crowd, alone, strict=True):
        shown = "\n".join(seen.values())
        mine = {one.user} if one.user in PEOPLE and not has_other_readers(one) else set()
        assert not [user for user in PEOPLE if user not in mine and f"kanariof{user}" in shown]


def speak(turn, user, room):
    """Return the same turn from another user, with that user's instructions and writing style."""
    manner = Communication(formality=f"kanariof{user}", length="short", topics=(f"kanariof{user}",))
    state = replace(turn.state, communication=manner)
    client = Client(location=f"kanariof{user}")
    return replace(turn, user=user, room=room, instructions=f"kanariof{user}", state=state, client=client)


WAYS = (
    "users/bob",
    "users/bob/deep/er",
    "users/../users/bob/deep",
    "by-link",
    "by-link/deep",
    "by-file",
    "users/alice/..",
)
FORBIDDEN = ("users/bob/CLAUDE.md", "users/bob/.claude/rules/a.md", "users/bob/deep/AGENTS.md")
PLACES = ({}, {"situation": "dm"}, {"situation": "dm", "room": "den"}, {"situation": "group"}, {"situation": "system"})


@given(st.sampled_from(("alice", "bob", "carol", "eve", "")), st.sampled_from(WAYS), st.sampled_from(PLACES))
def test_ones_own_folder_is_nobody_elses_project(user, way, place):
    """A user who opens another user's folder as a project reads nothing from it, by any link or spelling.

    The folder's user reads it if no one else reads the reply, except through a link that leaves another project: such
    links are never followed. Seen to fail while the reader did not know the user.
    """
    config = {
        "owner": "alice",
        "users": {name: {"trust": "full"} for name in PEOPLE},
        "situations": {name: {"ceiling": "full"} for name in ("dm", "group", "system")},
        "rooms": {"den": {"ceiling": "full"}},
    }
    with TemporaryDirectory() as folder:
        write_files(folder, {"ws/foreword.yaml": json.dumps(config), "ws/by-file/AGENTS.md": "Free.\n"})
        write_files(folder, {f"ws/{path}": f"kanariof {path}\n" for path in FORBIDDEN})
        write_files(folder, {"ws/users/bob/deep/er/x.txt": "", "ws/users/alice/x.txt": ""})
        os.symlink("users/bob", f"{folder}/ws/by-link")
        os.symlink("../users/bob/CLAUDE.md", f"{folder}/ws/by-file/CLAUDE.md")
        turn = Turn(user=user, project=f"{folder}/ws/{way}", model="openai:gpt-5", **place)
        with open_at(f"{folder}/ws") as workspace:
            shown = "\n".join(see(workspace, turn).values())
    alone = place in ({"situation": "dm"}, {"situation": "system"})
    own = user == "bob" and alone and way not in ("by-file", "users/alice/..")
    assert ("kanariof users/bob/CLAUDE.md" in shown) == own
    assert own or "kanariof" not in shown
