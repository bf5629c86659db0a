"""The engine from outside: a child process that is started when it is needed, and anew after it has died."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from datetime import datetime
from typing import IO

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.local import child
from foreword.local.setup import Setup, locate
from foreword.tokens.gguf import read_header

LONGEST_START = 300.0  # seconds until the weights have to be loaded
TOLD = 300  # characters of the engine's last words
# Its threads wait for each other many times for each token; spinning while they do makes them 10 to 30 times slower as
# soon as anything else runs on the machine.
POLITE = {"OMP_WAIT_POLICY": "passive"}


@frozen
class Running:
    """An engine that serves."""

    process: "subprocess.Popen[bytes]"
    url: str
    key: str
    control: tuple[str, ...]
    """Texts that the engine takes for marks of its template, wherever they stand."""

    @property
    def alive(self) -> bool:
        """Whether its process is still there."""
        return self.process.poll() is None


class Engine:
    """One model in a child process; may be used from several threads."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # never held for long, unlike the one of who starts it
        self._held: tuple[Running | None, int] = (None, 0)
        """What runs and how often it was started: one value, since it may be asked for while it starts."""
        self._awaited = 0
        """The start from which on it has what it was sent: the last, or the next where it is known to be dead."""
        self._since: datetime | None = None

    def start(self) -> Running:
        """Return the running engine; fetches its weights and starts it if need be, which takes seconds."""
        with self._lock:
            running, starts = self._held
            if running and not running.alive:
                self.stop()  # which lets go of what is left of it
                running = None
            if running is None:
                running = launch(self.setup)
                self._held = (running, starts + 1)
            return running

    def remembers(self, at: datetime) -> datetime:
        """Say since when it has what it was sent; to be asked before each request and after, with the time of that.

        What dies takes all of it along, and the next request starts it anew.
        """
        with self._asking:
            running, starts = self._held
            gone = running is None or not running.alive
            now = starts + 1 if gone else starts
            if self._since is None or now != self._awaited:
                self._awaited, self._since = now, at
            return at if gone else self._since

    def stop(self) -> None:
        """End the process; the next start begins anew."""
        running, starts = self._held
        self._held = (None, starts)
        if running:
            end(running.process)


def launch(setup: Setup) -> Running:
    """Launch the process and wait until it serves."""
    path = locate(setup)
    control = read_header(path).control
    key = secrets.token_urlsafe(24)
    weights = setup.weights
    asked = {
        "path": path,
        "name": os.path.basename(path),
        "key": key,
        "window": setup.window,
        "slots": setup.slots,
        "aside": setup.aside,
        "threads": setup.threads,
        "template": weights.template if weights else "",
        "temp": weights.temperature if weights else None,
        "top_p": weights.top_p if weights else None,
        "penalty_repeat": weights.repeat_penalty if weights else None,
    }
    # A session of its own: Ctrl-C in a terminal stops a turn and is not meant for the engine.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**POLITE, **os.environ},
            start_new_session=True,
        )
        told = converse(process, asked)
        if "url" not in told:
            end(process)
            raise InputError(f"{path} cannot be loaded as a model: {told.get('error') or read_end(log)}")
    return Running(process=process, url=told["url"], key=key, control=control)


def converse(process: "subprocess.Popen[bytes]", asked: dict[str, object]) -> dict[str, str]:
    """Tell the process what to load, and hear where it serves; nothing is heard of one that dies or takes too long."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    impatient = threading.Timer(LONGEST_START, process.kill)
    impatient.start()
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = b""
    finally:
        impatient.cancel()
    told: dict[str, str] = json.loads(line) if line else {}
    return told


def read_end(log: IO[bytes]) -> str:
    """Read the last words of a process that did not get far."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:TOLD] if lines else "the engine ended without a word"


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and let go of its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):
                pipe.close()
