"""What an engine is started with: which weights, how large a window, how many sessions side by side."""

import os
from collections.abc import Mapping
from importlib.util import find_spec

from foreword.config.environment import Secrets
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.local.cache import find_cache
from foreword.local.catalogue import Weights, find_weights
from foreword.local.fetch import Show, fetch
from foreword.local.progress import show_bar
from foreword.tokens.gguf import read_sizes
from foreword.tokens.models import ROOM, ModelFacts, find_file

ENGINE = "xllamacpp"
MISSING = "the embedded model needs its engine; install it with: pip install 'foreword[local]'"
SLOTS = 4  # sessions that keep what they have said so far; each costs the memory of a whole window
ASIDE = 256  # MB for what sessions beyond those had evaluated when they lost their slots


@frozen
class Setup:
    """What an engine is started with."""

    path: str
    """The weights, once they are fetched."""
    weights: Weights | None
    """What is to be fetched; None where the file is the user's own."""
    window: int
    slots: int = SLOTS
    aside: int = 0
    """MB in which sessions that lose their slot keep what was evaluated of them."""
    threads: int = 1


def is_installed() -> bool:
    """Whether the engine is installed."""
    return find_spec(ENGINE) is not None


def prepare(facts: ModelFacts, environ: Mapping[str, str] | Secrets) -> Setup:
    """Prepare an engine for `local:NAME` or `local:/path/to/model.gguf`; nothing is fetched or started yet."""
    if not is_installed():
        raise InputError(MISSING)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if path := find_file(facts.name):
        if not os.path.isabs(path):
            raise InputError(f"{facts.name} is no whole path; write it from the root or from ~")
        size = read_sizes(path).token_bytes * facts.window
        slots = max(1, min(SLOTS, ROOM // size)) if size else 1
        # The engine keeps the newest of them however large it is.
        aside = ASIDE if 0 < size <= ASIDE << 20 else 0
        return Setup(path=path, weights=None, window=facts.window, slots=slots, aside=aside, threads=threads)
    weights = find_weights(facts.name.partition(":")[2])
    return Setup(path=find_cache(environ), weights=weights, window=facts.window, aside=ASIDE, threads=threads)


def locate(setup: Setup, show: Show = show_bar) -> str:
    """Return the path of an engine's weights, fetched if they are not here yet."""
    return fetch(setup.weights, setup.path, show) if setup.weights else setup.path
