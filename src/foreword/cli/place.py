"""Where a command works: the workspace that was named, or the nearest one upwards."""

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from foreword.errors import ConfigError, InputError, WorkspaceError

if TYPE_CHECKING:
    from foreword.config.schema import ModelOverride
    from foreword.workspace import Workspace

CONFIG = "foreword.yaml"
ENV = ".env"


def find_folder(args: Namespace) -> str | None:
    """Find the folder of the workspace, or None where nothing names one."""
    if args.workspace is not None:
        return str(args.workspace)
    try:
        folder = os.getcwd()
    except OSError:
        raise WorkspaceError("the current folder does not exist any more; change to another one") from None
    while not os.path.lexists(os.path.join(folder, CONFIG)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def open_here(args: Namespace) -> "Workspace":
    """Open the workspace that the arguments mean; the faults of its configuration are named as seen from here."""
    folder = find_folder(args)
    if folder is None:
        raise WorkspaceError(
            f"there is no {CONFIG} here or in a folder above; make a workspace with: foreword init, "
            "or name one with: -w DIR"
        )
    return open_folder(folder)


def open_folder(folder: str) -> "Workspace":
    """Open the workspace in a folder."""
    from foreword.cli.output import warn
    from foreword.workspace import open_workspace

    try:
        workspace = open_workspace(folder)
    except ConfigError as error:
        raise see_from_here(error, folder) from None
    for notice in workspace.notices:
        warn(notice)
    return workspace


def see_from_here(error: ConfigError, folder: str) -> ConfigError:
    """Name the files of faults so that they can be opened from where one stands."""
    return ConfigError([replace(fault, file=show_path(folder, fault.file)) for fault in error.faults])


def show_path(folder: str, file: str) -> str:
    """Show a file of a workspace as it is reached from the current folder, by the shorter way."""
    place = os.path.join(os.path.abspath(folder), file)
    return min(os.path.relpath(place), place, key=len)


def find_overrides(args: Namespace) -> "Mapping[str, ModelOverride]":
    """Find the facts about models that a workspace gives, or none where there is no workspace."""
    return open_here(args).config.models if find_folder(args) is not None else {}


def find_environ(workspace: "Workspace") -> dict[str, str]:
    """Find the variables of the environment, and those that the `.env` of a workspace has beside them."""
    from foreword.config.environment import Secrets

    path = os.path.join(workspace.files.root, ENV)
    try:
        with open(path, encoding="utf-8") as file:
            secrets = Secrets.read(file.read(), os.environ, show_path(workspace.files.root, ENV))
    except FileNotFoundError:
        return dict(os.environ)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None
    return {**secrets.dotenv, **secrets.environ}
