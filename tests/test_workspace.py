"""Claims about a workspace as a whole."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import foreword
from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.agent.tools.registry import BUILT_IN
from foreword.engine.sources.files import RACY_WINDOW_NS
from foreword.engine.sources.sections import SOURCES, Section
from foreword.errors import UnknownName, WorkspaceError
from foreword.resources import read_blueprint
from foreword.testing import NOON, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Mode, Pace
from foreword.workspace import Workspace

TURN = Turn(user="alice", situation="dm", model="openai:gpt-5", message="Hi")
HEAD = b"owner: a\nusers: {a: {}}\n"
FILES = {
    "SOUL.md": "Be kind.\n",
    "AGENTS.md": "Answer briefly.\n",
    "USER.md": "She keeps bees.\n",
    "rules/a.md": "A\n",
    "rules/b.md": "B\n",
    "skills/tea/SKILL.md": "Boil water.\n",
    "memory/social/x.md": "X\n",
}


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """A custom source that records its calls."""
    asked: list[str] = []

    @foreword.source("noted", Pace.STATIC)
    def note(_view, entry):
        asked.append(entry.id)
        return Section(entry=entry, text="Noted.", origin="test")

    yield asked
    del SOURCES["noted"]


def test_no_folder(tmp_path: Path) -> None:
    """The error for a missing folder names it and the command that creates a workspace; a file is refused."""
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=r"file is a file; name the folder that has a foreword.yaml"):
        foreword.open(str(tmp_path / "file"))
    with pytest.raises(WorkspaceError, match=r"is not a folder; create a workspace with: foreword init .*/gone"):
        foreword.open(str(tmp_path / "gone"))


def test_no_configuration(tmp_path: Path) -> None:
    """A folder without a configuration is refused."""
    with pytest.raises(WorkspaceError, match=r"there is no foreword.yaml in .*; create one with: foreword init /.+"):
        foreword.open(str(tmp_path))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"owner: \xff\n", "foreword.yaml: is not UTF-8 in line 1"),
        (b"owner: a\0", "has a NUL byte"),
        (b"owner: [a\n", "foreword.yaml:1: this is not valid YAML"),
        (b"", "the file is empty"),
        (b"owner: bob\nusers: {alice: {}}\n", "foreword.yaml:1: owner is 'bob', who is not listed under users"),
        (
            HEAD + b"agents:\n  a: {blueprint: defualt}\n",
            "yaml:4: agents.a.blueprint is 'defualt', which does not exist",
        ),
        (HEAD + b"prompt: {files: [{path: .env}]}\n", "yaml:3: .* must not be the configuration or a hidden file"),
        (HEAD + b"prompt: {files: [{path: ./foreword.yaml}]}\n", "yaml:3: .* must not be the configuration"),
        (HEAD + b"prompt: {files: [{path: .foreword/x.md}]}\n", "yaml:3: .* or a hidden file such as .env"),
        (HEAD + b"models: {x: {window: 0}}\n", "yaml:3: models.x.window must be above 0"),
        (HEAD + b"models: {x: {window: -5}}\n", "yaml:3: models.x.window must not be below 0"),
        (HEAD + b"models: {x: {factor: 0}}\n", "yaml:3: models.x.factor must be above 0"),
        (HEAD + b"models: {x: {input_usd: -1}}\n", "yaml:3: models.x.input_usd must not be below 0"),
        (
            HEAD + b"models:\n  x: {cache: antropic}\n",
            "yaml:4: models.x.cache is 'antropic', which is not a known cache; did you mean .anthropic.",
        ),
    ],
)
def test_broken_configuration(tmp_path: Path, raw: bytes, words: str) -> None:
    """An invalid configuration is refused at once, with file, line and remedy."""
    (tmp_path / "foreword.yaml").write_bytes(raw)
    with pytest.raises(foreword.ConfigError, match=words.replace("[", r"\[")):
        foreword.open(str(tmp_path))


def test_configuration_is_a_folder(tmp_path: Path) -> None:
    """A folder in place of the configuration is reported as a directory."""
    (tmp_path / "foreword.yaml").mkdir()
    with pytest.raises(foreword.ConfigError, match="is a directory"):
        foreword.open(str(tmp_path))


def test_unknown_names(tmp_path: Path) -> None:
    """The error for an unknown agent or blueprint names the nearest one."""
    ws = make_workspace(tmp_path, {})
    with pytest.raises(UnknownName, match="unknown agent 'asistant'; did you mean 'assistant'"):
        ws.assemble(replace(TURN, agent="asistant"))
    with pytest.raises(UnknownName, match="unknown blueprint 'defualt'; did you mean 'default'"):
        ws.assemble(replace(TURN, blueprint="defualt"))


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "x.yaml", "a\0b"])
def test_blueprint_name_cannot_climb(tmp_path: Path, name: str) -> None:
    """A blueprint is a name, not a path."""
    with pytest.raises(UnknownName):
        make_workspace(tmp_path, {"x.yaml": "SECRET"}).blueprint(name)


def test_own_blueprint(tmp_path: Path) -> None:
    """A blueprint of the workspace overrides the shipped one of the same name, and edits apply."""
    ws = make_workspace(tmp_path, {"blueprints/coop.yaml": (read_blueprint("coop") or "").replace("Runtime", "Now")})
    turn = replace(TURN, blueprint="coop")
    assert "## Now\n" in ws.assemble(turn).prompt.text
    write_files(tmp_path, {"blueprints/coop.yaml": (read_blueprint("coop") or "").replace("Runtime", "Later")})
    ws.refresh(now=True)
    assert "## Later\n" in ws.assemble(turn).prompt.text
    assert ws.blueprint_names() == ("coop", "default", "moltis", "nova", "osa", "spec010")


def test_broken_own_blueprint(tmp_path: Path) -> None:
    """The error for a broken blueprint names its file, and other blueprints work."""
    ws = make_workspace(tmp_path, {"blueprints/mine.yaml": "name: mine\nslots: 3\n"})
    with pytest.raises(foreword.ConfigError, match=r"blueprints/mine.yaml:2"):
        ws.assemble(replace(TURN, blueprint="mine"))
    assert ws.assemble(TURN).prompt.text


def test_completed(tmp_path: Path) -> None:
    """Omitted fields of a turn get defaults: the first agent, its model, the mode, the time and the built-in tools."""
    config = "owner: a\nusers: {a: {trust: full}}\nagents: {reid: {model: 'openai:gpt-5'}, sol: {}}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config})
    turn = ws.complete(Turn(), ws.context)
    assert (turn.agent, turn.model, turn.mode, turn.now) == ("reid", "openai:gpt-5", Mode.FULL, NOON)
    assert turn.tools is BUILT_IN


def test_embedded_is_brief(tmp_path: Path) -> None:
    """The embedded model gets the brief prompt unless the turn sets another mode."""
    ws = make_workspace(tmp_path, FILES)
    assert ws.complete(Turn(model="local:smollm2"), ws.context).mode is Mode.BRIEF
    assert ws.complete(Turn(model="local:smollm2", mode=Mode.FULL), ws.context).mode is Mode.FULL


def test_nothing_twice(tmp_path: Path, asked: list[str]) -> None:
    """Another time and another message cause no call of a static source, no file read and no new stable block."""
    slot = "  - {id: noted, source: noted, pace: static, trust: public, tier: low}\n"
    text = (read_blueprint("default") or "").replace("slots:\n", f"slots:\n{slot}")
    ws = make_workspace(tmp_path, {**FILES, "blueprints/mine.yaml": text})
    turn = replace(TURN, blueprint="mine")
    first = ws.assemble(turn)
    second = ws.assemble(replace(turn, now=NOON + timedelta(hours=1), message="And now?"))
    assert asked == ["noted"]
    assert [new is old for new, old in zip(second.prompt.blocks, first.prompt.blocks, strict=True)] == [
        True,
        True,
        False,
    ]
    assert second.fit.runs[0] is first.fit.runs[0]
    assert second.plan is first.plan


def test_equal_tools(tmp_path: Path) -> None:
    """Equal toolsets created for each turn give the identical blocks."""
    ws = make_workspace(tmp_path, FILES)
    tools = [*READING_TOOLS.tools, foreword.Tool(name="lamp", trust=foreword.Trust.PUBLIC)]

    def build() -> foreword.Assembly:
        return ws.assemble(replace(TURN, tools=foreword.Toolset(tools)))

    first, second = build(), build()
    assert second.inputs is first.inputs
    assert all(new is old for new, old in zip(second.fit.runs[:2], first.fit.runs[:2], strict=True))
    assert all(new is old for new, old in zip(second.prompt.blocks[:2], first.prompt.blocks[:2], strict=True))


def test_many_rules(tmp_path: Path) -> None:
    """Hundreds of files use their tier well and are fitted once."""
    rule = "".join(f"{number}. Ask before you buy anything, and keep the receipt.\n" for number in range(1, 26))
    files = {f"rules/{number:03}.md": rule for number in range(300)}
    ws = make_workspace(tmp_path, {**files, ".foreword/schema.json": "{}\n"})
    time.sleep(2 * RACY_WINDOW_NS / 1e9)  # so that no file counts as recently written and is read again
    first = ws.assemble(TURN)
    assert 300 <= first.meter.count(rule) <= 360
    tier = int(first.plan.blueprint.budget.tiers["medium"] * first.fit.limit)
    used = sum(row.tokens for row in first.rows() if row.id.startswith("rules:"))
    assert 0.6 * tier <= used <= tier
    second = ws.assemble(replace(TURN, message="And now?"))
    assert second.fit.runs[0] is first.fit.runs[0]
    assert second.fit.runs[1] is first.fit.runs[1]


def test_own_state_is_no_edit(tmp_path: Path) -> None:
    """The token counts that the first build writes are not an edit, and nothing is fitted again."""
    ws = make_workspace(tmp_path, {f"rules/{number}.md": f"{number} Be kind. " * 60 for number in range(40)})
    time.sleep(2 * RACY_WINDOW_NS / 1e9)
    first = ws.assemble(TURN)
    assert (tmp_path / ".foreword").exists()
    ws.refresh(now=True)
    assert ws.assemble(TURN).fit.runs[0] is first.fit.runs[0]


def test_message_is_counted_as_sent(tmp_path: Path) -> None:
    """A message is sent as written, and the counted text is the sent text."""
    assembly = make_workspace(tmp_path, FILES).assemble(replace(TURN, message="<skill>" * 18_000))
    sent = assembly.envelope("openai").request["messages"][-1]["content"][-1]["text"]
    assert sent == "<skill>" * 18_000
    assert assembly.conversation == assembly.meter.count(sent)


@contextmanager
def watch(folder: Path) -> Iterator[list[str]]:
    """Record the files and folders opened below a folder, with a Python audit hook; the state is excluded."""
    opened: list[str] = []
    watching = True

    def note(event: str, args: tuple[object, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], str):
            path = os.path.relpath(args[0], folder)
            if not path.startswith((".foreword", "..")):
                opened.append(path)

    sys.addaudithook(note)  # an audit hook cannot be removed; it is inactive after the block
    yield opened
    watching = False


def test_no_file_is_read_twice(tmp_path: Path) -> None:
    """While no file changes, each is opened once."""
    ws = make_workspace(tmp_path, FILES)
    with watch(tmp_path) as opened:
        for number in range(5):
            ws.assemble(replace(TURN, message=str(number)))
    assert len(opened) == len(set(opened))
    assert "SOUL.md" in opened


def test_withheld_is_not_opened(tmp_path: Path) -> None:
    """A turn opens no file above its clearance."""
    ws = make_workspace(tmp_path, {**FILES, "BOOT.md": "x\n", "MEMORY.md": "x\n", "memory/private/y.md": "y\n"})
    with watch(tmp_path) as opened:
        ws.assemble(Turn(user="mallory", situation="dm", channel="telegram"))
    assert set(opened) <= {"blueprints/default.yaml"}


def test_other_people(tmp_path: Path) -> None:
    """Turns of different users in one workspace do not share data."""
    config = "owner: alice\nusers: {alice: {trust: full}, carol: {trust: inner}}\n"
    files = {"foreword.yaml": config, "USER.md": "She keeps bees.\n", "users/carol/USER.md": "She sails.\n"}
    ws = make_workspace(tmp_path, files)
    for _ in range(2):
        assert "bees" in (alices := ws.assemble(TURN).prompt.text)
        assert "sails" not in alices
        assert "sails" in (carols := ws.assemble(replace(TURN, user="carol")).prompt.text)
        assert "bees" not in carols


def test_failing_source(tmp_path: Path) -> None:
    """A custom source that raises loses its slot but does not fail the turn, and the report has the error."""

    @foreword.source("failing", Pace.STATIC)
    def fail(_view, _entry):
        raise RuntimeError("no luck")

    try:
        slot = "  - {id: failing, source: failing, pace: static, trust: public, tier: low}\n"
        text = (read_blueprint("default") or "").replace("slots:\n", f"slots:\n{slot}")
        assembly = make_workspace(tmp_path, {"blueprints/mine.yaml": text}).assemble(replace(TURN, blueprint="mine"))
        row = next(row for row in assembly.rows() if row.id == "failing")
        assert (str(row.verdict), row.reason) == ("dropped", "source 'failing' failed: RuntimeError: no luck")
    finally:
        del SOURCES["failing"]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda _: "Hi", "str"),
        (lambda _: None, "NoneType"),
        (lambda entry: [Section(entry=entry, text="Hi", origin="test")], "list"),
        (lambda entry: (Section(entry=entry, text="Hi", origin="test"), "Hi"), "Section, str"),
        (lambda entry: Section(entry=entry, text=b"Hi", origin="test"), "Section"),
        (lambda entry: Section(entry=entry, text="\ud83e", origin="test"), "Section"),
        pytest.param(lambda entry: Section(entry=entry, text="Hi", origin="test", title="\ud83e"), "Section"),
    ],
)
@pytest.mark.parametrize("pace", ["static", "session", "turn"])
def test_misfitting_source(tmp_path: Path, make: Callable, kind: str, pace: str) -> None:
    """A custom source with an invalid result loses its slot but does not fail the turn."""
    foreword.source("odd", Pace.STATIC)(lambda _view, entry: make(entry))
    try:
        slot = f"  - {{id: odd, source: odd, pace: {pace}, trust: public, tier: low}}\n"
        text = (read_blueprint("default") or "").replace("slots:\n", f"slots:\n{slot}")
        ws = make_workspace(tmp_path, {**FILES, "blueprints/mine.yaml": text})
        assembly = ws.assemble(replace(TURN, blueprint="mine"))
        row = next(row for row in assembly.rows() if row.id == "odd")
        reason = f"source 'odd' must return sections with valid Unicode, not {kind}"
        assert (str(row.verdict), row.reason) == ("dropped", reason)
        assert "Be kind." in assembly.prompt.text
    finally:
        del SOURCES["odd"]


def test_reader_below_the_turn(tmp_path: Path) -> None:
    """A reader below the clearance of the turn is refused, and one above it sees the withheld slots."""
    ws = make_workspace(tmp_path, {"BOOT.md": "x\n"})
    assembly = ws.assemble(Turn(user="mallory", situation="dm"))
    assert "boot" not in {row.id for row in assembly.rows()}
    assert "boot" in {row.id for row in assembly.rows(foreword.Trust.FULL)}
    with pytest.raises(foreword.InputError, match="a public reader may not see it"):
        ws.assemble(TURN).explain(foreword.Trust.PUBLIC)


def test_files_in_trouble(tmp_path: Path) -> None:
    """An unusable file has a verdict with its reason, and the rest of the prompt is complete."""
    write_files(tmp_path, FILES)
    (tmp_path / "AGENTS.md").write_bytes(b"\xff")
    (tmp_path / "SOUL.md").write_bytes(b"a\0b")
    (tmp_path / "rules/a.md").write_bytes(b"\xff")
    (tmp_path / "skills/tea/SKILL.md").write_bytes(b"\xff")
    rows = {row.id: row for row in make_workspace(tmp_path, {}).assemble(TURN).rows()}
    assert (str(rows["agents"].verdict), rows["agents"].reason) == (
        "dropped",
        "AGENTS.md is not UTF-8 in line 1; save it as UTF-8",
    )
    assert str(rows["soul"].verdict) == "kept"
    assert "SOUL.md has a NUL byte" in rows["soul"].reason
    assert str(rows["rules:a.md"].verdict) == "dropped"
    assert str(rows["rules:b.md"].verdict) == "kept"
    assert "SKILL.md is not UTF-8" in rows["skills"].reason


@pytest.mark.parametrize(
    ("path", "row"), [("rules/x\\y.md", "rules:x\\y.md"), ("skills/x\\y/SKILL.md", ""), ("memory/social/x\\y.md", "")]
)
def test_refused_name(tmp_path: Path, path: str, row: str) -> None:
    """A file with a refused name affects no other file, and its place in the prompt has a notice."""
    whole = make_workspace(tmp_path / "whole", FILES).assemble(TURN)
    assembly = make_workspace(tmp_path / "odd", {**FILES, path: "ODD\n"}).assemble(TURN)
    notice = (
        f"### x\\y.md\n[{path} is refused; paths are relative to the workspace and stay below it]\n\n" if row else ""
    )
    assert assembly.prompt.text.replace(notice, "") == whole.prompt.text
    assert notice in assembly.prompt.text
    found = {row.id: row for row in assembly.rows()}
    if row:
        assert str(found[row].verdict) == "dropped"
        assert found[row].reason == f"{path} is refused; paths are relative to the workspace and stay below it"
    assert {row.id for row in whole.rows()} == set(found) - {row}


def test_deep_front_matter(tmp_path: Path) -> None:
    """Front matter that is nested too deeply is reported and ignored, in every kind of file."""
    deep = "---\na: " + "[" * 200_000 + "\n---\nBe kind.\n"
    paths = ("SOUL.md", "IDENTITY.md", "USER.md", "rules/a.md", "skills/tea/SKILL.md", "memory/social/x.md")
    assembly = make_workspace(tmp_path, dict.fromkeys(paths, deep)).assemble(TURN)
    notes = {row.id: row.reason for row in assembly.rows() if "front matter" in row.reason}
    assert set(notes) == {"soul", "identity", "user", "rules:a.md"}
    assert set(notes.values()) == {"its front matter is not valid YAML in line 2 and was ignored"}
    assert "- social/x.md (3 tok) — Be kind" in assembly.prompt.text


@pytest.mark.parametrize(
    ("creature", "said"),
    [("heron", "a heron"), ("owl", "an owl"), ("Elf", "an Elf"), ("old heron", "an old heron"), ("🦉", "a 🦉")],
)
def test_article(tmp_path: Path, creature: str, said: str) -> None:
    """The article before the creature is correct: a heron, an owl."""
    ws = make_workspace(tmp_path, {"IDENTITY.md": f"---\ncreature: {creature}\n---\n"})
    assert f"\nYou are {said}.\n" in ws.assemble(TURN).prompt.text


def test_no_model(tmp_path: Path) -> None:
    """A turn without a model is assembled for an assumed window, and the summary says so."""
    assembly = make_workspace(tmp_path, {}).assemble(replace(TURN, model=""))
    assert assembly.summary.endswith("no model is named; a window of 128,000 is assumed")


def test_skill_hint_is_redeemed(tmp_path: Path) -> None:
    """The call described in the skill list works with the path of each skill."""
    ws = make_workspace(tmp_path, FILES)
    assembly = ws.assemble(TURN)
    assert 'path="skills/tea"' in assembly.prompt.text
    assert 'by its path: memory_get("PATH/SKILL.md").' in assembly.prompt.text
    assert ws.call(assembly, "memory_get", {"path": "skills/tea/SKILL.md"}).text == "Boil water."


@pytest.mark.parametrize(
    ("situation", "room", "zone"),
    [
        ("dm", "", "13:00 (Europe/Paris)"),
        ("system", "", "13:00 (Europe/Paris)"),
        ("group", "", "12:00 (UTC)"),
        ("group", "attic", "12:00 (UTC)"),
        ("dm", "attic", "12:00 (UTC)"),
        ("system", "attic", "12:00 (UTC)"),
        ("dm", "family", "21:00 (Asia/Tokyo)"),
    ],
)
def test_company(tmp_path: Path, situation: str, room: str, zone: str) -> None:
    """In a group or a room the prompt contains no zone, file or instructions of a user."""
    config = (
        "owner: alice\nusers: {alice: {trust: full, timezone: Europe/Paris}}\n"
        "situations: {group: {ceiling: full}}\nrooms: {family: {situation: group, timezone: Asia/Tokyo}}\n"
    )
    ws = make_workspace(tmp_path, {**FILES, "foreword.yaml": config})
    turn = replace(TURN, situation=situation, room=room, instructions="OWN", client=foreword.Client(zone=""))
    text = ws.assemble(turn).prompt.text
    assert zone in text
    alone = zone.endswith("Paris)")
    assert ("OWN" in text, "bees" in text) == (alone, alone)


def test_broken_front_matter(tmp_path: Path) -> None:
    """Broken front matter is ignored, and the report notes it."""
    ws = make_workspace(tmp_path, {"SOUL.md": "---\na: [\n---\nBe kind.\n"})
    row = next(row for row in ws.assemble(TURN).rows() if row.id == "soul")
    assert (str(row.verdict), row.reason) == ("kept", "its front matter is not valid YAML in line 2 and was ignored")


def test_unknown_zone(tmp_path: Path) -> None:
    """An unknown zone is treated as UTC, and the report says so."""
    config = "owner: alice\nusers: {alice: {trust: full, timezone: Mars/Olympus}}\n"
    assembly = make_workspace(tmp_path, {"foreword.yaml": config}).assemble(TURN)
    row = next(row for row in assembly.rows() if row.id == "time")
    assert row.reason == "time zone 'Mars/Olympus' is not known, so UTC is used"
    assert "12:00 (UTC)" in assembly.prompt.text


def test_frozen(tmp_path: Path) -> None:
    """Assembling changes no input, and its results are immutable."""
    assembly = make_workspace(tmp_path, FILES).assemble(TURN)
    for value in (assembly, assembly.turn, assembly.plan, assembly.fit, assembly.prompt, assembly.clearance):
        with pytest.raises((AttributeError, TypeError)):
            value.level = 1


def test_closing(tmp_path: Path) -> None:
    """A workspace is a context manager that stores its token counts; it writes only its state."""
    before = sorted(FILES)
    with make_workspace(tmp_path, {**FILES, "SOUL.md": "Be kind. " * 100}) as ws:
        assert isinstance(ws, Workspace)
        ws.assemble(TURN)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {*before, "foreword.yaml", ".foreword/counts.sqlite"}
