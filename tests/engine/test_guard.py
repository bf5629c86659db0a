"""Claims about files that are reached by another name, or that are listed with a separate trust."""

from dataclasses import replace
from pathlib import Path

import pytest

from foreword.config.load import load_config
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.trust import FileGuard
from foreword.resources import read_blueprint
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
ALICE = Turn(user="alice", situation="dm", model="openai:gpt-5")
LINKS = ("SOUL.md", "TOOLS.md", "rules/b.md", "memory/social/b.md", "skills/b/SKILL.md")
BOB = replace(ALICE, user="bob")


def link(place: Path, target: Path) -> None:
    """Make a link and its parent folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def build(ws: Workspace, turn: Turn) -> str:
    """Refresh the workspace, and assemble a turn."""
    ws.refresh(now=True)
    return ws.assemble(turn).prompt.text


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace with a file for the owner alone."""
    return make_workspace(tmp_path, {"foreword.yaml": CONFIG, "BOOT.md": "SECRET\n", "rules/a.md": "A\n"})


@pytest.mark.parametrize("name", LINKS)
def test_link_has_the_trust_of_its_target(ws: Workspace, tmp_path: Path, name: str) -> None:
    """A link to a file that a person may not see brings nothing of it into their prompt."""
    link(tmp_path / name, tmp_path / "BOOT.md")
    assert "SECRET" not in build(ws, BOB)
    assert "SECRET" in build(ws, ALICE)


@pytest.mark.parametrize("name", [*LINKS[:2], *(pytest.param(name) for name in LINKS[2:])])
def test_link_is_absent_below_its_target(ws: Workspace, tmp_path: Path, name: str) -> None:
    """Below the trust of its target a link is treated as missing, also in the report."""
    before = ws.assemble(BOB).explain()
    link(tmp_path / name, tmp_path / "BOOT.md")
    ws.refresh(now=True)
    assert ws.assemble(BOB).explain() == before


def test_link_that_becomes_a_file(ws: Workspace, tmp_path: Path) -> None:
    """A link that was not followed and is replaced by a file is seen."""
    place = tmp_path / "SOUL.md"
    place.symlink_to(tmp_path / "BOOT.md")
    assert "SECRET" not in build(ws, BOB)
    place.unlink()
    place.write_text("Be kind.\n")
    assert "Be kind." in build(ws, BOB)


@pytest.mark.parametrize("target", [".env", "foreword.yaml", ".foreword/x.md"])
@pytest.mark.parametrize("name", ["rules/b.md", "SOUL.md", "memory/social/b.md", "skills/b/SKILL.md"])
def test_internal_files(tmp_path: Path, name: str, target: str) -> None:
    """The keys, the configuration and the state of a workspace are part of no prompt, for every user."""
    secret = "SECRET_KEY=abc"
    config = f"{CONFIG}# {secret}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config, ".env": secret, ".foreword/x.md": secret})
    link(tmp_path / name, tmp_path / target)
    assembly = ws.assemble(ALICE)
    assert "SECRET_KEY" not in assembly.prompt.text
    assert "SECRET_KEY" not in assembly.explain()


def test_listed_file_of_the_agent(tmp_path: Path) -> None:
    """A file of the agent that is listed as full is hidden below that, and appears once for those who may see it."""
    config = f"{CONFIG}prompt: {{files: [{{path: agents/assistant/SOUL.md, trust: full}}]}}\n"
    files = {"foreword.yaml": config, "agents/assistant/SOUL.md": "OWN SOUL\n", "SOUL.md": "Be kind.\n"}
    ws = make_workspace(tmp_path, files)
    assembly = ws.assemble(BOB)
    assert "OWN SOUL" not in assembly.prompt.text
    assert "agents/assistant/SOUL.md" not in assembly.explain()
    assert ws.assemble(ALICE).prompt.text.count("OWN SOUL") == 1


PERSONAL = f"{CONFIG}prompt: {{files: [{{path: NOTES.md, per_user: true, trust: familiar}}]}}\n"


@pytest.mark.parametrize("target", ["NOTES.md", "USER.md", "users/alice/x.md"])
def test_link_to_somebodys_own_file(tmp_path: Path, target: str) -> None:
    """A link from a shared place to a person's own file is never followed; a person's link may lead to their own."""
    ws = make_workspace(tmp_path, {"foreword.yaml": PERSONAL, target: "SECRET\n"})
    link(tmp_path / "rules/x.md", tmp_path / target)
    assert "SECRET" not in build(ws, BOB)
    assert build(ws, ALICE).count("SECRET") == (target in ("NOTES.md", "USER.md"))
    (tmp_path / "rules/x.md").unlink()
    link(tmp_path / "users/alice/USER.md", tmp_path / target)
    assert "SECRET" in build(ws, ALICE)


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("rules/a.md", Trust.FAMILIAR),
        ("rules/deep/a.md", Trust.FAMILIAR),
        ("rules/a.txt", Trust.FULL),
        ("rules/.a.md", Trust.FULL),
        ("rules/.git/a.md", Trust.FULL),
        ("skills/x/SKILL.md", Trust.FAMILIAR),
        ("skills/x/notes.md", Trust.FULL),
        ("memory/social/a.md", Trust.FAMILIAR),
        ("memory/social/a.txt", Trust.FULL),
        ("groups/family/a.md", Trust.FULL),
        ("channels/web.md", Trust.FAMILIAR),
        ("USER.md", Trust.FULL),
        ("NOTES.md", Trust.FULL),
        ("agents/a/NOTES.md", Trust.FULL),
        ("users/alice/NOTES.md", Trust.FULL),
    ],
)
def test_least(path: str, least: Trust) -> None:
    """A folder opens what its source would list and nothing else; a group's and a person's own files are for full."""
    blueprint = load_blueprint(read_blueprint("default") or "", "x.yaml")
    assert FileGuard(blueprint, load_config(f"{PERSONAL}agents: {{a: {{}}}}\n")).find_required_trust(path) == least
