"""File tools in directories that contain the workspace or lie in it."""

import os
import shutil
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.agent.tools.file_tools import FILE_TOOLS
from foreword.errors import InputError
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust

LEVELS = {"alice": Trust.FULL, "carol": Trust.INNER}
CONFIG = """\
owner: alice
agents: {{reid: {{model: "openai:gpt-5", directories: [{given}]}}}}
users: {{alice: {{trust: full}}, carol: {{trust: inner}}, dora: {{trust: full}}}}
prompt: {{files: [{{path: notes/listed.md, trust: inner}}]}}
"""
# Each file with the lowest clearance that may see it through these tools; None if no clearance may.
PLACES = {
    "SOUL.md": Trust.FAMILIAR,
    "AGENTS.md": Trust.FAMILIAR,
    "BOOT.md": Trust.FULL,
    "memory/private/a.md": Trust.FULL,
    "memory/shared/b.md": Trust.INNER,
    "memory/social/c.md": Trust.FAMILIAR,
    "memory/social/inbox/bob/d.md": None,
    "memory/private/data.bin": Trust.FULL,
    "users/carol/USER.md": None,
    "users/alice/USER.md": Trust.FULL,
    "skills/tea/SKILL.md": Trust.FAMILIAR,
    "rules/one.md": Trust.FAMILIAR,
    "notes/free.md": Trust.FULL,
    "notes/listed.md": Trust.INNER,
    "deep/er/est.txt": Trust.FULL,
    ".env": None,
    ".foreword/kept.db": None,
    ".git/config": None,
}


def make(folder, given, files=PLACES):
    """Make a workspace whose files all have the same word, and an agent with a directory."""
    config = CONFIG.format(given=given)
    return make_workspace(folder, {"foreword.yaml": config, **{path: f"plum in {path}\n" for path in files}})


def call(ws, user, name, **arguments):
    """Call a tool, and return its answer or its error."""
    assembly = ws.assemble(Turn(user=user, situation="dm", tools=FILE_TOOLS))
    try:
        return ws.call(assembly, name, arguments).text
    except InputError as error:
        return str(error)


def see_all(ws, user, given):
    """Return everything that these tools show of a workspace."""
    folders = sorted({"", *(os.path.dirname(path) for path in PLACES)})
    shown = [call(ws, user, "search_files", text="plum"), call(ws, user, "search_files", text=".md")]
    shown += [call(ws, user, "list_files", path=f"{given}/{folder}") for folder in folders]
    shown += [call(ws, user, "search_files", text="plum", path=f"{given}/{folder}") for folder in folders]
    shown += [call(ws, user, "read_file", path=f"{given}/{path}") for path in (*PLACES, "foreword.yaml", *folders)]
    return shown


@pytest.mark.parametrize("above", [False, True])
def test_each_file(tmp_path, above):
    """Every workspace file is visible from its trust on, under any directory."""
    ws = make(tmp_path / "ws", str(tmp_path) if above else ".")
    start = f"{tmp_path}/ws" if above else "."
    for user, (path, least) in product(LEVELS, PLACES.items()):
        seen = least is not None and LEVELS[user] >= least
        shown = call(ws, user, "read_file", path=f"{start}/{path}")
        assert shown.endswith(f"\nplum in {path}") is seen, path
        assert seen or shown == f"there is no '{start}/{path}' here"
        assert (f"{path}:1: plum" in call(ws, user, "search_files", text="plum")) is seen, path
    for user in LEVELS:
        assert call(ws, user, "read_file", path=f"{start}/foreword.yaml") == f"there is no '{start}/foreword.yaml' here"


@settings(max_examples=15, deadline=None)
@given(
    files=st.sets(st.sampled_from(sorted(PLACES))),
    user=st.sampled_from(sorted(LEVELS)),
    above=st.booleans(),
    folders=st.booleans(),
)
def test_what_is_withheld_is_not_there(tmp_path_factory, files, user, above, folders):
    """Deleting every file above the clearance changes no answer of the file tools."""
    base = tmp_path_factory.mktemp("law")
    given = str(base) if above else "."
    ws = make(base / "ws", given, files)
    start = f"{given}/ws" if above else given
    shown = see_all(ws, user, start)
    for path in files:
        if (least := PLACES[path]) is None or LEVELS[user] < least:
            (base / "ws" / path).unlink()
    for folder, below, names in os.walk(base / "ws", topdown=False):
        if folders and not below and not names and folder != str(base / "ws"):
            os.rmdir(folder)
    assert see_all(ws, user, start) == shown
    shutil.rmtree(base)


@pytest.mark.parametrize("path", ["notes", "memory/private", "users/alice", ".foreword", ".git"])
def test_a_directory_in_the_workspace(tmp_path, path):
    """A directory inside the workspace keeps the trust of its files; the state is never visible."""
    ws = make(tmp_path / "ws", path)
    hidden = path.startswith(".")
    assert ("plum" in call(ws, "alice", "search_files", text="plum")) is not hidden
    carols = call(ws, "carol", "search_files", text="plum")
    assert carols == ("notes/listed.md:1: plum in notes/listed.md" if path == "notes" else "Nothing was found.")


UNWRITABLE = [
    *("SOUL.md", "new.md", "memory/private/x.md", "memory/shared/new/x.md", "users/alice/x.md", "users/bob/x.md"),
    *("skills/tea/SKILL.md", "skills/new/SKILL.md", "rules/x.md", "agents/reid/SOUL.md", "blueprints/x.yaml"),
    *("notes/listed.md", "foreword.yaml", ".env", ".foreword/x", "prompts/x.md", "channels/web.md", "groups/g/x.md"),
]


@pytest.mark.parametrize("above", [False, True])
def test_what_prompts_are_made_of(tmp_path, above):
    """Files that prompts, memory or the configuration are made from are not written, whether they exist or not."""
    ws = make(tmp_path / "ws", str(tmp_path) if above else ".")
    before = {name: (tmp_path / "ws" / name).read_bytes() for name in PLACES}
    start = f"{tmp_path}/ws" if above else "."
    for path in UNWRITABLE:
        assert "was not written" in call(ws, "alice", "write_file", path=f"{start}/{path}", text="x"), path
        assert path in PLACES or path == "foreword.yaml" or not (tmp_path / "ws" / path).exists(), path
    assert {name: (tmp_path / "ws" / name).read_bytes() for name in PLACES} == before
    assert not (tmp_path / "ws" / "memory" / "shared" / "new").exists()


def test_a_folder_of_ones_own(tmp_path):
    """Files are written in workspace folders that prompts do not use."""
    ws = make(tmp_path / "ws", "notes")
    assert call(ws, "alice", "write_file", path="plans/x.md", text="x").startswith("Written: notes/plans/x.md")
    assert (tmp_path / "ws/notes/plans/x.md").read_text() == "x"


def test_one_persons_files(tmp_path):
    """A person's files are visible to them alone, and not in conversations that others read."""
    ws = make(tmp_path / "ws", ".")
    assert "plum" in call(ws, "alice", "read_file", path="users/alice/USER.md")
    assert call(ws, "dora", "read_file", path="users/alice/USER.md") == "there is no 'users/alice/USER.md' here"
    assert "users" not in call(ws, "dora", "list_files")


def test_links_into_the_workspace(tmp_path):
    """A link into the workspace or within it is not followed."""
    ws = make(tmp_path / "ws", f"{tmp_path}/given, .")
    write_files(tmp_path / "given", {"x.md": "x"})
    (tmp_path / "given" / "in").symlink_to(tmp_path / "ws" / "memory")
    (tmp_path / "ws" / "AGENTS.md").unlink()
    (tmp_path / "ws" / "AGENTS.md").symlink_to("memory/private/a.md")
    for path in (f"{tmp_path}/given/in/private/a.md", "./AGENTS.md"):
        assert "plum in" not in call(ws, "carol", "read_file", path=path)
    assert "private" not in call(ws, "carol", "search_files", text="plum")
