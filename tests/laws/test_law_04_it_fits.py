"""Law 4: the prompt fits its budget, or assembly fails with the arithmetic."""

import re

from hypothesis import given
from worlds import turns, worlds

from foreword.errors import BudgetError
from foreword.words import Pace


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
            check_arithmetic(str(error), blueprint)
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


def check_arithmetic(message, blueprint):
    """See that an error names the slots and that its numbers add up."""
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", message)]
    if message.startswith("the conversation does not fit"):
        assert sum(numbers[:4]) == numbers[4]
        assert numbers[4] - numbers[5] == numbers[6]
        return
    for slot in blueprint.slots:
        assert not slot.required or re.search(rf"\b{slot.id} \d", message)
    needed, parts = re.search(r"need ([\d,]+) tokens \((.*?)\)", message).groups()
    assert int(needed.replace(",", "")) == sum(
        int(part.rpartition(" ")[2].replace(",", "")) for part in parts.split(" + ") if part != "nothing"
    )
    left, missing = re.search(r"and ([\d,]+) are left.*?; ([\d,]+) are missing", message).groups()
    assert numbers[0] - int(left.replace(",", "")) <= int(missing.replace(",", ""))
