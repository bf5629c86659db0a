"""Who works on something: a process, by a name from which others can tell whether it lives."""

import os
import socket

from foreword.events.trace import make_id

_names: set[str] = set()


def name_owner() -> str:
    """Name this process, so that another one on the same machine can tell whether it lives."""
    name = f"{socket.gethostname()}:{os.getpid()}:{make_id(64)}"
    _names.add(name)
    return name


def is_dead(owner: str) -> bool:
    """Whether an owner is a process of this machine that has ended; of others only their lease can tell."""
    host, number, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    if int(number) == os.getpid():
        return owner not in _names  # in a container every process may have the number of the one before
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
