"""Facts about this machine, gathered at the edge and handed in: the engine itself never looks."""

import os
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from foreword.turn import Git, Host

PATIENCE = 2.0  # seconds that git may take
SYSTEMS = {"Darwin": "macos"}
# A hook or a rebase sets these, and they would point git at another repository than the one asked about.
MISLEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE")
# A repository's own configuration can name programs: a file watcher, and one that checks signatures.
QUIET = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false")


def find_host(environ: Mapping[str, str] = os.environ) -> Host:
    """Find the name, the system, the architecture and the shell of this machine, without running anything."""
    if hasattr(os, "uname"):
        facts = os.uname()
        name, system, arch = facts.nodename, facts.sysname, facts.machine
    else:
        import platform

        name, system, arch = platform.node(), platform.system(), platform.machine()
    shell = os.path.basename(environ.get("SHELL") or environ.get("COMSPEC") or "")
    return Host(host=name, os=SYSTEMS.get(system, system.lower()), arch=arch, shell=shell)


def find_git(path: str, patience: float = PATIENCE) -> Git | None:
    """Find the state of the repository that a folder is in, or None where there is none or git does not say."""
    status = ask_git(path, patience, "status", "--porcelain=v2", "--branch")
    if status is None:
        return None
    lines = status.splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    branch = heads.get("branch.head", "")
    commit = "" if heads.get("branch.oid") == "(initial)" else ask_git(path, patience, "log", "-1", "--format=%h %s")
    return Git(
        branch="detached" if branch == "(detached)" else branch,
        changed=sum(not line.startswith("#") for line in lines),
        commit=(commit or "").strip(),
    )


def ask_git(path: str, patience: float, *words: str) -> str | None:
    """Run one git command that changes nothing, and return what it says, or None if it fails."""
    import subprocess

    environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, and no shell is between
            ["git", "-C", path, *QUIET, *words],  # noqa: S607 - whichever git the person uses
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=patience,
            env=environ,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


def find_zone(environ: Mapping[str, str] = os.environ, link: str = "/etc/localtime") -> str:
    """Find the time zone of this machine by name, or UTC where it has none."""
    linked = os.path.realpath(link).partition("zoneinfo/")[2]
    for name in (environ.get("TZ", "").lstrip(":"), linked):
        try:
            if name:
                return ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            continue
    return "UTC"
