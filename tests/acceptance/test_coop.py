"""Coop's configuration, file table and event schema, as the document prints them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foreword import Turn
from foreword.store.open import open_events
from foreword.testing import NOON, make_workspace

PEOPLE = (
    "owner: alice\nusers: {alice: {trust: full}, ian: {trust: inner}, bob: {trust: familiar}, eve: {trust: public}}\n"
)
FILES_BLOCK = """\
prompt:
  files:
    - path: MEMORY.md
      trust: full        # only owner sees this
    - path: TOOLS.md
      trust: familiar    # most users can see tool notes
    - path: IDENTITY.md
      trust: familiar
    - path: USER.md
      per_user: true     # load from user's workspace
      trust: inner
"""
SITUATIONS_BLOCK = """\
situations:
  dm:
    ceiling: full
  group:
    ceiling: familiar
    prompt_overlay: ./prompts/group-rules.md
  system:
    ceiling: full
    prompt_overlay: ./prompts/heartbeat-rules.md
"""
TEXTS = {
    "MEMORY.md": "# Long-term memory\n\nAlice keeps bees.\n",
    "TOOLS.md": "The printer is called Gutenberg.\n",
    "IDENTITY.md": "A patient heron.\n",
    "HEARTBEAT.md": "Look after the greenhouse.\n",
    "EXTRA.md": "Nothing lists a trust for this.\n",
    "USER.md": "Alice likes rye.\n",
    "users/ian/USER.md": "Ian likes oats.\n",
    "users/bob/USER.md": "Bob likes barley.\n",
}
COLUMNS = [
    ("id", "INTEGER", True),
    ("timestamp", "TEXT", True),
    ("level", "TEXT", True),
    ("category", "TEXT", True),
    ("session_id", "TEXT", False),
    ("agent_id", "TEXT", False),
    ("user_id", "TEXT", False),
    ("channel", "TEXT", False),
    ("event_type", "TEXT", True),
    ("duration_ms", "INTEGER", False),
    ("tokens_in", "INTEGER", False),
    ("tokens_out", "INTEGER", False),
    ("cost_usd", "DOUBLE", False),  # REAL affinity
    ("error", "TEXT", False),
    ("metadata", "TEXT", False),
]
INDEXES = {
    "idx_events_session": "(session_id, timestamp)",
    "idx_events_error": "(level, timestamp) WHERE level IN ('warn', 'error')",
    "idx_events_type": "(event_type, timestamp)",
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """Make a fresh event log and return its columns and indexes."""
    folder = tmp_path_factory.mktemp("log")
    opened = open_events(str(folder))
    opened.connection.close()
    with closing(sqlite3.connect(folder / "events.sqlite")) as connection:
        columns = {row[1]: (row[2], bool(row[3])) for row in connection.execute("PRAGMA table_info(events)")}
        indexes = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'"))
    return columns, indexes


@pytest.mark.parametrize(("name", "kind", "required"), COLUMNS, ids=[column[0] for column in COLUMNS])
def test_event_column(schema, name, kind, required):
    """The events table has every column of the document, with its type."""
    assert schema[0][name] == (kind, required)


@pytest.mark.parametrize("name", INDEXES)
def test_event_index(schema, name):
    """The events table has the three indexes of the document."""
    assert INDEXES[name] in " ".join(schema[1][name].split())


def build(folder: Path, block: str, **facts: str) -> str:
    """Assemble a coop prompt in a workspace with the document's block in its configuration."""
    files = {"foreword.yaml": PEOPLE + block, **TEXTS, "prompts/group-rules.md": "Keep it short here.\n"}
    files["prompts/heartbeat-rules.md"] = "Say nothing unless it matters.\n"
    turn = Turn(blueprint="coop", model="anthropic:claude-sonnet-5", now=NOON, **facts)
    return make_workspace(folder, files).assemble(turn).prompt.text


@pytest.mark.parametrize("block", [FILES_BLOCK, ""], ids=["listed", "by name"])
@pytest.mark.parametrize(
    ("user", "seen"),
    [
        ("alice", {"MEMORY.md (", "printer", "heron", "rye"}),
        ("ian", {"printer", "heron", "oats"}),
        ("bob", {"printer", "heron"}),
        ("eve", set()),
        ("nobody", set()),
    ],
)
def test_files_need_their_trust(tmp_path, block, user, seen):
    """The document's `prompt.files` is taken as it is printed, and each person sees what the table allows."""
    text = build(tmp_path, block, user=user, situation="dm")
    every = {"MEMORY.md (", "printer", "heron", "rye", "oats", "barley", "bees"}
    assert {word for word in every if word in text} == seen


def test_unlisted_trust_is_full(tmp_path):
    """A listed file without a trust is shown at full trust alone."""
    block = "prompt: {files: [{path: EXTRA.md}]}\n"
    seen = {user: "Nothing lists" in build(tmp_path, block, user=user, situation="dm") for user in ("alice", "ian")}
    assert seen == {"alice": True, "ian": False}


@pytest.mark.parametrize(
    ("situation", "overlay"),
    [("dm", ""), ("group", "Keep it short here."), ("system", "Say nothing unless it matters.")],
)
def test_situations_have_their_overlays(tmp_path, situation, overlay):
    """The document's `situations` is taken as it is printed, and an overlay is shown in its own situation alone."""
    text = build(tmp_path, SITUATIONS_BLOCK, user="alice", situation=situation)
    assert [line for line in ("Keep it short here.", "Say nothing unless it matters.") if line in text] == (
        [overlay] if overlay else []
    )


@pytest.mark.parametrize("situation", ["dm", "group", "system"])
def test_heartbeat_file(tmp_path, situation):
    """HEARTBEAT.md needs full trust."""
    text = build(tmp_path, SITUATIONS_BLOCK, user="alice", situation=situation)
    assert ("greenhouse" in text) is (situation != "group")
