"""One module per group of figures, each measured with its baseline in the same run."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from foreword.promptcache import simulation
from foreword.promptcache.simulation import BenchmarkFigure

MODULES = (
    "warm", "cold", "start", "memory", "signal", "arithmetic", "living", "cache_local", "events", "gateway",
    "long_sessions", "telegram", "local", "first_answer", "tokenizers",
)  # fmt: skip


def find_benches() -> Mapping[str, Callable[[], Iterable[str | BenchmarkFigure]]]:
    """List all benchmarks; each is imported only when it runs."""
    others = {name: lambda name=name: import_module(f"bench.{name}").run() for name in MODULES}
    return {**others, "cache": simulation.run_cache_benchmark}
