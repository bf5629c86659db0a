"""The law of paces: a source sees only what its pace may depend on."""

from contextlib import contextmanager
from dataclasses import fields, replace

from hypothesis import assume, given
from world_turns import assemble, fitted, turns
from worlds import PEOPLE, worlds

from foreword.budget import Fitted
from foreword.sources import SOURCES, SessionView, StaticView, TurnView
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.words import Mode, Pace

OF_SESSIONS = {field.name for field in fields(SessionView)} - {field.name for field in fields(StaticView)}
OF_TURNS = {field.name for field in fields(TurnView)} - {field.name for field in fields(SessionView)}


@contextmanager
def spying():
    """Note every view that a source is handed, and give the sources back as they were."""
    views, before = [], dict(SOURCES)

    def spy(source):
        def fill(view, entry):
            views.append((entry.slot.pace, view))
            return source.fill(view, entry)

        return replace(source, fill=fill)

    SOURCES.update({name: spy(source) for name, source in before.items()})
    try:
        yield views
    finally:
        SOURCES.update(before)


@given(worlds(), turns())
def test_a_view_has_nothing_faster_than_its_pace(world, turn):
    """A static source is handed nothing of session or turn, and a session source nothing of the turn.

    Seen to fail when `read` filled every run from the view of the turn and `narrow` let it pass.
    """
    assert {"user", "channel", "room", "situation", "session", "instructions"} <= OF_SESSIONS
    assert {"now", "message", "task", "plan", "background", "git", "remaining", "signal", "state"} <= OF_TURNS
    with world.opened() as workspace, spying() as views:
        assume(assemble(workspace, turn) is not None)
        for pace, view in views:
            hidden = OF_SESSIONS | OF_TURNS if pace is Pace.STATIC else OF_TURNS if pace is Pace.SESSION else set()
            assert not [name for name in hidden if hasattr(view, name)]


@given(worlds(), turns(mode=Mode.FULL))
def test_a_section_stands_in_no_block_that_is_slower(world, turn):
    """What a template names is in a block of its own pace or a faster one, and inside a template no pace slows down.

    Seen to fail when `expand` gave every piece the pace of its template.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        inside = Pace.STATIC
        for run in assembly.fit.runs:
            for section in (one.item for one in run.items if isinstance(one, Fitted)):
                assert run.pace >= section.slot.pace, section.id
                assert section.opens or run.pace >= inside, section.id
                inside = run.pace
        paces = {span.id: block.pace for block in assembly.prompt.blocks for span in block.spans}
        assert all(paces[one.item.id] >= one.item.slot.pace for one in fitted(assembly) if one.item.id in paces)


@given(worlds(), turns())
def test_the_static_block_is_the_same_for_everybody_at_one_clearance(world, turn):
    """Agent, model, clearance, mode and tools decide the static block; who speaks, and where, does not.

    Seen to fail when `find_room` left to static slots what the session slots did not want.
    """
    with world.opened() as workspace:
        first = assemble(workspace, turn)
        assume(first is not None)
        mine = [block.text for block in first.prompt.blocks if block.pace is Pace.STATIC]
        for user in PEOPLE:
            for channel, instructions in (("web", ""), ("telegram", "Be brief. " * 200)):
                other = assemble(workspace, replace(turn, user=user, channel=channel, instructions=instructions))
                if other and other.clearance.level == first.clearance.level:
                    assert [block.text for block in other.prompt.blocks if block.pace is Pace.STATIC] == mine


def test_a_slow_source_in_a_fast_slot_sees_no_more(tmp_path):
    """A source is handed a view of its own pace, however fast the slot is that it fills.

    Seen to fail when `narrow` handed on the view of the slot.
    """
    blueprint = (
        "name: mine\nmarker: x\nmarker_without_call: x\n"
        "slots:\n  - {id: a, source: file, file: A.md, pace: turn, trust: public}\n"
        "  - {id: b, source: channel, pace: turn, trust: public}\n"
    )
    workspace = make_workspace(tmp_path, {"A.md": "text", "blueprints/mine.yaml": blueprint})
    with spying() as views:
        workspace.assemble(Turn(user="alice", situation="dm", blueprint="mine"))
    assert [type(view) for _, view in views] == [StaticView, SessionView]
