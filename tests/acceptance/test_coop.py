"""Coop's configuration, file table, layers and event schema match the document."""

import io
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from foreword.assembly import Assembly
from foreword.cli.main import main
from foreword.errors import InputError
from foreword.storage.database import open_events
from foreword.testing import NOON, make_workspace
from foreword.turn import Extension, Turn

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
LOOP = """\
{% for extension in extensions %}
## {{ extension.name }}
{{ extension.instructions }}
{% endfor %}
"""
TEXTS = {
    "SOUL.md": "Dry and kind.\n",
    "AGENTS.md": "Answer in one line.\n",
    "MEMORY.md": "# Long-term memory\n\nAlice keeps bees.\n",
    "TOOLS.md": "The printer is called Gutenberg.\n",
    "IDENTITY.md": "A patient heron.\n",
    "HEARTBEAT.md": "Look after the greenhouse.\n",
    "EXTRA.md": "Nothing lists a trust for this.\n",
    "USER.md": "Alice likes rye.\n",
    "users/ian/USER.md": "Ian likes oats.\n",
    "users/bob/USER.md": "Bob likes barley.\n",
    "users/bob/NOTES.md": "Bob has the spare key.\n",
}
FACTS = ("her aunt", "the dentist", "the plumber")
MEMORIES = {
    **{f"memory/social/{name}.md": f"Carol likes {fact}.\n" for name, fact in zip("ABC", FACTS, strict=True)},
    "memory/private/DIARY.md": "Carol owes us money.\n",
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
    """Create an event log and return its columns and indexes."""
    folder = tmp_path_factory.mktemp("log")
    opened = open_events(str(folder))
    opened.connection.close()
    with closing(sqlite3.connect(folder / "events.sqlite")) as connection:
        rows = connection.execute("PRAGMA table_info(events)").fetchall()
        indexes = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'"))
    columns = {name: (kind, bool(required)) for _, name, kind, required, *_ in rows}
    return columns, indexes, [row[1] for row in rows if row[5]]


@pytest.mark.parametrize(("name", "kind", "required"), COLUMNS, ids=[column[0] for column in COLUMNS])
def test_event_column(schema, name, kind, required):
    """The events table has every column of the document with its type."""
    assert schema[0][name] == (kind, required)


def test_event_key(schema):
    """The primary key of the events table is `id`."""
    assert schema[2] == ["id"]


@pytest.mark.parametrize("name", INDEXES)
def test_event_index(schema, name):
    """The events table has the three indexes of the document."""
    assert " ".join(schema[1][name].split()).endswith(f"ON events {INDEXES[name]}")


def assemble(folder: Path, block: str = "", files: dict[str, str] = TEXTS, **facts: object) -> Assembly:
    """Assemble a coop turn in a workspace with the document's block in its configuration."""
    rules = {"group": "Keep it short here.\n", "heartbeat": "Say nothing unless it matters.\n"}
    overlays = {f"prompts/{name}-rules.md": text for name, text in rules.items()}
    known = {"user": "alice", "situation": "dm", "blueprint": "coop", "model": "anthropic:claude-sonnet-5", "now": NOON}
    workspace = make_workspace(folder, {"foreword.yaml": PEOPLE + block, **overlays, **files})
    return workspace.assemble(Turn(**known | facts))


def build(folder: Path, block: str, **facts: object) -> str:
    """Assemble a coop prompt in a workspace with the document's block in its configuration."""
    return assemble(folder, block, **facts).prompt.text


@pytest.mark.parametrize("block", [FILES_BLOCK, ""], ids=["listed", "by name"])
@pytest.mark.parametrize(
    ("user", "seen"),
    [
        ("alice", {"Dry", "one line", "MEMORY.md (", "printer", "heron", "rye", "greenhouse"}),
        ("ian", {"Dry", "one line", "printer", "heron", "oats"}),
        ("bob", {"Dry", "one line", "printer", "heron"}),
        ("eve", set()),
        ("nobody", set()),
    ],
)
def test_files_need_their_trust(tmp_path, block, user, seen):
    """The document's `prompt.files` block is valid, and each user sees the files that the table allows."""
    text = build(tmp_path, block, user=user, situation="dm")
    every = {"Dry", "one line", "MEMORY.md (", "printer", "heron", "rye", "oats", "barley", "bees", "greenhouse"}
    assert {word for word in every if word in text} == seen


def test_unlisted_trust_is_full(tmp_path):
    """A listed file without a trust level is shown only at full trust."""
    block = "prompt: {files: [{path: EXTRA.md}]}\n"
    seen = {user: "Nothing lists" in build(tmp_path, block, user=user, situation="dm") for user in ("alice", "ian")}
    assert seen == {"alice": True, "ian": False}


@pytest.mark.parametrize(
    ("situation", "overlay"),
    [("dm", ""), ("group", "Keep it short here."), ("system", "Say nothing unless it matters.")],
)
def test_situations_have_their_overlays(tmp_path, situation, overlay):
    """The document's `situations` block is valid, and an overlay is shown only in its situation."""
    text = build(tmp_path, SITUATIONS_BLOCK, user="alice", situation=situation)
    assert [line for line in ("Keep it short here.", "Say nothing unless it matters.") if line in text] == (
        [overlay] if overlay else []
    )


@pytest.mark.parametrize("situation", ["dm", "group", "system"])
def test_heartbeat_file(tmp_path, situation):
    """HEARTBEAT.md needs full trust."""
    text = build(tmp_path, SITUATIONS_BLOCK, user="alice", situation=situation)
    assert ("greenhouse" in text) is (situation != "group")


@pytest.mark.parametrize(("user", "seen"), [("alice", {"printer"}), ("ian", {"printer"}), ("bob", {"spare key"})])
def test_the_listed_trust_counts(tmp_path, user, seen):
    """A trust level in `prompt.files` overrides the table's, and `per_user` reads from the user's folder."""
    listed = [{"path": "TOOLS.md", "trust": "inner"}, {"path": "NOTES.md", "trust": "familiar", "per_user": True}]
    text = build(tmp_path, f"prompt: {{files: {listed}}}\n".replace("True", "true"), user=user)
    assert {words for words in ("printer", "spare key") if words in text} == seen


@pytest.mark.parametrize(
    "files", [{}, dict.fromkeys(("TOOLS.md", "AGENTS.md", "USER.md"), " \n")], ids=["none", "blank"]
)
def test_missing_files(tmp_path, files):
    """Soul and conduct have defaults; any other missing or blank file leaves no trace in the prompt."""
    assembly = assemble(tmp_path, files=files)
    assert re.findall(r"^## (\S+\.md)$", assembly.prompt.text, re.MULTILINE) == ["SOUL.md", "AGENTS.md"]
    assert "MISSING" not in assembly.prompt.text
    assert {row.id: row.reason for row in assembly.rows()}["soul"] == "built-in soul"


def test_layers(tmp_path):
    """The layers are in the document's order; all are cached except runtime, which is last."""
    extension = Extension(name="boxy", instructions="Open gently.")
    files = {**TEXTS, **MEMORIES}
    assembly = assemble(tmp_path, SITUATIONS_BLOCK, files, situation="system", channel="web", extensions=(extension,))
    rows = {row.id: row for row in assembly.rows()}
    order = [span.id for span in assembly.prompt.spans if span.id]
    assert order == [
        "soul", "agents", "user", "identity", "tools", "heartbeat", "tool-list", "extensions:boxy", "channel",
        "overlay", "menu", "runtime",
    ]  # fmt: skip
    assert [str(rows[name].pace) for name in order] == ["static"] * 2 + ["session"] * 9 + ["turn"]
    assert [rows[name].cached for name in order] == [True] * 11 + [False]
    text = assembly.prompt.text
    assert "## Extensions\n### boxy\nOpen gently." in text
    assert text.endswith(
        "## Runtime\nDate: Sunday, 2026-11-15 12:00 (UTC)\nModel: anthropic:claude-sonnet-5\nChannel: web"
    )


def test_only_the_date_moves(tmp_path):
    """Two prompts from consecutive days differ only in the date line."""
    one, other = (build(tmp_path, "", now=NOON + timedelta(days=days)).splitlines() for days in (0, 1))
    assert [pair for pair in zip(one, other, strict=True) if len(set(pair)) > 1] == [
        ("Date: Sunday, 2026-11-15 12:00 (UTC)", "Date: Monday, 2026-11-16 12:00 (UTC)")
    ]


def test_loop_over_extensions(tmp_path):
    """The document's template renders the name and instructions of each extension, in a file declared as a template."""
    block = "prompt: {files: [{path: EXT.md, trust: familiar, template: true}]}\n"
    some = tuple(Extension(name=name, instructions=f"Mind {name}.") for name in ("boxy", "zed"))
    text = build(tmp_path, block, files={"EXT.md": LOOP}, extensions=some)
    assert re.search(r"\n## boxy\nMind boxy\.\n+## zed\nMind zed\.\n", text)


@pytest.mark.parametrize(("room", "seen"), [("kitchen", ["seven"]), ("den", ["nine"]), ("", [])])
def test_rooms_are_apart(tmp_path, room, seen):
    """A room's prompt has the files of its folder and of no other room."""
    rooms = "rooms: {kitchen: {situation: group}, den: {situation: group}}\n"
    files = {"groups/kitchen/AGENTS.md": "Dinner at seven.\n", "groups/den/AGENTS.md": "Dinner at nine.\n"}
    text = build(tmp_path, rooms, files=files, room=room, situation="group" if room else "dm")
    assert [word for word in ("seven", "nine") if f"Dinner at {word}" in text] == seen


def test_a_missing_overlay(tmp_path, capsys):
    """A missing overlay has no section, and `lint` does not claim a replacement text."""
    block = SITUATIONS_BLOCK.replace("group-rules", "lost")
    assert "## Situation" in build(tmp_path, SITUATIONS_BLOCK, situation="group")
    assert "## Situation" not in build(tmp_path, block, situation="group")
    main(["-w", str(tmp_path), "lint"])
    printed = capsys.readouterr().out
    assert "the overlay prompts/lost.md of situation group does not exist" in printed
    assert "built-in" not in printed


@pytest.mark.parametrize("fault", ["users: {alice: {trust: best}}", "situations: {group: {ceiling: best}}"])
def test_a_wrong_level_is_refused(tmp_path, capsys, fault):
    """An unknown trust level gives exit code 2, the line, and the four valid levels."""
    make_workspace(tmp_path, {})
    (tmp_path / "foreword.yaml").write_text(f"owner: alice\n{fault}\n")
    assert main(["-w", str(tmp_path), "build", "--blueprint", "coop"]) == 2
    assert re.search(r"foreword\.yaml:2: .*public, familiar, inner(,| or) full.*best", capsys.readouterr().err)


def test_the_model_of_the_document(tmp_path, capsys):
    """The window and the price of the document's model are known."""
    make_workspace(tmp_path, TEXTS)
    command = ["-w", str(tmp_path), "explain", "--blueprint", "coop", "--model", "anthropic:claude-sonnet-4-20250514"]
    assert main(command) == 0
    assert re.search(r" window 200,000 · .* · \$0\.\d+ warm, \$0\.\d+ cold\n", capsys.readouterr().out)


def test_every_result_has_its_price(tmp_path):
    """Each search result has its token count."""
    workspace = make_workspace(tmp_path, {"foreword.yaml": PEOPLE, **MEMORIES})
    assembly = workspace.assemble(Turn(user="bob", situation="dm", blueprint="coop"))
    text = workspace.call(assembly, "memory_search", {"query": "What does Carol like?"}).text
    heads = re.findall(r"^\d+\. (social/\w\.md), line 1 \((\d+) tok\)", text, re.MULTILINE)
    assert sorted(path for path, _ in heads) == ["social/A.md", "social/B.md", "social/C.md"]
    for path, price in heads:
        body = (tmp_path / "memory" / path).read_text().strip()
        assert int(price) == assembly.meter.count(body)


@pytest.mark.parametrize("path", ["private/DIARY.md", "private/NOTHING.md", "MEMORY.md"])
def test_memory_above_the_trust_is_not_read(tmp_path, path):
    """`memory_get` answers for a file above the clearance as for a missing file."""
    workspace = make_workspace(tmp_path, {"foreword.yaml": PEOPLE, **TEXTS, **MEMORIES})
    assembly = workspace.assemble(Turn(user="bob", situation="dm", blueprint="coop"))
    with pytest.raises(InputError, match=f"^there is no '{path}' here$"):
        workspace.call(assembly, "memory_get", {"path": path})


def test_a_cut_file_is_read_to_its_end(tmp_path):
    """The marker of a truncated file names a call that returns exactly the missing lines."""
    rules = [f"Rule {number}: ask before you buy." for number in range(1, 5_001)]
    files = {"foreword.yaml": PEOPLE, "AGENTS.md": "\n".join(rules)}
    workspace = make_workspace(tmp_path, files)
    assembly = workspace.assemble(Turn(user="alice", situation="dm", blueprint="coop", model="openai:gpt-5"))
    kept, total, first = re.search(
        r'\[truncated at ([\d,]+)/([\d,]+) tokens — use memory_get\("AGENTS\.md", from=(\d+)\) for remainder\]',
        assembly.prompt.text,
    ).groups()
    count, first = assembly.meter.count, int(first)
    assert (f"{count(chr(10).join(rules[: first - 1])):,}", f"{count(files['AGENTS.md']):,}") == (kept, total)
    assert rules[first - 2] in assembly.prompt.text
    assert rules[first - 1] not in assembly.prompt.text
    answer = workspace.call(assembly, "memory_get", {"path": "AGENTS.md", "from": first, "lines": 3})
    assert answer.text.split("\n") == rules[first - 1 : first + 2]


def test_what_does_not_fit_is_on_the_menu(tmp_path):
    """A file that does not fit is on the menu with its token count, and `memory_get` returns it whole."""
    files = {"AGENTS.md": "Ask first.\n" * 4_000, "TOOLS.md": "Mind the crane.\n" * 400, "HEARTBEAT.md": "Beat.\n" * 30}
    config = PEOPLE + 'models: {"anthropic:claude-sonnet-5": {window: 20000}}\n'
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, **files})
    turn = Turn(user="alice", situation="dm", blueprint="coop", model="anthropic:claude-sonnet-5")
    assembly = workspace.assemble(turn)
    assert "## HEARTBEAT.md" not in assembly.prompt.text
    (price,) = re.findall(r"^- HEARTBEAT\.md \((\d+) tok\) — Beat$", assembly.prompt.text, re.MULTILINE)
    text = workspace.call(assembly, "memory_get", {"path": "HEARTBEAT.md"}).text
    assert text == files["HEARTBEAT.md"].strip()
    assert assembly.meter.count(text) == int(price)


def test_the_remaining_budget_is_constant(tmp_path):
    """The remaining budget on the menu depends on the model, not on the length of the conversation."""
    turns = [{}, {"message": "word " * 9_000}, {"model": "anthropic:claude-sonnet-4-20250514"}]
    one, long, other = (
        re.search(r"Remaining budget: ~(\d+)k tokens", build(tmp_path, "", **turn))[1] for turn in turns
    )
    assert one == long != other


@pytest.mark.parametrize("provider", ["huggingface", "claude-code"])
def test_providers_that_are_not_built_in(tmp_path, capsys, monkeypatch, provider):
    """Bedrock and the Claude Code CLI are refused by name."""
    make_workspace(tmp_path, TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(["-w", str(tmp_path), "chat", "--model", f"{provider}:some-model", "Hello"]) == 2
    assert f"unknown provider '{provider}'" in capsys.readouterr().err
