"""Tells a turn: the contract between a loop and whatever listens, as a tree of steps and instants.

A loop makes one `Trace` for a turn and tells everything through it; the steps of its work record nothing by themselves:

    trace = Trace(recorder, Context(trust=clearance, user="alice", session="abc"))
    with trace.step(EventType.MESSAGE_RECEIVED, length=31) as received:
        received.tell(EventType.TRUST_RESOLVED, effective="full")
        with received.step(EventType.TURN_STARTED, model=model) as turn:
            with turn.step(EventType.API_CALL, model=model) as call:
                call.note(usage=usage, cost_usd=cost)

An exception inside a step is told as its error and goes on. Telling itself never raises.
"""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from foreword.events.event import NOBODY, NOWHERE, Context, Event, EventType, Level, Place, Recorder, Usage
from foreword.events.span import LiveSpan, Opening, open_span
from foreword.frozen import frozen

# A step of these types is told when it opens, since what it holds is read below it; one is told again at its end.
OPENING = {
    EventType.MESSAGE_RECEIVED: None,
    EventType.SCHEDULE_FIRED: None,
    EventType.TURN_STARTED: EventType.TURN_COMPLETED,
}
# What a step is told as when it failed; the others keep their type, with the level of an error.
FAILING = {
    EventType.API_CALL: EventType.API_ERROR,
    EventType.TOOL_CALL: EventType.TOOL_ERROR,
    EventType.MESSAGE_RECEIVED: EventType.CHANNEL_ERROR,
    EventType.MESSAGE_SENT: EventType.CHANNEL_ERROR,
}
ERRORS = frozenset(FAILING.values())
# What `tell`, `step` and `note` take as a field of the event; every other keyword is one of its facts.
FIELDS = frozenset({"level", "model", "usage", "cost_usd", "prompt_hash", "error", "duration_ms"})
LONGEST_ERROR = 20_000  # characters; more than anybody keeps of it, so that secrets are found before it is cut


# Ids need not be secret, only apart: so they cost no call of the system, and a forked process begins anew.
_chance = random.Random()  # noqa: S311
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def make_id(bits: int) -> str:
    """Make an id as OpenTelemetry has them: hexadecimal, and never zero."""
    return f"{_chance.getrandbits(bits) or 1:0{bits // 4}x}"


_under_way: set[str] = set()


def is_under_way(span: str) -> bool:
    """Whether a step of this process has begun and not ended, so that its own line is still to come."""
    return span in _under_way


def tell_time() -> datetime:
    """Tell the time of the host."""
    return datetime.now(UTC)


@frozen
class Timepiece:
    """When things happen, and how long they take; the second does not jump when the host's clock is set."""

    now: Callable[[], datetime] = tell_time
    elapsed: Callable[[], float] = time.monotonic


REAL_TIME = Timepiece()


class Teller:
    """Somewhere in the tree of a turn: what is told here stands below it."""

    trace: "Trace"
    place: Place
    """Where this stands; what comes later can go on from here."""
    span: LiveSpan | None = None

    def tell(self, kind: EventType, /, **said: Any) -> None:
        """Tell that something happened, with fields of the event and any further facts."""
        now = self.trace.timepiece.now()
        self.trace.record(kind, self.trace.find_place(self), said, now)
        if self.span:
            with suppress(Exception):
                self.span.add(kind, said, now)

    def confide(self, kind: EventType, /, **said: Any) -> None:
        """Tell what is about everybody, such as their sums: it is nobody's own, and full trust alone reads it."""
        self.trace.record(kind, self.trace.find_place(self), said, self.trace.timepiece.now(), NOBODY)

    def step(self, kind: EventType, /, **said: Any) -> "Step":
        """Begin something that takes time and may hold more; use it with `with`."""
        return Step(self, kind, said)

    def gather(self, usage: Usage, usd: float | None) -> None:
        """Take note of what a call below this used."""


class Trace(Teller):
    """Records one turn, or continues an earlier one.

    `caller` is the span of a client that the exported spans continue. One trace of a client may hold many turns, so
    the rows of a turn keep an id of their own.
    """

    def __init__(
        self,
        recorder: Recorder,
        context: Context,
        timepiece: Timepiece = REAL_TIME,
        goes_on: Place = NOWHERE,
        caller: Place = NOWHERE,
    ) -> None:
        self.trace = self
        self.context = context
        """Whom everything from here on belongs to; set it anew when more is known."""
        self.timepiece = timepiece
        self.place = Place(
            trace=goes_on.trace,
            span=goes_on.span,
            caller=caller.trace or goes_on.caller,
            sampled=caller.sampled if caller.trace else goes_on.sampled,
        )
        self._caller = caller
        self._recorder = recorder
        self.failure: BaseException | None = None
        """The exception that was told last, on its way up."""
        self._first = goes_on
        self._silent = False

    @property
    def id(self) -> str:
        """The id of the turn."""
        if not self.place.trace:
            self.place = replace(self.place, trace=make_id(128))
        return self.place.trace

    def find_place(self, above: Teller) -> Place:
        """Find a new place below another one."""
        place = replace(self.place, trace=self.id, span=make_id(64), parent=above.place.span)
        self._first = self._first if self._first.span else place
        return place

    def open(self, above: Teller, opening: Opening) -> tuple[Place, LiveSpan | None]:
        """Open a place below another one, with a live span if somebody listens to this trace."""
        span = None if self._silent else open_span(opening, self._find_start(above), above.span)
        self._silent = span is None  # a trace is listened to from its first step on, or not at all
        if span is None:
            return self.find_place(above), None
        if not self.place.trace and not self.place.caller:
            self.place = replace(self.place, trace=span.place.trace)
        place = replace(self.place, trace=self.id, span=span.place.span, parent=above.place.span)
        self._first = self._first if self._first.span else place
        return place, span

    def _find_start(self, above: Teller) -> Place:
        """Find the place below which a new span belongs, so that it gets the trace id of the turn or of the caller."""
        start = above.place if above.place.span else self._first
        if self.place.caller:
            span = start.span or self._caller.span or make_id(64)
            return Place(trace=self.place.caller, span=span, sampled=self.place.sampled)
        return Place(trace=self.id, span=make_id(64)) if self.place.trace and not start.span else start

    def record(
        self, kind: EventType, place: Place, said: dict[str, Any], now: datetime, context: Context | None = None
    ) -> None:
        """Hand an event to the recorder; nothing that a recorder does ends a turn."""
        fields: dict[str, Any] = {"level": Level.ERROR if kind in ERRORS else Level.INFO}
        facts: dict[str, Any] = {}
        for name, value in said.items():
            (fields if name in FIELDS else facts)[name] = value
        whose = self.context if context is None else context
        with suppress(Exception):
            self._recorder.record(Event(type=kind, time=now, context=whose, place=place, facts=facts, **fields))


class Step(Teller):
    """Something that takes time, told under the moment it began with the time it took."""

    def __init__(self, above: Teller, kind: EventType, said: dict[str, Any]) -> None:
        self.trace = above.trace
        self._above = above
        self._kind = kind
        self._said = said
        self._used: list[tuple[Usage, float | None]] = []

    def note(self, /, **said: Any) -> None:
        """Add what is known by now; an `error` makes the step one that failed."""
        self._said |= said

    def gather(self, usage: Usage, usd: float | None) -> None:
        """Take note of what a call of this turn used, or pass it on to the turn."""
        if self._kind is EventType.TURN_STARTED:
            self._used.append((usage, usd))
        else:
            self._above.gather(usage, usd)

    def __enter__(self) -> Self:
        timepiece = self.trace.timepiece
        self._time, self._began = timepiece.now(), timepiece.elapsed()
        opening = Opening(kind=self._kind, said=self._said, context=self.trace.context, time=self._time)
        self.place, self.span = self.trace.open(self._above, opening)
        _under_way.add(self.place.span)
        if self._kind in OPENING:
            self.trace.record(self._kind, self.place, self._said, self._time)
            self._said = {}
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        timepiece = self.trace.timepiece
        now = timepiece.now()
        self._said.setdefault("duration_ms", round((timepiece.elapsed() - self._began) * 1_000))
        if error is not None:
            self._said = {**describe_error(error), **self._said}
        if self._said.get("error"):
            self._said.setdefault("level", self._choose_level(error))
        with suppress(Exception):
            self._said |= add_up(self._used) if self._used else {}
        self._tell_end(now, error)
        _under_way.discard(self.place.span)
        if self.span:
            with suppress(Exception):
                self.span.close(self._said, now)

    def _choose_level(self, error: BaseException | None) -> Level:
        """Choose the level of a step that failed: one failure is one error row.

        Where a step inside has recorded the exception already, this step is a warning that says what it led to.
        """
        is_recorded = error is not None and self.trace.failure is error
        return Level.WARN if is_recorded and self._kind not in FAILING else Level.ERROR

    def _tell_end(self, now: datetime, error: BaseException | None) -> None:
        """Tell what came of the step; an exception that a step inside told already is not told by what only opens."""
        usage = self._said.get("usage")
        if self._kind is EventType.API_CALL and isinstance(usage, Usage):
            self._above.gather(usage, self._said.get("cost_usd"))
        kind = FAILING.get(self._kind, self._kind) if self._said.get("error") else self._kind
        if self._kind not in OPENING:
            self.trace.record(kind, self.place, self._said, self._time)
        elif ending := OPENING[self._kind]:
            self.trace.record(ending, self.trace.find_place(self._above), self._said, now)
        elif self._said.get("error") and self.trace.failure is not error:
            self.trace.record(kind, self.trace.find_place(self), self._said, now)
        self.trace.failure = error


def describe_error(error: BaseException) -> dict[str, Any]:
    """Describe an exception; clients of providers carry the status of the answer."""
    said: dict[str, Any] = {"error": type(error).__name__}
    status = None
    with suppress(Exception):  # an exception may have no words, or raise when it is asked for them
        said["error"] = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        status = getattr(error, "status_code", None)
    return said | {"status": status} if isinstance(status, int) else said


def add_up(used: list[tuple[Usage, float | None]]) -> dict[str, Any]:
    """Add up what the calls of a turn used; those without a price are counted and not taken for free."""
    priced = [float(usd) for _, usd in used if usd is not None]
    said: dict[str, Any] = {
        "calls": len(used),
        "total_tokens": sum(usage.tokens_in + usage.tokens_out for usage, _ in used),
        "total_cost_usd": round(sum(priced), 10) if priced else None,
    }
    return said | ({"unpriced_calls": len(used) - len(priced)} if len(priced) < len(used) else {})
