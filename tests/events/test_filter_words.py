"""The level and type names that a filter accepts."""

from event_rows import ALICE, NOON
from foreword.events.event import EventType, Level
from foreword.events.log import LOST_EVENTS_TYPE
from foreword.events.query import EVENT_TYPES, LEVELS, parse_filter
from foreword.storage.database import LOG_REPLACED_TYPE


def test_every_level_and_type():
    """A filter accepts every level and event type, including the log's internal events."""
    assert [*LEVELS] == [level.value for level in Level]
    assert (*(kind.value for kind in EventType), LOST_EVENTS_TYPE, LOG_REPLACED_TYPE) == EVENT_TYPES
    for name in EVENT_TYPES:
        assert parse_filter({"event_type": name.upper()}, ALICE, NOON).type == name


def test_levels_go_upwards():
    """A level includes itself and those above it."""
    wanted = {level: parse_filter({"level": level}, ALICE, NOON).levels for level in LEVELS}
    assert wanted == {"info": (), "warn": ("warn", "error"), "error": ("error",)}
