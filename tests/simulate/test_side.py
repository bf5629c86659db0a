"""Claims about the simulator, and about the living session in it."""

import os
from dataclasses import replace
from functools import cache

import pytest

from foreword.errors import ConfigError, InputError
from foreword.ledger import Deed
from foreword.ledger.cost import FURTHER
from foreword.prices import find_prices
from foreword.simulate import benchmark, draw, find_living, read_scenario, set_side_by_side
from foreword.simulate.design import set_stage
from foreword.simulate.oracle import foresee
from foreword.simulate.ours import Kept, make_service
from foreword.simulate.run import run
from foreword.simulate.session import play
from foreword.simulate.side import NONE, ORACLE, OURS, SPLIT, STRING
from foreword.simulate.watching import Watched
from foreword.tokens import find

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
    scenario = find_living()
    calls = play(scenario)
    assert (scenario.turns, len(calls), len(scenario.edits)) == (60, 100, 8)
    assert sum(sum(scenario.list_steps(turn)) for turn in range(61)) == 40
    assert 2.9 <= (calls[-1].at - calls[0].at).total_seconds() / 3_600 <= 3.1
    paces = {part.id: str(part.pace) for part in scenario.sections}
    assert {paces[edit.section] for edit in scenario.edits} == {"static", "session"}


@cache
def play_living(model):
    """Play the living session once for all claims about it."""
    return set_side_by_side(find_living(), model, {}, oracle=False)


@pytest.mark.parametrize("model", MODELS if SOAK else MODELS[:2])
def test_the_living_session(model):
    """At every provider 97 % of the input are read, ahead of both other designs."""
    compared = play_living(model)
    assert compared.results[OURS].share >= 0.97
    assert compared.divide(OURS, NONE) <= 1 / 7
    assert compared.divide(OURS, SPLIT) < 0.5
    assert compared.divide(OURS, STRING) < 0.5


@pytest.mark.skipif(not SOAK, reason="the oracle searches whole sessions")
@pytest.mark.parametrize("model", benchmark.MODELS)
def test_the_aims(model):
    """At every provider 97 % are read, the oracle pays at most a twentieth less, and the split pays more."""
    figures = [found for found in benchmark.run([model]) if not isinstance(found, str)]
    assert [figure.verdict for figure in figures] == ["met"] * 3


GOVERNED = SMALL.replace("{id: soul, tokens: 900}", "{id: soul, tokens: 900, governs: true}")


@pytest.mark.parametrize(("model", "inserted"), [("anthropic:claude-opus-5", True), (MODELS[0], False)])
def test_what_governs_is_on_the_wire(model, inserted):
    """An edit of what governs safety travels as a system message where one is taken, and moves the prefix elsewhere."""
    scenario, service = read_scenario(GOVERNED, "small.yaml"), make_service(find(model, {}), find_prices(model, {}))
    kept, calls = Kept(set_stage(scenario), service), play(scenario)
    watched = Watched(kept, service)
    assert list(run(watched, calls, service).calls) == kept.predicted
    names = [[block.name for block in asked.blocks if block.name.endswith(" system")] for asked in watched.asked]
    assert [bool(found) for found in names[5:]] == [inserted] * (len(calls) - 5)
    assert kept.standings[3].deed is (Deed.APPEND if inserted else Deed.REBASE)


@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_what_happens(model):
    """What the ledger predicts of each call is what the provider's rules say of it."""
    scenario = read_scenario(SMALL, "small.yaml")
    facts = find(model, {})
    service = make_service(facts, find_prices(model, {}))
    kept = Kept(set_stage(scenario), service)
    assert list(run(kept, play(scenario), service).calls) == kept.predicted
    short = facts.cache_minimum > 4_000  # nothing is cached yet when the first edit is made, so that it is free
    assert kept.standings[3].deed is (Deed.REBASE if short else Deed.APPEND)
    assert kept.standings[6].deed is Deed.REBASE


def test_an_oracle_is_never_worse():
    """On a small session, too, nobody beats the one who knows the future."""
    scenario = read_scenario(SMALL, "small.yaml")
    compared = set_side_by_side(scenario, MODELS[0], {})
    assert compared.divide(OURS, ORACLE) >= 1.0
    assert set(compared.results) == {OURS, NONE, STRING, SPLIT, ORACLE}


def test_a_pause_is_foreseen():
    """With pauses now and then, what the newest mark writes is kept for an hour, and no pause costs a rewrite."""
    compared = play_living(MODELS[0])
    calls = compared.results[OURS].calls
    assert any(call.hour for call in calls)
    assert all(call.read > call.write for call in calls[1:])


def test_the_same_scenario_gives_the_same_figures():
    """A scenario is a script: whoever plays it gets the same."""
    scenario = read_scenario(SMALL, "small.yaml")
    one, other = (set_side_by_side(scenario, MODELS[0], {}, oracle=False) for _ in range(2))
    assert one.results == other.results
    moved = set_side_by_side(replace(scenario, seed=5), MODELS[0], {}, oracle=False)
    assert moved.results != one.results


def test_the_table():
    """A comparison is drawn with what each design reads and costs, in money or in tokens that are evaluated."""
    scenario = read_scenario(SMALL, "small.yaml")
    paid = draw(set_side_by_side(scenario, MODELS[0], {}, oracle=False)).splitlines()
    assert paid[0].startswith(
        "anthropic:claude-sonnet-5: rules of anthropic (2026-11), from 1,024 tokens, a million: $"
    )
    assert [line.split()[0] for line in paid[1:]] == ["design", "ours", "no", "one", "static/dynamic"]
    assert " tokens " in draw(set_side_by_side(scenario, "local:smollm2", {}, oracle=False))


def test_faults_of_a_scenario():
    """A scenario with a fault is refused with its line, or with what is wrong."""
    with pytest.raises(ConfigError, match=r"s\.yaml:2: .*turn"):
        read_scenario("name: x\nturn: 3\nsections: [{id: a}]\n", "s.yaml")
    with pytest.raises(InputError, match="'b', which is no section"):
        read_scenario("name: x\nsections: [{id: a}]\nedits: [{turn: 1, section: b}]\n", "s.yaml")


def test_folding_and_many_blocks():
    """Folded conversations and tools that are called at once are played, too."""
    scenario = replace(read_scenario(SMALL, "small.yaml"), folded=(8,))
    facts = find(MODELS[0], {})
    service = make_service(facts, find_prices(MODELS[0], {}))
    kept = Kept(set_stage(scenario), service)
    result = run(kept, play(scenario), service)
    assert str(kept.standings[7].rebase.ground) == "compacted"
    assert list(result.calls) == kept.predicted
    assert FURTHER > 0
    assert foresee(set_stage(scenario), service, play(scenario)).usd <= result.usd
