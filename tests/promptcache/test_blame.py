"""Claims about blame: each deliberate break is found, by its section and its byte."""

from dataclasses import replace

import pytest
from bookkeeping import GEMINI, GPT, LOCAL, MARKED_GPT, OPUS, SONNET, House

from foreword.promptcache.cache_usage import AnsweredRequest, Cause, account_for_call, confirm_cause
from foreword.promptcache.designs import make_cache_block
from foreword.promptcache.ledger_json import account_to_json
from foreword.promptcache.rules import CacheUsage
from foreword.tokens.models import find_prices
from foreword.types import EditPolicy, Pace


@pytest.fixture
def house():
    """A session in the middle of a conversation."""
    return settle(House())


def settle(house):
    """Let a session talk for a while."""
    for _ in range(3):
        house.talk(1)
        house.wait(30)
    return house


def provoke(house, blocks=None, marks=None):
    """Send a request that breaks the prefix, and return the blame."""
    house.begin()
    own, _ = house.request()
    house.send(blocks(own) if blocks else None, marks)
    return house.account.blame


def rebase(house, *sections):
    """Let edits apply at once, which a ledger would not do by itself."""
    house.edits = dict.fromkeys(sections, EditPolicy.NOW)


def find_byte(house, before):
    """The first byte of the system part that differs, counted another way."""
    after = house.decision.prefix.text.encode()
    return next(at for at, (old, new) in enumerate(zip(before.encode(), after, strict=False)) if old != new)


def test_nothing_to_blame(house):
    """A session that only continues has no misses, and every prediction equals the reported usage."""
    for _ in range(5):
        house.wait(40)
        house.talk(2, 1)
        assert house.account.blame is None
        assert house.account.predicted == house.account.reported


@pytest.mark.parametrize("section", ["core", "soul", "agents", "user", "menu"])
def test_an_edited_section(house, section):
    """1 to 5: a section that was edited, of any pace, first or last."""
    before = house.state.prefix.text
    house.edit(section)
    rebase(house, section)
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.SECTION, section, find_byte(house, before))
    assert blame.tokens > 0


def test_a_section_is_gone(house):
    """6: a section that was removed."""
    before = house.state.prefix.text
    del house.sections["agents"]
    rebase(house, "agents")
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.SECTION, "agents", find_byte(house, before))


def test_a_section_has_come(house):
    """7: a section that was added before others."""
    before = house.state.prefix.text
    house.sections = {"about": (Pace.STATIC, "About the house."), **house.sections}
    rebase(house, "about")
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.SECTION, "about", find_byte(house, before))


def test_sections_in_another_order(house):
    """8: sections that changed places; the content is the same, so that only a bug could send them."""
    before = house.state.prefix
    house.begin()
    static, session = before.blocks
    moved = replace(before, blocks=((static[1], static[0], *static[2:]), session))
    house.decision = replace(house.decision, prefix=moved)
    own, stable = house.request()
    own[stable[0]] = make_cache_block("system", "".join(line.piece for line in moved.blocks[0]))
    house.send(own)
    blame = house.account.blame
    assert (blame.cause, blame.where) == (Cause.SECTION, "soul")
    assert blame.byte == find_byte(house, before.text)


def test_a_clock_behind_the_stable_sections():
    """9: a system part that shows the time, as some dialects do."""
    house = House()
    for minute in range(2):
        house.begin()
        own, stable = house.request()
        house.send([*own[: stable[-1] + 1], make_cache_block("system", f"It is 12:0{minute}."), *own[stable[-1] + 1 :]])
        house.answer()
        house.wait(60)
    blame = house.account.blame
    assert (blame.cause, blame.where) == (Cause.SECTION, "system")
    assert blame.byte == len(house.state.prefix.text.encode())


@pytest.mark.parametrize("name", ["tool_0", "tool_3"])
def test_another_tool(house, name):
    """10 and 11: a tool whose description changed."""
    before = sum(len(text.encode()) for each, text in house.tools.items() if each < name)
    house.tools[name] = "Does something else."
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.TOOLS, name, before)


def test_a_tool_more(house):
    """12: a new tool before others."""
    house.tools = {"lamp": "Turns on a lamp.", **house.tools}
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.TOOLS, "lamp", 0)


def test_tools_in_another_order(house):
    """13: the same tools in another order."""
    house.tools = dict(reversed(house.tools.items()))
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.TOOLS, "tool_5", 0)


def test_another_model(house):
    """14: another model, which has a separate cache."""
    house.become("anthropic:claude-opus-5")
    blame = provoke(house)
    assert blame.cause is Cause.MODEL
    assert blame.tokens > 3_000


def test_too_late(house):
    """15: an entry that has expired."""
    house.wait(4_000)
    blame = provoke(house)
    assert blame.cause is Cause.EXPIRED
    assert "min" in blame.reason


def test_too_short():
    """16: a request below the provider's minimum."""
    house = House(sections={"core": (Pace.STATIC, "Be kind.")}, tools={})
    house.talk()
    assert provoke(house).cause is Cause.MINIMUM


def test_too_many_blocks(house):
    """17: more blocks than the lookback, and no breakpoint in between."""
    house.answer(15)
    house.begin()
    own, _ = house.request()
    house.send(marks={len(own) - 1: "5m"})
    assert house.account.blame.cause is Cause.LOOKBACK


def test_all_marks_stand_elsewhere(house):
    """18: all four breakpoints are where they do not help."""
    house.answer(40)
    house.begin()
    own, _ = house.request()
    house.send(marks={len(own) - back: "5m" for back in (1, 2, 3, 4)})
    assert house.account.blame.cause is Cause.LIMIT


def test_a_rewritten_message(house):
    """19: an old message that differs from the sent one."""
    at = 4
    before = sum(len(block.text.encode()) for block in house.said[:at])
    house.begin()
    house.said[at] = make_cache_block(house.said[at].name, "Something else was said.")
    house.send()
    blame = house.account.blame
    assert (blame.cause, blame.where, blame.byte) == (Cause.HISTORY, house.said[at].name, before)


def test_a_history_that_lost_its_beginning(house):
    """20: a conversation whose beginning was left out."""
    house.said = house.said[6:]
    blame = provoke(house)
    assert (blame.cause, blame.byte) == (Cause.HISTORY, 0)


def test_a_tail_that_did_not_stay(house):
    """21: a tail that was taken out of an old message."""
    house.begin()
    del house.said[0]
    house.send()
    assert (house.account.blame.cause, house.account.blame.byte) == (Cause.HISTORY, 0)


@pytest.mark.parametrize("model", [SONNET, GPT, MARKED_GPT, LOCAL])
def test_the_provider_forgets(model):
    """22: the same prefix was sent in time, and the provider had dropped it."""
    house = settle(House(model=model))
    house.provider.clear()
    blame = provoke(house)
    assert blame.cause is Cause.PROVIDER
    assert blame.tokens > 1_000


@pytest.mark.parametrize("model", [GPT, MARKED_GPT, LOCAL])
@pytest.mark.parametrize("section", ["core", "menu"])
def test_other_providers(model, section):
    """An edited section is found by every kind of cache."""
    house = settle(House(model=model))
    before = house.state.prefix.text
    house.edit(section)
    rebase(house, section)
    blame = provoke(house)
    assert (blame.cause, blame.where, blame.byte) == (Cause.SECTION, section, find_byte(house, before))


OTHERS = [OPUS, GPT, MARKED_GPT, GEMINI, LOCAL]


@pytest.mark.parametrize("model", OTHERS)
def test_tools_at_other_providers(model):
    """A tool that changed is found by every kind of cache, where it begins or closer."""
    house = settle(House(model=model))
    before = sum(len(text.encode()) for name, text in house.tools.items() if name < "tool_3")
    house.tools["tool_3"] = house.tools["tool_3"].replace("line 15", "line fifteen")
    blame = provoke(house)
    assert (blame.cause, blame.where) == (Cause.TOOLS, "tool_3")
    assert before <= blame.byte <= before + house.tools["tool_3"].index("fifteen")


@pytest.mark.parametrize("model", OTHERS)
def test_history_at_other_providers(model):
    """A message that was rewritten is found by every kind of cache."""
    house = settle(House(model=model))
    house.talk(30)
    house.begin()
    before = sum(len(block.text.encode()) for block in house.said[:4])
    house.said[4] = make_cache_block(house.said[4].name, "Something else was said.")
    house.send()
    blame = house.account.blame
    assert (blame.cause, blame.where, blame.byte) == (Cause.HISTORY, house.said[4].name, before)


@pytest.mark.parametrize("model", OTHERS)
@pytest.mark.parametrize("cause", [Cause.EXPIRED, Cause.MODEL])
def test_nothing_left_at_other_providers(model, cause):
    """A pause that was too long, and another model, are found at every provider."""
    house = settle(House(model=model))
    if cause is Cause.MODEL:
        house.become(SONNET)
    else:
        house.wait(90_000)
    assert provoke(house).cause is cause


def test_only_the_first_cause(house):
    """Of two breaks the first is named: a change while the cache was cold cost nothing more."""
    house.edit("soul")
    house.wait(4_000)
    assert provoke(house).cause is Cause.EXPIRED


def test_counts_of_another_scale(house):
    """A provider whose tokens are smaller than estimated is not blamed for it."""
    house.begin()
    before = house.state
    house.send()
    reported = house.account.reported
    more = CacheUsage(**{name: int(getattr(reported, name) * 1.3) for name in ("read", "write", "fresh")})
    answered = AnsweredRequest(prefix=house.decision.prefix, sent=house.state.last, reported=more)
    assert account_for_call(before, answered, house.facts).blame is None


def test_what_is_written_for_an_hour_costs_more(house):
    """The rewrite after a break costs the price of the lifetime that the provider reports for it."""
    house.edit("soul")
    rebase(house, "soul")
    before = house.state
    house.begin()
    house.send()
    plain = replace(house.account.reported, hour=0)
    prices = find_prices(SONNET, {})
    for hour, paid in ((0, prices.cache_write), (plain.write, prices.cache_write_1h)):
        answered = AnsweredRequest(
            prefix=house.decision.prefix, sent=house.state.last, reported=replace(plain, hour=hour)
        )
        blame = account_for_call(before, answered, house.facts, prices).blame
        assert blame.usd == pytest.approx(blame.tokens * (paid - prices.cache_read))


def test_a_second_opinion(house):
    """A provider's own diagnosis is shown next to ours; an unknown name of a cause is no diagnosis."""
    house.edit("soul")
    rebase(house, "soul")
    blame = provoke(house)
    assert confirm_cause(blame, "system_changed").confirmed is True
    assert confirm_cause(blame, "tools_changed").confirmed is False
    assert confirm_cause(blame, "unavailable").confirmed is None


MODELS = [SONNET, OPUS, GPT, MARKED_GPT, GEMINI, LOCAL]


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
