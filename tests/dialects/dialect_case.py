"""Helpers for the tests of dialects: a small workspace and a turn in it."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from foreword.assembly import Assembly, ReportRow
from foreword.testing import NOON, make_workspace
from foreword.turn import Toolset, Turn
from foreword.types import Trust

CONFIG = """\
owner: alice
agents: {reid: {model: "openai:gpt-5"}}
users:
  alice: {trust: full, timezone: Europe/Paris}
  carol: {trust: inner}
  bob: {trust: familiar}
rooms:
  family: {situation: group}
models: {"acme:plain": {window: 8192, native_tools: false}}
"""
NO_TOOLS = Toolset()
HEADING = re.compile(r"^#{2,3} .*$", re.MULTILINE)


def ask(blueprint: str, **facts: object) -> Turn:
    """Make a private turn of the owner, without tools, at noon."""
    known = {"user": "alice", "situation": "dm", "model": "openai:gpt-5", "tools": NO_TOOLS, "now": NOON}
    return Turn(**{**known, "blueprint": blueprint, **facts})


def describe(text: str) -> dict[str, str]:
    """Write a workspace whose agent has these settings."""
    return {"foreword.yaml": CONFIG.replace('reid: {model: "openai:gpt-5"}', f"reid: {{{text}}}")}


def assemble(folder: Path, turn: Turn, files: Mapping[str, str] | None = None) -> Assembly:
    """Assemble a turn in a workspace with these files and nothing else."""
    return make_workspace(folder, {"foreword.yaml": CONFIG, **(files or {})}).assemble(turn)


def find_row(assembly: Assembly, name: str) -> ReportRow:
    """Find the verdict of a slot."""
    return next(row for row in assembly.rows(Trust.FULL) if row.id == name)


def list_shown(assembly: Assembly) -> list[str]:
    """List the slots that have a text in the prompt, in its order, each once."""
    return list(dict.fromkeys(span.id.partition(":")[0] for span in assembly.prompt.spans))


def list_headings(text: str) -> list[str]:
    """List the headings of a prompt, in its order."""
    return HEADING.findall(text)


def find_section(text: str, heading: str) -> str:
    """Return the text under a heading, up to the next heading of its level or the next rule."""
    _, _, rest = f"\n{text}".partition(f"\n{heading}\n")
    return re.split(r"\n\n(?=## |---\n)|\n\n$", rest, maxsplit=1)[0].removesuffix("\n")


def at(hour: int, minute: int = 0, day: int = 15) -> datetime:
    """Return a time in November, in UTC."""
    return NOON.replace(day=day, hour=hour, minute=minute)
