"""Targets of events besides the log: the console of a server within limits, the live tree, and all configured ones."""

import logging
import re
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from threading import Lock
from typing import Any, Protocol

from foreword.config.schema import Config
from foreword.events.cost import BudgetGuard
from foreword.events.event import Event, Recorder
from foreword.events.lines import show_count_of, show_line
from foreword.events.log import DEFAULT_LOG_LIMITS, EventLog, LogLimits
from foreword.events.record import Record, make_row, read_record
from foreword.events.sent_prompts import PromptStore
from foreword.events.tracer import is_open_step
from foreword.secret import redact
from foreword.types import frozen

MAX_ENTRY_CHARS = 6_000  # of one entry; a traceback is an entry
MAX_KIND_CHARS = 300  # by which two entries are compared
MAX_SUMMARY_CHARS = 200  # of an entry that is quoted with its count
# The share of a window's bytes that entries may use, by their first word; errors may use all of it.
SHARES = {"error": 1.0, "warn": 0.875}
OTHER_SHARE = 0.75
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

    window_s: float = 30.0  # length of a window in seconds; at its end counts are written and reset
    same: int = 20  # maximum number of entries of one kind in a window
    bytes: int = 64 * 1_024  # maximum size of all entries in a window
    kinds: int = 20  # maximum number of kinds that are counted separately; the rest share one count


DEFAULT_CONSOLE_LIMITS = ConsoleLimits()


def format_stamp(moment: datetime) -> str:
    """Format the time of a line, in UTC and to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class Console:
    """Writes entries to a stream within limits. One `write` is one entry; its text may have several lines."""

    def __init__(
        self,
        stream: Output | None = None,
        limits: ConsoleLimits = DEFAULT_CONSOLE_LIMITS,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._limits, self._elapsed = stream, limits, elapsed
        self._lock = threading.RLock()  # a finaliser may log while this thread writes
        self._busy, self._nested = False, 0
        self._timer: threading.Timer | None = None
        self._start_window(0.0)

    def write(self, text: str, /) -> None:
        """Write an entry, or count it if its kind or the window has reached its limit."""
        with self._lock:
            if self._busy:  # a finaliser logs during another write, while the state is inconsistent
                self._nested += 1
                return
            with self._working():
                self._take(text.rstrip("\n"))

    def flush(self) -> None:
        """Do nothing: `write` flushes every entry."""

    def close(self) -> None:
        """Write the counts of the last window."""
        with self._lock:
            if not self._busy:
                with self._working():
                    self._write_counts(self._elapsed())
                    self._start_window(self._elapsed())

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _take(self, entry: str) -> None:
        # Entries of one kind differ only in times, numbers and ids.
        kind = VARYING.sub("#", STAMP.sub("", entry)[: 2 * MAX_KIND_CHARS])[:MAX_KIND_CHARS]
        now = self._elapsed()
        if now - self._began >= self._limits.window_s:
            self._write_counts(now)
            self._start_window(now)
        size = len(entry.encode("utf-8", "replace")) + 1
        share = SHARES.get(STAMP.sub("", entry).partition(" ")[0], OTHER_SHARE)
        if self._seen[kind] >= self._limits.same or self._bytes + size > int(self._limits.bytes * share):
            if kind not in self._left_out and len(self._left_out) >= self._limits.bytes // MAX_KIND_CHARS:
                kind = ""  # one count for all further kinds
            self._left_out[kind] += 1
            self._samples.setdefault(kind, entry)
            self._start_timer()
            return
        self._seen[kind] += 1
        self._bytes += size
        self._put(entry)
        if self._nested:
            self._start_timer()

    def _start_window(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._began, self._bytes = now, 0
        self._seen: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._samples: dict[str, str] = {}

    def _start_timer(self) -> None:
        """Start the timer that writes the counts if no further entry does."""
        if self._timer is None:
            self._timer = threading.Timer(self._limits.window_s, self.close)
            self._timer.daemon = True
            self._timer.start()

    def _write_counts(self, now: float) -> None:
        """Write a count for each kind with entries that were not written; the counts add up to all of them."""
        nested, self._nested = self._nested, 0
        seconds = max(1, round(now - self._began))
        stamp = format_stamp(datetime.now(UTC))
        named = Counter({kind: number for kind, number in self._left_out.items() if kind})
        for kind, number in named.most_common(self._limits.kinds):
            seen = self._seen[kind]
            counted = (
                f"repeated {show_count_of(number, 'time')}" if seen else f"left out {show_count_of(number, 'line')}"
            )
            line = STAMP.sub("", self._samples[kind]).strip().partition("\n")[0]
            line = line if len(line) <= MAX_SUMMARY_CHARS else f"{line[: MAX_SUMMARY_CHARS - 1]}…"
            self._put(f"{stamp} {counted} in {seconds} s: {line}")
            del self._left_out[kind]
        if rest := sum(self._left_out.values()) + nested:
            self._put(f"{stamp} left out {rest:,} other {'line' if rest == 1 else 'lines'} in {seconds} s")

    def _put(self, entry: str) -> None:
        write_line(self._stream or sys.stderr, entry)


def write_line(stream: Output, line: str) -> None:
    """Write a line. A closed terminal must not end a turn."""
    with suppress(OSError, ValueError):
        stream.write(f"{line}\n")
        stream.flush()


class ConsoleHandler(logging.Handler):
    """Writes log records to a console in the form of events, without secrets."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def handle(self, record: logging.LogRecord) -> bool:
        """Emit a record without the handler's lock: a second lock next to the console's could deadlock."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record and its indented traceback as one entry. A long end is cut off."""
        try:
            text, error = record.getMessage(), record.exc_info and record.exc_info[1]
            if record.exc_info and error is not None:
                text += f": {type(error).__name__}: {error}\n{FORMATTER.formatException(record.exc_info)}"
            text = redact(text, MAX_ENTRY_CHARS).replace("\n", "\n    ")
            stamp = format_stamp(datetime.fromtimestamp(record.created, UTC))
            self._console.write(f"{stamp} {LEVELS.get(record.levelname, '')}[{record.name}] {text}\n")
        except Exception:  # noqa: BLE001 - a library's log line must not end a request
            self.handleError(record)


FORMATTER = logging.Formatter()


@contextmanager
def log_to(console: Console) -> Iterator[None]:
    """Send loggers, warnings and uncaught exceptions of this process to a console."""
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
        logging.getLogger("threading").error("the thread %s ended", name, exc_info=arguments[:3])


def log_unraisable(arguments: Any) -> None:
    """Log an exception that Python cannot raise, such as one in a finaliser."""
    message = arguments.err_msg or "an exception was ignored"
    logging.getLogger("python").error("%s", message, exc_info=arguments[:3])


class RecorderFanout:
    """Passes each event to several recorders. An error of one does not affect the others."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def record(self, event: Event) -> None:
        """Pass an event to all recorders."""
        for recorder in self._recorders:
            with suppress(Exception):
                recorder.record(event)


MAX_CACHED_DEPTHS = 4_096  # positions whose depth is cached
MAX_WAITING_LINES = 1_024  # lines waiting for their parent's line


class LiveTree:
    """Writes events as a tree. A line waits for its parent's line, since most steps are recorded at their end."""

    def __init__(self, stream: Output | None = None) -> None:
        self._stream = stream
        self._depths: OrderedDict[str, int] = OrderedDict()
        self._held: dict[str, list[Record]] = {}
        self._lock = Lock()

    def record(self, event: Event) -> None:
        """Write an event and the lines that waited for it, redacted as in the log."""
        record = read_record((0, *make_row(event).values))
        with self._lock:
            above, waiting = record.parent, (each.span for each in chain.from_iterable(self._held.values()))
            # The line of a step of another process is not expected.
            if above and above not in self._depths and (is_open_step(above) or above in waiting):
                self._held.setdefault(record.parent, []).append(record)
                if sum(map(len, self._held.values())) > MAX_WAITING_LINES:
                    self._release()
            else:
                self._write(record)

    def close(self) -> None:
        """Write the lines whose parent's line never came."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        """Write all waiting lines, first those below a missing parent that is not below a waiting line."""
        while self._held:
            waiting = {record.span for record in chain.from_iterable(self._held.values())}
            top = next((span for span in self._held if span not in waiting), next(iter(self._held)))
            for record in self._held.pop(top):
                self._write(record)

    def _write(self, record: Record) -> None:
        depth = self._depths.get(record.parent, -1) + 1
        if record.span:
            self._depths[record.span] = depth
            if len(self._depths) > MAX_CACHED_DEPTHS:
                self._depths.popitem(last=False)
        indented = "  " * depth + show_line(record, turn=depth == 0)
        write_line(self._stream or sys.stderr, f"{format_stamp(record.time)} {indented}")
        for below in sorted(self._held.pop(record.span, ()), key=lambda each: each.time):
            self._write(below)


@frozen
class EventStream:
    """The targets of an agent loop's events. Prompts and budgets are optional."""

    recorder: Recorder
    prompts: PromptStore | None = None
    budgets: BudgetGuard | None = None
    log: EventLog | None = None
    otlp: str = ""  # the address of the collector, fixed at start

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Apply a new configuration to budgets and log. The collector changes only on restart."""
        if self.budgets:
            self.budgets.follow(after)
        if self.log:
            self.log.limits = replace(self.log.limits, days=after.events.retention_days)
        return [] if after.events.otlp == self.otlp else ["events.otlp"]


@contextmanager
def open_event_stream(
    folder: str,
    config: Config,
    clock: Callable[[], datetime],
    limits: LogLimits = DEFAULT_LOG_LIMITS,
    tree: Output | None = None,
) -> Iterator[EventStream]:
    """Open the log, the recorded prompts, the budgets and the configured collector of a folder.

    With `tree`, each event is also written there as a line. On exit all recorded events are written.
    """
    with ExitStack() as opened:
        if config.events.otlp:
            from foreword.events.otlp import start_export

            opened.enter_context(closing(start_export(config.events.otlp)))
        log = opened.enter_context(EventLog(folder, clock, replace(limits, days=config.events.retention_days)))
        budgets = opened.enter_context(closing(BudgetGuard(folder, config, clock)))
        drawn = [opened.enter_context(closing(LiveTree(tree)))] if tree else []
        yield EventStream(
            recorder=RecorderFanout(log, *drawn) if drawn else log,
            prompts=PromptStore(log, clock),
            budgets=budgets,
            log=log,
            otlp=config.events.otlp,
        )
