"""Startup: the command from the shell, and the import."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from bench.figure import Figure
from bench.sample import EXAMPLE

ROUNDS = 30
PASS = "python -c pass"
FIGURES = {"foreword build": 150, "import foreword": 60, "the whole engine": None}


def run() -> Iterator[Figure]:
    """Measure `foreword build` on the example and `import foreword`, compared with a Python that does nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = shutil.copytree(EXAMPLE, os.path.join(name, "example"), ignore=shutil.ignore_patterns(".foreword"))
        medians = time_commands(
            {
                PASS: ["-c", "pass"],
                "foreword build": ["-m", "foreword", "-w", folder, "build"],
                "import foreword": ["-c", "import foreword"],
                "the whole engine": ["-c", "import foreword; foreword.open, foreword.Turn"],
            }
        )
    nothing = medians[PASS]
    for name, aim in FIGURES.items():
        medians_shown = f"{PASS}: {nothing:,.0f} ms; {name}: {medians[name]:,.0f} ms"
        value = medians[name] - nothing
        yield Figure(name=f"{name}, beyond {PASS}", value=value, unit="ms", aim=aim, baseline=medians_shown)


def time_commands(commands: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the median milliseconds of each Python command; they alternate, so that other load meets all of them."""
    # Installed packages have their bytecode, whatever this shell sets about writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, words in commands.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
            times[name].append((time.perf_counter() - begin) * 1_000)
    return {name: statistics.median(found[1:]) for name, found in times.items()}  # the first round fills the caches
