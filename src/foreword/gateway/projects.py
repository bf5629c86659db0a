"""Projects that people open over HTTP and Telegram: directories of the agent, for those who may know of them.

At the shell the owner may name any directory. Over a channel a project must lie in one of the directories that the
configuration gives the agent, at a trust that the person has there, and never below `inner`. Paths are compared after
links are resolved. What is refused is refused in the same words whether it exists or not.
"""

import os

from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.words import Trust
from foreword.workspace import Workspace

SHELL = "terminal"  # whoever types there is the owner
LEAST = Trust.INNER
MAX_PATH_CHARS = 1_000


@frozen(eq=True)
class Project:
    """A project that may be opened."""

    path: str
    root: str
    """The directory of the configuration that it lies in; nothing above it is read."""


NO_PROJECT = Project(path="", root="")


def find_project(named: str, channel: str, agent: str, clearance: Trust, workspace: Workspace) -> Project:
    """Find the project of a turn; raise InputError where its channel may not open it, or not any more."""
    if not named:
        return NO_PROJECT
    if channel == SHELL:
        return Project(path=named, root="")
    return open_project(named, agent, clearance, workspace.config, workspace.files.root)


def list_roots(agent: str, clearance: Trust, config: Config, workspace: str) -> list[str]:
    """List the directories of an agent that a clearance may open projects in, with links resolved."""
    if clearance < LEAST or agent not in config.agents:
        return []
    given = [os.path.expanduser(one.path) for one in config.agents[agent].folders if one.trust <= clearance]
    return list(dict.fromkeys(os.path.realpath(os.path.join(workspace, path)) for path in given))


def open_project(path: str, agent: str, clearance: Trust, config: Config, workspace: str) -> Project:
    """Find a project by its path or by its name below an allowed directory; raise InputError for anything else."""
    roots = list_roots(agent, clearance, config, workspace)
    if clearance < LEAST:
        raise InputError(f"a project needs at least {LEAST} trust")
    if not roots:
        raise InputError(f"no project can be opened: agents.{agent}.directories names no directory for {clearance}")
    if len(path) <= MAX_PATH_CHARS and path.strip() and "\x00" not in path:
        for root in roots:
            found = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
            if is_within(found, root) and os.path.isdir(found):
                return Project(path=found, root=root)
    raise InputError(f"{path[:200]!r} is no project here; it must be a directory in {' or '.join(roots)}")


def is_within(path: str, root: str) -> bool:
    """Whether a resolved path is a resolved directory or lies in it."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
