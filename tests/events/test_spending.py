"""Spending: the sums that are shown, and the count of the rest."""

import pytest

from event_rows import ALICE, NOON, make_event, record_events
from foreword.events.event import EventType, Usage
from foreword.events.query import query_log
from foreword.events.totals import MAX_ROWS, find_spending


def spend(folder, **asked):
    """Find the spending that alice may see at noon."""
    spending, _ = query_log(str(folder), lambda log: find_spending(log, ALICE, {"since": "30d", **asked}, NOON))
    return spending


def call(number: int, minutes: float, cost: float | None, session: str = ""):
    """Make a call with a unique session, agent and channel."""
    names = {"session": session or f"s{number}", "agent": f"a{number}", "channel": f"c{number}"}
    return make_event(EventType.API_CALL, minutes, usage=Usage(tokens_in=number), cost_usd=cost, **names)


@pytest.mark.parametrize("by", ["session", "agent", "channel"])
def test_how_many_are_left(tmp_path, by):
    """If there are very many names, the largest are shown and the rest are counted."""
    record_events(str(tmp_path), *(call(number, -number * 4, None) for number in range(1_200)))
    spending = spend(tmp_path, by=by)
    assert [total.tokens_in for total in spending.totals] == list(range(1_199, 1_199 - MAX_ROWS, -1))
    assert spending.left == 1_200 - MAX_ROWS
    assert spending.longest.name == "s1199"


def test_few_and_no_more(tmp_path):
    """If all names are shown, no rest is counted."""
    record_events(str(tmp_path), *(call(number, -number, 1.0) for number in range(1, MAX_ROWS + 1)))
    assert (len(spend(tmp_path, by="agent").totals), spend(tmp_path, by="agent").left) == (MAX_ROWS, 0)


def test_the_longest_session_has_a_name(tmp_path):
    """Usage without a session is not listed as a session."""
    nobodys = make_event(EventType.API_CALL, -1, usage=Usage(tokens_in=10**6), session="")
    record_events(str(tmp_path), nobodys, call(5, -1, 1.0), call(6, -1, 1.0), call(7, -1, 1.0, "s5"))
    for by in ("day", "session"):
        assert (spend(tmp_path, by=by).longest.name, spend(tmp_path, by=by).longest.tokens_in) == ("s5", 12)
