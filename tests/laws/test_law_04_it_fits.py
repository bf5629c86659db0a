"""Law 4: the prompt fits its budget, or assembly fails with the arithmetic."""

import re

from hypothesis import given
from worlds import see, turns, worlds

from foreword.errors import BudgetError
from foreword.words import Mode, Pace

SUM = re.compile(r"does not fit: (.*?) = ([\d,]+) tokens, and .*? has ([\d,]+); ([\d,]+) are missing")


@given(worlds(), turns())
def test_the_prompt_fits_or_the_sum_is_shown(world, turn):
    """Static and session sections and tool schemas fit the system budget, turn sections theirs, or the sum is shown.

    Seen to fail when `Layout.weigh` forgot the heading of a section.
    """
    with world.opened() as workspace:
        blueprint = workspace.blueprint(turn.blueprint)
        try:
            assembly = workspace.assemble(turn)
        except BudgetError as error:
            check_arithmetic(str(error))
            return
        meter = assembly.terms.meter
        limit = blueprint.budget.limit(meter.facts.window)
        schemas = sum(meter.count(tool.schema) for tool in assembly.terms.tools.tools)
        stable = [block for block in assembly.prompt.blocks if block.pace is not Pace.TURN]
        passing = [block for block in assembly.prompt.blocks if block.pace is Pace.TURN]
        assert schemas + sum(meter.count(block.text) for block in stable) <= limit
        assert schemas + sum(span.tokens for block in stable for span in block.spans) <= limit
        assert sum(span.tokens for block in passing for span in block.spans) <= blueprint.budget.turn
        assert meter.count(assembly.prompt.text) <= sum(span.tokens for span in assembly.prompt.spans)
        assert assembly.system_tokens <= assembly.fit.limit == limit


@given(worlds(base="default", system=700), turns(tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_the_sum_names_the_slots(world, turn):
    """A prompt that does not fit the system budget names every required slot in its sum.

    Seen to fail while the sum spoke of static slots together.
    """
    with world.opened() as workspace:
        required = [slot.id for slot in workspace.blueprint(turn.blueprint).slots if slot.required]
        error = see(workspace, turn).get("error", "")
        if "system budget" in error:
            assert all(re.search(rf"\b{name} \d", error) for name in required)


def check_arithmetic(message):
    """See that an error names what does not fit, and that its numbers add up."""
    terms, total, room, missing = SUM.search(message).groups()
    parts = [int(number.replace(",", "")) for number in re.findall(r" ([\d,]+)(?= \+|$)", terms)]
    total, room, missing = (int(number.replace(",", "")) for number in (total, room, missing))
    assert sum(parts) == total
    assert total - room == missing > 0
