"""Helpers for the tests of the rules: a workspace from a few texts, and its findings of one rule."""

from collections.abc import Mapping
from pathlib import Path

from foreword.lint.linter import lint_workspace
from foreword.lint.survey import Finding
from foreword.testing import make_workspace


def find(folder: Path, rule: str, files: Mapping[str, str]) -> list[Finding]:
    """Return the findings of one rule in a workspace with these files."""
    return [finding for finding in lint_workspace(make_workspace(folder, files)) if finding.rule == rule]


def places(findings: list[Finding]) -> list[tuple[str, int, str]]:
    """Reduce findings to their file, line and level."""
    return [(finding.file, finding.line, str(finding.level)) for finding in findings]
