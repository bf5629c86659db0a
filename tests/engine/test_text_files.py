"""Claims about turns without a workspace."""

import inspect
from dataclasses import replace
from functools import partial

import pytest

from foreword.assemble import assemble
from foreword.config.schema import Agent, Config, Identity, PromptFile, PromptFiles, User
from foreword.dialects import make_meter
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.context import AssemblyContext
from foreword.engine.sources.files import Files, TextFiles
from foreword.engine.trust import Clearance
from foreword.resources import list_blueprints, read_blueprint
from foreword.testing import NOON
from foreword.turn import Turn
from foreword.types import Mode, Trust

TURN = Turn(agent="a", user="u", situation="dm", mode=Mode.FULL, now=NOON, message="Hello.")


def make_context(agent: Agent, **more: object) -> AssemblyContext:
    """Make an assembly context without files."""
    config = Config(owner="u", agents={"a": agent}, users={"u": User(trust=Trust.FULL)}, **more)
    return AssemblyContext(config=config, files=TextFiles(), measure=partial(make_meter, native_tools=False))


def test_shape() -> None:
    """TextFiles has methods of Files, with the same signatures."""
    theirs = dict(inspect.getmembers(Files, inspect.isfunction))
    for name, method in inspect.getmembers(TextFiles, inspect.isfunction):
        if not name.startswith("_") and name != "has_folder":
            kinds = [one.kind for one in inspect.signature(method).parameters.values()]
            assert [one.kind for one in inspect.signature(theirs[name]).parameters.values()] == kinds
    assert {"root", "generation"} <= vars(Files(".")).keys() & vars(TextFiles).keys()


@pytest.mark.parametrize("path", ["SOUL.md", "", "/etc/passwd", "../x", "a\0b"])
def test_nothing_is_there(path: str) -> None:
    """No file exists, nothing is listed, and nothing ever changes."""
    nowhere = TextFiles()
    assert (nowhere.read(path), nowhere.read_text(path)) == (None, None)
    assert (nowhere.list(path), nowhere.list(path, "SKILL.md"), nowhere.find_target(path)) == ((), (), path)
    nowhere.watch_link(path)
    assert nowhere.visit("/").read("etc/hostname") is None


@pytest.mark.parametrize("name", list_blueprints())
def test_every_blueprint(name: str) -> None:
    """Every blueprint makes a prompt of a configuration alone; nothing in it comes from a file."""
    blueprint = load_blueprint(read_blueprint(name) or "", name)
    agent = Agent(blueprint=name, identity=Identity(name="Ada"), soul="Be kind.", instructions="Work.")
    assembly = assemble(TURN, make_context(agent), blueprint)
    assert assembly.prompt.text
    assert {row.source for row in assembly.rows() if row.source.endswith((".md", ".json"))} == set()


def test_no_project() -> None:
    """Without a workspace a project's folder on the disk is not read."""
    blueprint = load_blueprint(read_blueprint("default") or "", "default")
    assembly = assemble(replace(TURN, project="/"), make_context(Agent()), blueprint)
    row = next(row for row in assembly.rows() if row.id == "project")
    assert row.reason == "the project / is not a folder"


def test_listed_files() -> None:
    """A file that the configuration lists does not exist where there are no files."""
    blueprint = load_blueprint(read_blueprint("default") or "", "default")
    listed = PromptFiles(files=(PromptFile(path="X.md"), PromptFile(path="Y.md", template=True)))
    assembly = assemble(TURN, make_context(Agent(), prompt=listed), blueprint)
    reasons = {row.id: row.reason for row in assembly.rows() if row.id.startswith("files:")}
    assert reasons == {"files:X.md": "X.md does not exist", "files:Y.md": "Y.md does not exist"}


def test_same_turn_twice() -> None:
    """The same turn in the same context gives the same text, and its clearance is resolved as usual."""
    context = make_context(Agent(soul="Be kind."))
    blueprint = load_blueprint(read_blueprint("default") or "", "default")
    first, second = assemble(TURN, context, blueprint), assemble(TURN, context, blueprint)
    assert first.prompt.text == second.prompt.text
    assert isinstance(first.clearance, Clearance)
    stranger = assemble(replace(TURN, user="x"), context, blueprint)
    assert "Be kind." in first.prompt.text
    assert "Be kind." not in stranger.prompt.text
