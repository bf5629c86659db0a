"""Converts YAML nodes to frozen dataclasses by their type hints; collects all problems, with lines and suggestions."""

import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from foreword.errors import ConfigError, ConfigFault, suggest_name
from foreword.types import frozen


@frozen(eq=True)
class ScalarNode:
    """A single value as written, with the short name of its YAML tag, such as str, int or null."""

    line: int
    text: str
    tag: str
    size: int = 1
    height: int = 1


@frozen(eq=True)
class SequenceNode:
    """A list; `size` counts all values below it with aliases expanded, `height` is its depth."""

    line: int
    items: tuple["Node", ...]
    size: int
    height: int


@frozen(eq=True)
class MappingNode:
    """A mapping as pairs in file order, so that duplicate keys can be reported."""

    line: int
    entries: tuple[tuple["Node", "Node"], ...]
    size: int
    height: int


Node = Union[ScalarNode, SequenceNode, MappingNode]  # noqa: UP007 - the names above are strings, which `|` does not take
Hint = Any
find_origin: Callable[[Hint], object] = get_origin  # the type checker takes its result for a ParamSpec
NodeType = type[ScalarNode] | type[SequenceNode] | type[MappingNode]

_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "nothing"}


@frozen(eq=True)
class ConfigField:
    """A field that a file can set."""

    hint: Hint
    field: Field[Any]

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING


@cache
def list_fields(kind: type) -> Mapping[str, ConfigField]:
    """Return the fields of a dataclass with their resolved hints, in order."""
    hints = get_type_hints(kind)
    return {each.name: ConfigField(hint=hints[each.name], field=each) for each in fields(kind) if each.init}


@cache
def list_enum_words(kind: type[Enum]) -> Mapping[str, Enum]:
    """Return the words for the members: the name for an IntEnum, else the value."""
    members = kind.__members__.items()
    return {name.lower() if issubclass(kind, int) else str(member.value): member for name, member in members}


def list_members(hint: Hint) -> tuple[Hint, ...]:
    """Return the members of a union; any other hint is its only member."""
    return get_args(hint) if find_origin(hint) in (Union, types.UnionType) else (hint,)


def is_enum(hint: Hint) -> bool:
    """Whether this hint is an enum."""
    return isinstance(hint, type) and issubclass(hint, Enum)


def find_node_type(member: Hint) -> NodeType:
    """Return the node type for a hint; raise TypeError if a file cannot hold it."""
    origin = find_origin(member)
    if origin is Mapping or is_dataclass(member):
        return MappingNode
    if origin is tuple and get_args(member)[1:] == (...,):
        return SequenceNode
    if member in _PLAIN or origin is Literal or is_enum(member):
        return ScalarNode
    raise TypeError(f"{member!r} is not a type that a file can hold")


def list_options(hint: Hint) -> list[str]:
    """List the valid words for the enums and literals of a hint."""
    options: list[str] = []
    for member in list_members(hint):
        if is_enum(member):
            options += list_enum_words(member)
        elif find_origin(member) is Literal:
            options += [str(option) for option in get_args(member)]
    return options


def describe_hint(hint: Hint) -> str:
    """Describe the values a hint accepts, for error messages."""
    names = [_PLAIN[member] for member in list_members(hint) if member in _PLAIN and member is not types.NoneType]
    if options := list_options(hint):
        names.append("one of " + ", ".join(options))
    shapes = {find_node_type(member) for member in list_members(hint)}
    names += [noun for shape, noun in ((SequenceNode, "a list"), (MappingNode, "a mapping")) if shape in shapes]
    return " or ".join(names) or "nothing"


T = TypeVar("T")
Keys = tuple[str | int, ...]

_INVALID = object()
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TAGS = {types.NoneType: ("null",), bool: ("bool",), str: ("str",), int: ("int",), float: ("int", "float")}
_READERS: Mapping[Hint, Callable[[str], Any]] = {
    types.NoneType: lambda _: None,
    bool: lambda text: _TRUTHS.get(text.lower(), _INVALID),
    str: str,
    int: lambda text: int(text, 0),  # stricter than YAML 1.1, in which 010 is eight and 1:30 is ninety
    float: float,
}
_FOUND = {"int": "the number ", "float": "the number ", "bool": "the boolean ", "timestamp": "the date "}
_EMPTY: Mapping[NodeType, str] = {SequenceNode: "[]", MappingNode: "{}"}
_MAX_SHOWN_CHARS = 40


@frozen(eq=True)
class ParsedValue:
    """The line of a value and the parsed value; None if it is invalid."""

    line: int
    value: object


@frozen(eq=True)
class ParsedConfig(Generic[T]):
    """The result of a conversion: the value if there are no problems, and all parsed values by their keys."""

    value: T | None
    faults: tuple[ConfigFault, ...]
    values: Mapping[Keys, ParsedValue]


def parse_yaml(text: str, kind: type[T], file: str) -> T:
    """Parse YAML text as this dataclass; raise ConfigError with all problems."""
    from foreword.config.yaml import parse_nodes

    return raise_or_return(convert_node(parse_nodes(text, file), kind, file))


def raise_or_return(structured: ParsedConfig[T], further: Iterable[ConfigFault] = ()) -> T:
    """Return the value, or raise ConfigError with all problems in file order."""
    faults = [*structured.faults, *further]
    if structured.value is None or faults:
        raise ConfigError(sorted(faults, key=lambda fault: fault.line or 0))
    return structured.value


def convert_node(node: Node, kind: type[T], file: str) -> ParsedConfig[T]:
    """Convert a node to this dataclass; collect problems instead of raising."""
    structurer = _Structurer(file)
    value, faults = structurer.read(node, kind, (), node.line), tuple(structurer.faults)
    return ParsedConfig(value=None if faults else cast("T", value), faults=faults, values=structurer.values)


def format_keys(keys: Keys) -> str:
    """Format the keys of a value as people write them: `prompt.files[0].path`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_shorten(part)}" for part in keys)
    return "".join(parts).removeprefix(".") or "the file"


class _Structurer:
    """Walks a node and its hints together; an invalid value is recorded as a problem and becomes _INVALID."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.faults: list[ConfigFault] = []
        self.values: dict[Keys, ParsedValue] = {}

    def read(self, node: Node, hint: Hint, keys: Keys, line: int) -> object:
        value = self._convert(node, hint, keys, line)
        self.values[keys] = ParsedValue(line=line, value=None if value is _INVALID else value)
        return value

    def _convert(self, node: Node, hint: Hint, keys: Keys, line: int) -> object:
        fitting = [member for member in list_members(hint) if isinstance(node, find_node_type(member))]
        if isinstance(node, ScalarNode):
            for member in fitting:
                if (value := _read_scalar(node, member)) is not _INVALID:
                    return value
        elif len(fitting) > 1:
            raise TypeError(f"{hint!r} has several members of the same shape, which is ambiguous in a file")
        elif fitting and isinstance(node, SequenceNode):
            return self._read_items(node, fitting[0], keys)
        elif fitting and isinstance(node, MappingNode):
            if find_origin(fitting[0]) is Mapping:
                return self._read_mapping(node, fitting[0], keys)
            return self._read_fields(node, fitting[0], keys, line)
        self._fault(line, f"{format_keys(keys)} must be {describe_hint(hint)}, not {_name(node)}", _remedy(node, hint))
        return _INVALID

    def _read_items(self, node: SequenceNode, hint: Hint, keys: Keys) -> object:
        inner = get_args(hint)[0]
        items = [self.read(item, inner, (*keys, index), item.line) for index, item in enumerate(node.items)]
        return _INVALID if any(item is _INVALID for item in items) else tuple(items)

    def _read_mapping(self, node: MappingNode, hint: Hint, keys: Keys) -> object:
        inner, entries = get_args(hint)[1], self._entries(node, keys)
        values = {key.text: self.read(value, inner, (*keys, key.text), key.line) for key, value in entries}
        return _INVALID if any(value is _INVALID for value in values.values()) else values

    def _read_fields(self, node: MappingNode, kind: type, keys: Keys, line: int) -> object:
        slots = list_fields(kind)
        values: dict[str, object] = {}
        for key, value in self._entries(node, keys):
            where = (*keys, key.text)
            if slot := slots.get(key.text):
                values[key.text] = self.read(value, slot.hint, where, key.line)
            else:
                self._fault(key.line, f"{format_keys(where)} is not a known key{suggest_name(key.text, list(slots))}")
        missing = [name for name, slot in slots.items() if slot.required and name not in values]
        for name in missing:
            self._fault(line, f"{format_keys((*keys, name))} is missing")
        return _INVALID if missing or any(value is _INVALID for value in values.values()) else kind(**values)

    def _entries(self, node: MappingNode, keys: Keys) -> Iterator[tuple[ScalarNode, Node]]:
        """Yield the entries with a text key that is not repeated; record the others as problems."""
        seen: dict[str, int] = {}
        for key, value in node.entries:
            if isinstance(key, ScalarNode) and key.tag == "merge":
                self._fault(key.line, f"a merge key (<<) in {format_keys(keys)} is not supported", "write the keys out")
            elif not isinstance(key, ScalarNode) or key.tag != "str":
                self._fault(key.line, f"a key in {format_keys(keys)} must be text, not {_name(key)}", _remedy(key, str))
            elif key.text in seen:
                message = f"{format_keys((*keys, key.text))} is given twice"
                self._fault(key.line, message, f"the first is on line {seen[key.text]}")
            else:
                seen[key.text] = key.line
                yield key, value

    def _fault(self, line: int, message: str, remedy: str = "") -> None:
        self.faults.append(ConfigFault(file=self._file, line=line, message=message, remedy=remedy))


def _read_scalar(node: ScalarNode, member: Hint) -> object:
    """Parse a scalar as one scalar type, or return _INVALID."""
    if is_enum(member):
        return list_enum_words(member).get(node.text, _INVALID)
    if find_origin(member) is Literal:
        return next((option for option in get_args(member) if _equals(node, option)), _INVALID)
    if node.tag not in _TAGS[member]:
        return _INVALID
    try:
        value = _READERS[member](node.text)
    except ValueError:
        return _INVALID
    return value if member is not float or math.isfinite(value) else _INVALID


def _equals(node: ScalarNode, option: object) -> bool:
    # Compare words as written, because YAML parses a bare `on` or `no` as a boolean.
    if isinstance(option, str):
        return node.tag != "null" and node.text == option
    return _read_scalar(node, type(option)) == option


def _name(node: Node) -> str:
    """Describe a node for error messages."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if node.tag == "null":
        return "nothing"
    shown = _shorten(node.text)
    return _FOUND[node.tag] + shown if node.tag in _FOUND else f"the text {shown!r}"


def _remedy(node: Node, hint: Hint) -> str:
    from difflib import get_close_matches

    if not isinstance(node, ScalarNode):
        return ""
    if node.tag == "null":
        empty = [_EMPTY[shape] for shape in map(find_node_type, list_members(hint)) if shape in _EMPTY]
        return f"write {empty[0]} if it is empty" if empty else "give it a value"
    if node.tag != "str" and str in list_members(hint):
        return f'quote it: "{_shorten(node.text)}"'
    near = get_close_matches(node.text, list_options(hint), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _shorten(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)
    return shown if len(shown) <= _MAX_SHOWN_CHARS else shown[:_MAX_SHOWN_CHARS] + "…"


ParsedValues = Mapping[Keys, ParsedValue]
ConfigProblem = tuple[Keys, int, str]
"""The keys of a value, its line, and the problem."""


def find_values(values: ParsedValues, *pattern: str) -> Iterator[tuple[Keys, ParsedValue]]:
    """Yield the values whose keys match; `*` matches any one part."""
    for keys, value in values.items():
        if len(keys) == len(pattern) and all(part in ("*", key) for part, key in zip(pattern, keys, strict=True)):
            yield keys, value


def find_texts(values: ParsedValues, *pattern: str) -> Iterator[ConfigProblem]:
    """Yield the text values whose keys match, with their lines."""
    for keys, place in find_values(values, *pattern):
        if isinstance(place.value, str):
            yield keys, place.line, place.value


def list_names(values: ParsedValues, kind: str) -> list[str]:
    """List the names under a key."""
    return [str(keys[-1]) for keys, _ in find_values(values, kind, "*")]
