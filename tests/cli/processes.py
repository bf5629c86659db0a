"""Commands in separate processes with a given stdin, forked from a process with preloaded imports."""

import multiprocessing
import os
import pty
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from foreword.cli.main import main

PATIENCE = 120.0  # timeout in seconds
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        "foreword.cli.chat.repl",
        "foreword.agent.providers.http_provider",
        "genai_prices.data_snapshot",
    ]
)


def run(words: Sequence[str], folder: Path, stdin: str) -> int:
    """Run a command in this folder and environment, with stdin from a file or a terminal and output to files."""
    said = [str(folder / name) for name in ("out", "err")]
    process = FORK.Process(target=begin, args=(list(words), os.getcwd(), dict(os.environ), [stdin, *said]))
    process.start()
    process.join(PATIENCE)
    process.kill()
    process.join()
    code = process.exitcode
    process.close()
    return code


def begin(words: list[str], folder: str, environ: dict[str, str], files: list[str]) -> None:
    """Run a command in a forked process, and exit with its code."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for number, path in enumerate(files):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY | os.O_NOCTTY
        os.dup2(os.open(path, flags, 0o600), number)
    opened = [open(number, "w" if number else "r", encoding="utf-8") for number in range(3)]  # noqa: SIM115 - they stay
    sys.stdin, sys.stdout, sys.stderr = opened
    sys.exit(main(words))


@contextmanager
def sit_at_terminal(typed: str) -> Iterator[str]:
    """Yield the name of a terminal with typed input, or with end of file if there is none."""
    master, slave = pty.openpty()
    try:
        os.write(master, typed.encode() or b"\x04")
        yield os.ttyname(slave)
    finally:
        os.close(slave)
        os.close(master)
