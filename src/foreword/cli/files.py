"""The files that options name: read once, checked as a whole, and refused with every fault."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from foreword.config.nodes import Node, Scalar, Sequence, Table
from foreword.config.structure import settle, structure
from foreword.errors import ConfigError, Fault, InputError
from foreword.frozen import frozen
from foreword.sources.document import is_unicode
from foreword.turn import Extension, Message, State, Task, Tool
from foreword.words import Trust

LARGEST = 64_000_000  # bytes; a file beyond this is a mistake, not an input
DEEPEST = 64  # levels of a tool's parameters
STDIN = "-"

T = TypeVar("T")


@frozen(eq=True)
class Described:
    """A tool as a file describes it, without its parameters."""

    name: str
    description: str = ""
    trust: Trust = Trust.FULL
    kind: str = ""


def read_text(path: str) -> str:
    """Read a text file, or stdin for `-`."""
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with open(path, "rb") as file:
                raw = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > LARGEST:
        raise InputError(f"{path} has more than {LARGEST:,} bytes")
    if (at := raw.find(b"\0")) != -1:
        raise InputError(f"{path} has a NUL byte at {at:,} and is no text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: this is not UTF-8; save the file as UTF-8") from None


def read_json(path: str) -> Any:
    """Read a JSON file, or stdin for `-`."""
    import json

    text = read_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: this is not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is nested too deeply or has a number that is too long") from None
    if "\\u" in text and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise InputError(f"{path} has half of a surrogate pair (\\ud800 to \\udfff), which is no character")
    return value


def read_value(path: str, kind: Any) -> Any:
    """Read a JSON or YAML file, told apart by its name, as a value of this kind."""
    if path.endswith((".yaml", ".yml")):
        from foreword.config.structure import parse

        return parse(read_text(path), kind, path)
    return check(read_json(path), kind, path)


def read_task(path: str) -> Task:
    """Read the task that a session is bound to."""
    task: Task = read_value(path, Task)
    return task


def read_state(path: str) -> State:
    """Read what goes on around a session."""
    state: State = read_value(path, State)
    return state


def read_extensions(path: str) -> tuple[Extension, ...]:
    """Read the servers of tools, each with its own words."""
    extensions: tuple[Extension, ...] = read_value(path, tuple[Extension, ...])
    return extensions


def read_history(path: str) -> tuple[Message, ...]:
    """Read the conversation so far."""
    history: tuple[Message, ...] = check(read_json(path), tuple[Message, ...], path)
    return history


def read_tools(path: str) -> tuple[Tool, ...]:
    """Read tools; their parameters are JSON Schema and pass through as they are."""
    value = read_json(path)
    items = value if isinstance(value, list) else []
    described: tuple[Described, ...] = check(drop_parameters(value), tuple[Described, ...], path)
    tools = []
    for at, (known, item) in enumerate(zip(described, items, strict=True)):
        parameters = item.get("parameters", {"type": "object", "properties": {}})
        if not isinstance(parameters, Mapping) or measure(parameters) > DEEPEST:
            raise InputError(f"{path}: [{at}].parameters must be a JSON object, at most {DEEPEST} levels deep")
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
    """Leave the parameters of tools out of what is checked against a shape."""
    if not isinstance(value, list):
        return value
    return [
        {key: part for key, part in item.items() if key != "parameters"} if isinstance(item, dict) else item
        for item in value
    ]


def measure(value: Any) -> int:
    """Measure how deep a JSON value is nested."""
    below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + max(map(measure, below), default=0)


def check(value: Any, kind: Any, file: str) -> Any:
    """Check a JSON value against the type hints of a dataclass, as YAML files are checked, and make it."""
    made = structure(make_node(value), kind, file)
    try:
        return settle(made)
    except ConfigError as error:
        # JSON has lost its lines by now, and a wrong one would mislead.
        raise ConfigError([forget_line(fault) for fault in error.faults]) from None


def forget_line(fault: Fault) -> Fault:
    """Make a fault that names its file only."""
    return replace(fault, line=None)


def make_node(value: Any) -> Node:
    """Turn a JSON value into the nodes that shapes are checked on."""
    if isinstance(value, dict):
        pairs = tuple((Scalar(line=1, text=key, tag="str"), make_node(item)) for key, item in value.items())
        return Table(line=1, entries=pairs, size=1, height=1)
    if isinstance(value, list):
        return Sequence(line=1, items=tuple(map(make_node, value)), size=1, height=1)
    if value is None:
        return Scalar(line=1, text="null", tag="null")
    tag = type(value).__name__
    return Scalar(line=1, text=str(value).lower() if tag == "bool" else str(value), tag=tag)
