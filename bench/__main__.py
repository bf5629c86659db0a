"""Every figure of the documentation, each beside its baseline in the same run."""

import sys

from bench import (
    arithmetic,
    cache,
    cache_local,
    cold,
    events,
    gateway,
    living,
    local,
    memory,
    signal,
    start,
    telegram,
    warm,
)

BENCHES = {
    "warm": warm,
    "cold": cold,
    "start": start,
    "memory": memory,
    "signal": signal,
    "arithmetic": arithmetic,
    "cache": cache,
    "living": living,
    "cache_local": cache_local,
    "events": events,
    "gateway": gateway,
    "telegram": telegram,
    "local": local,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all of them."""
    if unknown := [name for name in names if name not in BENCHES]:
        print(f"unknown benchmark {unknown[0]!r}; there is {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        for figure in BENCHES[name].run():
            aim = f"aim ≤ {figure.aim:g} {figure.unit}: {figure.verdict}" if figure.aim is not None else ""
            value = f"{figure.value:,}" if isinstance(figure.value, int) else f"{figure.value:,.2f}"
            print(f"{figure.name:44} {value:>9} {figure.unit:3} {aim}".rstrip())
            if figure.baseline:
                print(f"{'':44} beside {figure.baseline}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
