"""The readable tree: every event as a line with its time, indented below the step it belongs to."""

import sys
from collections import OrderedDict
from contextlib import suppress
from threading import Lock

from foreword.events import fork
from foreword.events.console import Output, format_stamp
from foreword.events.event import Event
from foreword.events.line import show_line
from foreword.events.record import Record, read_record
from foreword.events.row import make_row
from foreword.events.trace import is_under_way

KNOWN = 4_096  # places whose depth is remembered
HELD = 1_024  # lines that wait for the line above them


class Tree:
    """Writes events as a tree; a line waits for the line above it, since most steps are recorded when they end."""

    def __init__(self, stream: Output | None = None) -> None:
        self._stream = stream
        self._depths: OrderedDict[str, int] = OrderedDict()
        self.reset()
        fork.follow(self)

    def reset(self) -> None:
        """Begin without lines that wait, as a forked process must: the parent writes them."""
        self._held: dict[str, list[Record]] = {}
        self._lock = Lock()

    def record(self, event: Event) -> None:
        """Write an event, and what waited for it; secrets are redacted as they are in the log."""
        record = read_record((0, *make_row(event).values))
        with self._lock:
            if record.parent and record.parent not in self._depths and self._is_to_come(record.parent):
                self._held.setdefault(record.parent, []).append(record)
                if sum(map(len, self._held.values())) > HELD:
                    self._release()
            else:
                self._write(record)

    def _is_to_come(self, span: str) -> bool:
        """Whether the line of a step is still to be written; one that was told elsewhere never is."""
        return is_under_way(span) or any(one.span == span for records in self._held.values() for one in records)

    def close(self) -> None:
        """Write what still waits for a line that never came."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        """Write everything that waits, at the depth of a beginning."""
        while self._held:
            for record in self._held.pop(self._find_top()):
                self._write(record)

    def _find_top(self) -> str:
        """Find a missing place that stands below no line that waits itself."""
        waiting = {record.span for records in self._held.values() for record in records}
        return next((span for span in self._held if span not in waiting), next(iter(self._held)))

    def _write(self, record: Record) -> None:
        depth = self._depths.get(record.parent, -1) + 1
        if record.span:
            self._depths[record.span] = depth
            if len(self._depths) > KNOWN:
                self._depths.popitem(last=False)
        with suppress(OSError, ValueError):  # a terminal that has gone ends no turn
            stream = self._stream or sys.stderr
            indented = "  " * depth + show_line(record, turn=depth == 0)
            stream.write(f"{format_stamp(record.time)} {indented}\n")
            stream.flush()
        for below in sorted(self._held.pop(record.span, ()), key=lambda one: one.time):
            self._write(below)
