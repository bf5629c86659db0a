"""Item 17: coop shows skills and room files, and facts about sudo and sandbox are in the prompt."""

import asyncio
import os
from pathlib import Path

import pytest
from dialect_house import open_house, run, say

from foreword.testing import make_workspace, run_fake_provider
from foreword.turn import Turn

CONFIG = """\
owner: alice
users: {alice: {trust: full}, bob: {trust: familiar}}
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: BLUEPRINT}}
rooms: {family: {situation: group}}
"""
SKILL = "---\nname: knit\ndescription: Knit a scarf\n---\nCast on forty stitches.\n"
COOP = {
    "foreword.yaml": CONFIG.replace("BLUEPRINT", "coop"),
    "skills/knit/SKILL.md": SKILL,
    "groups/family/AGENTS.md": "We eat at seven.\n",
}
MODEL = ("--model", "anthropic:claude-sonnet-5")
FACT = "sudo_non_interactive="


def test_coop_lists_skills(tmp_path: Path) -> None:
    """A skill is listed by name and description, its text is fetched on demand, and a stranger sees none."""
    workspace = make_workspace(tmp_path, COOP)
    text = workspace.assemble(Turn(user="alice", situation="dm")).prompt.text
    assert '<skill name="knit" source="skill" path="skills/knit">\nKnit a scarf\n</skill>' in text
    assert "Cast on" not in text
    assert "knit" not in workspace.assemble(Turn(user="mallory", situation="dm")).prompt.text


def test_coop_shows_the_files_of_a_room(tmp_path: Path) -> None:
    """Files of groups/NAME/ are in the prompts of that room only."""
    workspace = make_workspace(tmp_path, COOP)
    room = Turn(user="bob", situation="group", room="family")
    assert "## This Room\n### AGENTS.md\nWe eat at seven." in workspace.assemble(room).prompt.text
    assert "We eat" not in workspace.assemble(Turn(user="alice", situation="dm")).prompt.text


def test_coop_has_conduct_without_files(tmp_path: Path) -> None:
    """An empty workspace has rules of conduct and of memory; an AGENTS.md replaces them."""
    workspace = make_workspace(tmp_path, {"foreword.yaml": COOP["foreword.yaml"]})
    text = workspace.assemble(Turn(user="alice", situation="dm")).prompt.text
    assert "## AGENTS.md\n" in text
    assert "Check memory before you answer from it" in text
    (tmp_path / "AGENTS.md").write_text("Mine.\n")
    workspace.refresh(now=True)
    assert "Check memory" not in workspace.assemble(Turn(user="alice", situation="dm")).prompt.text


def capture(folder: Path, more: str = "") -> str:
    """Return the system prompt that a gateway sends for the owner."""

    async def talk() -> None:
        config = CONFIG.replace("BLUEPRINT", "moltis") + more
        async with open_house(folder, provider, {"foreword.yaml": config}) as gateway:
            await say(gateway, "Hello")

    with run_fake_provider() as provider:
        asyncio.run(talk())
    return "".join(block["text"] for block in provider.requests[0].body["system"])


def test_sandbox_and_sudo_from_the_configuration(tmp_path: Path) -> None:
    """`sandbox:` and `host:` are in the runtime lines of a captured request; without a shell there is no routing."""
    more = "host: {sudo: true}\nsandbox: {backend: docker, mode: all, network: disabled}\n"
    text = capture(tmp_path, more)
    assert f"{FACT}true" in text
    assert "Sandbox(exec): enabled=true | mode=all | backend=docker | network=disabled" in text
    assert "## Execution routing" not in text


@pytest.mark.parametrize(("user", "shown"), [(0, "true"), (1000, "")])
def test_sudo_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, shown: str
) -> None:
    """Root with sudo needs no password; for others nothing is claimed. The program is never run."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sudo").write_text(f"#!/bin/sh\ntouch {tmp_path / 'was-run'}\n")
    (folder / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    make_workspace(tmp_path, {"foreword.yaml": CONFIG.replace("BLUEPRINT", "moltis")})
    for command in ("build", "explain"):
        _, printed = run(capsys, tmp_path, command, *MODEL)
        if command == "build":
            assert (f"{FACT}{shown}" in printed) if shown else (FACT not in printed)
    assert not (tmp_path / "was-run").exists()
    (folder / "sudo").unlink()
    assert FACT not in run(capsys, tmp_path, "build", *MODEL)[1]
    (tmp_path / "foreword.yaml").write_text(CONFIG.replace("BLUEPRINT", "moltis") + "host: {sudo: false}\n")
    assert f"{FACT}false" in run(capsys, tmp_path, "build", *MODEL)[1]
