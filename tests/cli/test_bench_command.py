"""`foreword bench`: the benchmarks run in a clone of the repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import foreword

PACKAGE = Path(foreword.__file__).parent
CLONE = (PACKAGE.parent.parent / "bench" / "__init__.py").is_file()


@pytest.fixture
def installed(tmp_path):
    """The package without its repository, as after an install."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "foreword").symlink_to(PACKAGE)

    def type_in(*words):
        command = [sys.executable, "-m", "foreword", *words]
        env = {**os.environ, "PYTHONPATH": str(site)}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return type_in


@pytest.mark.skipif(not CLONE, reason="the package is not used from a clone")
def test_unknown_in_a_clone(say):
    """In a clone an unknown benchmark is answered with the nearest one."""
    assert "unknown benchmark 'arithmetik'; did you mean 'arithmetic'?" in say("bench", "arithmetik").err


@pytest.mark.skipif(not CLONE, reason="the package is not used from a clone")
def test_in_a_clone(say):
    """In a clone every benchmark runs, with its baseline, and as JSON."""
    found = say("bench", "signal", "--json").json
    assert {"name", "value", "unit", "aim", "baseline", "verdict"} == set(found[0])
    assert "re.search" in found[0]["baseline"]


def test_without_the_repository(installed):
    """Without a clone, the command says how to get the benchmarks."""
    done = installed("bench", "warm")
    assert done.returncode == 2
    assert "the benchmarks are not in the package; to run them, clone the repository" in done.stderr
