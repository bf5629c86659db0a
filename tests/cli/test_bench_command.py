"""`foreword bench`: packaged benchmarks run everywhere, and all benchmarks run in a clone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import foreword
from foreword.promptcache import simulation
from foreword.promptcache.scenario import read_scenario
from foreword.promptcache.simulation import BenchmarkFigure

PACKAGE = Path(foreword.__file__).parent
CLONE = (PACKAGE.parent.parent / "bench" / "__init__.py").is_file()
SMALL = """\
name: small
tools: {count: 4, tokens: 300}
sections: [{id: soul, tokens: 1900}, {id: user, pace: session, tokens: 300}]
turns: 6
edits: [{turn: 4, section: soul}]
"""


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
    """A benchmark that needs the repository says so and lists the packaged ones."""
    done = installed("bench", "warm")
    assert done.returncode == 2
    assert (
        "benchmark 'warm' is not in the package, which has only cache; to run the others, clone the repository"
        in done.stderr
    )


def test_the_benchmark_of_caches():
    """The cache benchmark has a table for each provider and a figure for each target."""
    table, *figures = simulation.run_cache_benchmark(["anthropic:claude-sonnet-5"], read_scenario(SMALL, "small.yaml"))
    assert table.splitlines()[2].startswith(" ours ")
    assert [figure.name.partition(", ")[2] for figure in figures] == ["not read", "of the oracle", "of the split"]
    assert all(figure.aim for figure in figures)


def test_a_figure():
    """A figure shows whether its target was met, and the baseline."""
    figure = BenchmarkFigure(name="a thing", value=2.5, unit="ms", aim=2, baseline="another thing: 9 ms")
    assert " ".join(figure.show().split()) == "a thing 2.50 ms aim ≤ 2 ms: missed beside another thing: 9 ms"
    assert BenchmarkFigure(name="a count", value=2_000, unit="").show().split() == ["a", "count", "2,000"]
