"""The rule `variable`."""

from pathlib import Path

import pytest
from lint_case import find, places


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("{{TOOL_DEFINITION}}", "did you mean TOOL_DEFINITIONS?"),
        ("{{- tool_definitions -}}", "did you mean TOOL_DEFINITIONS?"),
        ("{{ weather | upper }}", "known variables: RULES, TOOL_DEFINITIONS, USER_PROFILE, agent, "),
        ("{% if weather %}x{% endif %}", "known variables: RULES, "),
    ],
)
def test_unknown(tmp_path: Path, text: str, remedy: str) -> None:
    """An unknown variable of SYSTEM.md is an error that names the nearest known one."""
    findings = find(tmp_path, "variable", {"SYSTEM.md": f"---\nx: 1\n---\n\n{text}"})
    assert places(findings) == [("SYSTEM.md", 5, "error")]
    assert findings[0].remedy.startswith(remedy)


@pytest.mark.parametrize("text", ["{{TOOL_DEFINITIONS}} {{ TOOL_DEFINITIONS }}", "{{ 'text' }} { } }} {", "{{ name }}"])
def test_known(tmp_path: Path, text: str) -> None:
    """A known variable, and braces without a variable, are not reported."""
    assert find(tmp_path, "variable", {"SYSTEM.md": text}) == []


@pytest.mark.parametrize("text", ["{{ }}", "{{ {", "{% if x %}", "{% set x = 1 %}", "{{ 1 + 1 }}", "{% endfor %}"])
def test_unusable(tmp_path: Path, text: str) -> None:
    """An invalid template, or one that uses forbidden features, is an error on its line."""
    findings = find(tmp_path, "variable", {"SYSTEM.md": f"---\nx: 1\n---\n\nBe kind.\n{text}"})
    assert places(findings) == [("SYSTEM.md", 6, "error")]
    assert findings[0].remedy == "correct it; until then it is omitted or replaced by the built-in text"


def test_clock(tmp_path: Path) -> None:
    """The time variable is an error, because it would change the cached prefix."""
    findings = find(tmp_path, "variable", {"SYSTEM.md": "Be kind.\n\n{{ current_date_time }}"})
    assert places(findings) == [("SYSTEM.md", 3, "error")]
    assert findings[0].remedy == "remove it; each message carries the time"


def test_declared(tmp_path: Path) -> None:
    """A listed file is a template only if the configuration declares it as one."""
    config = (
        "owner: alice\nusers: {alice: {trust: full}}\nprompt: {files: [{path: A.md, template: true}, {path: B.md}]}\n"
    )
    files = {"foreword.yaml": config, "A.md": "{{ weather }}", "B.md": "{{ weather }}"}
    assert places(find(tmp_path, "variable", files)) == [("A.md", 1, "error")]


def test_templates_only(tmp_path: Path) -> None:
    """SYSTEM.md is a template, in every agent's folder; any other file is text."""
    names = ("SYSTEM.md", "agents/assistant/SYSTEM.md", "PLAIN.md", "SOUL.md")
    findings = find(tmp_path, "variable", dict.fromkeys(names, "{{ weather }}"))
    assert sorted(finding.file for finding in findings) == sorted(names[:2])


def test_two_agents(tmp_path: Path) -> None:
    """A variable that only one agent's blueprint has is an error that names the other agent."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nagents: {a: {blueprint: default}, b: {blueprint: osa}}\n"
    findings = find(tmp_path, "variable", {"foreword.yaml": config, "SYSTEM.md": "{{ SOUL }}\n"})
    assert [finding.message for finding in findings] == ["unknown variable 'SOUL' for a; it renders as nothing"]


def test_one_line_number(tmp_path: Path) -> None:
    """An error in a template has one line number, that of the file."""
    (finding,) = find(tmp_path, "variable", {"SYSTEM.md": "---\nx: 1\n---\n\nA\n{% set x = 1 %}\n"})
    assert finding.line == 6
    assert "line" not in finding.message
