"""Examining a workspace: its configuration, its state, its agents, its keys and its files."""

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foreword.cli.caches import check_caches
from foreword.cli.checks import Check, accept, doubt, refuse
from foreword.cli.equipment import (
    check_directories,
    check_mcp_servers,
    check_model_servers,
    check_provider,
    check_servers,
    check_telegram,
)
from foreword.cli.output import count
from foreword.cli.place import open_folder
from foreword.cli.stores import check_stores
from foreword.config.environment import Secrets
from foreword.errors import ConfigError, InputError
from foreword.store.open import FILE

if TYPE_CHECKING:
    from foreword.workspace import Workspace

FOLDERS = ("agents", "users", "channels", "prompts", "rules", "skills", "groups", "memory")


def examine(folder: str | None) -> Iterator[Check]:
    """Check everything about a workspace."""
    if folder is None:
        yield doubt("workspace", "there is none here or in a folder above", "make one with: foreword init")
        return
    try:
        workspace = open_folder(folder)
    except ConfigError as error:
        for fault in error.faults:
            line = "" if fault.line is None else f":{fault.line}"
            yield refuse("configuration", f"{fault.file}{line}: {fault.message}", fault.remedy)
        return
    except InputError as error:
        yield refuse("workspace", str(error))
        return
    yield accept("workspace", workspace.files.root)
    yield accept("configuration", "no faults")
    yield check_state(os.path.join(workspace.files.root, ".foreword"))
    broken = list(check_stores(workspace.state))
    yield from broken
    yield from check_agents(workspace)
    yield from check_zones(workspace)
    yield from check_files(workspace)
    yield from check_hints(workspace)
    if not any(check.subject == FILE for check in broken):  # who reads a damaged log puts it aside
        yield from check_caches(workspace)


def check_state(folder: str) -> Check:
    """Check that state can be kept."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        return doubt("state", f"{folder} is no folder, so nothing can be kept", "move it away")
    nearest = folder if os.path.lexists(folder) else os.path.dirname(folder)
    if os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK):
        return accept("state", f"{folder} can be written")
    return doubt("state", f"{folder} cannot be written, so every start counts all tokens again", "give it to yourself")


def check_agents(workspace: "Workspace") -> Iterator[Check]:
    """Check each agent's blueprint, model, key, directories and servers of tools."""
    secrets = Secrets(environ=dict(os.environ), dotenv={})
    for check in read_secrets(workspace.files.root):
        if isinstance(check, Secrets):
            secrets = check
        else:
            yield check
    for name, agent in workspace.config.agents.items():
        subject = f"agent {name}"
        try:
            workspace.blueprint(agent.blueprint)
        except ConfigError as error:
            yield from (refuse(subject, str(fault)) for fault in error.faults)
        except InputError as error:
            yield refuse(subject, str(error))
        answers = [*check_provider(subject, agent.model, workspace.config, secrets)]
        if not any(check.level == "error" for check in answers):
            yield check_model(subject, agent.model, workspace, secrets)
        yield from answers
        yield from check_directories(subject, agent, workspace)
        yield from check_servers(subject, agent)
    yield from check_mcp_servers(workspace.config, secrets)
    yield from check_model_servers(workspace.config, secrets)
    yield from check_telegram(workspace.config, secrets)


def check_model(subject: str, model: str, workspace: "Workspace", secrets: Secrets) -> Check:
    """Check that something is known about an agent's model; a local server is asked for its window."""
    from foreword.runtime.discovery import find_window

    if not model:
        return doubt(subject, "names no model", "write it as model: provider:name, or give --model each time")
    if window := find_window(model, workspace.config, secrets):
        workspace.learn_window(model, window)
    assumed = workspace.ground.measure(model).facts.assumed
    if assumed:
        return doubt(subject, assumed, "say what it has under models in foreword.yaml")
    return accept(subject, f"model {model}")


def read_secrets(root: str) -> Iterator[Check | Secrets]:
    """Read the `.env` of a workspace beside the environment, and check who else can."""
    path = os.path.join(root, ".env")
    if not os.path.lexists(path):
        yield Secrets(environ=dict(os.environ), dotenv={})
        return
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                yield doubt(".env", "others on this machine can read it", f"close it with: chmod 600 {path}")
            yield Secrets.read(file.read(), os.environ)
    except ConfigError as error:
        yield from (refuse(".env", str(fault), "mend the line or delete it") for fault in error.faults)
    except UnicodeDecodeError:
        yield refuse(".env", "is not UTF-8", "save it as UTF-8")
    except OSError as error:
        yield refuse(".env", f"cannot be read: {error.strerror}")


def check_zones(workspace: "Workspace") -> Iterator[Check]:
    """Check that the time zones of people and rooms exist."""
    from zoneinfo import ZoneInfo

    zones = {"host": workspace.config.host.timezone}
    zones |= {f"user {name}": user.timezone for name, user in workspace.config.users.items()}
    zones |= {f"room {name}": room.timezone for name, room in workspace.config.rooms.items()}
    for subject, zone in zones.items():
        try:
            if zone:
                ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            yield doubt(subject, f"time zone {zone!r} is not known, so UTC is used", "write it like Europe/Paris")


def check_files(workspace: "Workspace") -> Iterator[Check]:
    """Check that every file a prompt could use can be read."""
    from foreword.sources.document import Document, Trouble

    read = 0
    overlays = {situation.prompt_overlay for situation in workspace.config.situations.values()}
    for path in sorted(list_files(workspace)):
        found = workspace.files.read(path)
        lost = found if isinstance(found, Trouble) else workspace.files.losses.get(path)
        read += isinstance(found, Document) and lost is None
        if lost:
            fails = "turns in its situation fail" if path in overlays else "the built-in text is used, if there is one"
            yield refuse(path, lost.reason, f"correct the file; until then {fails}")
        elif isinstance(found, Document) and found.note:
            yield doubt(path, found.note)
    yield accept("files", f"{count(read, 'file')} can be read")


def check_hints(workspace: "Workspace") -> Iterator[Check]:
    """Check whether a prompt is made of files of an older layout."""
    from foreword.cli.turns import find_hints

    for assembly in workspace.preview():
        for hint in find_hints(assembly):
            yield doubt(f"agent {assembly.turn.agent}", hint)


def list_files(workspace: "Workspace") -> set[str]:
    """List the files that a slot, the configuration or a folder may bring into a prompt."""
    from foreword.sources.archived import is_archive

    config = workspace.config
    paths = {file.path for file in config.prompt.files}
    paths |= {situation.prompt_overlay for situation in config.situations.values() if situation.prompt_overlay}
    for agent in config.agents.values():
        try:
            slots = workspace.blueprint(agent.blueprint).slots
        except InputError:
            continue  # reported with the agent
        paths |= {slot.file for slot in slots if slot.file and "{" not in slot.file}
    for folder in FOLDERS:
        paths |= {path for path in workspace.files.list(folder) if not is_archive(path)}
    return paths
