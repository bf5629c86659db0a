"""Claims about the simulator, and about the living session in it."""

import os
from dataclasses import replace
from functools import cache

import pytest

from foreword.errors import ConfigError, InputError
from foreword.promptcache.decision import MIN_EXPECTED_CALLS
from foreword.promptcache.designs import LedgerDesign, list_calls, make_simulated_model, make_stage
from foreword.promptcache.ledger import Action
from foreword.promptcache.scenario import load_shipped_scenario, read_scenario
from foreword.promptcache.simulation import (
    NO_CACHE,
    ORACLE,
    OURS,
    SPLIT,
    STRING,
    compare_designs,
    count_requests,
    find_optimal_session,
    format_comparison,
    list_requests,
    run_design,
)
from foreword.tokens.models import find_model, find_prices

MODELS = ("anthropic:claude-sonnet-5", "openai:gpt-5.4", "openai:gpt-5.6", "google:gemini-3-pro-preview")
SOAK = bool(os.environ.get("FOREWORD_SOAK"))
SMALL = """
name: small
tools: {count: 4, tokens: 300}
sections: [{id: soul, tokens: 900}, {id: user, pace: session, tokens: 300}]
turns: 8
pauses: [{turn: 5, seconds: 900}]
work: [{turn: 3, calls: 2}, {turn: 6, at_once: 15}]
edits: [{turn: 4, section: soul}, {turn: 7, section: user, policy: now}]
"""


def test_the_living_session_is_what_it_says():
    """60 turns over three hours with pauses, 40 tool calls, 8 edits of static, session and memory files."""
    scenario = load_shipped_scenario()
    calls = list_calls(scenario)
    assert (scenario.turns, len(calls), len(scenario.edits)) == (60, 100, 8)
    assert sum(sum(scenario.list_steps(turn)) for turn in range(61)) == 40
    assert 2.9 <= (calls[-1].at - calls[0].at).total_seconds() / 3_600 <= 3.1
    paces = {part.id: str(part.pace) for part in scenario.sections}
    assert {paces[edit.section] for edit in scenario.edits} == {"static", "session"}


@cache
def play_living(model):
    """Play the living session once for all claims about it."""
    return compare_designs(load_shipped_scenario(), model, {}, oracle=False)


@pytest.mark.parametrize("model", MODELS if SOAK else MODELS[:2])
def test_the_living_session(model):
    """At every provider 97 % of the input is read, more than with both other designs."""
    compared = play_living(model)
    assert compared.results[OURS].share >= 0.97
    assert compared.divide_costs(OURS, NO_CACHE) <= 1 / 7
    assert compared.divide_costs(OURS, SPLIT) < 0.5
    assert compared.divide_costs(OURS, STRING) < 0.5


GOVERNED = SMALL.replace("{id: soul, tokens: 900}", "{id: soul, tokens: 900, governs: true}")


@pytest.mark.parametrize(("model", "inserted"), [("anthropic:claude-opus-5", True), (MODELS[0], False)])
def test_what_governs_is_on_the_wire(model, inserted):
    """A safety-relevant edit is sent as a system message where one is accepted, and moves the prefix elsewhere."""
    scenario, service = (
        read_scenario(GOVERNED, "small.yaml"),
        make_simulated_model(find_model(model, {}), find_prices(model, {})),
    )
    kept, calls = LedgerDesign(make_stage(scenario), service), list_calls(scenario)
    requests = list_requests(kept, calls, service)
    assert count_requests(requests) == kept.predicted
    names = [[block.name for block in asked.blocks if block.name.endswith(" system")] for asked in requests]
    assert [bool(found) for found in names[5:]] == [inserted] * (len(calls) - 5)
    assert kept.decisions[3].action is (Action.APPEND if inserted else Action.REBASE)


@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_what_happens(model):
    """The ledger predicts for each call what the provider's rules compute for it."""
    scenario = read_scenario(SMALL, "small.yaml")
    facts = find_model(model, {})
    service = make_simulated_model(facts, find_prices(model, {}))
    kept = LedgerDesign(make_stage(scenario), service)
    assert list(run_design(kept, list_calls(scenario), service).calls) == kept.predicted
    short = facts.cache_minimum > 4_000  # nothing is cached yet at the first edit, so it is free
    assert kept.decisions[3].action is (Action.REBASE if short else Action.APPEND)
    assert kept.decisions[6].action is Action.REBASE


def test_an_oracle_is_never_worse():
    """Even on a small session, no design beats the oracle, which knows the future."""
    scenario = read_scenario(SMALL, "small.yaml")
    compared = compare_designs(scenario, MODELS[0], {})
    assert compared.divide_costs(OURS, ORACLE) >= 1.0
    assert set(compared.results) == {OURS, NO_CACHE, STRING, SPLIT, ORACLE}


def test_a_pause_is_foreseen():
    """With pauses now and then, the newest breakpoint writes for an hour, and no pause costs a rewrite."""
    compared = play_living(MODELS[0])
    calls = compared.results[OURS].calls
    assert any(call.hour for call in calls)
    assert all(call.read > call.write for call in calls[1:])


def test_the_same_scenario_gives_the_same_figures():
    """A scenario is a script: every run gives the same figures."""
    scenario = read_scenario(SMALL, "small.yaml")
    one, other = (compare_designs(scenario, MODELS[0], {}, oracle=False) for _ in range(2))
    assert one.results == other.results
    moved = compare_designs(replace(scenario, seed=5), MODELS[0], {}, oracle=False)
    assert moved.results != one.results


def test_the_table():
    """A comparison shows the reads and the cost of each design, in money or in evaluated tokens."""
    scenario = read_scenario(SMALL, "small.yaml")
    paid = format_comparison(compare_designs(scenario, MODELS[0], {}, oracle=False)).splitlines()
    assert paid[0].startswith(
        "anthropic:claude-sonnet-5: rules of anthropic (2026-11), from 1,024 tokens, a million: $"
    )
    assert [line.split()[0] for line in paid[1:]] == ["design", "ours", "no", "one", "static/dynamic"]
    assert " tokens " in format_comparison(compare_designs(scenario, "local:smollm2", {}, oracle=False))


def test_faults_of_a_scenario():
    """A scenario with a fault is refused with its line, or with a description of the problem."""
    with pytest.raises(ConfigError, match=r"s\.yaml:2: .*turn"):
        read_scenario("name: x\nturn: 3\nsections: [{id: a}]\n", "s.yaml")
    with pytest.raises(InputError, match="'b', which is not a section"):
        read_scenario("name: x\nsections: [{id: a}]\nedits: [{turn: 1, section: b}]\n", "s.yaml")


def test_folding_and_many_blocks():
    """Compacted conversations and parallel tool calls are also played."""
    scenario = replace(read_scenario(SMALL, "small.yaml"), folded=(8,))
    facts = find_model(MODELS[0], {})
    service = make_simulated_model(facts, find_prices(MODELS[0], {}))
    kept = LedgerDesign(make_stage(scenario), service)
    result = run_design(kept, list_calls(scenario), service)
    assert str(kept.decisions[7].rebase.code) == "compacted"
    assert list(result.calls) == kept.predicted
    assert MIN_EXPECTED_CALLS > 0
    assert find_optimal_session(make_stage(scenario), service, list_calls(scenario)).usd <= result.usd
