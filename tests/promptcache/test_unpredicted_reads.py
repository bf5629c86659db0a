"""Claims about tokens read beyond a prediction: they are reported with their known cause, and counts are no cause."""

import pytest
from bookkeeping import GEMINI, GPT, LOCAL, MARKED_GPT, OPUS, SONNET, House

from foreword.promptcache.blame import AnsweredRequest, account_for_call
from foreword.promptcache.ledger_json import account_to_json
from foreword.promptcache.rules import CacheUsage
from foreword.types import EditPolicy

MODELS = [SONNET, OPUS, GPT, MARKED_GPT, GEMINI, LOCAL]


def settle(house):
    """Let a session talk for a while."""
    for _ in range(3):
        house.talk(1)
        house.wait(30)
    return house


def send_whole(house, share=1.0):
    """Send a request of which the provider reads a share, and return the finding."""
    house.begin()
    before = house.state
    house.send()
    sent = house.state.last
    read = int(sent.tokens * share)
    answered = AnsweredRequest(
        prefix=house.decision.prefix,
        sent=sent,
        reported=CacheUsage(read=read, write=0, hour=0, fresh=sent.tokens - read),
    )
    return account_for_call(before, answered, house.facts).surplus, sent.tokens - house.predicted.read


@pytest.mark.parametrize("model", [SONNET, GPT, LOCAL])
def test_another_session_was_there_before(model):
    """A session that begins with another session's prefix reads it; the finding says that another request wrote it."""
    first = House(model=model)
    first.talk()
    second = House(model=model)
    second.provider = first.provider
    second.begin()
    counted = second.send()
    more = second.account.surplus
    assert more.tokens == counted.read > 0
    assert "another one with the same beginning was sent" in more.reason
    assert account_to_json(second.account)["surplus"] == {"tokens": more.tokens, "reason": more.reason}


def test_a_provider_that_keeps_longer():
    """An entry that outlives its TTL is reported as retained by the provider or by another request."""
    house = settle(House())
    house.wait(20_000)
    more, fresh = send_whole(house)
    assert more.tokens == fresh
    assert "the provider kept it longer, or another request" in more.reason


def test_what_cannot_be_explained():
    """In a warm session no cause is invented: another request may have written it."""
    house = settle(House())
    house.sections["soul"] = (house.sections["soul"][0], "All is new here.\n" * 200)
    house.edits = {"soul": EditPolicy.NOW}
    more, _ = send_whole(house)
    assert more.reason.startswith("another request with the same prefix may have written it")


@pytest.mark.parametrize("model", MODELS)
def test_no_surplus_by_our_own_rules(model):
    """A session that is alone at its provider reads as predicted, over edits, pauses and tools."""
    house = House(model=model)
    for number in range(8):
        if number in (3, 5):
            house.edit("soul", f"line {number} ", "line of another kind ")
        if number == 4:
            house.edit("user")
        house.talk(2)
        assert house.account.surplus is None
        house.wait(4_000 if number == 6 else 40)


@pytest.mark.parametrize("model", MODELS)
def test_counts_that_are_off_are_no_surplus(model):
    """A provider whose tokens are smaller than ours has no surplus because of that."""
    house = settle(House(model=model))
    house.begin()
    before = house.state
    house.send()
    reported = house.account.reported
    more = CacheUsage(**{name: int(getattr(reported, name) * 1.3) for name in ("read", "write", "fresh")})
    answered = AnsweredRequest(prefix=house.decision.prefix, sent=house.state.last, reported=more)
    assert account_for_call(before, answered, house.facts).surplus is None
