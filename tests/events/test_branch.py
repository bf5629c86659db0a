"""The tree of a turn."""

from datetime import timedelta

from event_rows import ALICE, NOON, put
from foreword.events.lines import MAX_FACT_CHARS, show_line, show_value
from foreword.events.query import find_turn_events, lay_out_turn

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
