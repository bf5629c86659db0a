"""Claims about files that are reached by another name, or that are listed with a trust of their own."""

from dataclasses import replace
from pathlib import Path

import pytest

from foreword import Turn, Workspace
from foreword.testing import make_workspace

CONFIG = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
ALICE = Turn(user="alice", situation="dm", model="openai:gpt-5")
LINKS = ("SOUL.md", "TOOLS.md", "rules/b.md", "memory/social/b.md", "skills/b/SKILL.md")
BOB = replace(ALICE, user="bob")


def link(place: Path, target: Path) -> None:
    """Make a link, and the folder it stands in."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def build(ws: Workspace, turn: Turn) -> str:
    """Look at the disk, and assemble a turn."""
    ws.refresh(now=True)
    return ws.assemble(turn).prompt.text


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace with a file for the owner alone."""
    return make_workspace(tmp_path, {"foreword.yaml": CONFIG, "BOOT.md": "SECRET\n", "rules/a.md": "A\n"})


@pytest.mark.parametrize("name", LINKS)
def test_link_has_the_trust_of_its_target(ws: Workspace, tmp_path: Path, name: str) -> None:
    """A link to what a person may not see brings nothing of it into their prompt."""
    link(tmp_path / name, tmp_path / "BOOT.md")
    assert "SECRET" not in build(ws, BOB)
    assert "SECRET" in build(ws, ALICE)


@pytest.mark.parametrize("name", [*LINKS[:2], *(pytest.param(name) for name in LINKS[2:])])
def test_link_is_absent_below_its_target(ws: Workspace, tmp_path: Path, name: str) -> None:
    """Below the trust of its target a link is as if it were not there, in the report too."""
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
    """The keys, the configuration and the state of a workspace are part of no prompt, whoever asks."""
    secret = "SECRET_KEY=abc"
    config = f"{CONFIG}# {secret}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config, ".env": secret, ".foreword/x.md": secret})
    link(tmp_path / name, tmp_path / target)
    assembly = ws.assemble(ALICE)
    assert "SECRET_KEY" not in assembly.prompt.text
    assert "SECRET_KEY" not in assembly.explain()


def test_listed_file_of_the_agent(tmp_path: Path) -> None:
    """A file of the agent that is listed as full is unseen below that, and stands once for those who may see it."""
    config = f"{CONFIG}prompt: {{files: [{{path: agents/assistant/SOUL.md, trust: full}}]}}\n"
    files = {"foreword.yaml": config, "agents/assistant/SOUL.md": "OWN SOUL\n", "SOUL.md": "Be kind.\n"}
    ws = make_workspace(tmp_path, files)
    assembly = ws.assemble(BOB)
    assert "OWN SOUL" not in assembly.prompt.text
    assert "agents/assistant/SOUL.md" not in assembly.explain()
    assert ws.assemble(ALICE).prompt.text.count("OWN SOUL") == 1
