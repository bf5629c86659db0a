"""Rows: for any event, the row is within its size limits and can be written."""

import json
import math
import sqlite3
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.events.event import Context, Event, EventType, Usage
from foreword.events.record import EVENT_COLUMNS, INSERT_EVENT, MAX_ID_CHARS, MAX_METADATA_CHARS, make_row
from foreword.resources import read_resource

NOW = datetime(2026, 11, 16, 2, 47, tzinfo=UTC)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=40,
)


def make_fact_row(**facts) -> dict[str, object]:
    """Make a row from facts; return it by column."""
    row = make_row(Event(type=EventType.TOOL_CALL, time=NOW, facts=facts))
    return dict(zip(EVENT_COLUMNS, row.values, strict=True))


def read(**facts) -> dict[str, object]:
    """Make a row from facts; return its metadata."""
    return json.loads(make_fact_row(**facts)["metadata"])


def test_ten_megabytes():
    """Ten megabytes of metadata are cut at once, with a note of the missing size."""
    output, numbers = "x" * 10_000_000, list(range(3_000_000))
    begin = time.thread_time()
    said = read(output=output, tool="bash", numbers=numbers)
    cut = time.thread_time()
    json.dumps([output, numbers])
    assert cut - begin < time.thread_time() - cut
    assert said["tool"] == "bash"
    assert said["output"].endswith("x… [cut: 9,998,000 more characters]")
    assert said["numbers"][-1] == "2,999,900 more"
    assert len(json.dumps(said)) < MAX_METADATA_CHARS


def test_many_long_facts():
    """If the facts are too long in total, the largest are dropped and a note names them."""
    said = read(small="kept", **{f"fact{number:02}": "y" * (1_000 + number) for number in range(60)})
    assert said["small"] == "kept"
    assert "fact59 (1,0" in said["cut"]
    assert len(json.dumps(said)) <= MAX_METADATA_CHARS


def test_many_keys_and_depth():
    """Thousands of keys and deep nesting are replaced by their count."""
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    said = read(deep=deep, **{f"k{number}": number for number in range(5_000)})
    assert said["cut"] == "4,901 more"
    assert "too deep to record" in json.dumps(said["deep"])


def test_numbers():
    """Numbers outside the range of JSON or the database are stored as text or clamped."""
    said = read(infinite=math.inf, none=math.nan, huge=10**5_000)
    assert said == {"infinite": "inf", "none": "nan", "huge": "a number of 16,610 bits"}
    event = Event(
        type=EventType.API_CALL, time=NOW, duration_ms=10**30, usage=Usage(tokens_in=10**30), cost_usd=math.nan
    )
    row = dict(zip(EVENT_COLUMNS, make_row(event).values, strict=True))
    assert (row["duration_ms"], row["tokens_in"], row["cost_usd"]) == (2**63 - 1, 2**63 - 1, None)


def test_long_ids():
    """An id is cut at its maximum length."""
    row = make_row(Event(type=EventType.TOOL_CALL, time=NOW, context=Context(session="s" * 10_000, user="\ud800é")))
    stored = dict(zip(EVENT_COLUMNS, row.values, strict=True))
    assert len(stored["session_id"]) == MAX_ID_CHARS
    assert stored["user_id"].startswith("?é…")


@pytest.fixture(scope="module")
def base():
    """A log in memory."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(read_resource("storage", "schema.sql"))
    yield connection
    connection.close()


@given(facts=st.dictionaries(st.text(), VALUES), error=st.text(), who=st.text())
def test_any_event_can_be_written(base, facts, error, who):
    """For any facts, error and names, the database accepts the row and its facts are a JSON object."""
    event = Event(type=EventType.API_CALL, time=NOW, error=error, facts=facts, context=Context(user=who), model=who)
    base.execute(INSERT_EVENT, make_row(event).values)
    metadata, valid = base.execute(
        "SELECT metadata, json_valid(metadata) FROM events ORDER BY id DESC LIMIT 1"
    ).fetchone()
    assert valid == bool(facts)
    assert metadata is None or isinstance(json.loads(metadata), dict)


def test_sections():
    """A call's sections are read from its facts; malformed entries are ignored."""
    good = [["soul", 400, 300, 0.002], ["tail", 20, 0, None]]
    bad = ["soul", ["soul"], ["soul", "1", 2, None], [1, 2, 3, 4], ["soul", True, 0, None], None]
    row = make_row(Event(type=EventType.API_CALL, time=NOW, facts={"sections": [*good, *bad]}))
    assert row.sections == tuple(map(tuple, good))
    assert make_row(Event(type=EventType.API_CALL, time=NOW, facts={"sections": "soul"})).sections == ()


def test_all_sections_count():
    """The sums count every section of a call, although the row lists only the first hundred."""
    shares = [[f"files:{number}", number, 0, 0.5] for number in range(250)]
    row = make_row(Event(type=EventType.API_CALL, time=NOW, facts={"sections": shares, "other": "x" * 30_000}))
    assert row.sections == tuple(map(tuple, shares))
    odd = [["soul", 2**70, 0, math.inf]]
    row = make_row(Event(type=EventType.API_CALL, time=NOW, facts={"sections": odd}))
    assert row.sections == (("soul", 2**63 - 1, 0, None),)


def test_no_two_names_are_one():
    """A cut or cleaned name never equals another name."""
    names = ["n" * 300, "n" * 301, "n" * 200, "a\ud800", "a\ud801", "a?"]
    rows = [make_row(Event(type=EventType.TOOL_CALL, time=NOW, context=Context(user=name))) for name in names]
    stored = [row.values[EVENT_COLUMNS.index("user_id")] for row in rows]
    assert len({*stored}) == len(names)
    assert max(map(len, stored)) <= MAX_ID_CHARS
