"""The rule `shadow`."""

from pathlib import Path

import pytest
from lint_case import find, places


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("Soul.md", "SOUL.md"),
        ("AGENT.md", "AGENTS.md"),
        ("agents.md", "AGENTS.md"),
        ("MEMORIES.md", "MEMORY.md"),
        ("AGNETS.md", "AGENTS.md"),
        ("Identity.MD", "IDENTITY.md"),
        ("SOUL.txt", "SOUL.md"),
        ("TOOLS.markdown", "TOOLS.md"),
        ("users/alice/user.md", "USER.md"),
        ("agents/assistant/TOOL.md", "TOOLS.md"),
        ("skills/a/Skill.md", "SKILL.md"),
        ("skills/a/SKILLS.md", "SKILL.md"),
    ],
)
def test_near_miss(tmp_path: Path, path: str, right: str) -> None:
    """A file with nearly a known name is never read, and the finding suggests the right name."""
    findings = find(tmp_path, "shadow", {path: "hi"})
    assert places(findings) == [(path, 1, "warning")]
    assert right in findings[0].message


@pytest.mark.parametrize(
    "path",
    [
        "SOUL.md",
        "NOTES.md",
        "README.md",
        "BOOK.md",
        "AGENDA.md",
        "rules/agents.md",
        "memory/social/soul.md",
        "skills/a/x.md",
    ],
)
def test_other_names(tmp_path: Path, path: str) -> None:
    """Correct names, other names and names in other folders are not reported."""
    assert find(tmp_path, "shadow", {path: "hi"}) == []


def test_listed(tmp_path: Path) -> None:
    """A file that the configuration lists may have any name."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nprompt: {files: [{path: agents.md}]}\n"
    assert find(tmp_path, "shadow", {"foreword.yaml": config, "agents.md": "hi"}) == []
