"""Claims about edits while a workspace is open."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from foreword.engine.trust import Audience
from foreword.resources import read_blueprint
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace
from waiting import wait

GOOD = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
TURN = Turn(user="alice", situation="dm", model="openai:gpt-5")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace with two people."""
    return make_workspace(tmp_path, {"foreword.yaml": GOOD, "SOUL.md": "Be kind.\n"})


def edit(ws: Workspace, text: str, name: str = "foreword.yaml") -> None:
    """Edit a file and refresh the workspace."""
    write_files(ws.files.root, {name: text})
    ws.refresh(now=True)


def test_good_edit(ws: Workspace) -> None:
    """An edit of the configuration applies to the next turn, as a new value."""
    before = ws.config
    edit(ws, GOOD.replace("familiar", "inner"))
    assert ws.fault is None
    assert ws.config is not before
    assert str(before.users["bob"].trust) == "familiar"
    assert str(ws.assemble(Turn(user="bob", situation="dm")).clearance.level) == "inner"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("owner: [\n", "not valid YAML"),
        ("owner: nobody\n", "nobody"),
        ("", "the file is empty"),
        (GOOD + "colour: red\n", "foreword.yaml:3: "),
        (GOOD.replace("full", "ful"), "foreword.yaml:2: "),
    ],
)
def test_bad_edit(ws: Workspace, bad: str, words: str) -> None:
    """A bad edit leaves the old configuration active and is reported as a fault until it is fixed."""
    before, text = ws.config, ws.assemble(TURN).prompt.text
    edit(ws, bad)
    assert ws.config is before
    assert words in str(ws.fault)
    assert ws.assemble(TURN).prompt.text == text
    assert ws.fault is not None
    edit(ws, GOOD.replace("familiar", "inner"))
    assert ws.fault is None
    assert str(ws.config.users["bob"].trust) == "inner"


def test_fault_stays(ws: Workspace) -> None:
    """While the configuration is broken the fault remains, also when other files change."""
    edit(ws, "owner: [\n")
    edit(ws, "Be exact.\n", "SOUL.md")
    assert ws.fault is not None
    assert "Be exact." in ws.assemble(TURN).prompt.text


def test_undone_edit(ws: Workspace) -> None:
    """A bad edit that is undone leaves no fault and the identical configuration."""
    before = ws.config
    edit(ws, "owner: [\n")
    edit(ws, GOOD)
    assert (ws.fault, ws.config) == (None, before)


def test_deleted_configuration(ws: Workspace) -> None:
    """A deleted configuration, which some editors cause briefly, is a fault and does not raise."""
    before, text = ws.config, ws.assemble(TURN).prompt.text
    (Path(ws.files.root) / "foreword.yaml").unlink()
    ws.refresh(now=True)
    assert "there is no foreword.yaml" in str(ws.fault)
    assert ws.config is before
    assert ws.assemble(TURN).prompt.text == text
    edit(ws, GOOD)
    assert (ws.fault, ws.config) == (None, before)


def test_configuration_in_trouble(ws: Workspace) -> None:
    """A configuration that is no longer text is a fault."""
    (Path(ws.files.root) / "foreword.yaml").write_bytes(b"\xff")
    ws.refresh(now=True)
    assert "not UTF-8" in str(ws.fault)


def test_without_asking(ws: Workspace) -> None:
    """An edit soon appears in the next turn without an explicit refresh."""
    ws.assemble(TURN)
    write_files(ws.files.root, {"SOUL.md": "Be exact.\n"})
    wait(lambda: "Be exact." in ws.assemble(TURN).prompt.text)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("SOUL.md", "Be exact.\n", "Be exact."),
        ("agents/assistant/SOUL.md", "Be mine.\n", "Be mine."),
        ("rules/new.md", "A new rule.\n", "A new rule."),
        ("skills/tea/SKILL.md", "---\nname: tea\n---\n", '<skill name="tea"'),
        ("memory/social/deep/x.md", "X\n", "- social/deep/x.md (1 tok)"),
        ("USER.md", "She keeps bees.\n", "She keeps bees."),
        ("users/alice/USER.md", "She sails.\n", "She sails."),
        ("channels/terminal.md", "80 columns.\n", "80 columns."),
        ("IDENTITY.md", "---\nname: Reid\n---\n", "Your name is Reid."),
    ],
)
def test_new_files(ws: Workspace, name: str, text: str, shown: str) -> None:
    """A new file is in the next prompt, and a deleted one is not."""
    without = ws.assemble(TURN).prompt.text
    assert shown not in without
    before = Path(ws.files.root) / name
    old = before.read_text() if before.exists() else None
    edit(ws, text, name)
    assert shown in ws.assemble(TURN).prompt.text
    if old is None:
        before.unlink()
    else:
        before.write_text(old)
    ws.refresh(now=True)
    assert ws.assemble(TURN).prompt.text == without


def test_only_what_changed(ws: Workspace) -> None:
    """An edit of a session file does not change the static block."""
    first = ws.assemble(TURN)
    edit(ws, "She keeps bees.\n", "USER.md")
    second = ws.assemble(TURN)
    assert second.prompt.blocks[0].text == first.prompt.blocks[0].text
    assert second.prompt.blocks[1].text != first.prompt.blocks[1].text


@pytest.mark.parametrize("bad", ["name: mine\nslots: 3\n", "name: [", pytest.param(""), "\0"])
def test_bad_blueprint_edit(ws: Workspace, bad: str) -> None:
    """A blueprint broken by an edit keeps its last good version and is a fault until it is fixed."""
    good, turn = read_blueprint("default") or "", replace(TURN, blueprint="mine")
    edit(ws, good.replace("title: Soul", "title: Heart"), "blueprints/mine.yaml")
    text = ws.assemble(turn).prompt.text
    assert "## Heart\n" in text
    edit(ws, bad, "blueprints/mine.yaml")
    for _ in range(2):
        assert ws.assemble(turn).prompt.text == text
        assert "blueprints/mine.yaml" in str(ws.fault)
    edit(ws, good.replace("title: Soul", "title: Mind"), "blueprints/mine.yaml")
    assert "## Mind\n" in ws.assemble(turn).prompt.text
    assert ws.fault is None


def test_emptied_blueprint(ws: Workspace) -> None:
    """A blueprint that an editor empties briefly is not replaced by the shipped one of the same name."""
    good, turn = read_blueprint("coop") or "", replace(TURN, blueprint="coop")
    edit(ws, good.replace("title: Runtime", "title: Now"), "blueprints/coop.yaml")
    text = ws.assemble(turn).prompt.text
    edit(ws, "", "blueprints/coop.yaml")
    assert ws.assemble(turn).prompt.text == text
    assert "blueprints/coop.yaml" in str(ws.fault)


def test_threads(ws: Workspace) -> None:
    """Threads that assemble during edits never fail, and the last prompt has the newest text."""
    names = ("SOUL.md", "AGENTS.md", "USER.md", "rules/a.md", "memory/social/x.md")
    end = time.monotonic() + 1

    def work(user: str) -> int:
        turns = 0
        while time.monotonic() < end:
            turns += bool(ws.assemble(replace(TURN, user=user, message=str(turns))).prompt.text)
        return turns

    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(work, user) for user in ("alice", "bob") * 3]
        number = 0
        while time.monotonic() < end:
            number += 1
            write_files(ws.files.root, {name: f"Edit {number} of {name}.\n" for name in names})
            ws.refresh(now=number % 2 == 0)
            time.sleep(0.01)
        assert all(worker.result(timeout=120) for worker in workers)
    ws.refresh(now=True)
    text = ws.assemble(TURN).prompt.text
    assert [name for name in names if f"Edit {number} of {name}" not in text] == []


def test_half_written(ws: Workspace) -> None:
    """A partly written configuration does not apply, valid or not, until its file is stable."""
    for text in ("owner: alice\n", GOOD[:-3]):
        (Path(ws.files.root) / "foreword.yaml").write_text(text)
        ws.files.refresh(now=True)
        ws.refresh()
        assert (ws.fault, str(ws.config.users["bob"].trust)) == (None, "familiar")
    (Path(ws.files.root) / "foreword.yaml").write_text(GOOD.replace("familiar", "inner"))
    wait(lambda: ws.refresh() or str(ws.config.users["bob"].trust) == "inner")
    assert ws.fault is None


def test_swapped_link(ws: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A configuration that becomes a symlink is followed inside the workspace and refused outside it."""
    root, elsewhere = Path(ws.files.root), tmp_path_factory.mktemp("elsewhere")
    write_files(str(root), {"other.yaml": GOOD.replace("familiar", "inner")})
    write_files(str(elsewhere), {"foreword.yaml": GOOD.replace("familiar", "full")})
    for target in (root / "other.yaml", elsewhere / "foreword.yaml"):
        (root / "link").symlink_to(target)
        (root / "link").replace(root / "foreword.yaml")
        ws.refresh(now=True)
        assert str(ws.config.users["bob"].trust) == "inner"
    assert "leads out of its workspace" in str(ws.fault)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_closed_configuration(ws: Workspace) -> None:
    """A configuration that becomes unreadable is a fault, and the old one remains active."""
    (Path(ws.files.root) / "foreword.yaml").chmod(0)
    ws.refresh(now=True)
    assert "permission denied" in str(ws.fault)
    assert ws.assemble(TURN).prompt.text


def test_a_blueprint_that_comes_later(ws: Workspace) -> None:
    """A configuration that names a missing blueprint applies once the blueprint exists."""
    named = GOOD + "agents: {reid: {blueprint: mine}}\n"
    edit(ws, named)
    assert "'mine', which does not exist" in str(ws.fault)
    (Path(ws.files.root) / "blueprints").mkdir()
    (Path(ws.files.root) / "blueprints" / "mine.yaml").write_text(read_blueprint("default") or "")
    ws.refresh()
    assert ws.fault is None
    assert list(ws.config.agents) == ["reid"]


def test_broken_while_idle(ws: Workspace) -> None:
    """A blueprint in use that breaks is a fault at the next refresh, before any turn uses it."""
    edit(ws, read_blueprint("default") or "", "blueprints/mine.yaml")
    ws.blueprint("mine")
    edit(ws, "name: [", "blueprints/mine.yaml")
    assert list(ws.faults) == ["blueprints/mine.yaml"]
    (Path(ws.files.root) / "blueprints/mine.yaml").unlink()
    ws.refresh(now=True)
    assert "unknown blueprint 'mine'" in str(ws.fault)
    assert ws.assemble(replace(TURN, blueprint="mine")).prompt.text


def test_memory_of_before(ws: Workspace) -> None:
    """The memory of an earlier configuration remains usable, and both share one index."""
    edit(ws, "Chess is played on Thursdays.\n", "memory/social/games.md")
    old = ws.memory
    assert old.search("chess", Audience(clearance=Trust.FULL))
    edit(ws, GOOD + "stores: {social: {trust: full}}\n")
    new = ws.memory
    assert new is not old
    assert [len(one.search("chess", Audience(clearance=Trust.FAMILIAR))) for one in (old, new)] == [1, 0]
    assert old.search("chess", Audience(clearance=Trust.FULL)) == new.search("chess", Audience(clearance=Trust.FULL))
    connections = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for number in range(5):
        edit(ws, f"{GOOD}# {number}\n")
        assert ws.memory.search("chess", Audience(clearance=Trust.FULL))
    assert not connections or len(list(Path("/proc/self/fd").iterdir())) <= connections


def test_memory_in_threads(ws: Workspace) -> None:
    """Threads that search while the configuration is edited never fail."""
    edit(ws, "Chess is played on Thursdays.\n", "memory/social/games.md")
    end = time.monotonic() + 0.5

    def work() -> int:
        found = 0
        while time.monotonic() < end:
            found += len(ws.memory.search("chess", Audience(clearance=Trust.FULL)))
        return found

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work) for _ in range(4)]
        number = 0
        while time.monotonic() < end:
            number += 1
            edit(ws, f"{GOOD}# {number}\n")
        assert all(worker.result(timeout=120) for worker in workers)
