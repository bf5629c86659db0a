"""Laws 8 and 9: turn data does not change the cached prefix."""

from dataclasses import replace
from itertools import takewhile

from hypothesis import assume, given
from hypothesis import strategies as st
from world_turns import assemble, fitted, passing, see, stable, turns
from worlds import open_at, worlds

from foreword.engine.cuts import Fitted
from foreword.turn import Message, Step, Task
from foreword.types import Pace

HUGE = Task(
    id="9",
    title="Everything at once",
    description="and more of it, " * 2_000,
    steps=tuple(Step(text=f"step {number}, with a few words") for number in range(500)),
)


def judge(assembly):
    """Return the verdict of every section with a pace slower than turn."""
    return [
        (one.item.id, one.verdict, one.reason, one.body)
        for one in fitted(assembly)
        if one.item.slot.pace is not Pace.TURN
    ]


@given(worlds(base="default"), turns(), passing())
def test_what_only_a_turn_depends_on_moves_no_cached_byte(world, turn, later):
    """Another clock, message, history, task, plan, run or repository changes no byte of the static and session part.

    Seen to fail when the session view had the clock in its channel name.
    """
    with world.opened() as workspace:
        one = assemble(workspace, turn)
        # A separate workspace, because the caches of the first one could hide a difference.
        other = assemble(open_at(workspace.files.root), replace(turn, **later))
        assume(one is not None and other is not None)
        assert stable(one) == stable(other)
        first, second = (made.envelope("anthropic").request for made in (one, other))
        assert first.get("system") == second.get("system")
        assert first.get("tools") == second.get("tools")


@given(worlds(), turns(), passing())
def test_the_leading_part_of_every_dialect_stays(world, turn, later):
    """In every dialect, turn data changes no byte before the first section of a turn.

    Seen to fail when template expansion gave the passages after a session slot the pace of their template.
    """
    with world.opened() as workspace:
        one = assemble(workspace, turn)
        other = assemble(open_at(workspace.files.root), replace(turn, **later))
        assume(one is not None and other is not None)
        assert lead(one) == lead(other)
        assert stable(one) == stable(other)
        assert one.envelope("openai").request.get("tools") == other.envelope("openai").request.get("tools")


def lead(assembly):
    """Return the text before the first run that may change with a turn, section by section."""
    runs = takewhile(lambda run: run.pace is not Pace.TURN, assembly.fit.runs)
    leading = {one.item.id for run in runs for one in run.items if isinstance(one, Fitted)}
    spans = takewhile(lambda span: span.id in leading, assembly.prompt.spans)
    return [(span.id, assembly.prompt.text[span.start : span.end]) for span in spans]


@given(worlds(), turns(), st.integers(0, 60))
def test_pressure_of_a_turn_evicts_nothing(world, turn, said):
    """A huge task and a long history change no verdict of a static or session section, or raise a BudgetError.

    Seen to fail when the conversation was subtracted from the system budget.
    """
    history = tuple(Message(role="user", text="a long story, told again " * 60) for _ in range(said))
    state = replace(turn.state, workflow="and on it goes, " * 500, tasks=(HUGE,) * 9)
    pressed = replace(turn, task=HUGE, state=state, history=history, plan=True, message="and one more thing " * 40)
    with world.opened() as workspace:
        calm = assemble(workspace, turn)
        assume(calm is not None)
        busy = see(open_at(workspace.files.root), pressed)
        if "error" in busy:
            assert "the system budget" not in busy["error"]
            return
        busy = open_at(workspace.files.root).assemble(pressed)
        assert judge(calm) == judge(busy)
        assert stable(calm) == stable(busy)
