"""Memory: the memory use of an open workspace."""

import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import foreword
from bench.figure import Figure
from bench.sample import make_sample

WORKSPACES = 5


def run() -> Iterator[Figure]:
    """Measure the memory of open workspaces after one build each, without the shared vocabulary."""
    with tempfile.TemporaryDirectory() as name:
        folders = [make_sample(Path(name) / str(n)) for n in range(WORKSPACES + 1)]
        size = sum(path.stat().st_size for path in folders[0].rglob("*") if path.is_file())
        opened = [build(folders[0])]
        tracemalloc.start()
        opened += [build(folder) for folder in folders[1:]]
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        beside = f"the files of one: {size / 1_000_000:.2f} MB"
        yield Figure(name="memory per open workspace", value=held / WORKSPACES / 1_000_000, unit="MB", baseline=beside)


def build(folder: Path) -> foreword.Workspace:
    """Open a workspace and build its owner's prompt."""
    workspace = foreword.open(str(folder))
    workspace.assemble(foreword.Turn(user="alice", situation="dm"))
    return workspace
