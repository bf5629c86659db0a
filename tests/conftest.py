"""Profiles of property tests, the server's time zone, a copy of the sample workspace, and a guard for `examples/`."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

EXAMPLES = Path(__file__).parents[1] / "examples"
os.environ["TZ"] = "UTC"  # the server's zone, independent of this machine
SEEN = pytest.StashKey[dict[str, tuple[int, int]]]()

# A generated workspace is large, and each example writes it to disk.
CALM = {"deadline": None, "suppress_health_check": list(HealthCheck)}

# A failure shows the first failing example; `make soak` also shrinks it.
QUICK = {"derandomize": True, "database": None, "phases": (Phase.explicit, Phase.generate)}

settings.register_profile("suite", max_examples=10, **QUICK, **CALM)
settings.register_profile("soak", max_examples=400, **CALM)
settings.load_profile("soak" if os.environ.get("FOREWORD_SOAK") else "suite")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Copy the sample workspace, so that a test can write into it."""
    copy = tmp_path / "sample"
    shutil.copytree(EXAMPLES / "assistant", copy, ignore=shutil.ignore_patterns(".foreword"))
    return copy


def list_examples() -> dict[str, tuple[int, int]]:
    """Return size and modification time of every file in `examples/`, including those that git ignores."""
    files = (path for path in EXAMPLES.rglob("*") if path.is_file())
    return {str(path.relative_to(EXAMPLES.parent)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Record `examples/`; with xdist only in the controller, which outlives its workers."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[SEEN] = list_examples()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that wrote into `examples/`."""
    before = session.config.stash.get(SEEN, None)
    if before is None:
        return
    after = list_examples()
    if changed := sorted(name for name in before | after if before.get(name) != after.get(name)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(f"\nThe run wrote into the tree: {', '.join(changed[:20])}", red=True)
