"""Claims about hooks: their input, their permitted changes, and that none can raise the trust of a turn."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from foreword.config.load import load_config
from foreword.engine.blueprint import Blueprint
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.selection import FileEntry, Hook, HookContext, Plan, PlannedSlot, select_slots
from foreword.engine.trust import resolve_trust
from foreword.errors import ConfigError, InputError
from foreword.resources import read_blueprint
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Mode, Pace, Trust, Verdict
from foreword.workspace import Workspace

PEOPLE = "owner: alice\nusers: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}\n"
LISTING = """\
prompt:
  files:
    - {path: CALENDAR.md, trust: inner}
    - {path: HOUSE.md, trust: familiar}
    - {path: HIDDEN.md}
    - {path: WISHES.md, per_user: true, trust: inner}
"""
CONFIG = load_config(f"{PEOPLE}agents: {{reid: {{}}}}\n{LISTING}")
BARE = load_config(f"{PEOPLE}agents: {{reid: {{}}}}\n")
Change = Callable[[list[FileEntry]], object]
LEVELS = {"alice": Trust.FULL, "carol": Trust.INNER, "bob": Trust.FAMILIAR, "mallory": Trust.PUBLIC}


def plan(
    *changes: Change, user: str = "alice", config: object = CONFIG, base: str = "default", **facts: object
) -> Plan:
    """Plan a turn under hooks that change the list of files in these ways."""
    turn = Turn(**{"agent": "reid", "user": user, "situation": "dm", **facts})
    hooks = {f"h{number}": wrap(change) for number, change in enumerate(changes)}
    return select_slots(turn, resolve_trust(turn, config), config, load(base), hooks)


@cache
def load(base: str) -> Blueprint:
    """Load a shipped blueprint, or the text of one."""
    return load_blueprint(read_blueprint(base) or base, "x.yaml")


def wrap(change: Change) -> Hook:
    """Make a hook of a change that asks for the list alone."""
    return lambda files, _: change(list(files))


def list_entries(made: Plan) -> dict[str, PlannedSlot]:
    """List the entries of a plan by name, of which no two are the same."""
    entries = [entry for run in made.runs for entry in run.entries]
    assert len({entry.id for entry in entries}) == len(entries)
    return {entry.id: entry for entry in entries}


def list_texts(made: Plan) -> list[str]:
    """List the entries of the system prompt that may be read, in their order."""
    return [entry.id for entry in list_entries(made).values() if entry.verdict is None]


def drop(*slots: str) -> Change:
    """Leave files out."""
    return lambda files: [one for one in files if one.slot not in slots]


def swap(slot: str, path: str) -> Change:
    """Take a slot's file from elsewhere."""
    return lambda files: [replace(one, path=path) if one.slot == slot else one for one in files]


def add(*paths: str) -> Change:
    """Add files behind all others."""
    return lambda files: [*files, *(FileEntry(path=path) for path in paths)]


def test_what_it_sees() -> None:
    """A hook sees the files that the turn may have, each with its slot, and what the list depends on; no other."""
    seen: list[tuple[Sequence[FileEntry], HookContext]] = []

    def look(files: Sequence[FileEntry], occasion: HookContext) -> Sequence[FileEntry]:
        seen.append((files, occasion))
        return files

    turn = Turn(agent="reid", user="bob", situation="dm", channel="web", mode=Mode.FULL)
    blueprint = load_blueprint(read_blueprint("default") or "", "x.yaml")
    select_slots(turn, resolve_trust(turn, CONFIG), CONFIG, blueprint, {"look": look})
    ((files, occasion),) = seen
    assert {one.slot: one.path for one in files} == {
        "identity": "IDENTITY.md",
        "soul": "SOUL.md",
        "system": "SYSTEM.md",
        "agents": "AGENTS.md",
        "tools": "TOOLS.md",
        "channel": "channels/web.md",
        "files:HOUSE.md": "HOUSE.md",
    }
    assert occasion == HookContext(
        agent="reid",
        user="bob",
        channel="web",
        room="",
        situation="dm",
        mode=Mode.FULL,
        clearance=Trust.FAMILIAR,
    )


@pytest.mark.parametrize("config", [CONFIG, BARE], ids=["listed", "bare"])
@pytest.mark.parametrize("base", ["default", "coop", "osa", "moltis", "nova", "spec010"])
@pytest.mark.parametrize("user", LEVELS)
def test_same_list(user: str, base: str, config: object) -> None:
    """A hook that returns its input changes nothing, for every speaker and blueprint."""
    before, after = plan(user=user, base=base, config=config), plan(list, user=user, base=base, config=config)
    assert [*list_entries(after)] == [*list_entries(before)]
    assert [(one.paths, one.verdict) for one in list_entries(after).values()] == [
        (one.paths, one.verdict) for one in list_entries(before).values()
    ]
    assert after.warnings == ()


def test_removed() -> None:
    """A slot that a hook removes has a row that names the hook, and has no readable content."""
    entry = list_entries(plan(drop("soul", "files:HOUSE.md")))["soul"]
    assert (entry.verdict, entry.reason) == (Verdict.ABSENT, "hook 'h0' removes it")
    assert (entry.paths, entry.text) == ((), "")
    assert list_entries(plan(lambda _: []))["files:HOUSE.md"].verdict is Verdict.ABSENT


def test_swapped() -> None:
    """A slot's file may come from elsewhere; only the named folder is searched."""
    made = list_entries(plan(swap("soul", "rules/soul.md")))
    assert (made["soul"].paths, made["soul"].verdict) == (("rules/soul.md",), None)
    assert made["agents"].paths == ("agents/reid/AGENTS.md", "AGENTS.md")


def test_swapped_listed_file() -> None:
    """A swapped listed file appears under its own name, in the place of the other."""
    made = plan(swap("files:CALENDAR.md", "rules/a.md"))
    assert list_entries(made)["files:CALENDAR.md"].reason == "hook 'h0' removes it"
    listed = [name for name in list_texts(made) if name.startswith("files:")]
    assert listed == ["files:rules/a.md", "files:HOUSE.md", "files:HIDDEN.md", "files:WISHES.md"]


@pytest.mark.parametrize("config", [CONFIG, BARE], ids=["listed", "bare"])
@pytest.mark.parametrize("base", ["default", "coop"])
def test_added(base: str, config: object) -> None:
    """New files come after the listed ones and before the next slot, whether or not any are listed."""
    before, after = (list_texts(plan(*changes, base=base, config=config)) for changes in ((), (add("X.md", "Y.md"),)))
    at = before.index("memory")
    assert after == [*before[:at], "files:X.md", "files:Y.md", *before[at:]]


@pytest.mark.parametrize("base", ["default", "coop"])
def test_added_breaks_no_run(base: str) -> None:
    """A new file goes among files of the same pace, so that nothing slow ever follows something fast."""
    paces = [run.pace for run in plan(add("X.md"), base=base, config=BARE).runs]
    assert paces[:3] == [Pace.STATIC, Pace.SESSION, Pace.TURN]
    assert len(plan(add("X.md"), base=base).runs) == len(plan(base=base).runs)


def test_added_without_a_slot() -> None:
    """A blueprint that has no slot for further files takes none, and that is a warning."""
    made = plan(add("X.md"), base="moltis")
    assert [*list_entries(made)] == [*list_entries(plan(base="moltis"))]
    assert made.warnings == ("hook 'h0' adds X.md, but the blueprint has no slot for additional files",)


def test_added_twice() -> None:
    """A file that two hooks add, that one adds twice, or that is listed already, is there once."""
    made = plan(add("X.md", "X.md", "./X.md", "HOUSE.md"), add("X.md"))
    assert [name for name in list_texts(made) if name in ("files:X.md", "files:HOUSE.md")] == [
        "files:HOUSE.md",
        "files:X.md",
    ]
    assert made.warnings == ()


def test_reordered() -> None:
    """The listed files and new ones are in the order of the answer; a slot stays where its blueprint puts it."""
    made = plan(lambda files: [FileEntry(path="X.md"), *files[::-1]])
    before = list_texts(plan())
    assert [name for name in list_texts(made) if not name.startswith("files:")] == [
        name for name in before if not name.startswith("files:")
    ]
    assert [name for name in list_texts(made) if name.startswith("files:")] == [
        *("files:X.md", "files:WISHES.md", "files:HIDDEN.md", "files:HOUSE.md", "files:CALENDAR.md")
    ]


def test_one_after_the_other() -> None:
    """Hooks run in order, each on the result of the previous one."""
    assert list_entries(plan(swap("soul", "rules/a.md"), drop("agents")))["soul"].paths == ("rules/a.md",)
    seen: list[str] = []
    plan(drop("soul"), lambda files: seen.extend(one.slot for one in files) or files)
    assert "soul" not in seen
    assert "agents" in seen


FILES = {
    "SOUL.md": Trust.FAMILIAR,
    "rules/a.md": Trust.FAMILIAR,
    "HOUSE.md": Trust.FAMILIAR,
    "CALENDAR.md": Trust.INNER,
    "HIDDEN.md": Trust.FULL,
    "BOOT.md": Trust.FULL,
    "MEMORY.md": Trust.FULL,
    "USER.md": Trust.FULL,
    "NOWHERE.md": Trust.FULL,
    "./CALENDAR.md": Trust.INNER,
    "x/NOWHERE.md": Trust.FULL,
    "memory/social/a.md": Trust.FAMILIAR,
    "memory/shared/a.md": Trust.INNER,
    "memory/private/a.md": Trust.FULL,
    "memory/else/a.md": Trust.FULL,
    "memory//private/a.md": Trust.FULL,
    "agents/reid/BOOT.md": Trust.FULL,
    "agents/other/SOUL.md": Trust.FAMILIAR,
    "agents/other/x/SOUL.md": Trust.FULL,
    "channels/web.md": Trust.FAMILIAR,
}


@pytest.mark.parametrize("user", LEVELS)
def test_never_below_its_trust(user: str) -> None:
    """A file that a hook names needs the trust of that file, swapped in or added, for every user."""
    for path, level in FILES.items():
        check_trust(path, user, cleared=LEVELS[user] >= level)


def check_trust(path: str, user: str, cleared: bool) -> None:
    """Check every way in which a hook can name one file."""
    for change in (swap("soul", path), swap("channel", path), swap("files:HOUSE.md", path), add(path)):
        for entry in list_entries(plan(change, user=user, channel="web")).values():
            plain = [one.replace("./", "").replace("//", "/") for one in entry.paths]
            if path.replace("./", "").replace("//", "/") in plain:
                assert cleared
                assert entry.verdict is None
            if entry.verdict is Verdict.WITHHELD:
                assert entry.paths == ()
    added = list_entries(plan(add(path), user=user, config=BARE)).values()
    assert all(entry.trust <= LEVELS[user] for entry in added if entry.verdict is None)


def test_slot_keeps_its_own_trust() -> None:
    """A slot that needs more trust than its swapped file still needs it."""
    made = list_entries(plan(swap("boot", "rules/a.md")))
    assert (made["boot"].trust, made["boot"].verdict) == (Trust.FULL, None)
    assert list_entries(plan(swap("boot", "rules/a.md"), user="bob"))["boot"].verdict is Verdict.WITHHELD


def test_withheld_stays_withheld() -> None:
    """A hook that knows the name of a withheld slot cannot fill it, nor a withheld listed file by its path."""
    known = [FileEntry(path="rules/a.md", slot="boot"), FileEntry(path="HIDDEN.md", slot="files:HIDDEN.md")]
    for change in (lambda files: [*files, *known], add("HIDDEN.md", "CALENDAR.md")):
        made = list_entries(plan(change, user="bob"))
        for name in ("boot", "files:HIDDEN.md", "files:CALENDAR.md"):
            assert (made[name].verdict, made[name].paths) == (Verdict.WITHHELD, ())


@pytest.mark.parametrize("user", ["alice", "carol"])
@pytest.mark.parametrize("path", ["users/bob/USER.md", "users/carol/USER.md", "./users/bob/USER.md", "users//bob/X.md"])
def test_peoples_own_files(path: str, user: str) -> None:
    """A file below users/ is refused in any spelling, even for the owner: it belongs to a slot of its person."""
    for change, name in ((add(path), "files:"), (swap("soul", path), "soul")):
        found = [one for one in list_entries(plan(change, user=user)).values() if one.id.startswith(name)]
        refused = [one for one in found if one.reason == "a personal file is read only through its own slot"]
        assert [(one.verdict, one.paths) for one in refused] == [(Verdict.WITHHELD, ())]


def test_own_file_stays() -> None:
    """A person's own file, which has its slot, may stay where it is and may be left out."""
    assert list_entries(plan(list, user="carol"))["user"].paths == ("users/carol/USER.md",)
    assert list_entries(plan(list, user="carol"))["files:WISHES.md"].paths == ("users/carol/WISHES.md",)
    assert list_entries(plan(drop("user"), user="carol"))["user"].verdict is Verdict.ABSENT


@pytest.mark.parametrize("mode", [Mode.MINIMAL, Mode.NONE])
def test_mode_is_kept(mode: Mode) -> None:
    """A hook brings nothing into a prompt whose mode leaves the slot out."""
    entry = list_entries(plan(add("X.md"), mode=mode))["files:X.md"]
    assert (entry.verdict, entry.reason) == (Verdict.ABSENT, f"prompt mode {mode} leaves it out")


def test_situation_is_kept() -> None:
    """A hook brings nothing into a slot that belongs to another situation."""
    own = (read_blueprint("default") or "").replace("source: files, pace", "source: files, situations: [system], pace")
    assert list_entries(plan(add("X.md"), base=own))["files:X.md"].reason == "only in situation system"
    assert list_entries(plan(add("X.md"), base=own, situation="system"))["files:X.md"].verdict is None


def fail(_: list[FileEntry]) -> object:
    """Raise an error."""
    raise ZeroDivisionError("one by none")


def fail_late(files: list[FileEntry]) -> Iterator[FileEntry]:
    """Raise an error half-way through."""
    yield files[0]
    raise KeyError("x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (fail, "ZeroDivisionError: one by none"),
        (fail_late, "KeyError: 'x'"),
        (lambda _: None, "TypeError: "),
        (lambda _: 3, "TypeError: "),
        (lambda _: "SOUL.md", "TypeError: it must return FileEntry values, not 'S'"),
        (lambda files: [one.path for one in files], "TypeError: it must return FileEntry values, not "),
        (lambda files: [*files, None], "not None"),
        (lambda files: [*files, FileEntry(path=3)], "not FileEntry(path=3, slot='')"),
        (lambda files: [*files, FileEntry(path=None)], "not FileEntry(path=None, slot='')"),
        (lambda files: [*files, FileEntry(path="X.md", slot=[])], "not FileEntry(path='X.md', slot=[])"),
        (add(""), "ValueError: a path must name a file"),
        (add("/etc/passwd"), "ValueError: a path must be relative to the workspace"),
        (add("../X.md"), "ValueError: a path must not contain '..'"),
        (add("rules/../../X.md"), "ValueError: a path must not contain '..'"),
        (add("a\n## Core\n.md"), "ValueError: a path must be a path with / between its parts"),
        (add("a\0b"), "ValueError: a path must be a path with / between its parts"),
        (add("foreword.yaml"), "ValueError: a path must not be the configuration"),
        (add("./.env"), "ValueError: a path must not be the configuration or a hidden file"),
        (swap("soul", ".foreword/x"), "ValueError: a path must not be the configuration or a hidden file"),
        (
            lambda files: [*files, FileEntry(path="X.md", slot="soul")],
            "ValueError: it returns several files for slot 'so",
        ),
    ],
)
def test_failure_changes_nothing(change: Change, words: str) -> None:
    """A hook that raises or returns an invalid answer changes nothing, is a warning, and does not stop the next one."""
    made = plan(change, drop("agents"))
    (warning,) = made.warnings
    assert warning.startswith("hook 'h0' failed, so the list of files is unchanged: ")
    assert words in warning
    assert list_texts(made) == [name for name in list_texts(plan()) if name != "agents"]


MODULE = """\
from foreword.engine.selection import FileEntry
number = 3
def swap(files, occasion):
    return [FileEntry(path="NIGHT.md", slot=one.slot) if one.slot == "soul" else one for one in files]
def reach(files, occasion):
    return [*files, FileEntry(path="BOOT.md")]
def fail(files, occasion):
    raise OSError("no line")
"""
POINTS = """\
[foreword.files]
night = house_hooks:swap
reach = house_hooks:reach
fail = house_hooks:fail
gone = house_hooks:gone
number = house_hooks:number
missing = house_hooks_missing:x
broken = house_hooks_broken:x
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with hooks, as pip leaves it."""
    files = {
        "house_hooks.py": MODULE,
        "house_hooks_broken.py": "raise ValueError('half a module')\n",
        "house_hooks-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: house-hooks\nVersion: 1.0\n",
        "house_hooks-1.0.dist-info/entry_points.txt": POINTS,
    }
    write_files(tmp_path / "site", files)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    sys.modules.pop("house_hooks", None)


def open_with(folder: Path, *hooks: str) -> Workspace:
    """Open a workspace whose configuration names hooks."""
    files = {"SOUL.md": "Be kind.\n", "NIGHT.md": "Be quiet.\n", "BOOT.md": "SECRET\n", "AGENTS.md": "Help.\n"}
    config = f"{PEOPLE}prompt: {{hooks: [{', '.join(hooks)}]}}\n"
    return make_workspace(folder / "house", {"foreword.yaml": config, **files})


TURN = Turn(user="alice", situation="dm", model="openai:gpt-5")


@pytest.mark.usefixtures("installed")
def test_only_when_named(tmp_path: Path) -> None:
    """An installed hook changes nothing and is not even imported until the configuration names it."""
    assert "Be kind." in open_with(tmp_path).assemble(TURN).prompt.text
    assert "house_hooks" not in sys.modules
    ws = open_with(tmp_path, "night")
    assert "house_hooks" in sys.modules
    text = ws.assemble(TURN).prompt.text
    assert "Be quiet." in text
    assert "Be kind." not in text


@pytest.mark.usefixtures("installed")
def test_whole_way(tmp_path: Path) -> None:
    """A file that a hook names is read for those who may see it, and is not mentioned to the others."""
    ws = open_with(tmp_path, "reach")
    assert ws.assemble(TURN).prompt.text.count("SECRET") == 2
    for user in ("carol", "bob", "mallory"):
        assembly = ws.assemble(replace(TURN, user=user))
        assert "SECRET" not in assembly.prompt.text
        assert "BOOT" not in assembly.explain()


@pytest.mark.usefixtures("installed")
def test_swapped_in_a_prompt(tmp_path: Path) -> None:
    """A file that is hidden from a user stays hidden in a slot that the user may see."""
    assert "Be quiet." not in open_with(tmp_path, "night").assemble(replace(TURN, user="bob")).prompt.text


@pytest.mark.usefixtures("installed")
def test_failure_in_a_turn(tmp_path: Path) -> None:
    """A hook that fails costs the turn nothing but a warning."""
    assembly = open_with(tmp_path, "fail", "night").assemble(TURN)
    assert "Be quiet." in assembly.prompt.text
    assert assembly.plan.warnings == ("hook 'fail' failed, so the list of files is unchanged: OSError: no line",)


@pytest.mark.usefixtures("installed")
def test_unknown_hook(tmp_path: Path) -> None:
    """Hooks that are not installed are faults of the configuration, all in one error, with the nearest name."""
    with pytest.raises(ConfigError, match=r"foreword\.yaml:\d+: unknown hook 'nigth'; did you mean 'night'") as caught:
        open_with(tmp_path, "nigth", "night", "dya")
    assert [fault.message.partition(";")[0] for fault in caught.value.faults] == [
        "unknown hook 'nigth'",
        "unknown hook 'dya'",
    ]


def test_no_hooks_at_all(tmp_path: Path) -> None:
    """Where none is installed, the error says so."""
    with pytest.raises(ConfigError, match="unknown hook 'night'; there is none yet"):
        open_with(tmp_path, "night")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone", "hook 'gone' cannot be loaded from house_hooks:gone: AttributeError: "),
        ("missing", "hook 'missing' cannot be loaded from house_hooks_missing:x: ModuleNotFoundError: "),
        ("broken", "hook 'broken' cannot be loaded from house_hooks_broken:x: ValueError: half a module"),
        ("number", "hook 'number' is house_hooks:number, which is not a function"),
    ],
)
def test_unusable_hook(tmp_path: Path, name: str, words: str) -> None:
    """A hook that cannot be loaded is an error of the configuration that says which one and why."""
    with pytest.raises(InputError, match=words):
        open_with(tmp_path, name)


@pytest.mark.usefixtures("installed")
def test_broken_edit(tmp_path: Path) -> None:
    """An edit that names an unusable hook leaves the previous configuration in force."""
    ws = open_with(tmp_path, "night")
    write_files(tmp_path / "house", {"foreword.yaml": f"{PEOPLE}prompt: {{hooks: [broken]}}\n"})
    ws.refresh(now=True)
    assert "Be quiet." in ws.assemble(TURN).prompt.text
    assert "hook 'broken' cannot be loaded" in str(ws.fault)


@pytest.mark.parametrize("user", ["alice", "carol", "bob"])
@pytest.mark.parametrize("path", ["USER.md", "WISHES.md"])
def test_somebodys_own_file(user: str, path: str) -> None:
    """A hook brings no person's own file into another slot, nor the owner's into another person's own."""
    entries = list_entries(plan(swap("agents", path), user=user))
    assert (entries["agents"].verdict, entries["agents"].paths) == (Verdict.WITHHELD, ())
    for entry in list_entries(plan(swap("user", path), add(path), user=user)).values():
        assert path not in entry.paths or user == "alice"


@pytest.mark.parametrize("path", ["rules/.env", "skills/x/.secret", ".git/config.md"])
def test_hidden_file(path: str) -> None:
    """A hook that names a hidden file, at whatever depth, has failed."""
    made = plan(add(path))
    assert "hidden file" in made.warnings[0]
    assert f"files:{path}" not in list_entries(made)


@pytest.mark.parametrize("path", ["groups/family/secret.md", "rules/a.txt", "skills/x/notes.md"])
def test_file_of_no_slot(path: str) -> None:
    """A file of a group, and one that no source would list, is for full alone where a hook names it."""
    assert list_entries(plan(add(path), user="carol"))[f"files:{path}"].reason == "needs full"


def test_slot_that_is_no_file() -> None:
    """A file for a slot that is read from no file is ignored with a warning."""
    made = plan(lambda files: [*files, FileEntry(path="x.md", slot="rules")])
    assert made.warnings == ("hook 'h0' returns a file for rules, which is not read from a file",)
