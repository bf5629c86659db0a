"""Startup: the command from the shell, and the import."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figure import Figure
from bench.sample import make_sample

RUNS = 15


def run() -> Iterator[Figure]:
    """Measure `foreword build` and `import foreword`, compared with a Python that does nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = str(make_sample(Path(name)))
        command = [sys.executable, "-m", "foreword", "-w", folder, "build"]
        nothing = time_command([sys.executable, "-c", "pass"])
        beside = f"python -c pass: {nothing:,.0f} ms"
        time_command(command, runs=1)
        build = time_command(command)
        imported = time_command([sys.executable, "-c", "import foreword"])
        engine = time_command([sys.executable, "-c", "import foreword; foreword.open, foreword.Turn"])
        yield Figure(
            name="foreword build, beyond python -c pass", value=build - nothing, unit="ms", aim=150, baseline=beside
        )
        yield Figure(
            name="import foreword, beyond python -c pass", value=imported - nothing, unit="ms", aim=60, baseline=beside
        )
        yield Figure(name="the same with the whole engine", value=engine - nothing, unit="ms", baseline=beside)


def time_command(command: Sequence[str], runs: int = RUNS) -> float:
    """Return the median of several runs of a command, in milliseconds."""
    # Installed packages have their bytecode, whatever this shell sets about writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        times.append((time.perf_counter() - begin) * 1_000)
    return sorted(times)[len(times) // 2]
