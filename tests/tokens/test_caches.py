"""Claims about the rules of providers' caches."""

import pytest

from foreword.config.schema import ModelOverride
from foreword.errors import UnknownName
from foreword.tokens.models import find_model, list_cache_rules, read_caches


@pytest.mark.parametrize(
    ("model", "minimum", "marks", "system"),
    [
        ("anthropic:claude-opus-5", 512, 4, True),
        ("anthropic:claude-sonnet-5", 1_024, 4, False),
        ("anthropic:claude-sonnet-5-5", 1_024, 4, True),
        ("anthropic:claude-haiku-4-5", 4_096, 4, False),
        ("anthropic:claude-3-5-haiku", 2_048, 4, False),
        ("openai:gpt-5.4", 1_024, 0, True),
        ("openai:gpt-5.6-sol", 1_024, 4, True),
        ("google:gemini-2.5-pro", 2_048, 0, False),
        ("google:gemini-3-pro-preview", 4_096, 0, False),
        ("local:smollm2", 1, 0, False),
        ("acme:model", 1_024, 0, False),
        ("openrouter:claude-sonnet-5", 1_024, 0, False),
        ("claude-opus-5", 512, 4, True),
        ("gpt-5", 1_024, 0, True),
        ("", 1_024, 4, False),
    ],
)
def test_facts(model, minimum, marks, system):
    """A model has the rules of its provider and those of its own line; at another provider it has that one's rules."""
    facts = find_model(model, {}).cache
    assert (facts.minimum, facts.marks, facts.system_messages) == (minimum, marks, system)


def test_prices_are_factors():
    """Anthropic's cache reads at a tenth, and writes at 1.25 for five minutes and at 2 for an hour."""
    facts = find_model("anthropic:claude-opus-5", {}).cache
    assert facts.read == 0.1
    assert [(life.name, life.seconds, life.write) for life in facts.lives] == [("5m", 300, 1.25), ("1h", 3_600, 2.0)]
    assert (facts.lookback, facts.order) == (20, ("tools", "system", "messages"))


def test_the_user_knows_better():
    """`models:` in foreword.yaml gives a model the rules of another provider, another minimum, and other features."""
    overrides = {"acme:model": ModelOverride(cache="anthropic", cache_minimum=7, system_messages=True)}
    facts = find_model("acme:model", overrides).cache
    assert (facts.marked, facts.minimum, facts.system_messages) == (True, 7, True)


def test_an_unknown_rule():
    """An unknown rule is refused with a list of the known ones."""
    with pytest.raises(UnknownName, match="anthropic"):
        find_model("acme:model", {"acme:model": ModelOverride(cache="antropic")})
    assert "openai-marks" in list_cache_rules()


def test_every_rule_says_where_it_is_from():
    """Each rule names its source and the date of its lookup."""
    for facts in read_caches().rules.values():
        assert len(facts.source) > 40
        assert facts.checked >= "2026-11"
        assert facts.lives
