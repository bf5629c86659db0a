"""The tracer: records a turn as a tree of steps and instants; docs/tracing.md has an example.

An exception inside a step is recorded as its error and propagates. Recording itself never raises.
"""

import os
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from foreword.events.event import (
    NO_CONTEXT,
    NO_POSITION,
    Context,
    Event,
    EventType,
    Level,
    Recorder,
    TracePosition,
    Usage,
    read_utc_now,
)

if TYPE_CHECKING:
    from foreword.events.otlp import LiveSpan

# Steps of these types are recorded when they open, since their children follow; the value is the type at the end.
OPENING_TYPES = {
    EventType.MESSAGE_RECEIVED: None,
    EventType.SCHEDULE_FIRED: None,
    EventType.TURN_STARTED: EventType.TURN_COMPLETED,
}
# The type of a failed step. Other steps keep their type, with level error.
FAILED_TYPES = {
    EventType.API_CALL: EventType.API_ERROR,
    EventType.TOOL_CALL: EventType.TOOL_ERROR,
    EventType.MESSAGE_RECEIVED: EventType.CHANNEL_ERROR,
    EventType.MESSAGE_SENT: EventType.CHANNEL_ERROR,
}
ERROR_TYPES = frozenset(FAILED_TYPES.values())
# Keywords of `emit`, `step` and `note` that are fields of the event. All others are facts.
EVENT_FIELDS = frozenset({"level", "model", "usage", "cost_usd", "prompt_hash", "error", "duration_ms"})
STOPPED = "stopped before the end"
MAX_ERROR_CHARS = 20_000  # characters; more than is stored, so that secrets are found before the cut
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
SAMPLED_FLAG = 1  # the flag in `traceparent`

# Ids must be unique but not secret, so they need no system call. A forked process reseeds.
_chance = random.Random()  # noqa: S311
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def make_id(bits: int) -> str:
    """Make an id in the OpenTelemetry format: hexadecimal and never zero."""
    return f"{_chance.getrandbits(bits) or 1:0{bits // 4}x}"


_open_spans: set[str] = set()


def is_open_step(span: str) -> bool:
    """Return whether a step of this process is still open, so that its row is yet to come."""
    return span in _open_spans


class TraceNode:
    """A node in the tree of a turn. Events emitted here are its children."""

    trace: "Tracer"
    position: TracePosition  # the position of this node, from which a later trace can continue
    span: "LiveSpan | None" = None

    def emit(self, kind: EventType, /, **values: Any) -> None:
        """Record an event, with fields of the event and further facts."""
        now = self.trace.clock()
        self.trace.record(kind, self.trace.make_position(self), values, now)
        if self.span:
            with suppress(Exception):
                self.span.add(kind, values, now)

    def emit_restricted(self, kind: EventType, /, **values: Any) -> None:
        """Record an event about all users, such as their totals. Only full trust reads it."""
        self.trace.record(kind, self.trace.make_position(self), values, self.trace.clock(), NO_CONTEXT)

    def step(self, kind: EventType, /, **values: Any) -> "TraceStep":
        """Return a step with a duration and possibly children, for use in `with`."""
        return TraceStep(self, kind, values)

    def gather(self, usage: Usage, usd: float | None) -> None:
        """Add the usage of a call below this node."""


class Tracer(TraceNode):
    """Records one turn, or continues an earlier one.

    `parent` is a position of the earlier turn. `caller` is the client's span that exported spans continue. A client's
    trace may contain many turns, so the rows of a turn use a separate id.
    """

    def __init__(
        self,
        recorder: Recorder,
        context: Context,
        clock: Callable[[], datetime] = read_utc_now,
        parent: TracePosition = NO_POSITION,
        caller: TracePosition = NO_POSITION,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trace = self
        self.context = context
        """The context of all further events. Assign a new one when more is known."""
        self.clock, self.elapsed = clock, elapsed
        self._recorder, self._caller, self._first = recorder, caller, parent
        self._is_unrecorded = False
        self.failure: BaseException | None = None
        """The last recorded exception, while it propagates."""
        self.position = TracePosition(
            trace=parent.trace,
            span=parent.span,
            caller=caller.trace or parent.caller,
            sampled=caller.sampled if caller.trace else parent.sampled,
        )

    @property
    def id(self) -> str:
        """The id of the turn."""
        if not self.position.trace:
            self.position = replace(self.position, trace=make_id(128))
        return self.position.trace

    def make_position(self, above: TraceNode, span: str = "") -> TracePosition:
        """Return a new position below a node."""
        position = replace(self.position, trace=self.id, span=span or make_id(64), parent=above.position.span)
        self._first = self._first if self._first.span else position
        return position

    def open(
        self, above: TraceNode, kind: EventType, values: dict[str, Any], now: datetime
    ) -> "tuple[TracePosition, LiveSpan | None]":
        """Return a new position below a node, with a live span if this trace is recorded."""
        span, trace = None, sys.modules.get("opentelemetry.trace")  # a process without it cannot record spans
        if trace and not self._is_unrecorded and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            from foreword.events.otlp import SpanStart, open_span

            opening = SpanStart(kind=kind, values=values, context=self.context, time=now)
            span = open_span(opening, self._find_start(above), above.span)
        self._is_unrecorded = span is None  # a trace is recorded from its first step on, or not at all
        if span and not self.position.trace and not self.position.caller:
            self.position = replace(self.position, trace=span.position.trace)
        return self.make_position(above, span.position.span if span else ""), span

    def _find_start(self, above: TraceNode) -> TracePosition:
        """Return the parent position of a new span, so that it gets the trace id of the turn or the caller."""
        start = above.position if above.position.span else self._first
        if self.position.caller:
            span = start.span or self._caller.span or make_id(64)
            return TracePosition(trace=self.position.caller, span=span, sampled=self.position.sampled)
        return TracePosition(trace=self.id, span=make_id(64)) if self.position.trace and not start.span else start

    def record(
        self,
        kind: EventType,
        position: TracePosition,
        values: dict[str, Any],
        now: datetime,
        context: Context | None = None,
    ) -> None:
        """Pass an event to the recorder. An error in a recorder must not end a turn."""
        level = Level.ERROR if kind in ERROR_TYPES else Level.INFO
        fields: dict[str, Any] = {"type": kind, "time": now, "level": level, "context": context or self.context}
        fields |= {name: value for name, value in values.items() if name in EVENT_FIELDS}
        facts = {name: value for name, value in values.items() if name not in EVENT_FIELDS}
        with suppress(Exception):
            self._recorder.record(Event(**fields, position=position, facts=facts))


class TraceStep(TraceNode):
    """A step with a duration, recorded under its start time."""

    def __init__(self, above: TraceNode, kind: EventType, values: dict[str, Any]) -> None:
        self.trace, self._above, self._kind, self._values = above.trace, above, kind, values
        self._used: list[tuple[Usage, float | None]] = []

    def note(self, /, **values: Any) -> None:
        """Add fields and facts. An `error` marks the step as failed."""
        self._values |= values

    def gather(self, usage: Usage, usd: float | None) -> None:
        """Add the usage of a call to the turn."""
        if self._kind is EventType.TURN_STARTED:
            self._used.append((usage, usd))
        else:
            self._above.gather(usage, usd)

    def __enter__(self) -> Self:
        self._time, self._began = self.trace.clock(), self.trace.elapsed()
        self.position, self.span = self.trace.open(self._above, self._kind, self._values, self._time)
        _open_spans.add(self.position.span)
        if self._kind in OPENING_TYPES:
            self.trace.record(self._kind, self.position, self._values, self._time)
            self._values = {}
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        now = self.trace.clock()
        self._values.setdefault("duration_ms", round((self.trace.elapsed() - self._began) * 1_000))
        if isinstance(error, GeneratorExit):  # the consumer of a stream of events has ended it
            self._values = {"error": STOPPED, "level": Level.WARN, **self._values}
        elif error is not None:
            self._values = {**describe_error(error), **self._values}
        if self._values.get("error"):
            # One failure is one error row: if an inner step has recorded the exception, this is its consequence.
            recorded = error is not None and self.trace.failure is error and self._kind not in FAILED_TYPES
            self._values.setdefault("level", Level.WARN if recorded else Level.ERROR)
        with suppress(Exception):
            self._values |= sum_usage(self._used) if self._used else {}
        self._record_end(now, error)
        _open_spans.discard(self.position.span)
        if self.span:
            with suppress(Exception):
                self.span.close(self._values, now)

    def _record_end(self, now: datetime, error: BaseException | None) -> None:
        """Record the end of the step. A step that is only opened does not repeat an exception of an inner step."""
        usage = self._values.get("usage")
        if self._kind is EventType.API_CALL and isinstance(usage, Usage):
            self._above.gather(usage, self._values.get("cost_usd"))
        kind = FAILED_TYPES.get(self._kind, self._kind) if self._values.get("error") else self._kind
        if self._kind not in OPENING_TYPES:
            self.trace.record(kind, self.position, self._values, self._time)
        elif ending := OPENING_TYPES[self._kind]:
            self.trace.record(ending, self.trace.make_position(self._above), self._values, now)
        elif self._values.get("error") and self.trace.failure is not error:
            self.trace.record(kind, self.trace.make_position(self), self._values, now)
        self.trace.failure = error


def clean_traceparent(headers: Sequence[str]) -> str:
    """Return the `traceparent` of a request in version 00, or an empty string if it is not valid.

    https://www.w3.org/TR/trace-context/: one such header, of four fields in version 00 and perhaps more in later ones.
    """
    found = TRACEPARENT.fullmatch(headers[0].strip()) if len(headers) == 1 else None
    if not found or found[1] == "ff" or not int(found[2], 16) or not int(found[3], 16):
        return ""
    if found[1] == "00" and found[5] is not None:
        return ""
    return f"00-{found[2]}-{found[3]}-{int(found[4], 16) & SAMPLED_FLAG:02x}"


def parse_traceparent(cleaned: str) -> TracePosition:
    """Parse the position of the caller's span from a cleaned `traceparent`; NO_POSITION if it is empty."""
    if not cleaned:
        return NO_POSITION
    _, trace, span, flags = cleaned.split("-")
    return TracePosition(trace=trace, span=span, sampled=bool(int(flags, 16) & SAMPLED_FLAG))


def describe_error(error: BaseException) -> dict[str, Any]:
    """Describe an exception. Exceptions of provider clients have the response status."""
    values: dict[str, Any] = {"error": type(error).__name__}
    with suppress(Exception):  # `str()` of an exception can fail
        values["error"] = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        if isinstance(status := getattr(error, "status_code", None), int):
            values["status"] = status
    return values


def sum_usage(used: list[tuple[Usage, float | None]]) -> dict[str, Any]:
    """Sum the usage of a turn's calls. Calls without a price are counted separately."""
    priced = [float(usd) for _, usd in used if usd is not None]
    values: dict[str, Any] = {
        "calls": len(used),
        "total_tokens": sum(usage.tokens_in + usage.tokens_out for usage, _ in used),
        "total_cost_usd": round(sum(priced), 10) if priced else None,
    }
    return values | ({"unpriced_calls": len(used) - len(priced)} if len(priced) < len(used) else {})
