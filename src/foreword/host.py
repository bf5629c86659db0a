"""Gather facts about this machine at the edge; the engine only receives them."""

import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from foreword.turn import Git, Host, Sandbox

if TYPE_CHECKING:
    from foreword.config.schema import Config


# Not strftime names: they follow the locale of the process.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@lru_cache(maxsize=4_096)
def format_minute(minute: int, name: str) -> Mapping[str, str]:
    """Format a minute in a time zone. An unknown zone becomes UTC, and the field `note` reports it."""
    zone, note = load_zone(name)
    moment = datetime.fromtimestamp(minute * 60, zone)
    return {
        "weekday": DAYS[moment.weekday()],
        "date": f"{moment:%Y-%m-%d}",
        "day": str(moment.day),
        "day_2": f"{moment.day:02}",
        "month": MONTHS[moment.month - 1],
        "year": str(moment.year),
        "time": f"{moment.hour:02}:{moment.minute:02}",
        "time_12": f"{moment.hour % 12 or 12:02}:{moment.minute:02} {'AM' if moment.hour < 12 else 'PM'}",
        "timestamp": moment.isoformat(timespec="minutes"),
        "zone": zone.key,
        "note": note,
    }


def load_zone(name: str) -> tuple[ZoneInfo, str]:
    """Return the zone of this name, or UTC and a note that the name is not known."""
    try:
        return ZoneInfo(name or "UTC"), ""
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC"), f"time zone {name!r} is not known, so UTC is used"


GIT_TIMEOUT_S = 2.0  # the maximum seconds for git to look for changes
SHORT_GIT_TIMEOUT_S = 0.5  # the maximum seconds for git commands that read no files
OS_NAMES = {"Darwin": "macos"}
# Hooks and rebases set these variables, which would point git at another repository.
GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE")
# A repository's configuration can name programs: a file watcher, hooks, signature checks and transports.
GIT_SETTINGS_OFF = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "log.showSignature=false",
    "protocol.allow=never",
)
GIT_OPTIONS_OFF = tuple(word for setting in GIT_SETTINGS_OFF for word in ("-c", setting))
# Submodules have separate configurations; to detect renames, git would have to read the changed files.
GIT_STATUS_OPTIONS = ("--porcelain=v2", "--branch", "--ignore-submodules=dirty", "--no-renames")
NO_VARIABLES: Mapping[str, str] = {}


def find_host(environ: Mapping[str, str] = os.environ) -> Host:
    """Return the name, the system, the architecture and the shell of this machine, without running anything."""
    if hasattr(os, "uname"):
        facts = os.uname()
        name, system, arch = facts.nodename, facts.sysname, facts.machine
    else:
        import platform

        name, system, arch = platform.node(), platform.system(), platform.machine()
    shell = os.path.basename(environ.get("SHELL") or environ.get("COMSPEC") or "")
    return Host(host=name, os=OS_NAMES.get(system, system.lower()), arch=arch, shell=shell)


def describe_place(config: "Config", environ: Mapping[str, str] = os.environ) -> tuple[Host, Sandbox | None]:
    """Return the facts of the place where an agent works: the machine and the configured sandbox.

    Without a setting, sudo is known only if this process is root and has it. sudo itself is not run: it logs a failed
    attempt and may send a mail to root.
    """
    from dataclasses import replace
    from shutil import which

    sudo = config.host.sudo
    if sudo is None and hasattr(os, "geteuid") and os.geteuid() == 0 and which("sudo", path=environ.get("PATH", "")):
        sudo = True
    return replace(find_host(environ), sudo_non_interactive=sudo), config.sandbox


def find_git(path: str, patience: float = GIT_TIMEOUT_S) -> Git | None:
    """Return the state of the repository that contains a folder, or None if there is none or git fails.

    In a very large repository git may time out; the result then has a branch and a commit, but no count of changes.
    """
    end = time.monotonic() + patience
    names = run_git(path, patience, "config", "--list", "--name-only", "-z")
    if names is None:
        return None
    without = disable_filters(names.split("\0"))
    seconds = max(0.0, end - time.monotonic())
    status = run_git(path, seconds, *GIT_OPTIONS_OFF, "status", *GIT_STATUS_OPTIONS, without=without)
    lines = status.splitlines() if status is not None else []
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    named = heads.get("branch.head") or run_git(path, SHORT_GIT_TIMEOUT_S, "symbolic-ref", "--short", "-q", "HEAD")
    if not (branch := (named or "").strip()):
        return None
    first = heads.get("branch.oid") == "(initial)"
    commit = "" if first else run_git(path, SHORT_GIT_TIMEOUT_S, *GIT_OPTIONS_OFF, "log", "-1", "--format=%h %s")
    return Git(
        branch="detached" if branch == "(detached)" else branch,
        changed=None if status is None else sum(not line.startswith("#") for line in lines),
        commit=(commit or "").strip(),
    )


def disable_filters(names: Iterable[str]) -> Mapping[str, str]:
    """Return the environment variables that disable a repository's filters, which are programs that git would run."""
    filters = sorted({name.rpartition(".")[0] for name in names if name.startswith("filter.")})
    keys = [f"{name}.{part}" for name in filters for part in ("clean", "process")]
    keys += [f"{name}.required" for name in filters]
    said = {"GIT_CONFIG_COUNT": str(len(keys))}
    for at, key in enumerate(keys):
        said |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": "false" if key.endswith("required") else ""}
    return said


def run_git(path: str, seconds: float, *words: str, without: Mapping[str, str] = NO_VARIABLES) -> str | None:
    """Run one read-only git command, and return its output, or None if it fails."""
    import subprocess

    environ = {name: value for name, value in os.environ.items() if name not in GIT_VARIABLES}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are ours, and no shell is involved
            ["git", "-C", path, *words],  # noqa: S607 - the git on the user's PATH
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            env={**environ, **without},
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


def find_host_zone(environ: Mapping[str, str] = os.environ, link: str = "/etc/localtime") -> str:
    """Return the name of this machine's time zone, or UTC if it has none."""
    linked = os.path.realpath(link).partition("zoneinfo/")[2]
    for name in (environ.get("TZ", "").lstrip(":"), linked):
        try:
            if name:
                key = ZoneInfo(name).key
                return "UTC" if key == "Etc/UTC" else key
        except (KeyError, ValueError, OSError):
            continue
    return "UTC"
