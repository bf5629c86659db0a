"""Claims about the generated rows of the event log's benchmark."""

from bench.event_rows import DAYS, fill
from bench.events import OWNER, list_questions

from foreword.events.event import Grouping
from foreword.events.totals import sum_usage_by


def test_rows_and_sums(tmp_path):
    """The month has the requested number of rows, every index, and correct sums of the rows."""
    connection = fill(str(tmp_path), 12 * 10 * DAYS)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (12 * 10 * DAYS,)
    indexes = connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'idx_events_%'").fetchone()
    assert indexes == (9,)
    calls, tokens = connection.execute(
        "SELECT count(*), sum(tokens_in) FROM events WHERE event_type = 'api_call'"
    ).fetchone()
    for by in (
        Grouping.ALL,
        Grouping.DAY,
        Grouping.SESSION,
        Grouping.USER,
        Grouping.AGENT,
        Grouping.CHANNEL,
        Grouping.MODEL,
    ):
        totals = sum_usage_by(connection, OWNER, by)[0]
        assert sum(total.calls for total in totals) == calls
        assert sum(total.tokens_in for total in totals) == tokens
    for ask in list_questions(connection).values():
        ask(0)
    connection.close()
