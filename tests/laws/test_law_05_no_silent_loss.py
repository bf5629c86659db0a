"""Law 5: nothing is dropped or cut silently."""

from collections import Counter

import pytest
from hypothesis import assume, given
from world_turns import assemble, fitted, turns
from worlds import OWNER, worlds

from foreword.errors import ConfigError
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Mode, Trust, Verdict


def find_text(assembly, name):
    """Return the rendered text of a section, or an empty string if it has none."""
    spans = {span.id: span for span in assembly.prompt.spans}
    return assembly.prompt.text[spans[name].start : spans[name].end] if name in spans else ""


@given(worlds(), turns())
def test_every_slot_has_one_verdict_and_a_reason(world, turn):
    """In every dialect a planned slot has exactly one verdict, and a reason unless it was included whole.

    Seen to fail when entries that the plan had refused were skipped.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        planned = {entry.id for run in assembly.plan.runs for entry in run.entries}
        rows = list(assembly.rows(Trust.FULL))
        assert max(Counter(row.id for row in rows).values()) == 1
        covered = {name for row in rows for name in (row.id, row.id.partition(":")[0])}
        assert planned <= covered
        assert all(row.reason or row.verdict is Verdict.KEPT for row in rows)
        shown = {row.id for row in rows if row.span}
        assert {row.id for row in rows if row.verdict in (Verdict.KEPT, Verdict.SHORTENED)} <= shown
        hidden = (Verdict.WITHHELD, Verdict.ABSENT, Verdict.INDEXED)
        assert not [row.id for row in rows if row.id in shown and row.verdict in hidden]


@given(worlds(), turns())
def test_what_is_not_whole_was_not_kept(world, turn):
    """In every dialect an included text is whole, and each text of a multi-text slot has a separate verdict.

    Seen to fail when a cut text was marked as whole, and while the slots of a failed template were lost.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        for one in fitted(assembly):
            assert one.verdict is not Verdict.KEPT or one.body == one.item.text
        slots = {slot.id for slot in assembly.plan.blueprint.slots if assembly.plan.mode in slot.modes}
        rows = {row.id for row in assembly.rows(Trust.FULL)}
        if "rules" in slots and assembly.clearance.level >= Trust.FAMILIAR:
            rules = [file.path.partition("/")[2] for file in world.planted if file.path.startswith("rules/")]
            assert {f"rules:{name}" for name in rules} <= rows
        if "extensions" in slots:
            mine = [one for one in turn.extensions if one.trust <= assembly.clearance.level]
            assert len([name for name in rows if name.startswith("extensions:")]) == len(mine)


def test_two_titles_that_read_alike_are_refused(tmp_path):
    """Two responsibilities cannot have the same name.

    Seen to fail while the configuration compared titles before collapsing their white space.
    """
    twins = "[{title: Twin bed, content: a}, {title: 'Twin  bed', content: b}]"
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nagents: {{reid: {{responsibilities: {twins}}}}}\n"
    with pytest.raises(ConfigError, match="repeats the responsibility 'Twin bed'"):
        make_workspace(tmp_path, {"foreword.yaml": config})


@pytest.mark.parametrize("base", ["default", "osa"])
@pytest.mark.parametrize("template", ["{{ nope }} words", "{{ RULES }}\nwords {{ nope }}", "{{ RULES }}{{ nope }}"])
def test_a_name_that_nothing_fills_in_is_mentioned(tmp_path, base, template):
    """The verdict of a template names its undefined variables, wherever the template's text begins.

    Seen to fail while only the opening of a template carried its problems.
    """
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nagents: {{reid: {{blueprint: {base}}}}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, "SYSTEM.md": template, "rules/a.md": "Be kind."})
    rows = workspace.assemble(Turn(user="alice", situation="dm")).rows()
    assert "unknown variables are left out: nope" in {row.id: row.reason for row in rows}["system"]


@given(worlds(strict=True), turns())
def test_a_shortened_section_says_so(world, turn):
    """A shortened section carries its marker and an omitted section its stub, in any strict blueprint.

    Seen to fail when the marker was left out.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        for one in fitted(assembly):
            if one.verdict is Verdict.SHORTENED:
                assert "\n[shortened: lines " in f"\n{find_text(assembly, one.item.id)}", one.item.id
            elif one.verdict is Verdict.DROPPED:
                output = find_text(assembly, one.item.id)
                assert "[left out here: " in output or (one.item.lost and one.body == one.item.text), one


@given(worlds(base="default", system=1_800), turns(user=OWNER, tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_an_indexed_section_is_on_the_menu(world, turn):
    """An indexed section is on the menu or is covered by the menu's marker.

    Seen to fail while a menu that did not fit its share was dropped.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        menu = next((one for one in fitted(assembly) if one.item.slot.source == "menu"), None)
        for one in fitted(assembly):
            if one.verdict is Verdict.INDEXED:
                assert menu is not None
                assert menu.body is not None, f"{one.item.id} is on no menu"
                assert f"\n- {one.item.path} (" in f"\n{menu.item.text}"
