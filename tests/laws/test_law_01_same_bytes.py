"""Law 1: the same inputs give the same bytes."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from world_turns import SERVERS, make_turn, see, turns
from worlds import BASES, HOME, make_world, open_at, worlds


@given(worlds(), turns())
def test_two_workspaces_give_the_same_bytes(world, turn):
    """Two workspaces with the same texts give the same bytes, regardless of the order in which files were created.

    Seen to fail when folders were listed in file system order.
    """
    with world.opened() as one, world.opened(backwards=True) as other:
        assert see(one, turn) == see(other, turn)


@given(worlds(), turns())
def test_a_second_look_gives_the_same_bytes(world, turn):
    """A workspace gives the same bytes again, with warm caches and with empty ones.

    Seen to fail when the token count cache returned its counts one too high.
    """
    with world.opened() as workspace:
        first = see(workspace, turn)
        workspace.close()
        assert see(workspace, turn) == first
        assert see(open_at(workspace.files.root), turn) == first


@given(worlds(), turns(), st.booleans())
def test_an_edited_workspace_gives_what_a_fresh_one_gives(world, turn, read):
    """After files are added, removed and changed, a workspace gives the same bytes as a newly opened one.

    Seen to fail when a folder listing was cached forever.
    """
    later = make_world(world.seed + 1)
    with world.opened() as workspace:
        see(workspace, turn)
        root = workspace.files.root
        for file in world.planted:
            os.remove(os.path.join(root, file.path))
        replace(later, planted=later.planted[::2]).write(root)
        if read:
            workspace.refresh(now=True)
            see(workspace, turn)
            world.write(root)
        workspace.refresh(now=True)
        assert workspace.fault is None
        assert see(workspace, turn) == see(open_at(root), turn)


@settings(max_examples=max(2, settings.default.max_examples // 100))
@given(st.integers(0, 2**64))
def test_two_processes_give_the_same_bytes(seed):
    """Processes with different hash seeds give the same bytes, in every dialect.

    Seen to fail when tools were sorted by the hash of their names.
    """
    with TemporaryDirectory() as folder:
        for base in BASES:
            make_world(seed, base).write(os.path.join(folder, base, HOME))
        with open(os.path.join(folder, "turns"), "wb") as file:
            stored = [make_turn(Random(f"{seed} {base}"), extensions=SERVERS) for base in BASES]
            pickle.dump([replace_tools(turn) for turn in stored], file)
        assert look_from_afar(folder, "1") == look_from_afar(folder, "2")


def replace_tools(turn):
    """Convert a turn's tools to plain values, so that the other process sorts them itself."""
    tools = turn.tools.tools if turn.tools is not None else None
    fields = {name: getattr(turn, name) for name in turn.__slots__ if name != "tools"}
    return fields, [(tool.name, tool.description, dict(tool.parameters), tool.trust, tool.kind) for tool in tools or ()]


def look_from_afar(folder, seed):
    """Assemble the stored turns in a separate process."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, __file__, folder], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main(folder):
    """Print a digest of all visible output for each stored turn."""
    from foreword.turn import Tool, Toolset, Turn

    with open(os.path.join(folder, "turns"), "rb") as file:
        stored = pickle.load(file)
    digests = []
    for base, (fields, tools) in zip(BASES, stored, strict=True):
        names = ("name", "description", "parameters", "trust", "kind")
        toolset = Toolset(Tool(**dict(zip(names, tool, strict=True))) for tool in tools) if tools else None
        seen = see(open_at(os.path.join(folder, base, HOME)), Turn(**fields, tools=toolset))
        digests.append({name: hashlib.sha256(text.encode()).hexdigest() for name, text in seen.items()})
    sys.stdout.write(json.dumps(digests))


if __name__ == "__main__":
    main(sys.argv[1])
