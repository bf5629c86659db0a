"""Events for edits of the configuration."""

import pytest

from foreword.events.event import NO_CONTEXT, Level, NoticeFanout
from foreword.gateway.reload import Reloader
from foreword.testing import FakeRecorder, make_workspace, write_files

GOOD = "owner: alice\nusers: {alice: {trust: full}}\n"
FAULTY = "owner: alice\nusers: {alice: {trust: sk-ant-api03-secret}}\n"


@pytest.fixture
def edited(tmp_path):
    """A function that edits a workspace's configuration and returns the recorded events."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), FakeRecorder()
    reloads = Reloader(workspace, heard)

    def edit(text):
        write_files(tmp_path, {"foreword.yaml": text})
        workspace.refresh(now=True)
        reloads.look()
        reloads.look()
        shown, heard.events = heard.events, []
        assert all((event.context, event.position.parent) == (NO_CONTEXT, "") for event in shown)
        return [(event.level, event.error, dict(event.facts)) for event in shown]

    return edit


def test_an_edit_is_told_once(edited):
    """An applied edit is recorded once, with the changed parts and for full trust only."""
    assert edited(GOOD) == []
    assert edited(GOOD + "budgets: {daily_usd: 5}\n") == [(Level.INFO, "", {"changed": "budgets"})]
    assert edited(GOOD + "budgets: {daily_usd: 5}  # enough\n") == [(Level.INFO, "", {"changed": "nothing"})]


def test_a_faulty_edit_is_told_once(edited):
    """A faulty edit is recorded once as an error with file and line, and without its content."""
    shown = [(Level.ERROR, "foreword.yaml:2 is faulty: the previous version stays in use; see: foreword doctor", {})]
    assert edited(FAULTY) == shown
    assert edited(FAULTY + "# still\n") == []
    assert edited(GOOD) == [(Level.INFO, "", {"mended": "foreword.yaml is good again"})]
    assert edited(FAULTY) == shown
    assert edited("owner: [\n")[0][1].startswith("foreword.yaml:")


class Watch:
    """A follower that reports a setting fixed at start, and that collects the owner's notices."""

    def __init__(self, config):
        self.started, self.seen, self.heard = config, [], []

    def follow(self, before, after):
        """Follow an edit."""
        self.seen.append((before.server.port, after.server.port))
        return ["server.port"] if after.server.port != self.started.server.port else []

    def notify(self, notice):
        """Record a notice."""
        self.heard.append(notice.text)


class Broken:
    """A follower and a notifier that fail."""

    def follow(self, _, __):
        """Fail."""
        raise KeyError("sk-ant-api03-secret"[:3])

    def notify(self, _):
        """Fail."""
        raise OSError


@pytest.fixture
def followed(tmp_path):
    """A workspace whose edits are followed, with all calls, events and notices."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), FakeRecorder()
    watch = Watch(workspace.config)
    reloads = Reloader(workspace, heard, board=NoticeFanout(Broken(), watch))
    reloads.followers.append(watch)

    def edit(text, **files):
        write_files(tmp_path, {"foreword.yaml": text, **files})
        return reloads.look(now=True)

    edit.watch, edit.heard, edit.reloads = watch, heard, reloads
    return edit


def test_what_needs_a_restart(followed):
    """A setting that needs a restart is reported once, the rest of the edit applies; reverting it clears it."""
    found = followed(GOOD + "server: {port: 9000}\nbudgets: {daily_usd: 5}\n")
    assert (found.changed, found.restart, found.faulty) == (("budgets", "server"), ("server.port",), ())
    assert followed(GOOD + "server: {port: 9000}\n").restart == ("server.port",)
    assert followed(GOOD).restart == ()
    assert followed.watch.seen == [(8707, 9000), (9000, 9000), (9000, 8707)]
    assert followed.watch.heard == ["server.port needs a restart; until then the previous version stays in use"]
    errors = [event.error for event in followed.heard.events if event.level is Level.ERROR]
    assert errors == ["server.port needs a restart: the previous version stays in use"]
    assert followed(GOOD, **{".env": "KEY=1"}).restart == (".env",)
    assert followed.watch.heard[1].startswith(".env needs a restart")


def test_a_follower_that_fails(followed):
    """A failing follower does not stop the others, and the owner is notified."""
    followed.reloads.followers.insert(0, Broken())
    assert followed(GOOD + "server: {port: 9000}\n").restart == ("server.port",)
    assert [event.level for event in followed.heard.events] == [Level.ERROR, Level.INFO, Level.ERROR]
    assert "could not apply an edit" in followed.watch.heard[0]


def test_the_owner_is_told_where(followed):
    """The owner's notice gives the place of a fault and the command to inspect it, but no content."""
    assert followed(FAULTY).faulty == ("foreword.yaml:2",)
    (shown,) = followed.watch.heard
    assert shown == "foreword.yaml:2 is faulty: the previous version stays in use; see: foreword doctor"
    assert followed.watch.seen == []


def test_a_configuration_that_is_gone(tmp_path):
    """A deleted configuration is recorded as gone, and its return as good again."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), FakeRecorder()
    reloads = Reloader(workspace, heard)
    (tmp_path / "foreword.yaml").unlink()
    assert reloads.look(now=True).faulty == ("foreword.yaml",)
    write_files(tmp_path, {"foreword.yaml": GOOD})
    assert reloads.look(now=True).faulty == ()
    gone, back = heard.events
    assert gone.error == "foreword.yaml is gone: the previous version stays in use; see: foreword doctor"
    assert (back.level, back.facts) == (Level.INFO, {"mended": "foreword.yaml is good again"})


def test_a_text_that_breaks(tmp_path):
    """A broken text is reported once to the log and the owner, and its repair once to the log."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD, "SOUL.md": "Calm.\n"}), FakeRecorder()
    watch = Watch(workspace.config)
    reloads = Reloader(workspace, heard, board=NoticeFanout(watch))
    workspace.files.read("SOUL.md")
    for raw in (b"a\0b", b"a\0b", b"Exact.\n", b"Exact.\n"):
        (tmp_path / "SOUL.md").write_bytes(raw)
        workspace.refresh(now=True)
        workspace.files.reread()
        reloads.look()
    shown = "SOUL.md has a NUL byte at 1 and is no text: the previous version stays in use; see: foreword doctor"
    assert watch.heard == [shown]
    assert [(event.error, event.facts) for event in heard.events] == [
        (shown, {}),
        ("", {"mended": "SOUL.md is good again"}),
    ]
