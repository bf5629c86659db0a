"""Events and their parts, the readers of the log with their access rules, times, and notices to the owner."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Protocol

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.engine.trust import has_other_readers
from foreword.turn import Turn
from foreword.types import TextEnum, Trust, frozen

UNNAMED_ROOM = "\x00"  # no room has this name, so in an unnamed group no event is visible


class Level(TextEnum):
    """The severity of an event."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class EventType(TextEnum):
    """The type of an event. `CATEGORIES` maps each type to the component that emits it."""

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


CATEGORY_TYPES = {
    "channel": (EventType.MESSAGE_RECEIVED, EventType.MESSAGE_SENT, EventType.CHANNEL_ERROR),
    "router": (EventType.TRUST_RESOLVED,),
    "prompt": (EventType.PROMPT_BUILT,),
    "agent": (EventType.TURN_STARTED, EventType.TURN_COMPLETED),
    "provider": (EventType.API_CALL, EventType.API_ERROR),
    "tool": (EventType.TOOL_CALL, EventType.TOOL_ERROR),
    "memory": (EventType.MEMORY_SEARCH, EventType.MEMORY_WRITE),
    "session": (EventType.SESSION_CREATED, EventType.SESSION_COMPACTED),
    "scheduler": (EventType.SCHEDULE_FIRED,),
    "config": (EventType.CONFIG_RELOADED,),
}
CATEGORIES = {kind: category for category, kinds in CATEGORY_TYPES.items() for kind in kinds}


@frozen(eq=True)
class Context:
    """The owner of an event. All events of a turn share one context."""

    trust: Trust = Trust.FULL  # the clearance of the turn; readers with a lower clearance do not see the event
    session: str = ""
    agent: str = ""
    user: str = ""
    channel: str = ""
    room: str = ""
    schedule: str = ""
    spender: str = ""  # the user whose budget also applies when the event has no user; not recorded


NO_CONTEXT = Context()


@frozen(eq=True)
class TracePosition:
    """The position of an event in the tree of its turn. Ids have the OpenTelemetry format."""

    trace: str = ""
    span: str = ""
    parent: str = ""
    caller: str = ""  # the trace id from the client's `traceparent`, for exported spans; rows use the turn's id
    sampled: bool = True  # whether the caller samples its trace, from the flag of `traceparent`


NO_POSITION = TracePosition()


@frozen(eq=True)
class Usage:
    """Token usage of one model call, as reported by the provider."""

    tokens_in: int = 0  # all input tokens, cached ones included
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0


@frozen(eq=True)
class Event:
    """One recorded event."""

    type: EventType
    time: datetime  # time of the event, timezone-aware; stored in UTC
    level: Level = Level.INFO
    context: Context = NO_CONTEXT
    position: TracePosition = NO_POSITION
    duration_ms: int | None = None
    model: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None  # None if the price is unknown; never estimated, and never 0 instead of unknown
    prompt_hash: str = ""
    error: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)  # as JSON: lengths, names and counts, but no message text


@frozen(eq=True)
class Reader:
    """The reader of a query: sees their own events or, at full trust, all; with a `room` only those of that room."""

    user: str
    clearance: Trust
    room: str = ""
    timezone: str = ""


class Recorder(Protocol):
    """A sink for events: the log, the tree on stderr, or several of them."""

    def record(self, event: Event) -> None:
        """Record an event. Never raises, and waits no longer than the log allows."""


class Grouping(TextEnum):
    """The grouping of totals. Days are in the reader's timezone."""

    ALL = "all"
    DAY = "day"
    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    CHANNEL = "channel"
    SECTION = "section"
    MODEL = "model"


GROUPINGS = tuple(kind.value for kind in Grouping if kind is not Grouping.ALL)
"""The groupings that users and models may request. The overall total is included in each answer."""


@frozen(eq=True)
class Notice:
    """A message for the owner alone. It quotes no file content."""

    text: str
    level: Level = Level.ERROR


class NoticeTarget(Protocol):
    """A target for notices: a terminal, a chat or a page."""

    def notify(self, notice: Notice) -> None:
        """Accept a notice without waiting. Delivery happens later."""


class NoticeFanout:
    """Passes each notice, which is also in the log, to all targets. An error of one does not affect the others."""

    def __init__(self, *targets: NoticeTarget) -> None:
        self.targets: list[NoticeTarget] = [*targets]

    def notify(self, notice: Notice) -> None:
        """Pass a notice to all targets."""
        for target in [*self.targets]:
            with suppress(Exception):
                target.notify(notice)


def sees_all(reader: Reader) -> bool:
    """Return whether a reader sees every row, so that row counts and ids may be shown."""
    return reader.clearance is Trust.FULL and not reader.room


def may_read_text(reader: Reader, person: str) -> bool:
    """Return whether a reader may see the texts of a turn: of a private one, only its `person`, empty in a room."""
    inside = not reader.user and reader.clearance is Trust.FULL  # such as in an erasure
    return not person or inside or (reader.user == person and not reader.room)


def build_visibility_condition(reader: Reader) -> tuple[str, list[Any]]:
    """Return the SQL condition and parameters for the rows that a reader may see.

    A reader without a name has no rows: rows without a user have NULL, which equals nothing.
    """
    terms: list[tuple[str, Any]] = [("trust <= ?", int(reader.clearance))]
    if reader.clearance is not Trust.FULL:
        terms.append(("user_id = ?", reader.user))
    if reader.room:
        terms.append(("room = ?", reader.room))
    return " AND ".join(term for term, _ in terms), [value for _, value in terms]


def find_reader(turn: Turn, clearance: Trust, config: Config) -> Reader:
    """Return the reader for a turn. In company this is the room, with the room's timezone."""
    if has_other_readers(turn):
        room = config.rooms.get(turn.room)
        zone = (room.timezone if room else "") or config.host.timezone
        return Reader(user=turn.user, clearance=clearance, room=turn.room or UNNAMED_ROOM, timezone=zone)
    person = config.users.get(turn.user)
    zone = turn.client.zone or (person.timezone if person else "") or config.host.timezone
    return Reader(user=turn.user, clearance=clearance, timezone=zone)


def find_context(assembly: Assembly, schedule: str = "") -> Context:
    """Return the context for the events of a turn."""
    turn, trust = assembly.turn, assembly.clearance.level
    where = {name: getattr(turn, name) for name in ("session", "agent", "user", "channel", "room")}
    return Context(trust=trust, schedule=schedule, **where)


def read_utc_now() -> datetime:
    """Return the current time of the host."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """Format a time as stored: in UTC and with fixed width, so that strings sort as times."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
