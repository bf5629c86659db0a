"""Claims about the words that a filter knows."""

from event_rows import ALICE, NOON
from foreword.events.event import EventType, Level
from foreword.events.filter import LEVELS, TYPES, read_filter
from foreword.events.log import LOST
from foreword.store.open import REPLACED


def test_every_level_and_type():
    """Every level and type of event can be asked for, and so can what the log tells of itself."""
    assert [*LEVELS.values()] == [*Level]
    assert (*(kind.value for kind in EventType), LOST, REPLACED) == TYPES
    for name in TYPES:
        assert read_filter({"event_type": name.upper()}, ALICE, NOON).type == name


def test_levels_go_upwards():
    """A level means itself and those above it."""
    wanted = {level: read_filter({"level": level}, ALICE, NOON).levels for level in LEVELS}
    assert wanted == {"info": (), "warn": ("warn", "error"), "error": ("error",)}
