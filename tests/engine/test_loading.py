"""Claims about blueprint files."""

import pytest

from foreword.engine.blueprint import (
    Blueprint,
    Budget,
    CutStyle,
    MenuListing,
    Rendering,
    SharingOrder,
    TurnRoomKind,
    Voice,
)
from foreword.engine.blueprint_file import load_blueprint
from foreword.errors import ConfigError
from foreword.resources import list_blueprints, read_blueprint
from foreword.types import Mode, Pace, Placement, Trust

HEAD = 'name: mine\nmarker: "[cut {call}]"\nmarker_without_call: "[cut]"\n'
SLOT = "slots: [{id: soul, source: file, pace: static}]\n"


def read(text: str) -> Blueprint:
    """Load a blueprint."""
    return load_blueprint(text, "blueprints/mine.yaml")


def list_faults(text: str) -> list[str]:
    """List the faults of a blueprint that has some."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(fault) for fault in caught.value.faults]


def test_smallest() -> None:
    """A name, two markers and a slot are enough; the defaults are the careful choices."""
    blueprint = read(HEAD + SLOT)
    slot = blueprint.slots[0]
    assert (blueprint.rendering, blueprint.strict, blueprint.budget) == (Rendering.MARKDOWN, False, Budget())
    assert (slot.trust, slot.modes, slot.placement) == (Trust.FULL, (Mode.FULL,), Placement.SYSTEM)
    assert (slot.cut, slot.listed, slot.voice, slot.required) == (CutStyle.HEAD, MenuListing.NEVER, Voice.OWNER, False)
    assert (slot.form, slot.when, slot.variable, slot.group, slot.item) == ("", (), "", "", "")
    assert (slot.limit, slot.limit_all, blueprint.separator, blueprint.notice) == (0, 0, "\n\n", "")
    assert (blueprint.budget.fitting, blueprint.budget.turn_room) == (SharingOrder.FAIR, TurnRoomKind.FIXED)


@pytest.mark.parametrize("name", list_blueprints())
def test_shipped(name: str) -> None:
    """Every shipped blueprint loads, under its own name."""
    assert read(read_blueprint(name) or "").name == name


@pytest.mark.parametrize(
    ("slots", "fault"),
    [
        ("{id: a, source: file, pace: static}, {id: a, source: file, pace: static}", "slot 'a' is defined twice"),
        ("{id: a, source: fil, pace: static}", "slot 'a' has the unknown source 'fil'; did you mean 'file'?"),
        (
            "{id: a, source: moment, form: '{time}', pace: static}",
            "slot 'a' is static, but its source 'moment' depends on what changes with the turn; make it turn",
        ),
        ("{id: a, source: moment, form: '{time}', pace: session}", "is session, but its source 'moment' depends on"),
        ("{id: a, source: place, form: '{os}', pace: static}", "its source 'place' depends on what changes with the"),
        (
            "{id: a, source: profile, form: '{name}', pace: static}",
            "depends on what changes with the session; make it session",
        ),
        *(
            (f"{{id: a, source: {name}, pace: turn}}", f"slot 'a' needs a form for the source '{name}' to fill in")
            for name in ("about", "place", "moment", "identity", "profile")
        ),
        ("{id: a, source: file, pace: static, tier: hihg}", "unknown tier 'hihg'"),
        ("{id: a, source: file, pace: session, placement: tail}", "is in the tail, which holds only turn slots"),
        (
            "{id: a, source: file, pace: static, file: 'x/{user}.md'}",
            "slot 'a' is static, but depends on the user or the situation",
        ),
        (
            "{id: a, source: folder, pace: static, folder: 'g/{group}'}",
            "is static, but depends on the user or the situation",
        ),
        (
            "{id: a, source: text, pace: static, text: '{family}'}",
            "is static, but depends on the user or the situation",
        ),
        ("{id: a, source: file, pace: static, per_user: true}", "is static, but depends on the user or the situation"),
        (
            "{id: a, source: file, pace: static, situations: [dm]}",
            "is static, but depends on the user or the situation",
        ),
        ("{id: a, source: file, pace: static, file: ../x.md}", "names '../x.md', which is outside the workspace"),
        ("{id: a, source: file, pace: static, file: a/../../x}", "which is outside the workspace"),
        ("{id: a, source: folder, pace: static, folder: /etc}", "names '/etc', which is outside the workspace"),
        ("{id: a, source: file, pace: static, file: ~/x.md}", "names '~/x.md', which is outside the workspace"),
        ("{id: a, source: file, pace: static, floor: -1}", "slot 'a' has a negative floor"),
        ("{id: a, source: file, pace: static, limit: -1}", "slot 'a' has a negative floor, room or limit"),
        ("{id: a, source: file, pace: static, limit_all: -1}", "slot 'a' has a negative floor, room or limit"),
        ("{id: a, source: file, pace: static, limit: 1.5}", "slots[0].limit must be a whole number"),
        *(
            (f"{{id: a, source: file, pace: turn, when: ['{name}']}}", f"slot 'a' has the unknown condition '{name}'")
            for name in ("tool", "tool:", "not not plan", "rain", "")
        ),
        (
            "{id: a, source: file, pace: static, when: [rain]}",
            "; known: tools, native_tools, shell, identity, sandbox, plan, tool:NAME, kind:NAME, each also with `not`",
        ),
        (
            "{id: a, source: file, pace: static, when: [sandbox]}",
            "slot 'a' is static, but 'sandbox' is only known with the session; make it session",
        ),
        (
            "{id: a, source: file, pace: session, when: [tools, not plan]}",
            "slot 'a' is session, but 'not plan' is only known with the turn; make it turn",
        ),
        ("{id: a, source: file, pace: static, when: tools}", "slots[0].when must be a list"),
        *(
            (f"{{id: a, source: file, pace: static, variable: '{name}'}}", "slot 'a' needs a variable of letters")
            for name in ("a b", "1a", "a-b", "{{a}}")
        ),
        (
            "{id: a, source: file, pace: static, placement: nested}",
            "needs a variable of letters, digits and _ by which",
        ),
        (
            "{id: a, source: file, pace: turn, variable: A}",
            "slot 'a' changes with the turn and would change everything after it in a template; remove its variable",
        ),
        ("{id: a, source: file, pace: turn, placement: nested, variable: A}", "slot 'a' changes with the turn"),
        ("{id: a, source: file, pace: static, placement: nestde}", "must be one of system, tail, nested"),
        ("{id: 'a b', source: file, pace: static}", "slot 'a b' needs a plain name"),
        ("{id: '', source: file, pace: static}", "slot '' needs a plain name"),
        ("{id: 'a:b', source: file, pace: static}", "slot 'a:b' needs a plain name"),
        ("{id: a, source: file, pace: hourly}", "hourly"),
        ("{id: a, source: file, pace: static, trust: ful}", "ful"),
        ("{id: a, source: file, pace: static, colour: red}", "colour"),
        ("{source: file, pace: static}", "id"),
    ],
)
def test_fault(slots: str, fault: str) -> None:
    """A fault names the file, the slot or the value, and where there is one the remedy."""
    found = list_faults(f"{HEAD}slots: [{slots}]\n")
    assert any(fault in one for one in found), found
    assert all(one.startswith("blueprints/mine.yaml:4: ") for one in found)


def test_all_at_once() -> None:
    """Every fault is listed, not only the first, each with the line of its slot or its setting."""
    slots = "slots:\n- {id: a, source: fil, pace: static}\n- id: a\n  source: signal\n  pace: static\n  tier: x\n"
    faults = list_faults(f"{HEAD}budget:\n  reserve: 1\n  tiers:\n    high: 1\n    low: 1.5\n{slots}")
    assert [fault.removeprefix("blueprints/mine.yaml:").partition(": ")[0] for fault in faults] == [
        *("8", "10", "11", "11", "11")
    ]
    assert any("tier 'low' needs a share from 0 to 1, not 1.5" in fault for fault in faults)


@pytest.mark.parametrize("key", ["tiers", "turn_tiers"])
@pytest.mark.parametrize("share", ["-0.01", "1.01", "40"])
def test_shares(key: str, share: str) -> None:
    """A tier takes a share from nothing to everything, in a turn too; forty per cent is 0.4."""
    (fault,) = list_faults(f"{HEAD}budget:\n  {key}:\n    low: {share}\n{SLOT}")
    assert fault == f"blueprints/mine.yaml:6: tier 'low' needs a share from 0 to 1, not {float(share)}"
    assert read(f"{HEAD}budget: {{{key}: {{low: 0.4, none: 0, all: 1}}}}\n{SLOT}")


def test_tiers_of_a_turn() -> None:
    """A turn's slot belongs to a tier of the turn where there are such, and any other slot never does."""
    head = f"{HEAD}budget: {{tiers: {{low: 1.0}}, turn_tiers: {{high: 0.4}}}}\n"
    slots = (
        "slots:\n- {id: a, source: file, pace: turn, tier: low}\n- {id: b, source: file, pace: session, tier: high}\n"
    )
    assert list_faults(head + slots) == [
        "blueprints/mine.yaml:6: slot 'a' has the unknown tier 'low'; there is high",
        "blueprints/mine.yaml:7: slot 'b' has the unknown tier 'high'; there is low",
    ]
    assert read(f"{HEAD}slots: [{{id: a, source: file, pace: turn, tier: low}}]\n")


@pytest.mark.parametrize("key", ["system", "turn", "reserve", "least", "window"])
def test_negative_budget(key: str) -> None:
    """A negative budget is refused."""
    (fault,) = list_faults(f"{HEAD}budget: {{{key}: -1}}\n{SLOT}")
    assert fault == "blueprints/mine.yaml:4: the numbers of a budget must not be negative"


@pytest.mark.parametrize("key", ["marker", "marker_without_call", "stub", "stub_without_call"])
@pytest.mark.parametrize("marker", ["[cut {rest}]", "[cut {}]", "[cut {call]", "[{call.x}]"])
def test_marker_fields(marker: str, key: str) -> None:
    """A marker with a field that does not exist, or that is no format, is refused when the blueprint is loaded."""
    markers = {"marker": "[cut]", "marker_without_call": "[cut]", key: marker}
    head = "".join(f"{name}: '{text}'\n" for name, text in markers.items())
    (fault,) = list_faults(f"name: mine\n{head}{SLOT}")
    line = [*markers].index(key) + 2
    assert fault.startswith(f"blueprints/mine.yaml:{line}: {key} has an unknown field: ")
    assert fault.endswith("; known fields: kept, total, first, last, lines, call")


@pytest.mark.parametrize("field", ["limit", "size", "name", "call", "kept", "total", "first", "last", "lines"])
def test_notice_fields(field: str) -> None:
    """A notice has the marker's fields and three more, which no marker has."""
    assert read(f"{HEAD}notice: '[{{{field}}}]'\n{SLOT}").notice == f"[{{{field}}}]"
    if field in ("limit", "size", "name"):
        (fault,) = list_faults(f"{HEAD}stub: '[{{{field}}}]'\n{SLOT}")
        assert "stub has an unknown field" in fault


def test_notice_fault() -> None:
    """A notice with another field is refused with those that there are."""
    (fault,) = list_faults(f"{HEAD}notice: '[{{characters}}]'\n{SLOT}")
    assert fault == (
        "blueprints/mine.yaml:4: notice has an unknown field: 'characters'; "
        "known fields: kept, total, first, last, lines, call, limit, size, name"
    )


STUBS = {"stub": "stub: '[gone]'\n", "stub_without_call": "stub_without_call: '[gone]'\n"}


@pytest.mark.parametrize("missing", STUBS)
def test_strict_has_stubs(missing: str) -> None:
    """A strict blueprint needs both lines that name the omissions to the model; another blueprint needs none."""
    strict = f"{HEAD}strict: true\n"
    assert read(f"{strict}{''.join(STUBS.values())}{SLOT}").strict
    rest = "".join(text for name, text in STUBS.items() if name != missing)
    assert list_faults(f"{strict}{rest}{SLOT}") == [
        "blueprints/mine.yaml:1: a strict blueprint must name what it left out; set stub and stub_without_call"
    ]


def test_faster_source_in_slower_slot() -> None:
    """A slot may be faster than its source, never slower, so that no clock gets into a cached block."""
    assert read(f"{HEAD}slots: [{{id: a, source: file, pace: turn}}]\n").slots[0].pace is Pace.TURN


def test_every_key() -> None:
    """Every key that a dialect needs is loaded: room, separator, form, condition, place in a template."""
    blueprint = read(
        'name: mine\nmarker: x\nmarker_without_call: x\nseparator: "\\n---\\n"\n'
        "budget: {window: 9000, turn_room: rest, turn_tiers: {low: 0.3}}\n"
        "slots: [{id: a, source: file, pace: static, form: 'Say {text}.', when: [tools, 'not kind:shell'], variable: A,"
        " placement: nested, group: Files, item: File, limit: 20, limit_all: 30, hint: Move it.}]\n"
    )
    slot = blueprint.slots[0]
    assert (blueprint.separator, blueprint.budget.turn_room, blueprint.budget.window) == (
        "\n---\n",
        TurnRoomKind.REST,
        9_000,
    )
    assert (slot.form, slot.when, slot.variable) == ("Say {text}.", ("tools", "not kind:shell"), "A")
    assert (slot.placement, slot.group, slot.item) == (Placement.NESTED, "Files", "File")
    assert (slot.limit, slot.limit_all, slot.hint) == (20, 30, "Move it.")


@pytest.mark.parametrize(("window", "used", "kept_back"), [(0, 200_000, 4_096), (128_000, 128_000, 4_096)])
def test_window(window: int, used: int, kept_back: int) -> None:
    """A budget may use less of a window than there is, never more, and of a small one the answer has a quarter."""
    budget = Budget(window=window, system=1_000_000, window_share=1.0)
    assert (budget.bound(200_000), budget.limit(200_000), budget.get_answer_reserve(200_000)) == (used, used, kept_back)
    assert (budget.bound(8_000), budget.limit(8_000), budget.get_answer_reserve(8_000)) == (8_000, 8_000, 2_000)
    assert [budget.get_answer_reserve(size) for size in (16_383, 16_384, 16_385)] == [4_095, 4_096, 4_096]


def test_limit() -> None:
    """The system budget is the smaller of a number and a share of the window."""
    budget = Budget(system=30_000, window_share=0.15)
    assert [budget.limit(window) for window in (100_000, 199_999, 200_000, 1_000_000)] == [
        15_000,
        29_999,
        30_000,
        30_000,
    ]


WRITTEN = """name: x
marker: "[cut]"
marker_without_call: "[cut]"
slots:
  - {{id: a, tier: low, pace: turn, trust: public, {slot}}}
"""


@pytest.mark.parametrize(
    ("slot", "fault"),
    [
        ("source: moment, form: 'You are {nam}'", "has the unknown field {nam} in its form; did you mean 'name'?"),
        ("source: about, form: 'At {time}'", "has the unknown field {time} in its form"),
        ("source: about, form: forms/nosuch", "names the form 'forms/nosuch', which does not exist"),
        ("source: text, text: plann", "names the built-in text 'plann', which does not exist; did you mean 'plan'?"),
        ("source: file, file: 'x/{famly}.md'", "has the unknown placeholder {famly}; did you mean 'family'?"),
        ("source: file, file: X.md, form: 'no place'", "has a form without {text}, so its own text has no place"),
    ],
)
def test_wording(slot: str, fault: str) -> None:
    """A form, a built-in text, a field or a name that does not exist is a fault with its line, never a blank.

    Seen to fail while such a slot was absent, or printed the name of its form.
    """
    with pytest.raises(ConfigError) as caught:
        load_blueprint(WRITTEN.format(slot=slot), "x.yaml")
    assert [(one.line, fault in one.message) for one in caught.value.faults] == [(5, True)]
