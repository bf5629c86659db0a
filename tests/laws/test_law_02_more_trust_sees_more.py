"""Law 2: whatever is eligible at a lower clearance is eligible at a higher one."""

from copy import deepcopy
from dataclasses import replace

from hypothesis import given
from worlds import OWNER, TRUSTS, assemble, fitted, turns, worlds

from foreword.blueprint import select
from foreword.trust import resolve


def find_eligible(world, turn):
    """Return the slots that a turn may have, and those that really have a text."""
    with world.opened() as workspace:
        complete = workspace.complete(turn, workspace.ground)
        plan = select(
            complete, resolve(complete, workspace.config), workspace.config, workspace.blueprint(turn.blueprint)
        )
        allowed = {entry.id for run in plan.runs for entry in run.entries if entry.verdict is None}
        assembly = assemble(workspace, turn)
        told = {one.item.id for one in fitted(assembly)} if assembly else None
        return plan.clearance.level, allowed, told


def with_trust(world, user, trust):
    """The same world, in which one person has another trust."""
    settings = deepcopy(dict(world.settings))
    settings["users"][user]["trust"] = str(trust)
    return replace(world, settings=settings)


@given(worlds(), turns(user=OWNER), TRUSTS, TRUSTS)
def test_a_higher_clearance_loses_no_slot(world, turn, one, other):
    """A person who is trusted more may have every slot they had before, and every text.

    Seen to fail when `judge` withheld every slot whose trust was not exactly the clearance.
    """
    lower, higher = sorted((one, other))
    low = find_eligible(with_trust(world, OWNER, lower), turn)
    high = find_eligible(with_trust(world, OWNER, higher), turn)
    assert low[0] <= high[0]
    assert low[1] <= high[1]
    assert low[2] is None or high[2] is None or low[2] <= high[2]
