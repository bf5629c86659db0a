"""Law 3: texts above the clearance change nothing below it and are never opened."""

import os
import sys

import pytest
from hypothesis import assume, given
from world_texts import dump
from world_turns import SERVERS, assemble, hide, see, turns
from worlds import BASES, CONFIGURED, worlds

from foreword.engine.trust import show_path
from foreword.errors import InputError
from foreword.testing import make_workspace
from foreword.turn import Host, Sandbox, Turn
from foreword.types import Trust

OPENED: list[str] = []
WATCHING: list[bool] = []


def watch(event, arguments):
    """Record every opened file while watching is on; an audit hook cannot be removed."""
    if WATCHING and event == "open" and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


sys.addaudithook(watch)


def ask(workspace, assembly, path, tool="memory_get"):
    """Read a path or a section with its reading tool and return all bytes of the answer or the refusal."""
    try:
        return repr(workspace.call(assembly, tool, {"path" if tool == "memory_get" else "id": path}))
    except InputError as error:
        return f"{type(error).__name__}: {error}"


def names_of(file):
    """Return the spellings under which a file may be requested."""
    return (file.path, show_path(file.path), "./" + file.path, file.path + "/", file.path.upper())


def list_sections(world, assembly):
    """List the sections that may be requested: every slot, the parts of templates and of multi-file slots."""
    slots = [slot.id for slot in assembly.plan.blueprint.slots]
    files = [file.path.partition("/")[2] for file in world.planted]
    yield from slots
    yield from (f"{slot}:{name}" for slot in slots for name in ("2", "3", "NOTES.md", "HOUSE.md:2"))
    yield from (f"{slot}:{name}" for slot in ("rules", "group", "project") for name in files)
    yield from (f"extensions:{server.name}" for server in SERVERS)


@given(worlds(), turns())
def test_deleting_what_is_above_changes_no_byte(world, turn):
    """Deleting every text above the clearance changes no byte of prompt, request, report or error.

    Texts are files, template parts, projects, facts and the agent's texts in the configuration.

    Seen to fail when the listing of memories did not check the trust of a store.
    """
    level = world.level(turn)
    with world.opened() as whole, world.without(level).opened() as less:
        assert see(whole, turn) == see(less, turn)


@given(worlds(), turns())
def test_deleting_what_is_above_changes_no_answer_of_a_tool(world, turn):
    """Deleting every file above the clearance changes no answer and no refusal of the reading tools.

    Seen to fail when path lookup did not check the trust of a store.
    """
    level = world.level(turn)
    with world.opened() as whole, world.without(level).opened() as less:
        one, other = assemble(whole, turn), assemble(less, turn)
        assume(one is not None and other is not None)
        for path in (path for file in world.planted for path in names_of(file)):
            assert ask(whole, one, path) == ask(less, other, path)
        for name in list_sections(world, one):
            assert ask(whole, one, name, "read_section") == ask(less, other, name, "read_section")


@given(worlds(), turns())
def test_facts_of_the_turn_above_the_clearance_change_no_byte(world, turn):
    """A turn's facts, tools, extensions and bulletins above its clearance change no byte.

    Seen to fail when the budget counted the schemas of all tools of the turn.
    """
    with world.opened() as workspace:
        assert see(workspace, turn) == see(workspace, hide(turn, world.level(turn)))


@given(worlds(), turns())
def test_no_canary_from_above_is_visible(world, turn):
    """No byte of a text above the clearance is in any output that the reader of a turn sees.

    Seen to fail when slots were checked against the user's trust instead of the clearance.
    """
    level = world.level(turn)
    with world.opened() as workspace:
        seen = "\n".join(see(workspace, turn).values())
    for file in world.planted:
        assert file.trust <= level or file.canary not in seen
    for trust in Trust:
        for kind in ("tool", "extension", "bulletin"):
            assert trust <= level or f"kanari{kind}{trust}" not in seen
    for key in CONFIGURED:
        assert world.find_trust(key) <= level or f"kanari{key}" not in seen
    for kind in ("task", "workflow", "directory", "project", "host", "sandbox", "branch", "location"):
        assert level >= Trust.INNER or f"kanari{kind}" not in seen


@given(worlds(), turns())
def test_a_turn_opens_nothing_above_its_clearance(world, turn):
    """A turn and its reading tools open no file above the clearance.

    Seen to fail when a refused entry retained its paths and its source was read before its verdict was checked.
    """
    level = world.level(turn)
    with world.opened() as workspace:
        OPENED.clear()
        WATCHING.append(True)
        try:
            assembly = assemble(workspace, turn)
            for file in world.planted if assembly else ():
                for path in names_of(file):
                    ask(workspace, assembly, path)
        finally:
            WATCHING.clear()
        below = {os.path.relpath(path, workspace.files.root) for path in OPENED}
    assert f"blueprints/{turn.blueprint}.yaml" in below
    assert not below & {file.path for file in world.planted if file.trust > level}


@given(worlds(), turns())
def test_withheld_and_missing_sound_the_same(world, turn):
    """The reading tools give the same answer for a withheld path and for a missing one.

    Seen to fail when a refusal said that the path needs a higher trust.
    """
    level = world.level(turn)
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        for file in world.planted:
            if file.trust > level:
                path = show_path(file.path)
                missing = path.removesuffix(".md") + "-is-not-there.md"
                assert ask(workspace, assembly, missing).replace(missing, path) == ask(workspace, assembly, path)


LISTED = (
    "rules/own.md",
    "skills/own/SKILL.md",
    "channels/web.md",
    "prompts/odd.md",
    "groups/den/own.md",
    "memory/social/own.md",
)


@pytest.mark.parametrize("path", LISTED)
def test_a_listed_trust_holds_wherever_the_file_stands(tmp_path, path):
    """A file that the owner lists as full stays full, even if a folder or another slot has a lower trust.

    Seen to fail while only slots with a fixed file name used the listed trust.
    """
    config = {
        "owner": "alice",
        "users": {"alice": {"trust": "full"}, "bob": {"trust": "familiar"}},
        "situations": {"dm": {"ceiling": "full"}, "odd": {"ceiling": "full", "prompt_overlay": "prompts/odd.md"}},
        "prompt": {"files": [{"path": path, "trust": "full"}]},
    }
    text = "---\nname: own\ndescription: kanari\n---\nkanari\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": dump(config), path: text})
    room = "den" if path.startswith("groups") else ""
    for situation in ("dm", "odd", "group"):
        turn = Turn(user="bob", situation=situation, channel="web", room=room)
        assert "kanari" not in "\n".join(see(workspace, turn).values())
        assembly = workspace.assemble(turn)
        for name in (path, path.removeprefix("memory/")):
            assert "kanari" not in ask(workspace, assembly, name)


def test_a_link_does_not_lower_a_trust(tmp_path):
    """A link inside the workspace does not expose a file to users below its trust.

    Seen to fail while trust was resolved from the name of a file only.
    """
    config = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, "MEMORY.md": "kanari", "rules/a.md": "ours"})
    os.symlink("../MEMORY.md", tmp_path / "rules" / "link.md")
    assert "kanari" not in "\n".join(see(workspace, Turn(user="bob", situation="dm")).values())


INSIDE = ("CLAUDE.md", "deep/AGENTS.md", "memory/private/AGENTS.md", "users/alice/CLAUDE.md", "skills/a/AGENTS.md")


@pytest.mark.parametrize("path", INSIDE)
@pytest.mark.parametrize("base", ["default", "moltis"])
def test_a_project_inside_the_workspace_opens_nothing(tmp_path, base, path):
    """A file that is listed as full, or is in a store or a user's folder, never counts as a project file.

    Seen to fail while the search upwards from a project checked no trust.
    """
    listed = "" if path.startswith(("memory", "users")) else f"prompt: {{files: [{{path: {path}, trust: full}}]}}\n"
    config = f"owner: alice\nusers: {{alice: {{trust: full}}, bob: {{trust: inner}}}}\n{listed}"
    config += f"agents: {{reid: {{blueprint: {base}}}}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, path: "kanari"})
    project = os.path.join(tmp_path, os.path.dirname(path))
    assert "kanari" not in "\n".join(see(workspace, Turn(user="bob", situation="dm", project=project)).values())


@pytest.mark.parametrize("base", BASES)
def test_opening_a_profile_opens_nothing_beside_it(tmp_path, base):
    """Lowering the trust of a user's profile does not expose the facts next to it.

    Seen to fail while a slot that only reads part of USER.md had the trust that the configuration gives that file.
    """
    config = "owner: alice\nusers: {alice: {trust: familiar}}\nprompt: {files: [{path: USER.md, trust: familiar}]}\n"
    config += f"agents: {{reid: {{blueprint: {base}}}}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, "USER.md": "---\nname: Alice\n---\n"})
    turn = Turn(user="alice", situation="dm", host=Host(host="kanari"), sandbox=Sandbox(enabled=True, mode="kanari"))
    assert "kanari" not in "\n".join(see(workspace, turn).values())
