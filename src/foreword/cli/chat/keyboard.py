"""The keyboard while an answer comes: what is typed waits for the next line and is not drawn into the answer."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import termios
except ImportError:  # only POSIX terminals have it
    termios = None  # type: ignore[assignment]

LOCAL = 3  # where the attributes of a terminal have the local modes


@contextmanager
def quiet_keys() -> Iterator[None]:
    """Draw nothing of what is typed outside of a prompt until the block ends; Ctrl-C still interrupts."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = termios.tcgetattr(sys.stdin)
    quiet[LOCAL] &= ~(termios.ECHO | termios.ICANON)  # with the latter, a Ctrl-D that is typed ahead would be lost
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def forget_typed() -> None:
    """Forget what was typed ahead: it cannot be the answer to a question that was not there yet."""
    if termios is not None and sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
