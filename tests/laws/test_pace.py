"""The law of paces: a source sees only the data that its pace may depend on."""

from contextlib import contextmanager
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from world_turns import assemble, fitted, turns
from worlds import PEOPLE, worlds

from foreword.engine.context import SessionView, StaticView, TurnView
from foreword.engine.cuts import Fitted
from foreword.engine.sources.sections import SOURCES
from foreword.testing import make_workspace
from foreword.turn import Extension, Turn
from foreword.types import Mode, Pace, Trust

OF_SESSIONS = {field.name for field in fields(SessionView)} - {field.name for field in fields(StaticView)}
OF_TURNS = {field.name for field in fields(TurnView)} - {field.name for field in fields(SessionView)}


@contextmanager
def spying():
    """Record every view that a source receives, and restore the sources afterwards."""
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
    """A static source receives no session or turn data, and a session source receives no turn data.

    Seen to fail when every source received the view of the turn.
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
    """A section in a template is in a block of its pace or a faster one, and paces never slow down in a template.

    Seen to fail when every block had the pace of its template.
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
    """Agent, model, clearance, mode and tools decide the static block; speaker and place do not.

    Seen to fail when static slots got the budget that the session slots left unused.
    """
    with world.opened() as workspace:
        first = assemble(workspace, turn)
        assume(first is not None)
        mine = list_static(first)
        for user in PEOPLE:
            for channel, instructions in (("web", ""), ("telegram", "Be brief. " * 200)):
                other = assemble(workspace, replace(turn, user=user, channel=channel, instructions=instructions))
                if other and other.clearance.level == first.clearance.level:
                    assert list_static(other) == mine


def list_static(assembly):
    """Return the static blocks without leading separators, which may belong to a person's text before them."""
    blocks = [block.text for block in assembly.prompt.blocks if block.pace is Pace.STATIC]
    return [*blocks[:1], *map(str.lstrip, blocks[1:])]


def test_a_slow_source_in_a_fast_slot_sees_no_more(tmp_path):
    """A source receives a view of its pace, however fast its slot is.

    Seen to fail when a source received the view of its slot.
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


TEMPLATES = (
    "{{ USER_PROFILE }}",
    "Before.\n{{ USER_PROFILE }}\nAfter.",
    "Before.\n{% if USER_PROFILE %}You know them.{% else %}You do not know them.{% endif %}\nAfter.",
    "{{ RULES }} {{ USER_PROFILE }} {{ RULES }}",
    "{{ RULES }}{{ USER_PROFILE }}",
    "Before, {{ USER_PROFILE|length }} known.\n{{ RULES }}",
    "{% for one in USER_PROFILE %}{{ one }}{% endfor %}{{ extensions }}",
)


@pytest.mark.parametrize("base", ["default", "osa"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_static_up_to_what_a_person_can_move(tmp_path, base, template):
    """The existence and content of a user's profile change no static byte of a template that uses it.

    Seen to fail while a passage had the pace of its template if the profile was missing.
    """
    config = "owner: alice\nusers: {alice: {trust: inner}, bob: {trust: inner}, carol: {trust: inner}}\n"
    config += f"agents: {{reid: {{blueprint: {base}}}}}\n"
    profiles = {"users/bob/USER.md": "Bob, who is tall.", "users/carol/USER.md": "Carol.\n" * 50}
    files = {"foreword.yaml": config, "SYSTEM.md": template, "rules/a.md": "Be kind.", **profiles}
    workspace = make_workspace(tmp_path, files)
    extensions = (Extension(name="a", instructions="Read first.", trust=Trust.PUBLIC),)
    blocks = []
    for user in PEOPLE:
        assembly = workspace.assemble(Turn(user=user, situation="dm", extensions=extensions))
        blocks.append(list_static(assembly))
    assert blocks[0] == blocks[1] == blocks[2]
