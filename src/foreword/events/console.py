"""The console of a server: what `foreword serve` writes to stderr, bounded however much there is to say.

Entries that differ only in numbers and ids are of one kind. Of each kind the first few of a window are written, the
others are counted, and one line at the end of the window gives the count. All entries of a window together have a
limit in bytes. So a flood of requests or a failing provider cannot fill a disk with its log.
"""

import logging
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from foreword.events import fork
from foreword.events.redact import redact
from foreword.frozen import frozen

MAX_ENTRY_CHARS = 6_000  # of one entry; a traceback is an entry
MAX_KIND_CHARS = 300  # by which two entries are compared
MAX_SUMMARY_CHARS = 200  # of an entry that is quoted with its count
LEVELS = {"WARNING": "warn ", "ERROR": "error ", "CRITICAL": "error "}
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ")
NUMBER = r"[0-9a-f]*\d[0-9a-f]*"
VARYING = re.compile(rf"(?:\b|(?<=_)){NUMBER}(?:[.,:]{NUMBER})*(?:ms|s)?\b|0x[0-9a-f]+", re.IGNORECASE)


class Output(Protocol):
    """Takes lines: a text stream or a console."""

    def write(self, text: str, /) -> object:
        """Write a text that ends with a line break."""

    def flush(self) -> object:
        """Flush buffered text."""


@frozen(eq=True)
class ConsoleLimits:
    """How much a console writes."""

    window_s: float = 30.0
    """Seconds after which counts are written and counting starts again."""
    same: int = 20
    """Entries of one kind that are written in a window."""
    bytes: int = 64 * 1_024
    """Bytes of all entries that are written in a window."""
    kinds: int = 20
    """Kinds that are counted by themselves at the end of a window, those with the most entries; others together."""


USUAL_LIMITS = ConsoleLimits()


def format_stamp(moment: datetime) -> str:
    """Format the time of a line, in UTC and to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class Console:
    """Writes entries to a stream within limits. One `write` is one entry; its text may have several lines."""

    def __init__(
        self,
        stream: Output | None = None,
        limits: ConsoleLimits = USUAL_LIMITS,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._elapsed = elapsed
        self.reset()
        fork.follow(self)

    def reset(self) -> None:
        """Start without a lock and without counts, as a forked process must."""
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._start_window(0.0)

    def write(self, text: str, /) -> None:
        """Write an entry, or count it where its kind or the window has reached its limit."""
        entry = text.rstrip("\n")
        kind = find_kind(entry)
        with self._lock:
            now = self._elapsed()
            if now - self._began >= self._limits.window_s:
                self._write_counts(now)
                self._start_window(now)
            size = len(entry.encode("utf-8", "replace")) + 1
            if self._seen[kind] >= self._limits.same or self._bytes + size > self._limits.bytes:
                self._count(kind, entry)
                return
            self._seen[kind] += 1
            self._bytes += size
            self._put(entry)

    def flush(self) -> None:
        """Hand on nothing: every entry is flushed when it is written."""

    def close(self) -> None:
        """Write the counts of the last window."""
        with self._lock:
            self._write_counts(self._elapsed())
            self._start_window(self._elapsed())

    def _start_window(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._began = now
        self._bytes = 0
        self._seen: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._samples: dict[str, str] = {}

    def _count(self, kind: str, entry: str) -> None:
        """Count an entry that is not written; a timer writes the counts where no further entry comes."""
        if kind not in self._left_out and len(self._left_out) >= self._limits.bytes // MAX_KIND_CHARS:
            kind = ""  # so many kinds are counted together
        self._left_out[kind] += 1
        self._samples.setdefault(kind, entry)
        if self._timer is None:
            self._timer = threading.Timer(self._limits.window_s, self.close)
            self._timer.daemon = True
            self._timer.start()

    def _write_counts(self, now: float) -> None:
        """Write how many entries of each kind were left out; the numbers add up to all of them."""
        seconds = max(1, round(now - self._began))
        stamp = format_stamp(datetime.now(UTC))
        named = Counter({kind: number for kind, number in self._left_out.items() if kind})
        for kind, number in named.most_common(self._limits.kinds):
            times = "1 time" if number == 1 else f"{number:,} times"
            self._put(f"{stamp} repeated {times} in {seconds} s: {summarise(self._samples[kind])}")
            del self._left_out[kind]
        if rest := sum(self._left_out.values()):
            self._put(f"{stamp} left out {rest:,} other {'line' if rest == 1 else 'lines'} in {seconds} s")

    def _put(self, entry: str) -> None:
        stream = self._stream or sys.stderr
        with suppress(OSError, ValueError):  # a terminal that was closed must not end a turn
            stream.write(f"{entry}\n")
            stream.flush()


def find_kind(entry: str) -> str:
    """Return the part of an entry that it shares with others of its kind: no time, no numbers, no ids."""
    return VARYING.sub("#", STAMP.sub("", entry)[: 2 * MAX_KIND_CHARS])[:MAX_KIND_CHARS]


def summarise(entry: str) -> str:
    """Return the first line of an entry without its time, for the line with its count."""
    line = STAMP.sub("", entry).strip().partition("\n")[0]
    return line if len(line) <= MAX_SUMMARY_CHARS else f"{line[: MAX_SUMMARY_CHARS - 1]}…"


class ConsoleHandler(logging.Handler):
    """Writes the records of all loggers to a console, in the form that events have there, without secrets."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; its traceback follows, indented, and belongs to the entry."""
        try:
            moment = datetime.fromtimestamp(record.created, UTC)
            text = redact(self._read(record), MAX_ENTRY_CHARS).replace("\n", "\n    ")
            self._console.write(f"{format_stamp(moment)} {LEVELS.get(record.levelname, '')}[{record.name}] {text}\n")
        except Exception:  # noqa: BLE001 - a library's log line must not end a request
            self.handleError(record)

    def _read(self, record: logging.LogRecord) -> str:
        """Read the message of a record, with the exception before its traceback: a long one is cut at its end."""
        if not record.exc_info or record.exc_info[1] is None:
            return record.getMessage()
        error = record.exc_info[1]
        return f"{record.getMessage()}: {type(error).__name__}: {error}\n{FORMATTER.formatException(record.exc_info)}"


FORMATTER = logging.Formatter()


@contextmanager
def log_to(console: Console) -> Iterator[None]:
    """Send everything that this process logs to a console: loggers, warnings, and exceptions that nothing catches."""
    root, own, handler = logging.getLogger(), logging.getLogger("foreword"), ConsoleHandler(console)
    level, hooks = own.level, (threading.excepthook, sys.unraisablehook)
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    threading.excepthook, sys.unraisablehook = log_thread_error, log_unraisable
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(capture=False)
        own.setLevel(level)
        root.removeHandler(handler)
        console.close()


def log_thread_error(arguments: Any) -> None:
    """Log an exception that ended a thread."""
    if arguments.exc_type is not SystemExit:
        name = arguments.thread.name if arguments.thread else "?"
        found = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        logging.getLogger("threading").error("the thread %s ended", name, exc_info=found)


def log_unraisable(arguments: Any) -> None:
    """Log an exception that could not be raised, such as one in a finaliser."""
    found = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
    logging.getLogger("python").error("%s", arguments.err_msg or "an exception was ignored", exc_info=found)
