"""Claims about the plan of a turn: the permitted slots, before anything is read."""

import pytest

from foreword.config.load import load_config
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.selection import Plan, PlannedSlot, expand_path, select_slots
from foreword.engine.trust import resolve_trust
from foreword.resources import read_blueprint
from foreword.turn import Turn
from foreword.types import Mode, Pace, Placement, Trust, Verdict

DEFAULT = load_blueprint(read_blueprint("default") or "", "default.yaml")
CONFIG = load_config("""\
owner: alice
agents: {reid: {}}
users: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}
rooms: {chat: {group: family}}
prompt:
  files:
    - {path: CALENDAR.md, trust: inner}
    - {path: WISHES.md, per_user: true, trust: inner}
    - {path: SOUL.md, trust: public}
    - {path: HIDDEN.md}
""")


def plan(**facts: object) -> Plan:
    """Plan a turn of the owner in private."""
    turn = Turn(**{"agent": "reid", "user": "alice", "situation": "dm", **facts})
    return select_slots(turn, resolve_trust(turn, CONFIG), CONFIG, DEFAULT)


def find(name: str, **facts: object) -> PlannedSlot:
    """Find the entry of a slot."""
    return next(entry for run in plan(**facts).runs for entry in run.entries if entry.id == name)


def test_withheld_has_no_path() -> None:
    """A withheld slot has its name and its level, and no path that could be opened."""
    entry = find("boot", user="bob")
    assert (entry.verdict, entry.reason, entry.trust) == (Verdict.WITHHELD, "needs full", Trust.FULL)
    assert (entry.paths, entry.folder, entry.text) == ((), "", "")


def test_agent_before_root() -> None:
    """A file of the agent is looked for before the root's."""
    assert find("agents").paths == ("agents/reid/AGENTS.md", "AGENTS.md")


def test_own_files() -> None:
    """A per-user file is looked for in the person's folder; only the owner has the root's too."""
    assert find("user").paths == ("users/alice/USER.md", "USER.md")
    assert find("user", user="carol").paths == ("users/carol/USER.md",)
    assert find("files:WISHES.md", user="carol").paths == ("users/carol/WISHES.md",)


def test_room_has_no_own_slots() -> None:
    """In a room, and in a group without one, no person's own slots are planned, for every speaker."""
    for room in ("chat", "attic", ""):
        entry = find("instructions", room=room, situation="group")
        assert entry.verdict is Verdict.ABSENT
        assert "others read the reply" in entry.reason
    entry = find("instructions", room="study", situation="dm")
    assert entry.verdict is Verdict.ABSENT
    assert "others read the reply" in entry.reason


def test_listed_trust() -> None:
    """The configuration may give a known file another trust, and a file without one needs full."""
    assert find("soul", user="mallory").verdict is None
    assert find("files:HIDDEN.md", user="carol").verdict is Verdict.WITHHELD


def test_trust_speaks_first() -> None:
    """A withheld slot gives its trust as the reason, not its situation."""
    assert find("heartbeat", user="carol").verdict is Verdict.WITHHELD
    assert find("heartbeat").reason == "only in situation system"


@pytest.mark.parametrize("mode", Mode)
def test_modes(mode: Mode) -> None:
    """A mode leaves out the slots that do not name it, each with that reason."""
    for run in plan(mode=mode).runs:
        for entry in run.entries:
            left_out = entry.verdict is Verdict.ABSENT and "prompt mode" in entry.reason
            assert (
                left_out == (mode not in entry.slot.modes) or entry.verdict is Verdict.WITHHELD or entry.slot.situations
            )


def test_runs() -> None:
    """Neighbours of one pace are one run; the tail is the last of the text, and what templates place comes apart."""
    runs = [(run.pace, run.placement) for run in plan().runs]
    assert runs == [
        (Pace.STATIC, Placement.SYSTEM),
        (Pace.SESSION, Placement.SYSTEM),
        (Pace.TURN, Placement.TAIL),
        (Pace.STATIC, Placement.NESTED),
    ]


def test_group_folder() -> None:
    """A room's folder is the group it names, else its own name."""
    assert find("group", room="chat", situation="group").folder == "groups/family"
    assert find("group", room="attic", situation="group").folder == "groups/attic"


@pytest.mark.parametrize("room", ["../private", "a/b", ".hidden", "a\\b", "a\0b", ".."])
def test_names_cannot_climb(room: str) -> None:
    """A name that is more than one part of a path gives no path at all."""
    assert find("group", room=room, situation="group").folder == ""


@pytest.mark.parametrize("channel", ["../x", "a/b:c", ".git"])
def test_channel_cannot_climb(channel: str) -> None:
    """The family of a channel that could leave its folder names no file."""
    assert find("channel", channel=channel).paths == ()


def test_expand() -> None:
    """A name is filled in, and an empty one gives no path."""
    assert expand_path("channels/{family}.md", {"family": "x"}) == "channels/x.md"
    assert expand_path("channels/{family}.md", {"family": ""}) == ""


def test_expand_once() -> None:
    """A caller's text is filled in unchanged, and is not expanded again."""
    assert find("channel", channel="{user}").paths[-1] == "channels/{user}.md"


def test_channel_file_trust() -> None:
    """The owner's channel notes need familiar; below them is the built-in text for every clearance."""
    entry = find("channel", user="mallory", channel="telegram")
    assert (entry.verdict, entry.paths, entry.text) == (None, (), "channels/telegram")
