"""Claims about groups/NAME/: a room's own files are in its prompts, from familiar on, and in no other prompts."""

import pytest

from foreword.testing import make_workspace
from foreword.turn import Turn

CONFIG = """\
owner: alice
users: {alice: {trust: full}, bob: {trust: familiar}}
rooms:
  kitchen: {group: family}
  attic: {group: family, ceiling: public}
prompt: {files: [{path: groups/family/secret.md, trust: full}]}
"""
KINDS = (
    "AGENTS.md",
    "SOUL.md",
    "CLAUDE.md",
    "notes.md",
    "rules/tidy.md",
    "skills/tea/SKILL.md",
    "USER.md",
    "MEMORY.md",
)
OTHERS = ("notes.txt", "secret.md", "conversations/2026-11-16-a.md", "picture.png")


@pytest.fixture(scope="module")
def ws(tmp_path_factory):
    """A workspace with a group of every kind of file, and a room that has its folder under its own name."""
    files = {f"groups/family/{name}": f"plum in {name}\n" for name in KINDS + OTHERS}
    more = {"groups/den/AGENTS.md": "pear in den\n", "groups/AGENTS.md": "stray\n"}
    return make_workspace(tmp_path_factory.mktemp("rooms"), {"foreword.yaml": CONFIG, **files, **more})


def see(ws, **place):
    """Return the files of the group that a prompt has."""
    text = ws.assemble(Turn(**{"user": "bob", "situation": "group", "model": "openai:gpt-5"} | place)).prompt.text
    assert "stray" not in text
    return {name for name in KINDS + OTHERS if f"plum in {name}" in text}, "pear in den" in text


def test_every_kind(ws):
    """Each Markdown file of a room's folder is a section of its prompt; nothing else in the folder is."""
    assert see(ws, room="kitchen") == (set(KINDS), False)
    text = ws.assemble(Turn(user="bob", situation="group", room="kitchen")).prompt.text
    assert "## This Room\n### AGENTS.md\nplum in AGENTS.md" in text


@pytest.mark.parametrize(
    "place",
    [
        {"room": "kitchen", "user": "eve"},
        {"room": "attic"},
        {"room": "attic", "user": "alice"},
        {"room": "elsewhere"},
        {"room": "family/x"},
        {"situation": "dm"},
        {"situation": "dm", "user": "alice"},
    ],
)
def test_nobody_else(ws, place):
    """A stranger, a room of a lower ceiling, another room and a private chat have none of it."""
    found, other = see(ws, **place)
    assert (found - {"secret.md"}, other) == (set(), False)  # that one is listed, and the owner's


def test_by_its_own_name(ws):
    """A room without a configured group has the folder of its name; the rooms of one group share theirs."""
    assert see(ws, room="den") == (set(), True)
    assert see(ws, room="family") == (set(KINDS), False)


def test_a_listed_file(ws):
    """A file of the folder that is listed with a separate trust needs that trust, even in its room."""
    assert "secret.md" not in see(ws, room="kitchen", user="alice")[0]
    text = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5")).prompt.text
    assert "plum in secret.md" in text
