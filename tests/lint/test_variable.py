"""Claims about the rule `variable`."""

from pathlib import Path

import pytest
from lint_case import find, places


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("{{TOOL_DEFINITION}}", "did you mean TOOL_DEFINITIONS?"),
        ("{{- tool_definitions -}}", "did you mean TOOL_DEFINITIONS?"),
        ("{{ weather | upper }}", "there is TOOL_DEFINITIONS"),
    ],
)
def test_unknown(tmp_path: Path, text: str, remedy: str) -> None:
    """An unknown variable of SYSTEM.md is an error that names the nearest known one."""
    findings = find(tmp_path, "variable", {"SYSTEM.md": f"---\nx: 1\n---\n\n{text}"})
    assert places(findings) == [("SYSTEM.md", 5, "error")]
    assert findings[0].remedy.startswith(remedy)


@pytest.mark.parametrize("text", ["{{TOOL_DEFINITIONS}} {{ TOOL_DEFINITIONS }}", "{{ }} {{ 'text' }} {{ {"])
def test_known(tmp_path: Path, text: str) -> None:
    """A known variable, and braces that name none, are in order."""
    assert find(tmp_path, "variable", {"SYSTEM.md": text}) == []


def test_templates_only(tmp_path: Path) -> None:
    """SYSTEM.md is a template, in every agent's folder too; any other file is text."""
    names = ("SYSTEM.md", "agents/assistant/SYSTEM.md", "PLAIN.md", "SOUL.md")
    findings = find(tmp_path, "variable", dict.fromkeys(names, "{{ weather }}"))
    assert sorted(finding.file for finding in findings) == sorted(names[:2])
