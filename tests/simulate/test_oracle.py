"""Claims about the oracle: nothing that can be decided makes a session cheaper, and no session is below its floor."""

import os
from itertools import product
from random import Random

import pytest

from foreword.prices import find_prices
from foreword.simulate import find_living
from foreword.simulate.design import make, set_stage, write_clock
from foreword.simulate.oracle import Led, foresee, list_plans
from foreword.simulate.ours import Kept, make_service
from foreword.simulate.run import run
from foreword.simulate.scenario import Edit, Equipped, Part, Pause, Scenario, Work
from foreword.simulate.session import play
from foreword.tokens import find
from foreword.words import Pace, Policy

SONNET, GPT, MARKED_GPT = "anthropic:claude-sonnet-5", "openai:gpt-5.4", "openai:gpt-5.6"
SOAK = bool(os.environ.get("FOREWORD_SOAK"))
CALLS = 5 if SOAK else 4  # each more takes three times as long
GAPS = (290, 310, 900, 1_790, 1_810, 3_500, 3_700)


def imagine(seed):
    """Imagine a small session, with pauses on both sides of every life, and edits small and large."""
    random = Random(seed)
    turns = random.randint(3, 4)
    sections = (
        Part(id="a", tokens=random.choice([300, 1_200])),
        Part(id="b", pace=Pace.SESSION, tokens=random.choice([200, 900])),
    )
    return Scenario(
        name="small",
        seed=seed,
        tools=Equipped(count=2, tokens=random.choice([50, 500])),
        sections=sections,
        turns=turns,
        pauses=tuple(
            Pause(turn=turn, seconds=random.choice(GAPS)) for turn in range(2, turns + 1) if random.random() < 0.6
        ),
        work=(Work(turn=turns, calls=1, at_once=random.choice([0, 12])),) if random.random() < 0.3 else (),
        message=random.choice([30, 600]),
        answer=random.choice([50, 800]),
        edits=tuple(
            Edit(turn=random.randint(2, turns), section=part.id, grow=random.choice([10, 400]))
            for part in sections
            if random.random() < 0.7
        ),
    )


def force(stage, service, calls):
    """Try everything: each edit appended or moved, each request written for every life and not at all."""
    lives = [*service.cache.lives, None] if service.cache.marked else [None]
    plans = product(*([*list_plans(stage, call)] for call in calls))
    paths = (tuple(zip(plan, chosen, strict=True)) for plan in plans for chosen in product(lives, repeat=len(calls)))
    return min(run(Led(Kept(stage, service), service, path), calls, service).cost for path in paths)


@pytest.mark.parametrize("model", [SONNET, GPT, MARKED_GPT])
@pytest.mark.parametrize("seed", range(12 if SOAK else 3))
def test_nothing_is_cheaper(model, seed):
    """Of all that could be decided in a small session, the oracle has found the cheapest; and ours is no cheaper."""
    scenario = imagine(seed)
    calls = play(scenario)[:CALLS]
    service = make_service(find(model, {}), find_prices(model, {}))
    stage = set_stage(scenario)
    oracle = foresee(stage, service, calls).cost
    assert oracle == pytest.approx(force(stage, service, calls), rel=1e-9)
    assert run(Kept(stage, service), calls, service).cost >= oracle * (1 - 1e-9)


def find_floor(stage, service, calls):
    """The least that any design could pay: what was there before is read, and what is new is plain input."""
    prices, count = service.prices, service.meter.count
    seen, floor = set(), 0.0
    for call in calls:
        tail = make("tail", write_clock(call, stage.scenario.tail, stage))
        fresh = [block for block in (tail, *stage.converse(call.said)) if block.key not in seen]
        if call.number == 0:
            fresh += [*stage.tools, *(make("system", one.text) for one in call.sections)]
        old = [*stage.tools, *(make("system", one.text) for one in call.sections)] if call.number else []
        old += [block for block in stage.converse(call.said) if block.key in seen]
        floor += sum(count(block.text) for block in fresh) * prices.input
        floor += sum(count(block.text) for block in old) * prices.cache_read
        seen |= {block.key for block in fresh}
    return floor


@pytest.mark.parametrize("model", [SONNET, GPT, MARKED_GPT] if SOAK else [SONNET])
def test_the_floor(model):
    """The living session is near the least that any design could pay, and never below it."""
    service, scenario = make_service(find(model, {}), find_prices(model, {})), find_living()
    stage, calls = set_stage(scenario), play(scenario)
    ours = run(Kept(stage, service), calls, service).cost
    assert 1.0 < ours / find_floor(stage, service, calls) < 1.2


def test_orders_are_obeyed():
    """What the owner ordered, the oracle does, too: it is no cheaper by leaving it undone."""
    scenario = Scenario(name="s", sections=(Part(id="a", tokens=1_500),), turns=4,
                        edits=(Edit(turn=3, section="a", policy=Policy.NOW),))  # fmt: skip
    assert [plan for call in play(scenario) for plan in list_plans(set_stage(scenario), call)] == [{}] * 4
