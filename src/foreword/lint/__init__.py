"""Linting: what is wrong with a workspace before any turn finds out, each with its file, its line and its remedy."""

from foreword.lint.finding import Finding, Level
from foreword.lint.rules import check

__all__ = ["Finding", "Level", "check"]
