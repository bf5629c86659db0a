"""Claims about blueprint files."""

import pytest

from foreword.blueprint import Blueprint, load
from foreword.blueprint.slot import Budget, Cut, Fitting, Listing, Rendering, Voice
from foreword.errors import ConfigError
from foreword.shipped import list_blueprints, read_blueprint
from foreword.sources import SOURCES
from foreword.words import Mode, Pace, Placement, Trust

PACES = {source.name: source.pace for source in SOURCES.values()}
HEAD = 'name: mine\nmarker: "[cut {call}]"\nmarker_without_call: "[cut]"\n'
SLOT = "slots: [{id: soul, source: file, pace: static}]\n"


def read(text: str) -> Blueprint:
    """Load a blueprint."""
    return load(text, "blueprints/mine.yaml", PACES)


def list_faults(text: str) -> list[str]:
    """List the faults of a blueprint that has some."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(fault) for fault in caught.value.faults]


def test_smallest() -> None:
    """A name, two markers and a slot are enough; whatever is not said is the careful choice."""
    blueprint = read(HEAD + SLOT)
    slot = blueprint.slots[0]
    assert (blueprint.rendering, blueprint.strict, blueprint.budget) == (Rendering.MARKDOWN, False, Budget())
    assert (slot.trust, slot.modes, slot.placement) == (Trust.FULL, (Mode.FULL,), Placement.SYSTEM)
    assert (slot.cut, slot.listed, slot.voice, slot.required) == (Cut.HEAD, Listing.NEVER, Voice.OWNER, False)
    assert blueprint.budget.fitting is Fitting.FAIR


@pytest.mark.parametrize("name", list_blueprints())
def test_shipped(name: str) -> None:
    """What ships with Foreword loads, under its own name."""
    assert read(read_blueprint(name) or "").name == name


@pytest.mark.parametrize(
    ("slots", "fault"),
    [
        ("{id: a, source: file, pace: static}, {id: a, source: file, pace: static}", "slot 'a' stands twice"),
        ("{id: a, source: fil, pace: static}", "slot 'a' has the unknown source 'fil'; did you mean 'file'?"),
        (
            "{id: a, source: time, pace: static}",
            "slot 'a' is static, but its source 'time' depends on what changes with the turn",
        ),
        ("{id: a, source: profile, pace: static}", "depends on what changes with the session; make it session"),
        ("{id: a, source: file, pace: static, tier: hihg}", "unknown tier 'hihg'"),
        ("{id: a, source: file, pace: session, placement: tail}", "travels in the tail, which holds turn slots only"),
        (
            "{id: a, source: file, pace: static, file: 'x/{user}.md'}",
            "slot 'a' is static, but depends on who is speaking",
        ),
        ("{id: a, source: folder, pace: static, folder: 'g/{group}'}", "is static, but depends on who is speaking"),
        ("{id: a, source: text, pace: static, text: '{family}'}", "is static, but depends on who is speaking"),
        ("{id: a, source: file, pace: static, per_user: true}", "is static, but depends on who is speaking"),
        ("{id: a, source: file, pace: static, situations: [dm]}", "is static, but depends on who is speaking"),
        ("{id: a, source: file, pace: static, file: ../x.md}", "names '../x.md', which is not below the workspace"),
        ("{id: a, source: file, pace: static, file: a/../../x}", "which is not below the workspace"),
        ("{id: a, source: folder, pace: static, folder: /etc}", "names '/etc', which is not below the workspace"),
        ("{id: a, source: file, pace: static, file: ~/x.md}", "names '~/x.md', which is not below the workspace"),
        ("{id: a, source: file, pace: static, floor: -1}", "slot 'a' has a negative floor"),
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
    """Every fault is listed, not the first alone, each with the line of its slot or its setting."""
    slots = "slots:\n- {id: a, source: fil, pace: static}\n- id: a\n  source: time\n  pace: static\n  tier: x\n"
    faults = list_faults(f"{HEAD}budget:\n  reserve: 1\n  tiers:\n    high: 1\n    low: 1.5\n{slots}")
    assert [fault.removeprefix("blueprints/mine.yaml:").partition(": ")[0] for fault in faults] == [
        *("8", "10", "11", "11", "11")
    ]
    assert any("tier 'low' takes a share from 0 to 1, not 1.5" in fault for fault in faults)


@pytest.mark.parametrize("key", ["system", "turn", "reserve", "least"])
def test_negative_budget(key: str) -> None:
    """A budget of less than nothing is refused."""
    (fault,) = list_faults(f"{HEAD}budget: {{{key}: -1}}\n{SLOT}")
    assert fault == "blueprints/mine.yaml:4: a budget has no negative numbers"


@pytest.mark.parametrize("key", ["marker", "marker_without_call", "stub", "stub_without_call"])
@pytest.mark.parametrize("marker", ["[cut {rest}]", "[cut {}]", "[cut {call]", "[{call.x}]"])
def test_marker_fields(marker: str, key: str) -> None:
    """A marker with a field that does not exist, or that is no format, is refused when the blueprint is loaded."""
    markers = {"marker": "[cut]", "marker_without_call": "[cut]", key: marker}
    head = "".join(f"{name}: '{text}'\n" for name, text in markers.items())
    (fault,) = list_faults(f"name: mine\n{head}{SLOT}")
    line = [*markers].index(key) + 2
    assert fault.startswith(f"blueprints/mine.yaml:{line}: {key} has an unknown field: ")
    assert fault.endswith("; there is kept, total, first, last, lines, call")


STUBS = {"stub": "stub: '[gone]'\n", "stub_without_call": "stub_without_call: '[gone]'\n"}


@pytest.mark.parametrize("missing", STUBS)
def test_strict_has_stubs(missing: str) -> None:
    """A strict blueprint needs both lines that tell the model what was left out; another one needs none."""
    strict = f"{HEAD}strict: true\n"
    assert read(f"{strict}{''.join(STUBS.values())}{SLOT}").strict
    rest = "".join(text for name, text in STUBS.items() if name != missing)
    assert list_faults(f"{strict}{rest}{SLOT}") == [
        "blueprints/mine.yaml:1: a strict blueprint tells the model what was left out; write stub and stub_without_call"
    ]


def test_faster_source_in_slower_slot() -> None:
    """A slot may be faster than its source, never slower, so that no clock gets into a cached block."""
    assert read(f"{HEAD}slots: [{{id: a, source: file, pace: turn}}]\n").slots[0].pace is Pace.TURN


def test_limit() -> None:
    """The system budget is the smaller of a number and a share of the window."""
    budget = Budget(system=30_000, window_share=0.15)
    assert [budget.limit(window) for window in (100_000, 199_999, 200_000, 1_000_000)] == [
        15_000,
        29_999,
        30_000,
        30_000,
    ]
