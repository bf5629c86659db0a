"""Claims about telling that a configuration was edited."""

import pytest

from foreword.events.event import NOBODY, Level
from foreword.events.notices import Board
from foreword.events.reloads import Reloads
from foreword.testing import Heard, make_workspace, write_files

GOOD = "owner: alice\nusers: {alice: {trust: full}}\n"
FAULTY = "owner: alice\nusers: {alice: {trust: sk-ant-api03-secret}}\n"


@pytest.fixture
def edited(tmp_path):
    """A workspace whose configuration can be edited, who looks at it, and what they tell."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), Heard()
    reloads = Reloads(workspace, heard)

    def edit(text):
        write_files(tmp_path, {"foreword.yaml": text})
        workspace.refresh(now=True)
        reloads.look()
        reloads.look()
        told, heard.events = heard.events, []
        assert all((event.context, event.place.parent) == (NOBODY, "") for event in told)
        return [(event.level, event.error, dict(event.facts)) for event in told]

    return edit


def test_an_edit_is_told_once(edited):
    """An edit that came into force is told once, with the parts that changed and for full trust alone."""
    assert edited(GOOD) == []
    assert edited(GOOD + "budgets: {daily_usd: 5}\n") == [(Level.INFO, "", {"changed": "budgets"})]
    assert edited(GOOD + "budgets: {daily_usd: 5}  # enough\n") == [(Level.INFO, "", {"changed": "nothing"})]


def test_a_faulty_edit_is_told_once(edited):
    """A faulty edit is an error with file and line, told once until it comes back, and quotes nothing."""
    told = [(Level.ERROR, "foreword.yaml:2 is faulty: what was in force before still is; see: foreword doctor", {})]
    assert edited(FAULTY) == told
    assert edited(FAULTY + "# still\n") == []
    assert edited(GOOD) == [(Level.INFO, "", {"mended": "foreword.yaml is good again"})]
    assert edited(FAULTY) == told
    assert edited("owner: [\n")[0][1].startswith("foreword.yaml:")


class Watch:
    """A follower that names a setting which it took at its start, and an owner who is told."""

    def __init__(self, config):
        self.started, self.seen, self.heard = config, [], []

    def follow(self, before, after):
        """Follow an edit."""
        self.seen.append((before.server.port, after.server.port))
        return ["server.port"] if after.server.port != self.started.server.port else []

    def notify(self, notice):
        """Take a notice."""
        self.heard.append(notice.text)


class Broken:
    """A follower and a way to the owner that fail."""

    def follow(self, _, __):
        """Fail."""
        raise KeyError("sk-ant-api03-secret"[:3])

    def notify(self, _):
        """Fail."""
        raise OSError


@pytest.fixture
def followed(tmp_path):
    """A workspace whose edits are followed, with everything that is seen and told."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), Heard()
    watch = Watch(workspace.config)
    reloads = Reloads(workspace, heard, notices=Board(Broken(), watch))
    reloads.followers.append(watch)

    def edit(text, **how):
        write_files(tmp_path, {"foreword.yaml": text})
        return reloads.look(now=True, **how)

    edit.watch, edit.heard, edit.reloads = watch, heard, reloads
    return edit


def test_what_needs_a_restart(followed):
    """A setting that only a restart changes is named once, the rest of the edit applies; undone, nothing waits."""
    found = followed(GOOD + "server: {port: 9000}\nbudgets: {daily_usd: 5}\n")
    assert (found.changed, found.restart, found.faulty) == (("budgets", "server"), ("server.port",), ())
    assert followed(GOOD + "server: {port: 9000}\n").restart == ("server.port",)
    assert followed(GOOD).restart == ()
    assert followed.watch.seen == [(8707, 9000), (9000, 9000), (9000, 8707)]
    assert followed.watch.heard == ["server.port needs a restart; until then what was in force before still is"]
    errors = [event.error for event in followed.heard.events if event.level is Level.ERROR]
    assert errors == ["server.port needs a restart: what was in force before still is"]
    assert followed(GOOD, further=[".env"]).restart == (".env",)
    assert followed.watch.heard[1].startswith(".env needs a restart")


def test_a_follower_that_fails(followed):
    """A part that cannot follow keeps an edit from no other, and the owner is told."""
    followed.reloads.followers.insert(0, Broken())
    assert followed(GOOD + "server: {port: 9000}\n").restart == ("server.port",)
    assert [event.level for event in followed.heard.events] == [Level.ERROR, Level.INFO, Level.ERROR]
    assert "could not follow an edit" in followed.watch.heard[0]


def test_the_owner_is_told_where(followed):
    """The owner is told where a fault is and how to see what it is, and nothing that stands there."""
    assert followed(FAULTY).faulty == ("foreword.yaml:2",)
    (told,) = followed.watch.heard
    assert told == "foreword.yaml:2 is faulty: what was in force before still is; see: foreword doctor"
    assert followed.watch.seen == []


def test_a_configuration_that_is_gone(tmp_path):
    """A configuration that was deleted is told to be gone, and once it is back, that it is good again."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), Heard()
    reloads = Reloads(workspace, heard)
    (tmp_path / "foreword.yaml").unlink()
    assert reloads.look(now=True).faulty == ("foreword.yaml",)
    write_files(tmp_path, {"foreword.yaml": GOOD})
    assert reloads.look(now=True).faulty == ()
    gone, back = heard.events
    assert gone.error == "foreword.yaml is gone: what was in force before still is; see: foreword doctor"
    assert (back.level, back.facts) == (Level.INFO, {"mended": "foreword.yaml is good again"})


def test_a_text_that_breaks(tmp_path):
    """A text that breaks is told once to the log and the owner with what is wrong, and once that it is good again."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD, "SOUL.md": "Calm.\n"}), Heard()
    watch = Watch(workspace.config)
    reloads = Reloads(workspace, heard, notices=Board(watch))
    workspace.files.read("SOUL.md")
    for raw in (b"a\0b", b"a\0b", b"Exact.\n", b"Exact.\n"):
        (tmp_path / "SOUL.md").write_bytes(raw)
        workspace.refresh(now=True)
        workspace.files.reread()
        reloads.look()
    told = "SOUL.md has a NUL byte at 1 and is no text: what was in force before still is; see: foreword doctor"
    assert watch.heard == [told]
    assert [(event.error, event.facts) for event in heard.events] == [
        (told, {}),
        ("", {"mended": "SOUL.md is good again"}),
    ]
