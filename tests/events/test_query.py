"""Queries of the event log."""

from dataclasses import replace
from datetime import timedelta

import pytest

from event_rows import ALICE, BOB, NOON, put
from foreword.errors import InputError, UnknownName
from foreword.events.event import EventType, Level, Reader
from foreword.events.lines import MAX_FACT_CHARS, show_line, show_value
from foreword.events.log import LOST_EVENTS_TYPE
from foreword.events.period import Period
from foreword.events.query import (
    EVENT_TYPES,
    LEVELS,
    MAX_EVENTS,
    MAX_TURN_EVENTS,
    NO_FILTER,
    Filter,
    build_condition,
    choose_index,
    find_events,
    find_events_after,
    find_last_id,
    find_turn_at,
    find_turn_events,
    lay_out_turn,
    parse_filter,
)
from foreword.storage.database import LOG_REPLACED_TYPE
from foreword.types import Trust

SQL = (
    "' OR '1'='1", "'; DROP TABLE events; --", "x' UNION SELECT * FROM events --", '" OR ""="', "%", "_", "*",
    "NULL", "\x00", "1 OR 1=1", "')) OR (('1'='1", "alice\x00", "🙂", "a" * 100_000,
)  # fmt: skip
ONE, TWO = "3f2a9c01" + "0" * 24, "3f2a9c02" + "0" * 24


def ids(found) -> list[int]:
    """Return the ids of the results, in order."""
    return [record.id for record in found.records]


@pytest.fixture
def rows(log):
    """Six rows, a minute apart, that differ in every filterable column."""
    return [
        put(log, NOON + timedelta(minutes=at), **columns)
        for at, columns in enumerate(
            [
                {"event_type": "message_received", "session_id": "s1", "channel": "signal"},
                {"event_type": "api_call", "session_id": "s1", "channel": "signal"},
                {"event_type": "api_error", "session_id": "s1", "channel": "signal", "level": "error"},
                {"event_type": "api_error", "session_id": "s2", "channel": "web", "level": "warn"},
                {"event_type": "api_call", "session_id": "s2", "channel": "web", "user_id": "bob"},
                {"event_type": "config_reloaded", "user_id": None, "trust": 3},
            ]
        )
    ]


@pytest.mark.parametrize(
    ("asked", "fitting"),
    [
        ({}, [5, 4, 3, 2, 1, 0]),
        ({"session_id": "s1"}, [2, 1, 0]),
        ({"level": "error"}, [2]),
        ({"level": "warn"}, [3, 2]),
        ({"level": "INFO"}, [5, 4, 3, 2, 1, 0]),
        ({"event_type": "api_error"}, [3, 2]),
        ({"user": "alice"}, [3, 2, 1, 0]),
        ({"user": "bob"}, [4]),
        ({"channel": "web"}, [4, 3]),
        ({"since": "2026-11-15T12:02"}, [5, 4, 3, 2]),
        ({"until": "2026-11-15T12:02"}, [1, 0]),
        ({"since": "2026-11-15T12:01", "until": "2026-11-15T12:03"}, [2, 1]),
        ({"since": "yesterday", "until": "yesterday"}, []),
        ({"limit": 2}, [5, 4]),
        ({"user": "alice", "channel": "web", "level": "warn", "event_type": "api_error", "session_id": "s2"}, [3]),
        ({"session_id": "s1", "user": "bob"}, []),
    ],
)
def test_filters(log, rows, asked, fitting):
    """Each filter works alone and with others, and the newest event comes first."""
    wanted = parse_filter(asked, ALICE, NOON + timedelta(hours=1))
    assert ids(find_events(log, ALICE, wanted)) == [rows[at] for at in fitting]


def test_a_record_has_every_column(log):
    """A record returns every stored column, with its time in UTC and its facts as values."""
    columns = {
        "level": "error", "session_id": "s", "agent_id": "reid", "channel": "signal", "duration_ms": 3, "tokens_in": 5,
        "tokens_out": 6, "cost_usd": 0.25, "error": "429", "room": "r", "schedule": "nightly", "model": "m",
        "trace_id": ONE, "span_id": "a" * 16, "parent_id": "b" * 16, "prompt_hash": "h", "cache_read": 1,
        "cache_write": 2,
    }  # fmt: skip
    put(log, metadata={"attempt": 1}, **columns)
    (record,) = find_events(log, ALICE).records
    shown = record.to_dict(ALICE)
    assert {name: shown[name] for name in columns} == columns
    assert shown["timestamp"] == "2026-11-15T12:00:00.000000Z"
    assert (shown["trust"], shown["metadata"], shown["category"]) == ("familiar", {"attempt": 1}, "provider")
    assert record.facts == {"attempt": 1}


@pytest.mark.parametrize("metadata", ["{broken", "[1]", "", None, "17"])
def test_facts_that_are_no_object(log, metadata):
    """Invalid facts do not hide their event."""
    put(log, metadata=metadata)
    assert len(find_events(log, ALICE).records) == 1


@pytest.mark.parametrize("name", ["session_id", "user", "channel"])
@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_text(log, rows, name, text):
    """SQL in a filter is plain text that matches nothing and changes nothing."""
    for reader in (ALICE, BOB):
        assert find_events(log, reader, parse_filter({name: text}, reader, NOON)).records == ()
    assert len(find_events(log, ALICE).records) == len(rows)


@pytest.mark.parametrize("name", ["level", "event_type", "since", "until", "limit", "nonsense"])
@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_word(name, text):
    """SQL in place of a word, a time or a number is refused with a short error."""
    with pytest.raises(InputError) as caught:
        parse_filter({name: text}, ALICE, NOON)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_turn(log, text):
    """SQL in place of a turn id is refused."""
    with pytest.raises(InputError, match="name a turn by its id"):
        find_turn_events(log, ALICE, text)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"level": "eror"}, "did you mean 'error'"),
        ({"level": "fatal"}, "there is error, info, warn"),
        ({"event_type": "api_eror"}, "did you mean 'api_error'"),
        ({"sesion_id": "x"}, "did you mean 'session_id'"),
    ],
)
def test_unknown_words(asked, hint):
    """An unknown word is refused with the nearest known one."""
    with pytest.raises(UnknownName, match=hint):
        parse_filter(asked, ALICE, NOON)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5", [5], float("inf")])
def test_bad_limits(limit):
    """A limit must be a whole number from 1."""
    with pytest.raises(InputError, match="whole number"):
        parse_filter({"limit": limit}, ALICE, NOON)


@pytest.mark.parametrize("value", [5, ["a"], {}, b"a", "\ud800"])
def test_no_text(value):
    """A value that is not text is refused."""
    with pytest.raises(InputError, match="must be a text"):
        parse_filter({"user": value}, ALICE, NOON)


def test_a_limit_of_a_billion(log):
    """A limit above the maximum is capped, and the answer says so."""
    for at in range(MAX_EVENTS + 2):
        put(log, NOON + timedelta(seconds=at))
    found = find_events(log, ALICE, parse_filter({"limit": 10**30}, ALICE, NOON))
    assert len(found.records) == MAX_EVENTS
    assert found.left == NOON + timedelta(seconds=1)
    assert "1,000 events at most" in found.notice


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages(log, limit):
    """Paging returns every event exactly once, even if many share a moment or a second."""
    moments = [*[NOON] * 20, *(NOON + timedelta(microseconds=at // 3) for at in range(20)), NOON - timedelta(hours=1)]
    written = {put(log, moment, user_id=user) for moment in moments for user in ("alice", "bob")}
    seen, until = [], ""
    while len(seen) <= len(written):
        wanted = parse_filter({"until": until, "limit": limit}, ALICE, NOON)
        found = find_events(log, ALICE, wanted)
        seen += ids(found)
        until = found.find_next_page(len(found.records), wanted)
        if not until:
            break
    assert len(seen) == len(written)
    assert {*seen} == written


def test_ids_are_for_who_sees_all(log):
    """Row numbers are shown only to readers who see every row: they reveal the number of rows."""
    put(log)
    (record,) = find_events(log, ALICE).records
    assert record.to_dict(ALICE)["id"] == record.id
    for reader in (BOB, Reader(user="alice", clearance=Trust.FULL, room="kitchen")):
        assert "id" not in record.to_dict(reader)


def test_the_turn_of_a_moment(log):
    """The turn at a time is the last one sent before it that the reader may see."""
    put(log, NOON, event_type="prompt_built", trace_id=ONE)
    put(log, NOON + timedelta(seconds=30), event_type="prompt_built", trace_id=TWO, user_id="bob")
    put(log, NOON + timedelta(seconds=40), event_type="api_call", trace_id=ONE)
    assert find_turn_at(log, ALICE, NOON) == ONE
    assert find_turn_at(log, ALICE, NOON + timedelta(minutes=1)) == TWO
    assert find_turn_at(log, ALICE, NOON - timedelta(microseconds=1)) == ""
    assert find_turn_at(log, BOB, NOON) == ""
    assert find_turn_at(log, BOB, NOON + timedelta(minutes=1)) == TWO


def test_the_same_moment(log):
    """Among events at the same time the last written comes first, for every index."""
    written = [put(log, level="error", event_type="api_error", session_id="s") for _ in range(5)]
    for wanted in (NO_FILTER, Filter(level=Level.WARN), Filter(session="s"), Filter(type="api_error")):
        assert ids(find_events(log, ALICE, wanted)) == written[::-1]


@pytest.mark.parametrize(
    ("reader", "wanted", "index"),
    [
        (ALICE, NO_FILTER, "time"),
        (ALICE, Filter(session="s", type="api_call", user="bob"), "session"),
        (ALICE, Filter(type="api_call", user="bob"), "type"),
        (ALICE, Filter(user="bob", channel="web"), "user"),
        (ALICE, Filter(channel="web"), "channel"),
        (ALICE, Filter(level=Level.ERROR, type="api_error"), "error"),
        (ALICE, Filter(level=Level.ERROR, user="bob"), "own_error"),
        (Reader(user="alice", clearance=Trust.FULL, room="r"), NO_FILTER, "room"),
        (BOB, NO_FILTER, "user"),
        (BOB, Filter(session="s", user="alice"), "user"),
        (BOB, Filter(level=Level.WARN, session="s"), "own_error"),
        (Reader(user="", clearance=Trust.PUBLIC, room="r"), NO_FILTER, "user"),
    ],
)
def test_indexes(log, reader, wanted, index):
    """Each query searches one index in order; a reader of personal events uses the index of their own rows."""
    assert choose_index(reader, wanted) == f"idx_events_{index}"
    where, values = build_condition(reader, replace(wanted, period=Period(since=NOON, until=NOON)))
    plan = log.execute(
        f"EXPLAIN QUERY PLAN SELECT * FROM events INDEXED BY idx_events_{index} WHERE {where}"
        " ORDER BY timestamp DESC, id DESC",
        values,
    ).fetchall()
    assert plan[0][3].startswith(f"SEARCH events USING INDEX idx_events_{index} (")
    assert len(plan) == 1


def test_own_errors(log):
    """A user's errors are found among those of others."""
    put(log, NOON, level="error", event_type="api_error", user_id="alice")
    put(log, NOON, level="error", event_type="api_error", user_id="bob")
    found = find_events(log, Reader(user="bob", clearance=Trust.FULL), Filter(user="alice", level=Level.ERROR))
    assert [record.user for record in found.records] == ["alice"]


def test_later(log):
    """Events after a row are returned in the order of writing, whatever their time."""
    last = find_last_id(log)
    assert find_events_after(log, ALICE, NO_FILTER, last) == []
    late = put(log, NOON - timedelta(days=3), level="error", event_type="tool_error")
    put(log, NOON, user_id="carol", trust=3)
    assert [record.id for record in find_events_after(log, ALICE, Filter(level=Level.ERROR), last)] == [late]
    assert len(find_events_after(log, ALICE, NO_FILTER, last)) == 2
    assert find_events_after(log, BOB, NO_FILTER, last) == []


def test_trace(log):
    """A turn is found by a prefix of its id in either case, oldest event first."""
    second = put(log, NOON + timedelta(seconds=1), trace_id=ONE)
    first = put(log, NOON, trace_id=ONE)
    put(log, NOON, trace_id=TWO)
    for name in (ONE, ONE[:8], "3F2A9C01"):
        assert ids(find_turn_events(log, ALICE, name)) == [first, second]


def test_ambiguous_trace(log):
    """An ambiguous prefix is refused with the matching ids, without those of other users."""
    put(log, trace_id=ONE)
    put(log, trace_id=TWO, user_id="bob", trust=1)
    with pytest.raises(InputError, match=f"{ONE}, {TWO}"):
        find_turn_events(log, ALICE, "3f2a9c")
    assert [record.trace for record in find_turn_events(log, BOB, "3f2a9c").records] == [TWO]


@pytest.mark.parametrize("name", ["", "3f2a9", "xyzxyz", "3f2a9c01" * 5, "3f2a 9c01"])
def test_no_name_of_a_turn(log, name):
    """An invalid turn id is refused."""
    with pytest.raises(InputError, match="name a turn by"):
        find_turn_events(log, ALICE, name)


def test_anothers_turn(log):
    """Another user's turn gets the same answer as a missing turn."""
    put(log, trace_id=ONE)
    assert find_turn_events(log, BOB, ONE) == find_turn_events(log, BOB, TWO)
    assert find_turn_events(log, BOB, ONE).records == ()


def test_a_long_turn(log):
    """A turn with very many events is shown from its beginning, with a note."""
    log.execute("BEGIN")
    for at in range(MAX_TURN_EVENTS + 1):
        put(log, NOON + timedelta(seconds=at), trace_id=ONE)
    log.execute("COMMIT")
    found = find_turn_events(log, ALICE, ONE)
    assert len(found.records) == MAX_TURN_EVENTS
    assert "more than 2,000 events" in found.notice


TRACE = "ab" * 16


def draw(log, *rows: tuple[str, str]) -> list[tuple[int, str]]:
    """Write rows with a span and a parent, a second apart, and lay them out by depth and span."""
    for at, (span, parent) in enumerate(rows):
        put(log, NOON + timedelta(seconds=at), trace_id=TRACE, span_id=span or None, parent_id=parent or None)
    return [(depth, record.span) for depth, record in lay_out_turn(find_turn_events(log, ALICE, TRACE).records)]


def test_children_stand_below_their_parent(log):
    """A step is above its children even if it ends last."""
    assert draw(log, ("c", "b"), ("d", "b"), ("b", "a"), ("a", "")) == [(0, "a"), (1, "b"), (2, "c"), (2, "d")]


def test_two_rows_of_one_span(log):
    """The end of a turn is at the level of its start, and its children are below the start."""
    assert draw(log, ("a", ""), ("b", "a"), ("c", "b"), ("b", "a")) == [(0, "a"), (1, "b"), (2, "c"), (1, "b")]


def test_orphans(log):
    """Events with an unseen parent, and events without a position, are at the top."""
    assert draw(log, ("b", "gone"), ("c", "b"), ("", "")) == [(0, "b"), (1, "c"), (0, "")]


def test_circles(log):
    """Cyclic parent ids lose no event and terminate."""
    assert sorted(span for _, span in draw(log, ("a", "b"), ("b", "a"), ("c", "c"), ("d", "a"))) == ["a", "b", "c", "d"]


def test_a_deep_turn(log):
    """A tree of a thousand levels is laid out."""
    rows = draw(log, *((str(at), str(at - 1) if at else "") for at in range(1_000)))
    assert rows[-1] == (999, "999")


def test_no_text_begins_a_line(log):
    """An event's text stays on one line and inside its quotes."""
    nasty = "a\nb\r\x1b[2J\u2028\u202e c\x85"
    put(
        log,
        error=nasty,
        trace_id=TRACE,
        metadata={nasty: nasty, "n": 5, "no": None, "yes": True},
        user_id=nasty,
        trust=0,
    )
    (record,) = find_turn_events(log, ALICE, TRACE).records
    line = show_line(record)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert "n=5 yes=true" in line


def test_long_values():
    """A long text is cut with an ellipsis, a long or nested list is counted, and a short list is written plainly."""
    assert show_value("x" * 500) == "x" * (MAX_FACT_CHARS - 1) + "…"
    assert show_value([["core", 120, 0, 0.1]] * 50) == "(50 entries)"
    assert show_value([["core", 120]]) == "(1 entry)"
    assert show_value([1, 2]) == '"1, 2"'
    assert show_value({"open": 2, "done": True}) == '"open: 2, done: true"'


def test_every_level_and_type():
    """A filter accepts every level and event type, including the log's internal events."""
    assert [*LEVELS] == [level.value for level in Level]
    assert (*(kind.value for kind in EventType), LOST_EVENTS_TYPE, LOG_REPLACED_TYPE) == EVENT_TYPES
    for name in EVENT_TYPES:
        assert parse_filter({"event_type": name.upper()}, ALICE, NOON).type == name
