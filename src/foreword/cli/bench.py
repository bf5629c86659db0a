"""`foreword bench`: the figures of the documentation, each beside its baseline in the same run."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import make_plain, print_json, warn
from foreword.errors import InputError, suggest

if TYPE_CHECKING:
    from foreword.figure import Figure

    Benches = Mapping[str, Callable[[], Iterable[str | Figure]]]

FOLDER = "bench"
MODULE = os.path.join(FOLDER, "__init__.py")


def add_options(parser: ArgumentParser) -> None:
    """Add the names."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", default=[], help="what to measure; all that there is if left out"
    )


def run(args: Namespace) -> int:
    """Run benchmarks one after the other, and print what each finds as soon as it does."""
    benches, whole = find_benches()
    for name in args.names:
        if name not in benches and not whole:
            raise InputError(
                f"{name!r} is not in the package, which has {', '.join(benches)}; all others need what only the "
                "repository has: run them in a clone, with the package installed from it (pip install -e '.[dev]')"
            )
        if name not in benches:
            there = suggest(name, list(benches)) or f"; there is {', '.join(benches)}"
            raise InputError(f"unknown benchmark {name!r}{there}")
    if not args.names and not whole:
        warn("only what the package has is run; the other benchmarks need a clone of the repository")
    done = []
    for name in args.names or benches:
        for found in benches[name]():
            if args.json:
                done += [] if isinstance(found, str) else [{**make_plain(found), "verdict": found.verdict or None}]
            else:
                print(found if isinstance(found, str) else found.show(), flush=True)
    if args.json:
        print_json(done)
    return 0


def find_benches() -> "tuple[Benches, bool]":
    """Find the benchmarks: the package's own, and where it is used from a clone, all others; and whether it is."""
    from foreword.simulate import benchmark

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    if not all(os.path.isfile(os.path.join(root, file)) for file in (MODULE, "pyproject.toml")):
        return {"cache": benchmark.run}, False
    if root not in sys.path:
        sys.path.insert(0, root)
    benches: Benches = import_module(FOLDER).find_benches()
    return benches, True


COMMAND = Command(
    name="bench",
    arguments="[NAME …]",
    summary="measure, beside baselines in the same run",
    description="Run benchmarks, each beside its baseline in the same run. `cache` plays a session of three hours "
    "against the rules and prices of each provider, beside other designs and an oracle; it is in the package and takes "
    "a minute or two. All others need a clone of the repository, with the package installed from it.",
    examples=(
        "foreword bench cache",
        "foreword bench warm cold",
        "foreword bench cache --json",
    ),
    add_options=add_options,
    run=run,
)
