"""Claims about the event log: a scripted night writes the pinned rows."""

import json

from pinning import HERE, REGENERATE, compare

PINNED = (HERE / "night" / "events.jsonl").read_text(encoding="utf-8")
TYPES = 17


def test_events(night):
    """Each row has the pinned type, level, columns and metadata, in the pinned order."""
    found = night["events.jsonl"]
    assert found == PINNED, "\n".join(["", compare(PINNED, found, "events.jsonl"), REGENERATE.format("events")])


def test_all_types():
    """The pinned rows have every type of docs/events.md."""
    documented = (HERE.parents[1] / "docs" / "events.md").read_text(encoding="utf-8")
    types = {json.loads(line)["event_type"] for line in PINNED.splitlines()}
    assert len(types) == TYPES
    assert all(f"| `{one}` |" in documented for one in types)
