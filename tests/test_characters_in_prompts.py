"""Claims about soul, identity and instructions in the state, as they appear in prompts."""

import os

import pytest

from foreword.config.schema import Identity
from foreword.resources import list_blueprints
from foreword.storage.agents import replace_instructions, set_character
from foreword.storage.database import open_state
from foreword.testing import make_workspace
from foreword.turn import Turn

CONFIG = """\
owner: alice
agents:
  reid: {identity: {name: Reid, description: a clerk}, soul: "%s"}
  nova: {}
users: {alice: {trust: full}, bob: {trust: familiar}, eve: {trust: public}}
situations: {kiosk: {ceiling: public}}
"""
FILES = {
    "foreword.yaml": CONFIG % "",
    "SOUL.md": "The soul of the file.\n",
    "IDENTITY.md": "---\nname: Filed\n---\nThe body of the file.\n",
}
SOULLESS = "nova"  # its prompt has no soul


@pytest.fixture
def ws(tmp_path):
    """A workspace with files for soul and identity, and no state yet."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def keep(ws, **what):
    """Store the soul or identity of an agent, as the owner does on the command line."""
    connection = open_state(os.path.join(ws.files.root, ".foreword")).connection
    set_character(connection, "reid", **what)
    connection.close()


def instruct(ws, text, user="alice", agent="reid"):
    """Store instructions, as a tool does."""
    connection = open_state(os.path.join(ws.files.root, ".foreword")).connection
    replace_instructions(connection, user, agent, text)
    connection.close()


def describe(ws, user="alice", **more):
    """Assemble a prompt and return its text."""
    return ws.assemble(Turn(**{"user": user, "situation": "dm", **more})).prompt.text


@pytest.mark.parametrize("name", list_blueprints())
def test_soul_and_identity(ws, name):
    """In every blueprint a stored soul and identity override the files from the next turn on, for that agent only."""
    before = describe(ws, blueprint=name)
    other = describe(ws, blueprint=name, agent="nova")
    keep(ws, soul="The soul of the store.", identity=Identity(name="Kept", vibe="dry"))
    now = describe(ws, blueprint=name)
    assert "Kept" in now
    assert "Filed" not in now
    assert "body of the file" not in now
    assert ("The soul of the store." in now) == (name != SOULLESS)
    assert "soul of the file" not in now
    assert describe(ws, blueprint=name, agent="nova") == other
    keep(ws, soul="", identity="")
    assert describe(ws, blueprint=name) == before


def test_over_the_configuration(tmp_path):
    """A stored soul and a stored identity each override the configuration independently."""
    with make_workspace(tmp_path, {"foreword.yaml": CONFIG % "The configured soul."}) as ws:
        keep(ws, soul="The soul of the store.")
        shown = describe(ws)
        assert "The soul of the store." in shown
        assert "configured soul" not in shown
        assert "Reid" in shown
        keep(ws, identity="You are Kept.")
        assert "You are Kept." in describe(ws)


def test_nobody_below_meets_it(ws):
    """For a user who may not see the identity, a stored one does not change the prompt."""
    before = [describe(ws, user, situation=situation) for user, situation in (("eve", "dm"), ("alice", "kiosk"))]
    keep(ws, soul="The soul of the store.", identity=Identity(name="Kept"))
    assert [
        describe(ws, user, situation=situation) for user, situation in (("eve", "dm"), ("alice", "kiosk"))
    ] == before


def test_explained(ws):
    """The verdict names the state as the source, and its reason does not suggest a file."""
    keep(ws, soul="The soul of the store.")
    for name in ("default", "osa"):
        assembly = ws.assemble(Turn(user="alice", situation="dm", blueprint=name))
        (soul,) = (one for one in assembly.to_dict()["sections"] if one["id"] == "soul")
        assert soul["source"] == "the store"
        assert "legacy" not in soul["reason"]


def test_no_heading_of_ones_own(ws):
    """A stored soul cannot open a section of the prompt."""
    keep(ws, soul="Be calm.\n\n## Soul\n\nBe two.")
    assert describe(ws).count("\n## Soul\n") == 1


def test_instructions(ws):
    """A user's instructions are read on every turn, separately for each agent."""
    assert "Standing Instructions" not in describe(ws)
    instruct(ws, "Use bullet points.")
    assert "Use bullet points." in describe(ws)
    assert "Use bullet points." not in describe(ws, agent="nova")
    assert "Use bullet points." not in describe(ws, "bob")
    instruct(ws, "Be brief.")
    assert "Be brief." in describe(ws)
    instruct(ws, "")
    assert "Standing Instructions" not in describe(ws)


def test_the_turn_knows_better(ws):
    """Instructions given with a turn override the stored ones."""
    instruct(ws, "Use bullet points.")
    shown = describe(ws, instructions="Be brief.")
    assert "Be brief." in shown
    assert "bullet points" not in shown


@pytest.mark.parametrize(
    "place", [{"room": "kitchen"}, {"situation": "group"}, {"situation": "kiosk"}, {"user": "eve"}]
)
def test_instructions_stay_private(ws, place):
    """In groups and below the required clearance, instructions are not part of the turn."""
    instruct(ws, "Use bullet points.")
    instruct(ws, "Use bullet points.", user="eve")
    assembly = ws.assemble(Turn(**{"user": "alice", "situation": "dm", **place}))
    assert assembly.turn.instructions == ""
    assert "bullet points" not in assembly.prompt.text


def test_nothing_is_made(ws):
    """Assembling creates no state."""
    describe(ws)
    assert not os.path.exists(os.path.join(ws.files.root, ".foreword", "state.sqlite"))
