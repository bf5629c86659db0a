"""Facts about this machine, gathered at the edge and handed in: the engine itself never looks."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from foreword.turn import Git, Host, Sandbox

if TYPE_CHECKING:
    from foreword.config.schema import Config

PATIENCE = 2.0  # seconds that git may take to look for changes
BRIEF = 0.5  # seconds for what it finds without looking at files
SYSTEMS = {"Darwin": "macos"}
# A hook or a rebase sets these, and they would point git at another repository than the one asked about.
MISLEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE")
# A repository's own configuration can name programs: a file watcher, hooks, one that checks signatures, and transports.
OFF = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false", "protocol.allow=never")
QUIET = tuple(word for setting in OFF for word in ("-c", setting))
# Submodules have configurations of their own; to find what was renamed, git would have to read what was changed.
STATUS = ("--porcelain=v2", "--branch", "--ignore-submodules=dirty", "--no-renames")
NOTHING: Mapping[str, str] = {}


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


def describe_host(config: "Config", environ: Mapping[str, str] = os.environ) -> Host:
    """Find the facts of this machine; the configuration may set the one about sudo."""
    from dataclasses import replace

    told = config.host.sudo
    return replace(
        find_host(environ), sudo_non_interactive=find_sudo(environ.get("PATH", "")) if told is None else told
    )


def describe_place(config: "Config", environ: Mapping[str, str] = os.environ) -> tuple[Host, Sandbox | None]:
    """Find the facts of the place that an agent works in: the machine, and how commands are confined there."""
    return describe_host(config, environ), describe_sandbox(config)


def describe_sandbox(config: "Config") -> Sandbox | None:
    """Return how commands are confined, as the configuration says it."""
    from dataclasses import fields

    settings = config.sandbox
    return Sandbox(**{one.name: getattr(settings, one.name) for one in fields(Sandbox)}) if settings else None


def find_sudo(path: str) -> bool | None:
    """Return True if this process is root and has sudo; otherwise None, for unknown.

    sudo itself is not run: it logs a failed attempt and may send a mail to root.
    """
    from shutil import which

    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return True if is_root and which("sudo", path=path) else None


def find_git(path: str, patience: float = PATIENCE) -> Git | None:
    """Find the state of the repository that a folder is in, or None where there is none or git does not say.

    A repository so large that git does not come to an end has a branch and a commit, and no count of changes.
    """
    end = time.monotonic() + patience
    names = ask_git(path, patience, "config", "--list", "--name-only", "-z")
    if names is None:
        return None
    without = silence(names.split("\0"))
    seconds = max(0.0, end - time.monotonic())
    status = ask_git(path, seconds, *QUIET, "status", *STATUS, without=without)
    lines = status.splitlines() if status is not None else []
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    branch = heads.get("branch.head") or (ask_git(path, BRIEF, "symbolic-ref", "--short", "-q", "HEAD") or "").strip()
    if not branch:
        return None
    first = heads.get("branch.oid") == "(initial)"
    commit = "" if first else ask_git(path, BRIEF, *QUIET, "log", "-1", "--format=%h %s")
    return Git(
        branch="detached" if branch == "(detached)" else branch,
        changed=None if status is None else sum(not line.startswith("#") for line in lines),
        commit=(commit or "").strip(),
    )


def silence(names: Iterable[str]) -> Mapping[str, str]:
    """Name the filters of a repository, which are programs that git would run, as variables that take them away."""
    filters = sorted({name.rpartition(".")[0] for name in names if name.startswith("filter.")})
    keys = [f"{name}.{part}" for name in filters for part in ("clean", "process")]
    keys += [f"{name}.required" for name in filters]
    said = {"GIT_CONFIG_COUNT": str(len(keys))}
    for at, key in enumerate(keys):
        said |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": "false" if key.endswith("required") else ""}
    return said


def ask_git(path: str, seconds: float, *words: str, without: Mapping[str, str] = NOTHING) -> str | None:
    """Run one git command that changes nothing, and return what it says, or None if it fails."""
    import subprocess

    environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, and no shell is between
            ["git", "-C", path, *words],  # noqa: S607 - whichever git the person uses
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            env={**environ, **without},
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
                key = ZoneInfo(name).key
                return "UTC" if key == "Etc/UTC" else key
        except (KeyError, ValueError, OSError):
            continue
    return "UTC"
