"""Claims about the TTL of breakpoints."""

import pytest

from foreword.promptcache.breakpoints import Exposure, choose_ttl, expect_cost, find_gap_probabilities
from foreword.tokens.models import find_cache

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
