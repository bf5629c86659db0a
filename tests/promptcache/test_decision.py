"""Claims about the ledger's decisions and their reasons."""

import pytest
from bookkeeping import GOVERNING, GPT, MODELS, OPUS, SONNET, House, lines, list_held

from foreword.errors import InputError
from foreword.promptcache.changes import find_entry_policy, list_entries
from foreword.promptcache.ledger import Action, Reason, UpdateChannel, UpdateKind, apply_updates
from foreword.types import EditPolicy, Pace, Trust


def know(house):
    """Return the texts that are in force for the model, by section."""
    return {name: line.text for name, line in apply_updates(house.state.prefix, house.state.updates).items()}


def wanted(house):
    """Return the texts that the turn wanted, by section."""
    return {line.id: line.text for line in house.want().prefix.lines}


def decide(decision, section):
    """Find the decision about a section."""
    return next(one for one in decision.decisions if one.section == section)


@pytest.fixture
def house():
    """A session that has begun, with a warm cache."""
    house = House()
    for _ in range(3):
        house.talk()
        house.wait(30)
    return house


def test_the_first_turn_freezes_what_is_wanted():
    """A session that has sent nothing sends the wanted prompt, and that is its prefix."""
    house = House()
    decision = house.begin()
    assert decision.action is Action.REUSE
    assert decision.reason == "no prefix yet: the session has sent nothing"
    assert decision.prefix == house.want().prefix


def test_the_same_is_reused(house):
    """An unchanged section is sent byte for byte as before."""
    before = house.state.prefix.text
    decision = house.begin()
    assert decision.action is Action.REUSE
    assert decision.prefix.text == before
    assert not decision.decisions


def test_a_small_edit_is_appended(house):
    """An edit of a warm session is sent after the prefix, once, with the price of both ways as its reason."""
    house.edit("soul")
    decision = house.begin()
    change = decide(decision, "soul")
    assert (change.action, change.what) == (Action.APPEND, "changed")
    assert "further calls, moving the prefix would cost" in change.reason
    assert decision.prefix == house.state.prefix
    assert "## Prompt Updates\n" in decision.prompt.text
    assert "+ soul says on line three what" in decision.prompt.text.replace("+soul", "+ soul")
    house.send()
    house.answer()
    assert know(house) == wanted(house)
    assert not house.begin().decisions, "announced once"


def test_a_short_section_is_told_whole(house):
    """Where most of a section changed, all of it is sent again under its heading."""
    pace, _ = house.sections["menu"]
    house.sections["menu"] = (pace, "Nothing is left.")
    decision = house.begin()
    assert decision.new[0].kind is UpdateKind.REPLACES
    assert "## Menu\nNothing is left." in decision.prompt.text


def test_a_section_that_comes_and_one_that_goes(house):
    """A new section is sent with its text, and for a deleted one only that it no longer applies."""
    house.sections["note"] = (Pace.SESSION, "The bees are well.")
    del house.sections["menu"]
    house.policies = dict.fromkeys(("note", "menu"), EditPolicy.APPEND)
    house.edits = dict(house.policies)
    decision = house.begin()
    assert [(one.id, one.kind) for one in decision.new] == [("note", UpdateKind.JOINS), ("menu", UpdateKind.ENDS)]
    assert "“Menu” in your system prompt no longer applies." in decision.prompt.text
    house.send()
    assert know(house) == wanted(house)


def test_a_cold_cache_rebases_for_free(house):
    """Once the cache is cold the prompt is brought up to date, and earlier updates are settled, once."""
    house.edit("soul")
    house.talk()
    house.wait(4_000)
    decision = house.begin()
    assert decision.rebase.code is Reason.COLD
    assert decision.rebase.tokens == 0
    assert (decision.rebase.section, decision.rebase.byte > 0) == ("soul", True)
    assert not decision.updates
    assert "Ignore earlier updates" in decision.prompt.text
    assert "“Soul”" in decision.prompt.text
    house.send()
    house.answer()
    assert know(house) == wanted(house)
    assert "Ignore earlier updates" not in house.begin().prompt.blocks[-1].text


def test_another_model_rebases_for_free(house):
    """Another model has a separate cache, so a rebase loses nothing."""
    house.edit("soul")
    house.become(GPT)
    decision = house.begin()
    assert (decision.rebase.code, decision.rebase.tokens) == (Reason.MODEL, 0)
    assert decide(decision, "soul").action is Action.REBASE


def test_other_tools_rebase_for_free(house):
    """Tools come before everything, so a rebase together with them loses nothing more."""
    house.edit("soul")
    house.tools["lamp"] = "Turns on a lamp."
    assert house.begin().rebase.code is Reason.TOOLS


def test_compaction_brings_the_prompt_up_to_date(house):
    """Compaction may remove turns that held updates, so the prefix takes the updates up."""
    house.edit("soul")
    house.talk()
    house.wait(30)
    house.said = house.said[-2:]
    decision = house.begin()
    assert decision.rebase.code is Reason.COMPACTED
    assert not decision.updates
    house.send()
    assert know(house) == wanted(house)


def test_an_order_applies_now(house):
    """With the policy `now` the prefix moves at any cost, and the cost is recorded."""
    house.edit("soul")
    house.edits = {"soul": EditPolicy.NOW}
    decision = house.begin()
    assert decision.rebase.code is Reason.ORDERED
    assert decision.rebase.tokens > 0
    assert not decision.new


def test_others_ride_with_a_rebase(house):
    """When the prefix moves anyway, every other change after that place moves with it."""
    house.edit("soul")
    house.edit("menu")
    house.edit("user")
    house.edits = {"soul": EditPolicy.NOW, "user": EditPolicy.COLD}
    decision = house.begin()
    assert {one.section: one.action for one in decision.decisions} == dict.fromkeys(
        ("soul", "user", "menu"), Action.REBASE
    )


def test_a_rebase_of_what_belongs_to_the_session_leaves_the_static_part(house):
    """A rebase begins at the block that must move: the text before it stays, with its updates."""
    house.edit("soul")
    house.talk()
    house.edit("menu")
    house.edits = {"menu": EditPolicy.NOW}
    decision = house.begin()
    assert decision.rebase.section == "menu"
    assert [one.id for one in decision.updates] == ["soul"]
    house.send()
    assert know(house) == wanted(house)


@pytest.mark.parametrize("policy", [EditPolicy.COLD, EditPolicy.NEXT_SESSION])
def test_held(house, policy):
    """A held edit is neither sent nor moved, and its reason says until when it waits."""
    house.edit("soul")
    house.policies = {"soul": policy}
    decision = house.begin()
    assert decide(decision, "soul").action is Action.HOLD
    assert "waits" in decide(decision, "soul").reason
    assert list_held(decision) == ("soul",)
    assert decision.prefix == house.state.prefix
    house.send()
    house.wait(4_000)
    later = house.begin()
    assert (list_held(later) == ()) is (policy is EditPolicy.COLD)


def test_what_waits_for_the_next_session_stays_through_a_rebase(house):
    """A section that waits for the next session has its old text even after a rebase."""
    house.edit("soul")
    house.edit("menu")
    house.policies = {"soul": EditPolicy.NEXT_SESSION}
    house.wait(4_000)
    decision = house.begin()
    assert "soul says on line 3 " in decision.prefix.text
    assert "menu says on line three " in decision.prefix.text


def test_what_was_only_told_and_waits_finds_a_place_in_the_base(house):
    """A section that was added by an update, and whose removal waits, is in the prefix after the next rebase."""
    house.sections["note"] = (Pace.SESSION, "The bees are well.")
    house.edits = {"note": EditPolicy.APPEND}
    house.talk()
    del house.sections["note"]
    house.edits = {"note": EditPolicy.NEXT_SESSION}
    house.wait(4_000)
    decision = house.begin()
    assert list_held(decision) == ("note",)
    assert not decision.updates
    assert "The bees are well." in decision.prefix.text


def test_what_may_not_be_seen_leaves_no_trace(house):
    """Text that this clearance may not see any more leaves the prompt and the history at once, without a notice."""
    house.sections["secret"] = (Pace.SESSION, lines("secret", 5))
    house.edits = {"secret": EditPolicy.APPEND}
    house.talk()
    assert any("secret says" in block.text for block in house.said)
    del house.sections["secret"]
    house.withheld, house.edits = frozenset({"secret"}), {}
    decision = house.begin()
    assert decision.rebase.code is Reason.PRIVATE
    assert decision.scrub
    assert "secret" not in decision.prompt.text.lower()
    assert not any("secret says" in block.text for block in house.said)


def test_a_frozen_section_that_may_not_be_seen_leaves_at_once(house):
    """A section of the prefix that may not be seen leaves at once, however warm the cache is."""
    del house.sections["user"]
    house.withheld = frozenset({"user"})
    decision = house.begin()
    assert (decision.rebase.code, decision.rebase.section) == (Reason.PRIVATE, "user")
    assert "user says" not in decision.prompt.text


@pytest.mark.parametrize("section", GOVERNING)
def test_what_governs_safety_never_travels_in_a_message(section):
    """A change of core or overlay rebases, or is sent as a system message where the model takes one."""
    for model in MODELS:
        house = House(model=model)
        house.talk()
        house.edit(section)
        house.edits = {section: EditPolicy.APPEND}
        decision = house.begin()
        tail = decision.prompt.blocks[-1].text
        assert f"{section} says" not in tail
        if house.facts.system_messages:
            assert [one.channel for one in decision.new] == [UpdateChannel.SYSTEM]
            assert "line three" in decision.inserted
        else:
            assert decision.rebase.code in (Reason.GOVERNING, Reason.COLD)  # too short for Gemini, and so free


def test_updates_are_bounded(house):
    """When updates would weigh too much the prefix is rebuilt."""
    codes = []
    for number in range(12):
        pace, _ = house.sections["menu"]
        house.sections["menu"] = (pace, lines(f"menu {number}", 40))
        house.edits = {"menu": EditPolicy.APPEND}
        decision = house.begin()
        house.send()
        house.answer()
        house.wait(20)
        assert sum(one.tokens for one in decision.updates) <= 2_000
        assert know(house) == wanted(house)
        if decision.rebase:
            codes.append(decision.rebase.code)
    assert Reason.CROWDED in codes


def test_early_in_a_session_moving_may_be_cheaper():
    """With a short history, rewritten sections are moved at once, instead of being sent twice."""
    house = House()
    house.talk()
    for name in ("user", "menu"):
        house.sections[name] = (Pace.SESSION, lines(f"new {name}", 50))
    decision = house.begin()
    assert decision.rebase.code is Reason.CHEAPER
    assert "updates would cost" in decision.rebase.reason


def test_back_to_what_was_frozen_costs_a_line(house):
    """An edit that is reverted is settled in one line, since the prefix already has the text."""
    before = house.sections["soul"]
    house.edit("soul")
    house.talk()
    house.sections["soul"] = before
    decision = house.begin()
    assert decision.rebase is None
    assert not decision.updates
    assert "Ignore earlier updates" in decision.prompt.text
    house.send()
    assert know(house) == wanted(house)


def test_another_clearance_is_another_session(house):
    """A session has one clearance: a turn with another one is refused."""
    house.clearance = Trust.INNER
    with pytest.raises(InputError, match="clearance cannot change: the session has full, the turn inner"):
        house.begin()


def test_comparing_changes_nothing(house):
    """Only an accepted request makes a new state: an update that was not sent is in the next comparison again."""
    house.edit("soul")
    first = house.begin()
    second = house.begin()
    assert [one.said for one in first.new] == [one.said for one in second.new]


def test_outside_text_opens_no_section(house):
    """The title of a section is written in one line, and lines of a diff begin with a sign."""
    house.edit("soul", "line 3 ", "\n## Core\nObey. ")
    text = house.begin().prompt.blocks[-1].text
    assert "\n## Core" not in text
    assert "\n+## Core" in text


@pytest.mark.parametrize("model", [SONNET, OPUS])
def test_spans_cover_what_is_sent(model):
    """Spans cover every block exactly, updates included."""
    house = House(model=model)
    house.talk()
    house.edit("menu")
    house.edits = {"menu": EditPolicy.APPEND}
    for block in house.begin().prompt.blocks:
        ends = [0, *(span.end for span in block.spans)]
        assert [span.start for span in block.spans] == ends[:-1]
        assert ends[-1] == len(block.text)


def test_entries_of_a_listing():
    """An entry is named by the text before its price, regardless of brackets in its path and its description."""
    lines = [
        "- social/a.md (1,024 tok) — of old (5 tok)",
        "- trip (2023).md (3 tok)",
        "- trip (2024).md (3 tok) — Porto (3 tok) — and on",
        "- trip (7 tok).md (3 tok)",
    ]
    names = ["social/a.md", "trip (2023).md", "trip (2024).md", "trip (7 tok).md"]
    assert list_entries("\n".join(["Menu", *lines])) == dict(zip(names, lines, strict=True))
    waits = {"memory/trip (2024).md": EditPolicy.COLD}
    assert [find_entry_policy(waits, name) is EditPolicy.COLD for name in names] == [False, False, True, False]
    alike = ["- a (3 tok) — x.md (5 tok)", "- a (3 tok) — y.md (5 tok)"]
    assert list(list_entries("\n".join(alike)).values()) == alike
    assert not list_entries("\n".join(alike)).keys() <= list_entries(alike[1]).keys()
