"""Claims about what was spent: the sums that are shown, and what is said of the rest."""

import pytest

from event_rows import ALICE, NOON, make_event, tell
from foreword.events.asking import ask
from foreword.events.event import EventType, Usage
from foreword.events.spending import ROWS, find_spending


def spend(folder, **asked):
    """Find what alice may know of at noon."""
    spending, _ = ask(str(folder), lambda log: find_spending(log, ALICE, {"since": "30d", **asked}, NOON))
    return spending


def call(number: int, minutes: float, cost: float | None, session: str = ""):
    """A call whose session, agent and channel have a name of their own."""
    names = {"session": session or f"s{number}", "agent": f"a{number}", "channel": f"c{number}"}
    return make_event(EventType.API_CALL, minutes, usage=Usage(tokens_in=number), cost_usd=cost, **names)


@pytest.mark.parametrize("by", ["session", "agent", "channel"])
def test_how_many_are_left(tmp_path, by):
    """Of very many names the largest are shown, and the others are counted, however many they are."""
    tell(str(tmp_path), *(call(number, -number * 4, None) for number in range(1_200)))
    spending = spend(tmp_path, by=by)
    assert [total.tokens_in for total in spending.totals] == list(range(1_199, 1_199 - ROWS, -1))
    assert spending.left == 1_200 - ROWS
    assert spending.longest.name == "s1199"


def test_few_and_no_more(tmp_path):
    """Where everything is shown nothing is left."""
    tell(str(tmp_path), *(call(number, -number, 1.0) for number in range(1, ROWS + 1)))
    assert (len(spend(tmp_path, by="agent").totals), spend(tmp_path, by="agent").left) == (ROWS, 0)


def test_the_longest_session_has_a_name(tmp_path):
    """What belongs to no session is no session, however much it used."""
    nobodys = make_event(EventType.API_CALL, -1, usage=Usage(tokens_in=10**6), session="")
    tell(str(tmp_path), nobodys, call(5, -1, 1.0), call(6, -1, 1.0), call(7, -1, 1.0, "s5"))
    for by in ("day", "session"):
        assert (spend(tmp_path, by=by).longest.name, spend(tmp_path, by=by).longest.tokens_in) == ("s5", 12)
