"""Law 2: every slot that is eligible at a lower clearance is eligible at a higher one."""

from copy import deepcopy
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from world_turns import assemble, fitted, turns
from worlds import OWNER, worlds

from foreword.engine.selection import select_slots
from foreword.engine.sources.sections import Missing
from foreword.engine.trust import resolve_trust
from foreword.types import Trust

PAIRS = list(combinations(Trust, 2))
UNPLACED = ("template", "does not use it", "it has no text besides its variables")


def find_eligible(world, turn):
    """Return the clearance, the eligible slots of a turn, and the slots with text."""
    with world.opened() as workspace:
        complete = workspace.complete(turn, workspace.context)
        plan = select_slots(
            complete, resolve_trust(complete, workspace.config), workspace.config, workspace.blueprint(turn.blueprint)
        )
        allowed = {entry.id for run in plan.runs for entry in run.entries if entry.verdict is None}
        assembly = assemble(workspace, turn)
        return plan.clearance.level, allowed, find_told(assembly) if assembly else None


def find_told(assembly):
    """Return the ids of slots that have a text, including texts that the owner's template does not place.

    A template counts as having a text: the owner's template may replace ours and contain only variables.
    """
    entries = [entry for run in assembly.plan.runs for entry in run.entries]
    templates = {entry.id for entry in entries if entry.slot.source == "template" and entry.verdict is None}
    missing = [item for run in assembly.fit.runs for item in run.items if isinstance(item, Missing)]
    unplaced = {item.id for item in missing if any(one in item.reason for one in UNPLACED)}
    return {name_of(one.item) for one in fitted(assembly)} | unplaced | templates


def name_of(section):
    """Return the id of a section; the passages of one template share one id."""
    return section.entry.id if section.slot.source in ("template", "files") else section.id


def with_trust(world, user, trust):
    """Return the same world with another trust level for one user."""
    settings = deepcopy(dict(world.settings))
    settings["users"][user]["trust"] = str(trust)
    return replace(world, settings=settings)


@given(worlds(), turns(user=OWNER), st.sampled_from(PAIRS))
def test_a_higher_clearance_loses_no_slot(world, turn, levels):
    """A user with higher trust has every slot and every text of a lower trust level.

    Seen to fail when a slot was withheld unless its trust equalled the clearance.
    """
    low, high = (find_eligible(with_trust(world, OWNER, level), turn) for level in levels)
    assert low[0] <= high[0]
    assert low[1] <= high[1]
    assert low[2] is None or high[2] is None or low[2] <= high[2]
