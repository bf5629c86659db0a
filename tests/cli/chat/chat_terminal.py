"""A pseudo-terminal for tests: runs the program and reads its screen."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

ROWS, COLUMNS = 40, 100
PATIENCE = 120.0  # timeout of every wait, in seconds
# Make the pseudo-terminal the controlling terminal, so that Ctrl-C sends a signal.
OWN_TERMINAL = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
RUN = f"{OWN_TERMINAL}; from foreword.cli.main import main; sys.exit(main())"
PIECES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78()][AB0]?|(.)", re.DOTALL)


class Screen:
    """The contents of the screen after overwrites, including lines that scrolled away."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0

    def draw(self, text: str) -> None:
        """Draw the output of a program."""
        for piece in PIECES.finditer(text):
            if piece[2]:
                self.obey(piece[2], piece[1])
            elif piece[3]:
                self.put(piece[3])

    def put(self, sign: str) -> None:
        """Write a character at the cursor."""
        if sign == "\r":
            self.column = 0
        elif sign == "\n":
            self.move(self.row + 1)
        elif sign == "\b":
            self.column = max(0, self.column - 1)
        elif sign >= " ":
            if self.column >= COLUMNS:
                self.move(self.row + 1)
                self.column = 0
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + sign + line[self.column + 1 :]
            self.column += 1

    def move(self, row: int) -> None:
        """Move to a row, which may be a new one."""
        self.row = max(0, row)
        self.lines += [""] * (self.row + 1 - len(self.lines))

    def obey(self, order: str, given: str) -> None:
        """Execute the control sequences that our programs use."""
        number = int(given.split(";", maxsplit=1)[0]) if given and given[0].isdigit() else 0
        match order:
            case "A":
                self.move(self.row - max(1, number))
            case "B":
                self.move(self.row + max(1, number))
            case "C":
                self.column += max(1, number)
            case "D":
                self.column = max(0, self.column - max(1, number))
            case "G":
                self.column = max(0, number - 1)
            case "K":
                line = self.lines[self.row]
                self.lines[self.row] = "" if number else line[: self.column]
            case "J":
                self.lines[self.row] = self.lines[self.row][: self.column]
                self.lines[self.row + 1 :] = []

    @property
    def text(self) -> str:
        """The readable text."""
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    """A program in a terminal, and the keyboard."""

    def __init__(self, process: subprocess.Popen, fd: int) -> None:
        self.process = process
        self.screen = Screen()
        self.raw = ""
        self._fd = fd
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._fd, text.encode())

    def send(self, text: str) -> None:
        """Type a line at the prompt and send it."""
        self.wait_for_prompt()
        self.type(text)
        self.wait(lambda: text in self.screen.text)
        self.raw = ""
        self.type("\r")

    def see(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait(lambda: text in self.screen.text, text)

    def wait_for_prompt(self) -> None:
        """Wait for an empty prompt."""
        self.wait(lambda: self.screen.lines[self.screen.row].rstrip() == ">" and "\x1b[?2004h" in self.raw, "a prompt")

    def wait(self, done, what: str = "it") -> None:
        """Wait until a condition is true."""
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"waited in vain for {what}:\n{self.screen.text}"
            assert self.read(), f"the program ended before {what}:\n{self.screen.text}"

    def read(self) -> bool:
        """Draw the available output; return whether more may follow."""
        if not select.select([self._fd], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # the program has exited
            data = b""
        text = self._decode(data)
        self.raw += text
        if "\x1b[6n" in text:
            os.write(self._fd, f"\x1b[{min(ROWS, self.screen.row + 1)};1R".encode())
        self.screen.draw(text)
        return bool(data)

    def end(self) -> int:
        """Wait until the program exits, and return its exit code."""
        end = time.monotonic() + PATIENCE
        while self.read():
            assert time.monotonic() < end, f"it does not end:\n{self.screen.text}"
        return self.process.wait(PATIENCE)


@contextmanager
def sit_down(words: Sequence[str], environ: Mapping[str, str], folder: os.PathLike) -> Iterator[Terminal]:
    """Start `foreword` with these arguments in a new terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environ = {**environ, "TERM": "xterm-256color"}
    environ.pop("COLUMNS", None)
    command = [sys.executable, "-c", RUN, *words]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environ, start_new_session=True
    )
    os.close(slave)
    terminal = Terminal(process, master)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        os.close(master)
