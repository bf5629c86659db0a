"""`make run` installs the runtime, `make test` the rest, and no test writes into `examples/`."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEVELOPMENT = {"ruff", "mypy", "pytest", "pytest-xdist", "hypothesis", "import-linter", "schemathesis", "jsonschema"}
WRITING = "from pathlib import Path\ndef test_it(): Path({path!r}).write_text('said')\n"


def show_commands(target: str, folder: Path) -> str:
    """Return the commands that make would run for a target in a new clone."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(
        ["make", "-n", target, f"PYTHON={sys.executable}"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def collect_requirements(extra: str) -> set[str]:
    """Return the names of all packages that an extra requires, including nested extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names: set[str] = set()
    for requirement in extras[extra]:
        if inner := re.fullmatch(r"foreword\[(.+)\]", requirement):
            names |= {name for one in inner[1].split(",") for name in collect_requirements(one)}
        else:
            names.add(re.split(r"[\[<>=;! ]", requirement)[0])
    return names


def test_run_installs_no_tools_of_development(tmp_path: Path) -> None:
    """`make run` installs the gateway and the embedded engine, and no linter or test tool."""
    commands = show_commands("run", tmp_path)
    assert re.findall(r"'\.\[(\w+)\]'", commands) == ["local"]
    assert not collect_requirements("local") & DEVELOPMENT


def test_run_shows_progress(tmp_path: Path) -> None:
    """`make run` says what it installs, and does not silence pip."""
    commands = show_commands("run", tmp_path)
    assert "--quiet" not in commands
    assert "Installing what running needs" in commands


def test_test_installs_the_rest(tmp_path: Path) -> None:
    """`make test` installs the runtime first and then the development tools."""
    commands = show_commands("test", tmp_path)
    assert re.findall(r"'\.\[(\w+)\]'", commands) == ["local", "dev"]
    assert collect_requirements("dev") >= DEVELOPMENT


@pytest.mark.parametrize(
    ("name", "workers"), [("NEW.md", "0"), ("SOUL.md", "0"), (".foreword/state.sqlite", "0"), ("NEW.md", "2")]
)
def test_a_run_that_writes_into_examples_fails(tmp_path: Path, name: str, workers: str) -> None:
    """A run of the suite fails if a test changes or adds a file in `examples/`, with workers as well."""
    (tmp_path / "examples/.foreword").mkdir(parents=True)
    (tmp_path / "examples/SOUL.md").write_text("Calm.")
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "tests")
    (tmp_path / "tests/test_it.py").write_text(WRITING.format(path=str(tmp_path / "examples" / name)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout
    assert f"The run wrote into the tree: examples/{name}" in done.stdout
    assert done.returncode == 1
