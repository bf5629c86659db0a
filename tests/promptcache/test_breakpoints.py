"""Claims about the breakpoints of requests."""

import pytest
from bookkeeping import GEMINI, GPT, LOCAL, MARKED_GPT, SONNET, House

from foreword.types import Pace


def show(house):
    """Show each breakpoint by the block at it."""
    own, _ = house.request()
    return [own[at].name for at in sorted(house.marks)]


def test_the_four():
    """Tools, static, session and the newest block have a breakpoint each."""
    house = House()
    house.begin()
    house.send()
    assert show(house) == ["tool tool_5", "system", "system", "0 user"]
    assert max(house.marks) == len(house.request()[0]) - 1


@pytest.mark.parametrize(("calls", "between"), [(8, False), (9, True), (30, True)])
def test_one_in_between(calls, between):
    """Where a step adds more blocks than the lookback, the end of the last request has a breakpoint, not the tools."""
    house = House()
    house.talk()
    house.begin()
    house.send()
    reached = len(house.request()[0]) - 1
    house.answer(calls)
    house.answer(1)
    assert (len(house.request()[0]) - 1 - reached >= 20) is between
    counted = house.send()
    assert (reached in house.marks) is between
    assert len(house.marks) == 4
    assert counted.read == sum(piece.tokens for piece in house.state.last.pieces[: reached + 1])


def test_the_minimum():
    """A prefix too short to be cached has no breakpoint."""
    house = House(sections={"core": (Pace.STATIC, "Be kind.")}, tools={})
    house.begin()
    house.send()
    assert not house.marks


@pytest.mark.parametrize("model", [GPT, GEMINI, LOCAL])
def test_none_where_none_are_taken(model):
    """Providers that cache automatically get no breakpoints."""
    house = House(model=model)
    house.talk()
    assert not house.marks


def test_gpt_marks_the_newest_by_itself():
    """GPT-5.6 puts a breakpoint on the newest message; ours are after static and session."""
    house = House(model=MARKED_GPT)
    house.begin()
    house.send()
    assert show(house) == ["system", "system"]
    assert set(house.marks.values()) == {"30m"}


def test_long_before_short():
    """For any gaps, no long breakpoint follows a short one, and there are four at most."""
    house = House(model=SONNET)
    for gap in (20, 400, 20, 900, 900, 30, 20, 2_000, 20, 20):
        house.talk(1, 12)
        lives = [house.marks[at] for at in sorted(house.marks)]
        assert lives == sorted(lives, key=["1h", "5m"].index)
        assert len(lives) <= 4
        house.wait(gap)


def test_what_is_not_worth_writing_is_still_read():
    """A session whose turns are days apart writes no breakpoints, and the calls of one turn still read the cache."""
    house = House()
    for _ in range(40):
        house.talk()
        house.wait(90_000)
    house.begin()
    house.send()
    own, _ = house.request()
    assert len(own) - 1 not in house.marks
