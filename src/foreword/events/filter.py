"""A filter: which events are asked for, read from what a person typed or a model called."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from foreword.errors import InputError, UnknownName
from foreword.events.event import EventType, Level, Reader
from foreword.events.moment import ALWAYS, Period, read_period
from foreword.frozen import frozen

USUAL = 50  # events of one answer, unless somebody says how many
TEXTS = ("session_id", "level", "event_type", "user", "channel", "since", "until")
ASKED = (*TEXTS, "limit")
LEVELS = {level.value: level for level in Level}
# The last two are what the log tells of itself; importing it for two words would cost every question.
TYPES = (*(kind.value for kind in EventType), "events_lost", "log_replaced")


@frozen(eq=True)
class Filter:
    """Which events are asked for; what is empty is not asked about."""

    session: str = ""
    level: Level | None = None
    """This level and those above it."""
    type: str = ""
    user: str = ""
    channel: str = ""
    period: Period = ALWAYS
    limit: int = USUAL

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are asked for, or none where every level is."""
        if self.level in (None, Level.INFO):
            return ()
        return ("error",) if self.level is Level.ERROR else ("warn", "error")


EVERYTHING = Filter()


def read_filter(asked: Mapping[str, Any], reader: Reader, now: datetime) -> Filter:
    """Read a filter, or raise InputError with what is accepted."""
    for name in asked:
        if name not in ASKED:
            raise UnknownName("filter", str(name)[:40], ASKED)
    texts = {name: read_text(name, asked.get(name)) for name in TEXTS}
    return Filter(
        session=texts["session_id"],
        level=LEVELS[read_word("level", texts["level"], LEVELS)] if texts["level"] else None,
        type=read_word("event type", texts["event_type"], TYPES) if texts["event_type"] else "",
        user=texts["user"],
        channel=texts["channel"],
        period=read_period(texts["since"], texts["until"], now, reader.timezone),
        limit=read_limit(asked.get("limit")),
    )


def read_text(name: str, value: object) -> str:
    """Read a text; nothing is the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str) or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise InputError(f"{name!r} is a text")
    return value


def read_word(name: str, text: str, known: Collection[str]) -> str:
    """Read a word of a vocabulary, in either case."""
    word = text.lower()
    if word not in known:
        raise UnknownName(name, text[:40], known)
    return word


def read_limit(value: object) -> int:
    """Read how many events are wanted."""
    if value is None:
        return USUAL
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError("'limit' is a whole number from 1 on")
    return value
