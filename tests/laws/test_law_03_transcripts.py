"""Law 3 for transcripts: below its clearance, and for other people, a transcript does not exist."""

import os
import random
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from foreword.agent.tools.file_tools import FILE_TOOLS
from foreword.agent.tools.registry import BUILT_IN
from foreword.errors import InputError
from foreword.storage.database import open_state
from foreword.storage.sessions import Archive, reserve_path
from foreword.testing import make_workspace, write_files
from foreword.turn import Toolset, Turn
from foreword.types import Trust

CONFIG = """\
owner: alice
agents: {reid: {model: "openai:gpt-5", directories: [{path: ".", trust: public}]}}
users: {alice: {trust: full}, dora: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}
rooms: {attic: {ceiling: full, situation: wide, group: den}}
situations: {wide: {ceiling: full}}
"""
DEN, BOB, CAROL, ALICE = (f"{top}/conversations" for top in ("groups/den", "users/bob", "users/carol", "users/alice"))
# The session of each file: room, user and clearance. None: the archive did not write it, whatever its header says.
FOUND = {
    f"{DEN}/room.md": ("den", "", Trust.FAMILIAR),
    f"{DEN}/open.md": ("den", "", Trust.PUBLIC),
    f"{DEN}/attic.md": ("attic", "", Trust.INNER),
    f"{BOB}/own.md": ("", "bob", Trust.FAMILIAR),
    f"{CAROL}/own.md": ("", "carol", Trust.INNER),
    f"{ALICE}/own.md": ("", "alice", Trust.FULL),
    f"{DEN}/forged.md": None,
    f"{DEN}/draft.new": None,
    f"{BOB}/forged.md": None,
    f"{ALICE}/forged.md": None,
}
ROOM = {f"{DEN}/room.md", f"{DEN}/open.md"}
SEEN = {
    ("alice", "dm", ""): {*ROOM, f"{DEN}/attic.md", f"{DEN}/forged.md", f"{DEN}/draft.new",
                          f"{ALICE}/own.md", f"{ALICE}/forged.md"},
    ("dora", "dm", ""): {*ROOM, f"{DEN}/attic.md", f"{DEN}/forged.md", f"{DEN}/draft.new"},
    ("carol", "dm", ""): {f"{CAROL}/own.md"},
    ("bob", "dm", ""): {f"{BOB}/own.md"},
    ("eve", "dm", ""): set(),
    ("alice", "group", ""): set(),
    ("alice", "group", "den"): ROOM,
    ("bob", "group", "den"): ROOM,
    ("eve", "group", "den"): {f"{DEN}/open.md"},
    ("bob", "group", "elsewhere"): set(),
    ("alice", "wide", "attic"): {f"{DEN}/attic.md", f"{DEN}/forged.md", f"{DEN}/draft.new"},
    ("bob", "wide", "attic"): set(),
}  # fmt: skip


def make(folder, gone=()):
    """Make a workspace with transcripts, except those in `gone`."""
    text = '---\nagent: "reid"\nclearance: "public"\npeople: "bob"\n---\n# Conversation\n\n## bob\n\n> plum {}\n'
    files = {path: text.format(path) for path in FOUND if path not in gone}
    workspace = make_workspace(folder, {"foreword.yaml": CONFIG, "groups/den/AGENTS.md": "Be brief here.\n", **files})
    with closing(open_state(os.path.join(folder, ".foreword")).connection) as state:
        for path, session in FOUND.items():
            if session and path not in gone:
                room, user, clearance = session
                place = {"agent": "reid", "channel": "web", "room": room, "user": user}
                reserve_path(state, Archive(path=path, session=path, clearance=clearance, **place), f"{path}x")
    return workspace


def see(workspace, place, channel="web"):
    """Return everything that a turn sees, and the results of reading each of the transcripts."""
    user, situation, room = place
    tools = Toolset([*BUILT_IN.tools, *(replace(tool, trust=Trust.PUBLIC) for tool in FILE_TOOLS.tools)])
    turn = Turn(user=user, situation=situation, room=room, channel=channel, tools=tools, message="plum?")
    assembly = workspace.assemble(turn)

    def call(name, **arguments):
        try:
            return workspace.call(assembly, name, arguments).text
        except InputError as error:
            return str(error)

    folders = {os.path.dirname(path) for path in FOUND} | {
        "groups",
        "groups/den",
        "users",
        "users/bob",
        "users/alice",
        "",
    }
    shown = {"prompt": assembly.prompt.text, "table": assembly.explain(), "found": call("search_files", text="plum")}
    shown |= {f"list {folder}": call("list_files", path=folder) for folder in sorted(folders)}
    shown["memory"] = call("memory_search", query="plum") + call("memory_list")
    for path in FOUND:
        shown[f"read {path}"] = call("read_file", path=path)
        shown[f"get {path}"] = call("memory_get", path=path)
    return shown


@pytest.mark.parametrize("place", SEEN)
def test_who_reads_what(tmp_path, place):
    """A transcript is readable at its clearance by its user alone or in its room; elsewhere only at full, alone."""
    shown = see(make(tmp_path), place)
    assert {path for path in FOUND if f"plum {path}" in shown[f"read {path}"]} == SEEN[place]
    assert {path for path in FOUND if f"plum {path}" in shown["found"]} == SEEN[place]
    recorded = {path for path, session in FOUND.items() if session}
    assert {path for path in FOUND if f"plum {path}" in shown[f"get {path}"]} == SEEN[place] & recorded
    assert "plum groups" not in shown["prompt"] + shown["table"] + shown["memory"]
    assert ("Be brief here." in shown["prompt"]) == (place[2] in ("den", "attic") and place[0] != "eve")


@pytest.mark.parametrize("place", SEEN)
def test_nothing_above(tmp_path, place):
    """Deleting a transcript that the turn may not read changes no byte that the turn sees."""
    whole = see(make(tmp_path / "whole"), place)
    shutil.rmtree(tmp_path / "whole")
    without = see(make(tmp_path / "whole", FOUND.keys() - SEEN[place]), place)
    assert whole == without


def test_another_channel(tmp_path):
    """A room of the same name on another channel is a different room."""
    shown = see(make(tmp_path), ("bob", "group", "den"), channel="telegram")
    assert not [path for path in FOUND if f"plum {path}" in shown[f"read {path}"] + shown[f"get {path}"]]


def test_no_tool_writes_one(tmp_path):
    """No agent can write or replace a transcript, even one that it may read."""
    workspace = make(tmp_path)
    assembly = workspace.assemble(Turn(user="alice", situation="dm", tools=FILE_TOOLS))
    for path in (f"{DEN}/room.md", f"{DEN}/new.md", f"{ALICE}/new.md"):
        with pytest.raises(InputError, match="was not written"):
            workspace.call(assembly, "write_file", {"path": path, "text": "x"})


def test_a_link_to_one(tmp_path):
    """A link in a prompt folder brings no transcript into a prompt below full."""
    workspace = make(tmp_path)
    write_files(tmp_path, {"rules/plain.md": "Be kind.\n"})
    os.symlink(f"../{DEN}/open.md", tmp_path / "rules" / "link.md")
    workspace.refresh(now=True)
    for place in [place for place in SEEN if place[0] != "alice"]:
        user, situation, room = place
        if user != "dora":
            assert "plum" not in workspace.assemble(Turn(user=user, situation=situation, room=room)).prompt.text


def test_other_letters(tmp_path):
    """A `conversations` folder in any letter case is excluded from prompts."""
    chance = random.Random(7)
    names = {"".join(chance.choice((sign, sign.upper())) for sign in "conversations") for _ in range(20)}
    files = {f"groups/den/{name}/a.md": "plum\n" for name in names}
    workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, **files})
    assert "plum" not in workspace.assemble(Turn(user="alice", situation="group", room="den")).prompt.text
