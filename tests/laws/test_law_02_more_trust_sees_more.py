"""Law 2: whatever is eligible at a lower clearance is eligible at a higher one."""

from copy import deepcopy
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from world_turns import assemble, fitted, turns
from worlds import OWNER, worlds

from foreword.blueprint import select
from foreword.sources import Missing
from foreword.trust import resolve
from foreword.words import Trust

PAIRS = list(combinations(Trust, 2))
UNPLACED = ("template", "does not place it", "it has no words of its own")


def find_eligible(world, turn):
    """Return the slots that a turn may have, and those that really have a text, wherever a template puts it."""
    with world.opened() as workspace:
        complete = workspace.complete(turn, workspace.ground)
        plan = select(
            complete, resolve(complete, workspace.config), workspace.config, workspace.blueprint(turn.blueprint)
        )
        allowed = {entry.id for run in plan.runs for entry in run.entries if entry.verdict is None}
        assembly = assemble(workspace, turn)
        return plan.clearance.level, allowed, find_told(assembly) if assembly else None


def find_told(assembly):
    """Name the slots that have a text, and those whose text the owner's own template, which is read, does not place.

    A template itself counts as told: the owner's own may stand in the place of ours and hold nothing but variables.
    """
    entries = [entry for run in assembly.plan.runs for entry in run.entries]
    templates = {entry.id for entry in entries if entry.slot.source == "template" and entry.verdict is None}
    missing = [item for run in assembly.fit.runs for item in run.items if isinstance(item, Missing)]
    unplaced = {item.id for item in missing if any(one in item.reason for one in UNPLACED)}
    return {name_of(one.item) for one in fitted(assembly)} | unplaced | templates


def name_of(section):
    """Name a section; the passages of one template are one text."""
    return section.entry.id if section.slot.source in ("template", "files") else section.id


def with_trust(world, user, trust):
    """The same world, in which one person has another trust."""
    settings = deepcopy(dict(world.settings))
    settings["users"][user]["trust"] = str(trust)
    return replace(world, settings=settings)


@given(worlds(), turns(user=OWNER), st.sampled_from(PAIRS))
def test_a_higher_clearance_loses_no_slot(world, turn, levels):
    """A person who is trusted more may have every slot they had before, and every text.

    Seen to fail when `judge` withheld every slot whose trust was not exactly the clearance.
    """
    low, high = (find_eligible(with_trust(world, OWNER, level), turn) for level in levels)
    assert low[0] <= high[0]
    assert low[1] <= high[1]
    assert low[2] is None or high[2] is None or low[2] <= high[2]
