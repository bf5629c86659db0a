"""Foreword assembles the prompts of AI agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foreword.agent.model_reply import Reply as Reply
    from foreword.agent.session import OpenSession
    from foreword.agent.tools.declaration import ToolRun as ToolRun
    from foreword.agent.tools.declaration import tool as tool
    from foreword.assembly import Assembly as Assembly
    from foreword.dialects.spec010 import build_agent_prompt as build_agent_prompt
    from foreword.engine.selection import FileEntry as FileEntry
    from foreword.engine.signal import classify as classify
    from foreword.engine.signal import is_noise as is_noise
    from foreword.engine.sources.sections import source as source
    from foreword.errors import BudgetError as BudgetError
    from foreword.errors import ConfigError as ConfigError
    from foreword.errors import ForewordError as ForewordError
    from foreword.errors import InputError as InputError
    from foreword.errors import ToolError as ToolError
    from foreword.errors import UnknownName as UnknownName
    from foreword.errors import WorkspaceError as WorkspaceError
    from foreword.turn import Bulletin as Bulletin
    from foreword.turn import Client as Client
    from foreword.turn import Communication as Communication
    from foreword.turn import Extension as Extension
    from foreword.turn import Git as Git
    from foreword.turn import Host as Host
    from foreword.turn import Message as Message
    from foreword.turn import Sandbox as Sandbox
    from foreword.turn import Signal as Signal
    from foreword.turn import State as State
    from foreword.turn import Step as Step
    from foreword.turn import Task as Task
    from foreword.turn import Tool as Tool
    from foreword.turn import ToolAnswer as ToolAnswer
    from foreword.turn import Toolset as Toolset
    from foreword.turn import Turn as Turn
    from foreword.types import Delivery as Delivery
    from foreword.types import Mode as Mode
    from foreword.types import Pace as Pace
    from foreword.types import Trust as Trust
    from foreword.workspace import Workspace as Workspace
    from foreword.workspace import open_workspace

    Session = OpenSession
    open = open_workspace  # noqa: A001 - foreword.open reads like the builtin on purpose

__version__ = "0.1.0"

_PLACES = {
    "agent.model_reply": ("Reply",),
    "agent.session": ("Session",),
    "agent.tools.declaration": ("ToolRun", "tool"),
    "assembly": ("Assembly",),
    "dialects.spec010": ("build_agent_prompt",),
    "engine.selection": ("FileEntry",),
    "engine.signal": ("classify", "is_noise"),
    "engine.sources.sections": ("source",),
    "errors": (
        "BudgetError",
        "ConfigError",
        "ForewordError",
        "InputError",
        "ToolError",
        "UnknownName",
        "WorkspaceError",
    ),
    "turn": (
        *("Bulletin", "Client", "Communication", "Extension", "Git", "Host", "Message", "Sandbox"),
        *("Signal", "State", "Step", "Task", "Tool", "ToolAnswer", "Toolset", "Turn"),
    ),
    "types": ("Delivery", "Mode", "Pace", "Trust"),
    "workspace": ("Workspace", "open"),
}
_OWN_NAMES = {"open": "open_workspace", "Session": "OpenSession"}  # names that are another name inside
_HOMES = {name: module for module, names in _PLACES.items() for name in names}
# Not `open`: a star import must not replace the builtin.
__all__ = sorted(_HOMES.keys() - {"open"})  # noqa: PLE0605 - the names are listed above, by module


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that importing the package is fast."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'foreword' has no attribute {name!r}")
    value = getattr(import_module(f"foreword.{_HOMES[name]}"), _OWN_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, including those not imported yet."""
    return [*_HOMES, "__version__"]
