"""Claims about the breakpoints of requests."""

import pytest
from bookkeeping import GEMINI, GPT, LOCAL, MARKED_GPT, SONNET, House

from foreword.promptcache.cache_usage import Exposure, choose_ttl, expect_cost, find_gap_probabilities
from foreword.tokens.models import find_cache
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


ANTHROPIC = find_cache("anthropic", "claude-sonnet-5")
TALK, PAUSES, NIGHTS = (60.0,) * 60, (60.0,) * 50 + (900.0,) * 10, (50_000.0,) * 64


def choose(gaps, cached=20_000, fresh=500, seconds=300):
    """Choose the TTL of a breakpoint."""
    life = choose_ttl(Exposure(cached=cached, fresh=fresh, seconds=seconds), gaps, ANTHROPIC)
    return life.name if life else None


@pytest.mark.parametrize(
    ("gaps", "cached", "fresh", "life"),
    [
        (TALK, 20_000, 500, "5m"),
        (TALK, 0, 20_000, "5m"),
        (PAUSES, 20_000, 500, "1h"),
        (PAUSES, 20_000, 20_000, "5m"),  # twice the price for all of it is more than a pause now and then
        (NIGHTS, 20_000, 500, None),
        ((900.0,) * 60, 0, 20_000, "1h"),
    ],
)
def test_break_even(gaps, cached, fresh, life):
    """Short TTLs while people talk, long ones where pauses risk much for little, none where no one comes back."""
    assert choose(gaps, cached, fresh) == life


def test_nothing_measured():
    """Before any measurement a session begins with short TTLs."""
    assert choose((), 0, 20_000) == "5m"


def test_the_break_even_is_where_both_cost_the_same():
    """Where one gap in a hundred is a pause, the long TTL wins from the size at which its price pays off."""
    gaps = (60.0,) * 990 + (900.0,) * 10
    chances = find_gap_probabilities(gaps)
    lives = {life.name: life for life in ANTHROPIC.lives}

    def gain(fresh):
        exposure = Exposure(cached=20_000, fresh=fresh, seconds=300)
        short, long = (expect_cost(exposure, lives[name], chances, ANTHROPIC) for name in ("5m", "1h"))
        return short - long

    even = next(fresh for fresh in range(10, 20_000, 10) if gain(fresh) <= 0)
    assert choose(gaps, 20_000, even - 20) == "1h"
    assert choose(gaps, 20_000, even + 20) == "5m"
    pauses = sum(chance for gap, chance in chances if gap >= 300)
    assert even == pytest.approx(pauses * 1.15 * (20_000 + even) / 0.75, rel=0.02)


def test_one_life():
    """A provider with one TTL leaves only the choice whether to write at all."""
    gpt = find_cache("openai", "gpt-5.6")
    assert choose_ttl(Exposure(cached=0, fresh=5_000, seconds=0), TALK, gpt).name == "30m"
