"""Claims about the facts of this machine: they are collected without side effects, and no failure raises."""

import os
import subprocess

import pytest

from foreword.host import find_git, find_host, find_host_zone
from foreword.turn import Git


def git(folder, *words):
    """Run git in a folder, with a fixed identity."""
    names = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *names, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """Make a repository with one commit."""
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Begin, naïvely")
    return tmp_path


def test_host():
    """The host has a name, a system and an architecture; the shell is reported by name, without its path."""
    host = find_host({"SHELL": "/usr/bin/zsh"})
    assert host.os == os.uname().sysname.lower().replace("darwin", "macos")
    assert (host.host, host.arch, host.shell) == (os.uname().nodename, os.uname().machine, "zsh")
    assert find_host({}).shell == ""


def test_clean_repository(repository):
    """A clean repository has a branch and its last commit."""
    state = find_git(str(repository))
    assert (state.branch, state.changed) == ("main", 0)
    assert state.commit.endswith(" Begin, naïvely")


def test_changes_are_counted(repository):
    """Changed and new files are counted, also from a subfolder."""
    (repository / "a.txt").write_text("b")
    (repository / "new").mkdir()
    (repository / "new" / "b.txt").write_text("b")
    assert find_git(str(repository / "new")).changed == 2


def test_detached(repository):
    """A detached head has no branch name."""
    git(repository, "checkout", "--detach")
    assert find_git(str(repository)).branch == "detached"


def test_before_the_first_commit(tmp_path):
    """A repository without a commit has a branch and no commit."""
    git(tmp_path, "init", "-b", "trunk")
    assert find_git(str(tmp_path)) == Git(branch="trunk")


@pytest.mark.parametrize("path", ["/", "/nowhere/at/all", "a\0b", ""])
def test_no_repository(path, monkeypatch, tmp_path):
    """Outside a repository there is no state, and no error is raised."""
    monkeypatch.chdir(tmp_path)
    assert find_git(path) is None


def test_no_git(repository, monkeypatch):
    """Without git there is no state."""
    monkeypatch.setenv("PATH", "")
    assert find_git(str(repository)) is None


def test_slow_git(repository, monkeypatch, tmp_path):
    """A git command that times out gives no state."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert find_git(str(repository), patience=0.2) is None


def test_another_repository_in_the_environment(repository, monkeypatch):
    """Variables that a git hook sets do not select another repository."""
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert find_git(str(repository)).branch == "main"


def test_programs_of_the_repository_are_not_run(repository):
    """A file watcher that the repository configures is not run."""
    mark = repository / "ran"
    script = repository / "watch.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(script))
    find_git(str(repository))
    assert not mark.exists()


def test_zone(tmp_path):
    """The zone is the one in TZ, or else that of the machine, or else UTC."""
    assert find_host_zone({"TZ": ":Europe/Paris"}, "") == "Europe/Paris"
    (tmp_path / "zoneinfo" / "Asia").mkdir(parents=True)
    (tmp_path / "zoneinfo" / "Asia" / "Tokyo").write_text("")
    (tmp_path / "localtime").symlink_to(tmp_path / "zoneinfo" / "Asia" / "Tokyo")
    assert find_host_zone({"TZ": "Mars/Olympus"}, str(tmp_path / "localtime")) == "Asia/Tokyo"
    assert find_host_zone({}, str(tmp_path / "nothing")) == "UTC"


def test_signatures_are_not_checked(repository):
    """A program that the repository configures to verify signatures is not run, even with log.showSignature."""
    mark, script = repository / "ran", repository / "gpg.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    head = subprocess.run(["git", "-C", repository, "cat-file", "commit", "HEAD"], check=True, capture_output=True)
    fields, _, words = head.stdout.partition(b"\n\n")
    signature = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    hashed = subprocess.run(
        ["git", "-C", repository, "hash-object", "-t", "commit", "-w", "--stdin"],
        input=fields + b"\n" + signature + b"\n\n" + words,
        check=True,
        capture_output=True,
    )
    git(repository, "update-ref", "HEAD", hashed.stdout.decode().strip())
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", str(script))
    git(repository, "log", "-1")
    assert mark.exists()  # git itself runs it
    mark.unlink()
    assert find_git(str(repository)).commit.endswith(" Begin, naïvely")
    assert not mark.exists()


def test_filters_are_not_run(repository):
    """A filter that the repository configures is not run, although git needs it to detect changes."""
    mark, script = repository / "ran", repository / "filter.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    (repository / ".gitattributes").write_text("*.txt filter=odd=one.of\n")
    git(repository, "config", "filter.odd=one.of.clean", str(script))
    git(repository, "config", "filter.odd=one.of.required", "true")
    os.utime(repository / "a.txt", (1, 1))
    assert find_git(str(repository)).changed == 2
    assert not mark.exists()
    git(repository, "status")
    assert mark.exists()  # git itself runs it


def test_huge_repository(repository, monkeypatch, tmp_path):
    """If git status times out, the branch and the commit are reported without a count of changes."""
    (tmp_path / "bin").mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], check=True, capture_output=True, text=True).stdout.strip()
    slow = f'#!/bin/sh\nfor word; do [ "$word" = status ] && exec sleep 30; done\nexec {real} "$@"\n'
    (tmp_path / "bin" / "git").write_text(slow)
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = find_git(str(repository), patience=0.4)
    assert (found.branch, found.changed) == ("main", None)
    assert found.commit.endswith(" Begin, naïvely")
