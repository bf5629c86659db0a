"""Claims about the oracle: no decisions make a session cheaper, and no session costs less than its floor."""

import os
from itertools import product
from random import Random

import pytest

from foreword.promptcache.cache_usage import place_breakpoints
from foreword.promptcache.designs import (
    LedgerDesign,
    list_calls,
    make_cache_block,
    make_simulated_model,
    make_stage,
    write_clock,
)
from foreword.promptcache.scenario import (
    Scenario,
    ScriptedEdit,
    ScriptedPause,
    ScriptedSection,
    ScriptedToolCalls,
    ScriptedTools,
    load_shipped_scenario,
)
from foreword.promptcache.simulation import find_optimal_session, list_edit_choices, run_design
from foreword.tokens.models import find_model, find_prices
from foreword.types import EditPolicy, Pace

SONNET, GPT, MARKED_GPT = "anthropic:claude-sonnet-5", "openai:gpt-5.4", "openai:gpt-5.6"
SOAK = bool(os.environ.get("FOREWORD_SOAK"))
CALLS = 5 if SOAK else 4  # each additional edit takes three times as long
GAPS = (290, 310, 900, 1_790, 1_810, 3_500, 3_700)


def imagine(seed):
    """Generate a small session, with pauses on both sides of every TTL, and edits small and large."""
    random = Random(seed)
    turns = random.randint(3, 4)
    sections = (
        ScriptedSection(id="a", tokens=random.choice([300, 1_200])),
        ScriptedSection(id="b", pace=Pace.SESSION, tokens=random.choice([200, 900])),
    )
    return Scenario(
        name="small",
        seed=seed,
        tools=ScriptedTools(count=2, tokens=random.choice([50, 500])),
        sections=sections,
        turns=turns,
        pauses=tuple(
            ScriptedPause(turn=turn, seconds=random.choice(GAPS))
            for turn in range(2, turns + 1)
            if random.random() < 0.6
        ),
        work=(ScriptedToolCalls(turn=turns, calls=1, at_once=random.choice([0, 12])),) if random.random() < 0.3 else (),
        message=random.choice([30, 600]),
        answer=random.choice([50, 800]),
        edits=tuple(
            ScriptedEdit(turn=random.randint(2, turns), section=part.id, grow=random.choice([10, 400]))
            for part in sections
            if random.random() < 0.7
        ),
    )


class Replay:
    """The design that follows a given path: the edits before each call, and the TTL of its writes."""

    def __init__(self, stage, service, path):
        self.kept, self.facts, self.path = LedgerDesign(stage, service), service.cache, path

    def write(self, call):
        """Write a request as decided."""
        edits, life = self.path[call.number]
        letter = self.kept.prepare(call, edits)
        marks = place_breakpoints(self.kept.state, letter.sent, self.facts, letter.stable, life)
        return self.kept.send(letter, marks)


def force(stage, service, calls):
    """Try everything: each edit appended or moved, each request written with every TTL and not at all."""
    lives = [*service.cache.lives, None] if service.cache.marked else [None]
    plans = product(*([*list_edit_choices(stage, call)] for call in calls))
    paths = (tuple(zip(plan, chosen, strict=True)) for plan in plans for chosen in product(lives, repeat=len(calls)))
    return min(run_design(Replay(stage, service, path), calls, service).cost for path in paths)


@pytest.mark.parametrize("model", [SONNET, GPT, MARKED_GPT])
@pytest.mark.parametrize("seed", range(12 if SOAK else 1))
def test_nothing_is_cheaper(model, seed):
    """The oracle finds the cheapest of all possible decisions in a small session, and ours is no cheaper."""
    scenario = imagine(seed)
    calls = list_calls(scenario)[:CALLS]
    service = make_simulated_model(find_model(model, {}), find_prices(model, {}))
    stage = make_stage(scenario)
    oracle = find_optimal_session(stage, service, calls).cost
    assert oracle == pytest.approx(force(stage, service, calls), rel=1e-9)
    assert run_design(LedgerDesign(stage, service), calls, service).cost >= oracle * (1 - 1e-9)


def find_floor(stage, service, calls):
    """The least that any design could pay: repeated text is read, and new text is plain input."""
    prices, count = service.prices, service.meter.count
    seen, floor = set(), 0.0
    for call in calls:
        tail = make_cache_block("tail", write_clock(call, stage))
        fresh = [block for block in (tail, *stage.converse(call.said)) if block.key not in seen]
        if call.number == 0:
            fresh += [*stage.tools, *(make_cache_block("system", one.text) for one in call.sections)]
        old = [*stage.tools, *(make_cache_block("system", one.text) for one in call.sections)] if call.number else []
        old += [block for block in stage.converse(call.said) if block.key in seen]
        floor += sum(count(block.text) for block in fresh) * prices.input
        floor += sum(count(block.text) for block in old) * prices.cache_read
        seen |= {block.key for block in fresh}
    return floor


@pytest.mark.parametrize("model", [SONNET, GPT, MARKED_GPT] if SOAK else [SONNET])
def test_the_floor(model):
    """The living session is near the least that any design could pay, and never below it."""
    service, scenario = make_simulated_model(find_model(model, {}), find_prices(model, {})), load_shipped_scenario()
    stage, calls = make_stage(scenario), list_calls(scenario)
    ours = run_design(LedgerDesign(stage, service), calls, service).cost
    assert 1.0 < ours / find_floor(stage, service, calls) < 1.2


def test_orders_are_obeyed():
    """The oracle also obeys the owner's orders: it is no cheaper by ignoring them."""
    scenario = Scenario(name="s", sections=(ScriptedSection(id="a", tokens=1_500),), turns=4,
                        edits=(ScriptedEdit(turn=3, section="a", policy=EditPolicy.NOW),))  # fmt: skip
    assert [plan for call in list_calls(scenario) for plan in list_edit_choices(make_stage(scenario), call)] == [{}] * 4
