"""One module per group of figures, each beside its baseline in the same run."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from foreword.figure import Figure
from foreword.simulate import benchmark

MODULES = (
    "warm", "cold", "start", "memory", "signal", "arithmetic", "living", "cache_local", "events", "gateway",
    "long_sessions", "telegram", "local", "first_answer", "tokenizers",
)  # fmt: skip


def find_benches() -> Mapping[str, Callable[[], Iterable[str | Figure]]]:
    """Find all benchmarks; each is imported only once it runs."""
    others = {name: lambda name=name: import_module(f"bench.{name}").run() for name in MODULES}
    return {**others, "cache": benchmark.run}
