"""Claims about the living session: the running gateway sends what the simulator computes."""

from dataclasses import replace

import pytest
from bench.living import compare_systems, correct, play_through, simulate

from foreword.promptcache.scenario import load_shipped_scenario
from foreword.promptcache.simulation import OURS, compute_cost


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-5", "openai:gpt-5.4", "openai:gpt-5.6"])
def test_the_same_bytes_and_the_same_figures(tmp_path, model):
    """Each captured request has the simulator's system part and the predicted cache reads; both cost the same."""
    whole = load_shipped_scenario()
    few = 18  # turns: two pauses, two edits, a loop of six tools
    scenario = replace(whole, turns=few, edits=tuple(edit for edit in whole.edits if edit.turn <= few))
    played = play_through(str(tmp_path), scenario, model)
    simulated = simulate(scenario, model, played)
    assert all(compare_systems(played, simulated))
    assert list(played.predicted) == correct(played, model)
    assert played.factors[0] == 1.0  # nothing was measured before
    ours, theirs = compute_cost(played.replayed, simulated.service), simulated.results[OURS]
    assert ours.share == pytest.approx(theirs.share, abs=0.002)
    assert ours.usd == pytest.approx(theirs.usd, rel=0.05)  # a script has a longer tail, and shorter calls
    assert compute_cost(played.counted, simulated.service).share == pytest.approx(ours.share, abs=0.01)
    assert {shown["deed"] for shown in played.ledger} <= {"append", "rebase"}
    assert played.ledger
