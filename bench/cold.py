"""Cold builds: a workspace of 1,000 files and 10 MB, without and with persisted counts."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import foreword
from bench.figure import Figure
from bench.sample import make_sample
from foreword.testing import write_files

FILES = 1_000
BYTES = 10_000_000
WORDS = "the household agreed on Tuesday to paint the hall in a quiet green and to ask Bob for his long ladder "


def run() -> Iterator[Figure]:
    """Measure the very first build, and the first build of a second process."""
    with tempfile.TemporaryDirectory() as name:
        folder = make_large(Path(name))
        reading = time_reading(folder)
        first, second = time_build(folder), time_build(folder)
        beside = f"reading the same files and nothing else: {reading:,.3f} s"
        yield Figure(name="cold build of 1,000 files and 10 MB", value=first, unit="s", aim=2, baseline=beside)
        yield Figure(name="the same with persisted counts", value=second, unit="s", aim=0.3, baseline=beside)


def make_large(folder: Path) -> Path:
    """Write the sample workspace with additional memories, up to 1,000 files and 10 MB."""
    make_sample(folder)
    have = sum(1 for path in folder.rglob("*") if path.is_file())
    size = BYTES // (FILES - have)
    text = WORDS * (size // len(WORDS) + 1)
    write_files(
        folder,
        {f"memory/shared/LARGE-{n:04}.md": f"# Large note {n}\n{n} {text[:size]}\n" for n in range(FILES - have)},
    )
    return folder


def time_build(folder: Path) -> float:
    """Open the workspace like a new process, except for the tokenizer, and build its owner's prompt."""
    begin = time.perf_counter()
    with foreword.open(str(folder)) as workspace:
        workspace.assemble(foreword.Turn(user="alice", situation="dm", model="openai:gpt-5.5"))
    return time.perf_counter() - begin


def time_reading(folder: Path) -> float:
    """Read every file once."""
    begin = time.perf_counter()
    for path in folder.rglob("*.md"):
        path.read_bytes()
    return time.perf_counter() - begin
