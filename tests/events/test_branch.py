"""Claims about the tree of a turn."""

from datetime import timedelta

from event_rows import ALICE, NOON, put
from foreword.events.branch import lay_out
from foreword.events.line import LONGEST, show_line, show_value
from foreword.events.question import find_trace

TRACE = "ab" * 16


def draw(log, *rows: tuple[str, str]) -> list[tuple[int, str]]:
    """Write rows with a span and a parent, a second apart, and lay them out by depth and span."""
    for at, (span, parent) in enumerate(rows):
        put(log, NOON + timedelta(seconds=at), trace_id=TRACE, span_id=span or None, parent_id=parent or None)
    return [(branch.depth, branch.record.span) for branch in lay_out(find_trace(log, ALICE, TRACE).records)]


def test_children_stand_below_their_parent(log):
    """A step that ends last still stands above what happened in it."""
    assert draw(log, ("c", "b"), ("d", "b"), ("b", "a"), ("a", "")) == [(0, "a"), (1, "b"), (2, "c"), (2, "d")]


def test_two_rows_of_one_span(log):
    """The end of a turn stands beside its beginning, and what happened stands below the beginning."""
    assert draw(log, ("a", ""), ("b", "a"), ("c", "b"), ("b", "a")) == [(0, "a"), (1, "b"), (2, "c"), (1, "b")]


def test_orphans(log):
    """What stands below something that is not seen stands at the top; an event without a place does, too."""
    assert draw(log, ("b", "gone"), ("c", "b"), ("", "")) == [(0, "b"), (1, "c"), (0, "")]


def test_circles(log):
    """Ids that lead in a circle lose no event and end."""
    assert sorted(span for _, span in draw(log, ("a", "b"), ("b", "a"), ("c", "c"), ("d", "a"))) == ["a", "b", "c", "d"]


def test_a_deep_turn(log):
    """A thousand levels are laid out."""
    rows = draw(log, *((str(at), str(at - 1) if at else "") for at in range(1_000)))
    assert rows[-1] == (999, "999")


def test_no_text_begins_a_line(log):
    """Whatever an event holds, it stays on its line and between its quotes."""
    nasty = "a\nb\r\x1b[2J\u2028\u202e c\x85"
    put(
        log,
        error=nasty,
        trace_id=TRACE,
        metadata={nasty: nasty, "n": 5, "no": None, "yes": True},
        user_id=nasty,
        trust=0,
    )
    (record,) = find_trace(log, ALICE, TRACE).records
    line = show_line(record)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert "n=5 yes=true" in line


def test_long_values():
    """A long text is cut with a mark, a long or nested list is counted, and a short one is written without JSON."""
    assert show_value("x" * 500) == "x" * (LONGEST - 1) + "…"
    assert show_value([["core", 120, 0, 0.1]] * 50) == "(50 entries)"
    assert show_value([["core", 120]]) == "(1 entry)"
    assert show_value([1, 2]) == '"1, 2"'
    assert show_value({"open": 2, "done": True}) == '"open: 2, done: true"'
