"""Claims about the rule `variable`."""

from pathlib import Path

import pytest
from lint_case import find, places

HEAD = "owner: alice\nusers: {alice: {trust: full}}\n"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("{{TOOL_DEFINITION}}", "did you mean TOOL_DEFINITIONS?"),
        ("{{ rules }}", "did you mean RULES?"),
        ("{{ extension | upper }}", "did you mean extensions?"),
        ("{{- goosemode -}}", "did you mean goose_mode?"),
        ("{{ weather }}", "there is TOOL_DEFINITIONS, RULES"),
    ],
)
def test_unknown(tmp_path: Path, text: str, remedy: str) -> None:
    """An unknown variable of SYSTEM.md is an error that names the nearest known one."""
    findings = find(tmp_path, "variable", {"SYSTEM.md": f"---\nx: 1\n---\n\n{text}"})
    assert places(findings) == [("SYSTEM.md", 5, "error")]
    assert findings[0].remedy.startswith(remedy)


@pytest.mark.parametrize(
    "text",
    [
        "{{TOOL_DEFINITIONS}} {{ RULES }} {{USER_PROFILE}}",
        "{% for extension in extensions %}{{ extension.name }}{% endfor %}",
        "{{ mode }} {{goose_mode}} {{ current_date_time }}",
        "{{ }} {{ 'text' }} {{ {",
    ],
)
def test_known(tmp_path: Path, text: str) -> None:
    """Known variables, and those of a loop, are in order."""
    assert find(tmp_path, "variable", {"SYSTEM.md": text}) == []


def test_declared(tmp_path: Path) -> None:
    """A file that is declared as a template is one, in every agent's folder; any other file is text."""
    config = HEAD + "prompt: {files: [{path: INTRO.md, template: true}, {path: PLAIN.md}]}\n"
    names = ("INTRO.md", "agents/assistant/INTRO.md", "agents/assistant/SYSTEM.md", "PLAIN.md", "SOUL.md")
    findings = find(tmp_path, "variable", {"foreword.yaml": config, **dict.fromkeys(names, "{{ weather }}")})
    assert [finding.file for finding in findings] == sorted(names[:3])
