"""Claims about the event log: a scripted night writes the pinned rows."""

import json

import pytest
from pinning import HERE, REGENERATE, compare

PINNED = (HERE / "night" / "events.jsonl").read_text(encoding="utf-8")
TYPES = 17


def test_events(night):
    """Each row has the pinned type, level, columns and metadata, in the pinned order."""
    found = night["events.jsonl"]
    if found != PINNED:
        pytest.fail(f"{compare(PINNED, found, 'events.jsonl')}\n{REGENERATE.format('events')}", pytrace=False)


def test_all_types():
    """The pinned rows include every event type of docs/events.md."""
    documented = (HERE.parents[1] / "docs" / "events.md").read_text(encoding="utf-8")
    types = {json.loads(line)["event_type"] for line in PINNED.splitlines()}
    assert len(types) == TYPES
    assert all(f"\n`{one}` |" in documented for one in types)
