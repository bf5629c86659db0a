"""Law 5: nothing is dropped or cut in silence."""

from collections import Counter

from hypothesis import assume, given
from worlds import assemble, fitted, turns, worlds

from foreword.words import Mode, Trust, Verdict


def find_text(assembly, name):
    """Return the rendered text of a section."""
    return next(assembly.prompt.text[span.start : span.end] for span in assembly.prompt.spans if span.id == name)


@given(worlds(), turns())
def test_every_slot_has_one_verdict_and_a_reason(world, turn):
    """Every planned slot ends in exactly one verdict, and in a reason unless it was kept.

    Seen to fail when `read` skipped the entries that the plan had refused.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        planned = {entry.id for run in assembly.plan.runs for entry in run.entries}
        rows = list(assembly.rows(Trust.FULL))
        assert max(Counter(row.id for row in rows).values()) == 1
        covered = {name for row in rows for name in (row.id, row.id.partition(":")[0])}
        assert planned <= covered
        assert all(row.reason or str(row.verdict) == "kept" for row in rows)
        shown = {row.id for row in rows if row.span}
        assert {row.id for row in rows if str(row.verdict) in ("kept", "shortened")} <= shown
        assert not [row.id for row in rows if row.id in shown and str(row.verdict) in ("withheld", "absent", "indexed")]


@given(worlds(base="default"), turns())
def test_a_shortened_section_says_so(world, turn):
    """A shortened section carries its marker, one that was left out says so, and a kept one has its whole text.

    Seen to fail when `compose` left the marker out.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        for one in fitted(assembly):
            if one.verdict is Verdict.SHORTENED:
                assert "\n[shortened: lines " in find_text(assembly, one.item.id)
            elif one.verdict is Verdict.DROPPED:
                assert "\n[left out here: " in find_text(assembly, one.item.id)
            elif one.verdict is Verdict.KEPT:
                assert one.body == one.item.text


@given(worlds(base="default", system=900), turns(tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_an_indexed_section_is_on_the_menu(world, turn):
    """A section that is indexed stands on the menu, or behind the menu's own marker.

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
