"""The cost of a call, and the cost of each section."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.agent.tools.registry import BUILT_IN
from foreword.config.schema import ModelOverride
from foreword.events.cost import (
    HISTORY_PART,
    MESSAGE_PART,
    REPLY_PART,
    TOOLS_PART,
    PricedCall,
    estimate_max_cost,
    price_call,
    scale_parts,
    split_cost,
)
from foreword.events.event import Usage
from foreword.testing import NOON, make_workspace
from foreword.turn import Message
from night import CONFIG, LONG, make_turn

MODEL = "anthropic:claude-sonnet-4-5"
USAGE = Usage(tokens_in=10_000, tokens_out=500, cache_read=6_000, cache_write=1_000)


@pytest.fixture(scope="module")
def assembly(tmp_path_factory):
    """Assemble a turn with tools, a history and a tail."""
    workspace = make_workspace(tmp_path_factory.mktemp("cost"), {"foreword.yaml": CONFIG, **LONG})
    said = (Message(role="user", text="Hello there. " * 20), Message(role="assistant", text="Hello!"))
    return workspace.assemble(make_turn(history=said, tools=BUILT_IN, now=NOON))


def test_price():
    """A call costs its fresh input, cache reads, cache writes and output, each at a separate price."""
    cost = price_call(PricedCall(model=MODEL, usage=USAGE, time=NOON), {})
    assert cost.usd == pytest.approx((3_000 * 3 + 6_000 * 0.3 + 1_000 * 3.75 + 500 * 15) / 1e6)
    hour = price_call(PricedCall(model=MODEL, usage=USAGE, time=NOON, hour=True), {})
    assert hour.usd - cost.usd == pytest.approx(1_000 * (6 - 3.75) / 1e6)


@pytest.mark.parametrize(
    ("model", "overrides", "reason"),
    [
        ("acme:z", {}, "no price is known for acme:z"),
        ("", {}, "no price is known for a call without a model"),
        ("acme:z", {"acme:z": ModelOverride(input_usd=1.0)}, "no output price is known for acme:z"),
    ],
)
def test_unknown_is_not_zero(model, overrides, reason):
    """Without a known price the cost is None with a reason, never zero."""
    cost = price_call(PricedCall(model=model, usage=USAGE), overrides)
    assert cost.usd is None
    assert cost.reason.startswith(reason)


def test_override():
    """The user's price table takes precedence; a price of zero is a price."""
    mine = ModelOverride(input_usd=1.0, output_usd=2.0, cache_read_usd=0.0, cache_write_usd=0.0)
    assert price_call(PricedCall(model="acme:z", usage=USAGE), {"acme:z": mine}).usd == pytest.approx(0.004)
    free = ModelOverride(input_usd=0.0, output_usd=0.0)
    assert price_call(PricedCall(model="acme:z", usage=USAGE), {"acme:z": free}).usd == 0.0


@pytest.mark.parametrize("usage", [Usage(tokens_in=10, cache_read=8, cache_write=3), Usage(tokens_in=-1)])
def test_usage_that_cannot_be(assembly, usage):
    """Contradictory usage is not priced, and the reason is given."""
    cost = price_call(PricedCall(model=MODEL, usage=usage), {})
    assert cost.usd is None
    assert "usage" in cost.reason
    assert split_cost(assembly, PricedCall(model=MODEL, usage=usage), cost) == ()


@settings(max_examples=4 * settings.default.max_examples, deadline=None)
@given(st.data())
def test_shares_add_up(assembly, data):
    """For any usage, the shares add up to the call's tokens, cached tokens and cost."""
    total = data.draw(st.integers(0, 100_000))
    read = data.draw(st.integers(0, total))
    write = data.draw(st.integers(0, total - read))
    usage = Usage(tokens_in=total, tokens_out=data.draw(st.integers(0, 9_000)), cache_read=read, cache_write=write)
    call = PricedCall(model=MODEL, usage=usage, time=NOON, hour=data.draw(st.booleans()))
    cost = price_call(call, {})
    shares = split_cost(assembly, call, cost)
    assert sum(share.tokens for share in shares) == total + usage.tokens_out
    assert sum(share.cached for share in shares) == read
    assert sum(share.usd for share in shares) == pytest.approx(cost.usd, rel=1e-9, abs=1e-15)
    assert all(0 <= share.cached <= share.tokens for share in shares)
    assert len({share.section for share in shares}) == len(shares)


def test_the_prefix_is_what_is_cached(assembly):
    """Cache reads cover the beginning of the request (schemas and system); the newest messages are fresh."""
    usage = Usage(tokens_in=assembly.used + assembly.conversation, tokens_out=10, cache_read=assembly.system_tokens)
    call = PricedCall(model=MODEL, usage=usage)
    shares = {share.section: share for share in split_cost(assembly, call, price_call(call, {}))}
    assert next(iter(shares)) == TOOLS_PART
    assert shares[TOOLS_PART].cached == shares[TOOLS_PART].tokens == assembly.fit.tool_tokens
    assert shares["agents"].cached == shares["agents"].tokens
    assert shares["time"].cached == shares[HISTORY_PART].cached == shares[MESSAGE_PART].cached == 0
    assert shares[REPLY_PART].tokens == 10
    assert shares["agents"].tokens == sum(span.tokens for span in assembly.prompt.spans if span.id == "agents")


def test_shares_without_a_price(assembly):
    """Without a price a section has its tokens but no dollars."""
    call = PricedCall(model="acme:z", usage=USAGE)
    shares = split_cost(assembly, call, price_call(call, {}))
    assert {share.usd for share in shares} == {None}
    assert shares[0].row[:1] == [TOOLS_PART]


@given(st.lists(st.integers(0, 10_000), min_size=1), st.integers(0, 1_000_000))
def test_scale(parts, total):
    """Scaled parts add up exactly and none is negative."""
    scaled = [tokens for _, tokens in scale_parts([(str(at), tokens) for at, tokens in enumerate(parts)], total)]
    assert sum(scaled) == total
    assert min(scaled) >= 0
    assert len(scaled) == len(parts)


def test_foreseen(assembly):
    """The estimate is the maximum cost of the call, for any cache result."""
    most = estimate_max_cost(assembly, {}, 500).usd
    tokens = assembly.used + assembly.conversation
    for usage in (
        Usage(tokens_in=tokens, tokens_out=500),
        Usage(tokens_in=tokens, tokens_out=500, cache_write=tokens),
        Usage(tokens_in=tokens, tokens_out=1, cache_read=tokens),
    ):
        assert price_call(PricedCall(model=MODEL, usage=usage, time=NOON), {}).usd <= most + 1e-12
    assert estimate_max_cost(assembly, {"claude-sonnet-4-5": ModelOverride(input_usd=9e9)}, 500).usd > 1e6
