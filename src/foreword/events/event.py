"""An event: one thing that happened, where in a turn, to whom, at which clearance and at what cost."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol

from foreword.frozen import frozen
from foreword.words import Trust, Word


class Level(Word):
    """How much an event matters."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class EventType(Word):
    """Everything that is recorded; `CATEGORIES` says who tells it."""

    MESSAGE_RECEIVED = "message_received"
    MESSAGE_SENT = "message_sent"
    CHANNEL_ERROR = "channel_error"
    TRUST_RESOLVED = "trust_resolved"
    PROMPT_BUILT = "prompt_built"
    TURN_STARTED = "turn_started"
    TURN_COMPLETED = "turn_completed"
    API_CALL = "api_call"
    API_ERROR = "api_error"
    TOOL_CALL = "tool_call"
    TOOL_ERROR = "tool_error"
    MEMORY_SEARCH = "memory_search"
    MEMORY_WRITE = "memory_write"
    SESSION_CREATED = "session_created"
    SESSION_COMPACTED = "session_compacted"
    SCHEDULE_FIRED = "schedule_fired"
    CONFIG_RELOADED = "config_reloaded"


CATEGORIES = {
    EventType.MESSAGE_RECEIVED: "channel",
    EventType.MESSAGE_SENT: "channel",
    EventType.CHANNEL_ERROR: "channel",
    EventType.TRUST_RESOLVED: "router",
    EventType.PROMPT_BUILT: "prompt",
    EventType.TURN_STARTED: "agent",
    EventType.TURN_COMPLETED: "agent",
    EventType.API_CALL: "provider",
    EventType.API_ERROR: "provider",
    EventType.TOOL_CALL: "tool",
    EventType.TOOL_ERROR: "tool",
    EventType.MEMORY_SEARCH: "memory",
    EventType.MEMORY_WRITE: "memory",
    EventType.SESSION_CREATED: "session",
    EventType.SESSION_COMPACTED: "session",
    EventType.SCHEDULE_FIRED: "scheduler",
    EventType.CONFIG_RELOADED: "config",
}


@frozen(eq=True)
class Context:
    """Whom an event belongs to: the same for everything that happens in one turn."""

    trust: Trust = Trust.FULL
    """The clearance of the turn; nobody below it reads the event."""
    session: str = ""
    agent: str = ""
    user: str = ""
    channel: str = ""
    room: str = ""
    schedule: str = ""
    spender: str = ""
    """The person whose budget also limits the calls, where the event has no user. It is not recorded."""


NOBODY = Context()


@frozen(eq=True)
class Place:
    """The position of an event in the tree of its turn; the ids have the form of OpenTelemetry's."""

    trace: str = ""
    span: str = ""
    parent: str = ""
    caller: str = ""
    """The trace of the client that sent `traceparent`; spans are exported under it, and rows keep the turn's own."""
    sampled: bool = True
    """Whether the caller records its trace, by the flag of `traceparent`."""


NOWHERE = Place()


@frozen(eq=True)
class Usage:
    """What one call of a model used, as its provider reports it."""

    tokens_in: int = 0
    """All input tokens, those of the cache among them."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0


@frozen(eq=True)
class Event:
    """One thing that happened."""

    type: EventType
    time: datetime
    """When, with its zone; stored in UTC."""
    level: Level = Level.INFO
    context: Context = NOBODY
    place: Place = NOWHERE
    duration_ms: int | None = None
    model: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    """None where nobody knows the price; never a guess and never zero instead."""
    prompt_hash: str = ""
    error: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else there is to say, as JSON: lengths, names and counts, no message text."""


@frozen(eq=True)
class Reader:
    """Who asks: they see their own events, or all of them at full trust, and none above their clearance.

    In a room everybody reads the answer, so only what happened in that room is told there.
    """

    user: str
    clearance: Trust
    room: str = ""
    timezone: str = ""


class Recorder(Protocol):
    """Where events go: the log, the tree on stderr, a collector."""

    def record(self, event: Event) -> None:
        """Take an event; never raises and never waits longer than the log allows."""
