"""One module per group of figures, each measured with its baseline in the same run."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from bench.figure import Figure

MODULES = (
    "warm", "cold", "start", "memory", "signal", "arithmetic", "living", "cache_local", "events", "gateway",
    "long_sessions", "telegram", "local", "first_answer", "tokenizers", "cache",
)  # fmt: skip


def find_benches() -> Mapping[str, Callable[[], Iterable[str | Figure]]]:
    """List all benchmarks; each is imported only when it runs."""
    return {name: lambda name=name: import_module(f"bench.{name}").run() for name in MODULES}
