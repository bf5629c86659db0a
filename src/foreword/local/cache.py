"""Where fetched weights are kept, and how one process at a time puts them there."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from foreword.config.environment import Secrets
from foreword.errors import InputError

OURS = "foreword"
PATIENCE = 0.2  # seconds between two looks at a lock that somebody else holds


def find_cache(environ: Mapping[str, str] | Secrets) -> str:
    """Find the folder of the user's cache: FOREWORD_CACHE, else where the system keeps such things."""
    if own := environ.get("FOREWORD_CACHE"):
        return os.path.abspath(os.path.expanduser(own))
    if base := environ.get("XDG_CACHE_HOME"):
        return os.path.join(base, OURS)
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or os.path.expanduser("~"), OURS, "cache")
    usual = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return os.path.join(os.path.expanduser(usual), OURS)


@contextmanager
def lock(path: str) -> Iterator[None]:
    """Hold a lock among processes; it ends with the process that holds it, however that ends."""
    with open(path, "ab") as file:
        while not try_lock(file):
            time.sleep(PATIENCE)
        yield


def try_lock(file: IO[bytes]) -> bool:
    """Take the lock of an open file if nobody has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def make_folder(path: str) -> None:
    """Make the folder of the cache, or say what stands in the way."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made: {error.strerror}; name another folder in FOREWORD_CACHE") from None
