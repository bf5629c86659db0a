"""Claims about the documentation: what it shows works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.blueprint import load
from foreword.sources import SOURCES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BIN = Path(sys.executable).parent


def find_blocks(page: Path, language: str) -> list[str]:
    """Find the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if find_blocks(page, "python")], ids=lambda page: page.name)
def test_python(page: Path) -> None:
    """The Python of a page runs from top to bottom, in a process of its own."""
    code = "\n".join(find_blocks(page, "python"))
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_commands(tmp_path: Path) -> None:
    """The commands of the README, typed in order in an empty folder, all succeed."""
    blocks = find_blocks(ROOT / "README.md", "sh")[1:]
    script = "\n".join(line for line in "\n".join(blocks).splitlines() if not line.startswith("export PATH"))
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "agents" in run.stdout.splitlines()[-1] or "agents" in run.stdout


def test_own_blueprint() -> None:
    """The blueprint that the guide shows is one."""
    (text,) = find_blocks(ROOT / "docs" / "blueprints.md", "yaml")
    blueprint = load(text, "brief.yaml", {source.name: source.pace for source in SOURCES.values()})
    assert [slot.id for slot in blueprint.slots] == ["core", "agents", "time"]


def test_sources_are_listed() -> None:
    """The guide to blueprints names every source that ships."""
    text = (ROOT / "docs" / "blueprints.md").read_text(encoding="utf-8")
    assert [name for name in SOURCES if f"`{name}`" not in text and name.isidentifier()] == []


def test_links() -> None:
    """Every file that a page links to exists."""
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([\w./-]+?)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_shipped_command() -> None:
    """The installed command exists and says its version."""
    command = shutil.which("foreword", path=str(BIN))
    assert command
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("foreword ")
