"""Readers for the files that options name. Each file is read once and checked as a whole.

The workspace of a command: the named one, or the nearest one upwards.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from foreword.config.structure import MappingNode, Node, ScalarNode, SequenceNode, convert_node, raise_or_return
from foreword.engine.sources.documents import is_unicode
from foreword.errors import ConfigError, ConfigFault, InputError, WorkspaceError
from foreword.turn import Tool
from foreword.types import Trust, frozen

if TYPE_CHECKING:
    from foreword.config.schema import ModelOverride
    from foreword.workspace import Workspace


MAX_INPUT_BYTES = 64_000_000  # bytes; a larger file is given by mistake
MAX_PARAMETER_DEPTH = 64  # nesting levels of a tool's parameters
STDIN = "-"

T = TypeVar("T")


@frozen(eq=True)
class ToolDescription:
    """A tool in a file, without its parameters."""

    name: str
    description: str = ""
    trust: Trust = Trust.FULL
    kind: str = ""


def read_text(path: str) -> str:
    """Read a text file, or stdin for `-`."""
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with open(path, "rb") as file:
                raw = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_INPUT_BYTES:
        raise InputError(f"{path} has more than {MAX_INPUT_BYTES:,} bytes")
    if (at := raw.find(b"\0")) != -1:
        raise InputError(f"{path} is not a text file: NUL byte at offset {at:,}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None


def read_json(path: str) -> Any:
    """Read a JSON file, or stdin for `-`."""
    import json

    text = read_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is nested too deeply or contains a number with too many digits") from None
    if "\\u" in text and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise InputError(f"{path} contains an unpaired surrogate (\\ud800 to \\udfff), which is not a character")
    return value


def read_value(path: str, kind: type[T]) -> T:
    """Read a JSON or YAML file, chosen by its extension, as a value of this type."""
    if path.endswith((".yaml", ".yml")):
        from foreword.config.structure import parse_yaml

        return parse_yaml(read_text(path), kind, path)
    return check_value(read_json(path), kind, path)


def read_tools(path: str) -> tuple[Tool, ...]:
    """Read tools; their parameters are JSON Schema and pass through unchanged."""
    value = read_json(path)
    items = value if isinstance(value, list) else []
    described = check_value(drop_parameters(value), tuple[ToolDescription, ...], path)
    tools = []
    for at, (known, item) in enumerate(zip(described, items, strict=True)):
        parameters = item.get("parameters", {"type": "object", "properties": {}})
        if not isinstance(parameters, Mapping) or measure_depth(parameters) > MAX_PARAMETER_DEPTH:
            raise InputError(
                f"{path}: [{at}].parameters must be a JSON object, at most {MAX_PARAMETER_DEPTH} levels deep"
            )
        tools.append(
            Tool(
                name=known.name,
                description=known.description,
                parameters=parameters,
                trust=known.trust,
                kind=known.kind,
            )
        )
    return tuple(tools)


def drop_parameters(value: Any) -> Any:
    """Remove the parameters of tools before the type check."""
    if not isinstance(value, list):
        return value
    return [
        {key: part for key, part in item.items() if key != "parameters"} if isinstance(item, dict) else item
        for item in value
    ]


def measure_depth(value: Any) -> int:
    """Return the nesting depth of a JSON value."""
    below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + max(map(measure_depth, below), default=0)


def check_value(value: Any, kind: type[T], file: str) -> T:
    """Check a JSON value against a dataclass, as YAML files are checked, and construct it."""
    made = convert_node(make_node(value), kind, file)
    try:
        return raise_or_return(made)
    except ConfigError as error:
        # The lines of the JSON file are unknown here, and a wrong line number would mislead.
        raise ConfigError([drop_line(fault) for fault in error.faults]) from None


def drop_line(fault: ConfigFault) -> ConfigFault:
    """Return the fault without its line."""
    return replace(fault, line=None)


def make_node(value: Any) -> Node:
    """Convert a JSON value to the nodes that the type check reads."""
    if isinstance(value, dict):
        pairs = tuple((ScalarNode(line=1, text=key, tag="str"), make_node(item)) for key, item in value.items())
        return MappingNode(line=1, entries=pairs, size=1, height=1)
    if isinstance(value, list):
        return SequenceNode(line=1, items=tuple(map(make_node, value)), size=1, height=1)
    if value is None:
        return ScalarNode(line=1, text="null", tag="null")
    tag = type(value).__name__
    return ScalarNode(line=1, text=str(value).lower() if tag == "bool" else str(value), tag=tag)


CONFIG_FILE = "foreword.yaml"
ENV_FILE = ".env"


def find_folder(args: Namespace) -> str | None:
    """Return the folder of the workspace, or None if there is none."""
    if args.workspace is not None:
        return str(args.workspace)
    try:
        folder = os.getcwd()
    except OSError:
        raise WorkspaceError("the current folder no longer exists; change to another one") from None
    while not os.path.lexists(os.path.join(folder, CONFIG_FILE)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def open_named_workspace(args: Namespace) -> "Workspace":
    """Open the workspace of the arguments; file names in configuration faults are relative to the current folder."""
    folder = find_folder(args)
    if folder is None:
        raise WorkspaceError(
            f"no {CONFIG_FILE} here or in a parent folder;"
            " create a workspace with `foreword init`, or name one with -w DIR"
        )
    return open_folder(folder)


def open_folder(folder: str) -> "Workspace":
    """Open the workspace in a folder, and print its notices."""
    from foreword.cli.output import warn
    from foreword.workspace import open_workspace

    try:
        workspace = open_workspace(folder)
    except ConfigError as error:
        raise relate_faults(error, folder) from None
    for notice in workspace.notices:
        warn(notice)
    return workspace


def relate_faults(error: ConfigError, folder: str) -> ConfigError:
    """Make the file names of faults relative to the current folder."""
    return ConfigError([replace(fault, file=show_path(folder, fault.file)) for fault in error.faults])


def show_path(folder: str, file: str) -> str:
    """Show a file of a workspace relative to the current folder, or absolute if that is shorter."""
    place = os.path.join(os.path.abspath(folder), file)
    return min(os.path.relpath(place), place, key=len)


def find_overrides(args: Namespace) -> "Mapping[str, ModelOverride]":
    """Return the model overrides of the workspace, or none without a workspace."""
    if find_folder(args) is None:
        return {}
    with open_named_workspace(args) as workspace:
        return workspace.config.models


def load_environ(workspace: "Workspace") -> dict[str, str]:
    """Return the environment merged with the `.env` of the workspace; the environment takes precedence."""
    from foreword.config.env import Secrets

    path = os.path.join(workspace.files.root, ENV_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            secrets = Secrets.read(file.read(), os.environ, show_path(workspace.files.root, ENV_FILE))
    except FileNotFoundError:
        return dict(os.environ)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None
    return {**secrets.dotenv, **secrets.environ}
