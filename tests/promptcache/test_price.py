"""Claims about the price of an edit, and about calibration by reported usage."""

from dataclasses import replace

import pytest
from bookkeeping import OPUS, SONNET, House

from foreword.promptcache.decision import CacheContext, decide_prefix
from foreword.promptcache.price import quote_edit
from foreword.promptcache.rules import CacheUsage, Calibration, format_calibration, update_calibration
from foreword.tokens.models import find_prices, format_usd
from foreword.types import EditPolicy


@pytest.fixture
def house():
    """A session with a warm cache."""
    house = House()
    for _ in range(4):
        house.talk(2)
        house.wait(30)
    return house


def ask(house, **other):
    """Quote the cost of the session's edits."""
    moment = CacheContext(now=house.now, facts=house.facts, prices=find_prices(house.model, {}), **other)
    asked = quote_edit(house.state, house.want(), moment)
    return asked, {offer.policy: offer for offer in asked.offers}


def test_the_four_prices(house):
    """An edit costs most now, little appended, only its own tokens when cold, and nothing until the next session."""
    house.edit("soul")
    asked, offers = ask(house)
    assert asked.sections == ("soul",)
    assert list(offers) == [EditPolicy.NOW, EditPolicy.APPEND, EditPolicy.COLD, EditPolicy.NEXT_SESSION]
    assert offers[EditPolicy.NOW].total > offers[EditPolicy.APPEND].total > offers[EditPolicy.COLD].total
    assert offers[EditPolicy.NEXT_SESSION].total == 0
    assert asked.best is EditPolicy.APPEND


def test_now_is_what_is_billed(house):
    """The quoted cost of `now` is the part that the provider then does not read."""
    house.edit("soul")
    _, offers = ask(house)
    house.edits = {"soul": EditPolicy.NOW}
    before = house.state.last.tokens
    house.begin()
    counted = house.send()
    assert before - counted.read == offers[EditPolicy.NOW].again
    again = offers[EditPolicy.NOW].again * (find_prices(SONNET, {}).cache_write - find_prices(SONNET, {}).cache_read)
    assert offers[EditPolicy.NOW].once == pytest.approx(again, rel=0.2)


def test_a_cold_cache_has_nothing_to_lose(house):
    """Once the cache is cold, an edit bills nothing again."""
    house.edit("soul", new="line three, and some more words about it, ")
    house.wait(10_000)
    _, offers = ask(house)
    assert offers[EditPolicy.NOW].again == 0
    assert offers[EditPolicy.NOW].once > 0


@pytest.mark.parametrize("section", ["soul", "core"])
def test_one_act_has_one_price(house, section):
    """Once the cache is cold, now, append and cold have the same effect, the same cost, and are all allowed."""
    house.edit(section, new="line three, and some more words about it, ")
    house.wait(10_000)
    _, offers = ask(house)
    acts, costs = set(), set()
    for policy in (EditPolicy.NOW, EditPolicy.APPEND, EditPolicy.COLD):
        house.edits = {section: policy}
        moment = CacheContext(now=house.now, facts=house.facts, prices=find_prices(SONNET, {}))
        decision = decide_prefix(house.state, house.want(), moment)
        acts.add((decision.action, decision.prompt.text))
        costs.add(replace(offers[policy], policy=EditPolicy.NOW))
    assert len(acts) == len(costs) == 1


@pytest.mark.parametrize(("model", "allowed"), [(SONNET, False), (OPUS, True)])
def test_what_governs_safety_is_not_offered(model, allowed):
    """An edit of the core cannot be appended where that would be a user message."""
    house = House(model=model)
    house.talk()
    house.edit("core")
    asked, offers = ask(house)
    assert offers[EditPolicy.APPEND].allowed is allowed
    assert asked.best is (EditPolicy.APPEND if allowed else EditPolicy.NOW)


def test_nothing_differs(house):
    """Without a difference the price is zero."""
    assert ask(house)[0].offers == ()


def test_asking_changes_nothing(house):
    """A quote leaves the session unchanged."""
    before = house.state
    house.edit("soul")
    ask(house)
    assert house.state is before


def test_counts_are_corrected():
    """After a few calls an estimate that was a fifth too low is right, and the reported error shows it."""
    known = Calibration(model=SONNET)
    assert known.correct(1_000) == 1_000
    for tokens in range(1_000, 2_000, 50):
        known = update_calibration(known, tokens, round(tokens * 1.25))
    assert known.correct(1_000) == pytest.approx(1_250, abs=2)
    assert known.raw == pytest.approx(0.2, abs=0.001)
    assert known.error < 0.02
    assert "counts × 1.250 by 20 calls" in format_calibration(known)


@pytest.mark.parametrize("priced", [True, False])
@pytest.mark.parametrize("policy", [EditPolicy.AUTO, EditPolicy.NOW])
def test_a_decision_costs_what_was_quoted(house, priced, policy):
    """A decision costs its quoted price, and measured token counts move no decision."""
    known = Calibration(model=SONNET, calls=9, ratio=2.0)
    house.edit("soul")
    house.edits = {"soul": policy}
    moment = CacheContext(
        now=house.now, facts=house.facts, prices=find_prices(SONNET, {}) if priced else None, known=known
    )
    plain, corrected = (
        decide_prefix(house.state, house.want(), one)
        for one in (replace(moment, known=Calibration(model=SONNET)), moment)
    )
    offers = {one.policy: one for one in quote_edit(house.state, house.want(), moment).offers}
    assert plain.prompt.text == corrected.prompt.text
    assert (plain.action, plain.updates) == (corrected.action, corrected.updates)
    if policy is EditPolicy.NOW:
        again = offers[EditPolicy.NOW].again
        assert corrected.rebase.tokens == again == known.correct(plain.rebase.tokens)
        assert corrected.rebase.usd == (pytest.approx(plain.rebase.usd * 2) if priced else None)
    else:
        assert corrected.decisions[0].tokens == pytest.approx(offers[EditPolicy.APPEND].more, abs=1)
        total = offers[EditPolicy.APPEND].total
        said = format_usd(total) if priced else f"{total:,.0f} input tokens"
        assert corrected.reason.startswith(f"{said} with ")
        assert not plain.reason.startswith(f"{said} with ")


def test_what_is_predicted_is_corrected():
    """All parts of a prediction are corrected by the same factor, and make up the corrected whole."""
    known = Calibration(model=SONNET, calls=9, ratio=1.1)
    plain = CacheUsage(read=1_003, write=205, hour=205, fresh=7)
    found = known.correct_usage(plain)
    assert found.total == known.correct(plain.total)
    assert (found.read, found.write, found.hour) == (1_103, 226, 226)
    assert Calibration(model=SONNET).correct_usage(plain) is plain


def test_a_provider_that_changes_is_followed():
    """Old calls expire, so that the calibration follows another tokenizer of the same name."""
    known = Calibration(model=SONNET)
    for _ in range(200):
        known = update_calibration(known, 1_000, 1_200)
    for _ in range(200):
        known = update_calibration(known, 1_000, 900)
    assert known.ratio == pytest.approx(0.9, abs=0.01)


def test_nothing_reported_teaches_nothing():
    """A call without usage leaves the measured counts unchanged."""
    known = Calibration(model=SONNET)
    assert update_calibration(known, 1_000, 0) is known
    assert "nothing reported yet" in format_calibration(known)
