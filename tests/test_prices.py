"""Claims about prices: configured ones take precedence, tiers depend on size, and estimates include the cache."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from foreword.config.schema import ModelOverride
from foreword.promptcache.price import estimate
from foreword.testing import make_workspace
from foreword.tokens.models import PricedRequest, Prices, choose_tier, find_prices, format_usd
from foreword.turn import Turn

LONG = {"AGENTS.md": "Answer first, then say why.\n" * 400}


@pytest.mark.parametrize(
    "model",
    ["anthropic:claude-sonnet-4-5", "claude-sonnet-4-5", "openai-responses:gpt-5.4", "google-gla:gemini-2.5-pro"],
)
def test_known(model):
    """A known model has prices, and reading from the cache is the cheapest."""
    prices = find_prices(model, {})
    assert prices is not None
    assert 0 < prices.cache_read < prices.input <= prices.cache_write < 0.001


@pytest.mark.parametrize("model", ["", ":", "acme:gpt-4o", "openai:nonesuch", "a:b:c"])
def test_unknown(model):
    """An unknown model or provider has no price, even if another provider has a model of that name."""
    assert find_prices(model, {}) is None


@pytest.mark.parametrize("model", ["local:smollm2", "local:/models/own.gguf"])
def test_local(model):
    """A local model has prices of zero, which the configuration can override."""
    free = find_prices(model, {})
    assert free == Prices(input=0.0, cache_read=0.0, cache_write=0.0, cache_write_1h=0.0, output=0.0)
    assert find_prices(model, {model: ModelOverride(input_usd=1.0)}).input == 1e-6


def test_override_wins():
    """Configured prices override each price separately, under the full or the bare model name."""
    known = find_prices("anthropic:claude-sonnet-4-5", {})
    prices = find_prices("anthropic:claude-sonnet-4-5", {"claude-sonnet-4-5": ModelOverride(input_usd=8.0)})
    assert prices == replace(known, input=8e-6)
    assert find_prices("acme:z", {"acme:z": ModelOverride(input_usd=1.0)}) == Prices(
        input=1e-6, cache_read=1e-6, cache_write=1e-6, cache_write_1h=1e-6, output=None
    )
    assert find_prices("acme:z", {"acme:z": ModelOverride(cache_read_usd=1.0, output_usd=1.0)}) is None


def test_zero_is_a_price():
    """A price of zero is a price."""
    free = ModelOverride(input_usd=0.0, output_usd=0.0, cache_read_usd=0.0, cache_write_usd=0.0, cache_write_1h_usd=0.0)
    assert find_prices("x", {"x": free}) == Prices(input=0, cache_read=0, cache_write=0, cache_write_1h=0, output=0)


def test_an_hour_in_the_cache():
    """A one-hour cache write has a separate price, which defaults to that of the short write."""
    known = find_prices("anthropic:claude-sonnet-4-5", {})
    assert known.input < known.cache_write < known.cache_write_1h < known.output
    short = ModelOverride(input_usd=1.0, cache_write_usd=2.0)
    assert find_prices("acme:z", {"acme:z": short}).cache_write_1h == 2e-6


def test_tiers():
    """Above a threshold all tokens have the tier's price; at the threshold they do not."""
    price = SimpleNamespace(base=1, tiers=[SimpleNamespace(start=100, price=2), SimpleNamespace(start=200, price=3)])
    assert [choose_tier(price, tokens) for tokens in (0, 100, 101, 200, 201)] == [1, 1, 2, 2, 3]


def test_large_requests_cost_more():
    """The tiers of the price data apply."""
    now = datetime(2026, 11, 15, tzinfo=UTC)
    small, large = (find_prices("claude-sonnet-4-5", {}, PricedRequest(tokens=n, now=now)) for n in (1_000, 300_000))
    assert large.input > small.input


@pytest.fixture
def assembled(tmp_path):
    """Assemble a turn with a long prefix for a model."""
    workspace = make_workspace(tmp_path, LONG)
    return lambda model: workspace.assemble(Turn(user="alice", situation="dm", message="hi " * 50, model=model))


def test_estimate(assembled):
    """A cold prefix is written and a warm one is read; the rest is plain input in both cases."""
    assembly = assembled("anthropic:claude-sonnet-4-5")
    prefix, rest = (
        assembly.count_cached_tokens(),
        assembly.used + assembly.conversation - assembly.count_cached_tokens(),
    )
    assert prefix == assembly.system_tokens
    found = estimate(assembly, Prices(input=1, cache_read=0.1, cache_write=1.25, cache_write_1h=2))
    assert found.cold_usd == pytest.approx(1.25 * prefix + rest)
    assert found.warm_usd == pytest.approx(0.1 * prefix + rest)


def test_nothing_is_cached_below_the_minimum(tmp_path):
    """A prefix below the provider's minimum is plain input, warm or cold."""
    workspace = make_workspace(tmp_path, {})
    for model in ("anthropic:claude-haiku-4-5", "google:gemini-3-flash"):
        assembly = workspace.assemble(Turn(user="alice", situation="dm", model=model))
        found = estimate(assembly, Prices(input=1, cache_read=0.1, cache_write=1.25, cache_write_1h=2))
        assert found.warm_usd == found.cold_usd == assembly.used + assembly.conversation


def test_implicit_caches(assembled):
    """For a provider with implicit caching the cached prefix is the whole stable part."""
    assembly = assembled("openai:gpt-5.4")
    assert assembly.count_cached_tokens() == assembly.system_tokens


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0.0000"),
        (0.00001, "under $0.0001"),
        (0.0037, "$0.0037"),
        (1234.5, "$1,234.5000"),
        (-0.00001, "under $0.0001 less"),
        (-0.0037, "-$0.0037"),
    ],
)
def test_show(amount, shown):
    """A small amount is not shown as zero."""
    assert format_usd(amount) == shown
