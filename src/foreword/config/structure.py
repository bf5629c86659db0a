"""Structures YAML as frozen dataclasses by their type hints, and collects every fault on the way."""

import math
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Literal, TypeVar, cast, get_args

from foreword.config import hints
from foreword.config.hints import Hint
from foreword.config.nodes import Node, Scalar, Sequence, Table
from foreword.errors import ConfigError, Fault, suggest
from foreword.frozen import frozen

T = TypeVar("T")
Keys = tuple[str | int, ...]

_BAD = object()
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_FOUND = {"int": "the number ", "float": "the number ", "bool": "the boolean ", "timestamp": "the date "}
_EMPTY: Mapping[hints.Shape, str] = {Sequence: "[]", Table: "{}"}
_LONGEST = 40


@frozen(eq=True)
class Place:
    """The line on which a value was written, and what it became: None if it is faulty."""

    line: int
    value: object


@frozen(eq=True)
class Structured(Generic[T]):
    """What came of a node: the value unless there are faults, and the place of all that was written."""

    value: T | None
    faults: tuple[Fault, ...]
    places: Mapping[Keys, Place]


def parse(text: str, kind: type[T], file: str) -> T:
    """Parse YAML text as this dataclass, or raise ConfigError with every fault."""
    from foreword.config.composer import compose

    return settle(structure(compose(text, file), kind, file))


def settle(structured: Structured[T], further: Iterable[Fault] = ()) -> T:
    """Return the value, or raise ConfigError with its faults and any further ones, in file order."""
    faults = [*structured.faults, *further]
    if structured.value is None or faults:
        raise ConfigError(sorted(faults, key=lambda fault: fault.line or 0))
    return structured.value


def structure(node: Node, kind: type[T], file: str) -> Structured[T]:
    """Structure a composed node as this dataclass; nothing is raised for what the file says."""
    structurer = _Structurer(file)
    value = structurer.read(node, kind, (), node.line)
    return Structured(
        value=None if structurer.faults else cast("T", value),
        faults=tuple(structurer.faults),
        places=structurer.places,
    )


def spell(keys: Keys) -> str:
    """Spell the keys that lead to a value as people write them: `prompt.files[0].path`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_shorten(part)}" for part in keys)
    return "".join(parts).removeprefix(".") or "the file"


class _Structurer:
    """Walks a node and its hints together; a value that cannot be used is a fault and becomes _BAD."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.faults: list[Fault] = []
        self.places: dict[Keys, Place] = {}

    def read(self, node: Node, hint: Hint, keys: Keys, line: int) -> object:
        value = self._convert(node, hint, keys, line)
        self.places[keys] = Place(line=line, value=None if value is _BAD else value)
        return value

    def _convert(self, node: Node, hint: Hint, keys: Keys, line: int) -> object:
        fitting = [member for member in hints.split(hint) if isinstance(node, hints.find_shape(member))]
        if isinstance(node, Scalar):
            for member in fitting:
                if (value := _read_scalar(node, member)) is not _BAD:
                    return value
        elif len(fitting) > 1:
            raise TypeError(f"{hint!r} has several members of one shape, so that a file cannot choose")
        elif fitting and isinstance(node, Sequence):
            return self._read_items(node, fitting[0], keys)
        elif fitting and isinstance(node, Table):
            if hints.find_origin(fitting[0]) is Mapping:
                return self._read_mapping(node, fitting[0], keys)
            return self._read_fields(node, fitting[0], keys, line)
        self._fault(line, f"{spell(keys)} must be {hints.name(hint)}, not {_name(node)}", _remedy(node, hint))
        return _BAD

    def _read_items(self, node: Sequence, hint: Hint, keys: Keys) -> object:
        inner = get_args(hint)[0]
        items = [self.read(item, inner, (*keys, index), item.line) for index, item in enumerate(node.items)]
        return _BAD if any(item is _BAD for item in items) else tuple(items)

    def _read_mapping(self, node: Table, hint: Hint, keys: Keys) -> object:
        inner = get_args(hint)[1]
        values = {
            key.text: self.read(value, inner, (*keys, key.text), key.line) for key, value in self._entries(node, keys)
        }
        return _BAD if any(value is _BAD for value in values.values()) else values

    def _read_fields(self, node: Table, kind: type, keys: Keys, line: int) -> object:
        slots = hints.find_slots(kind)
        values: dict[str, object] = {}
        for key, value in self._entries(node, keys):
            where = (*keys, key.text)
            if slot := slots.get(key.text):
                values[key.text] = self.read(value, slot.hint, where, key.line)
            else:
                self._fault(key.line, f"{spell(where)} is not a known key{suggest(key.text, list(slots))}")
        missing = [name for name, slot in slots.items() if slot.required and name not in values]
        for name in missing:
            self._fault(line, f"{spell((*keys, name))} is missing")
        return _BAD if missing or any(value is _BAD for value in values.values()) else kind(**values)

    def _entries(self, node: Table, keys: Keys) -> Iterator[tuple[Scalar, Node]]:
        """Yield the entries whose key is text and new; the others are faults."""
        seen: dict[str, int] = {}
        for key, value in node.entries:
            if not isinstance(key, Scalar) or key.tag != "str":
                self._refuse_key(key, keys)
            elif key.text in seen:
                message = f"{spell((*keys, key.text))} is given twice"
                self._fault(key.line, message, f"the first is on line {seen[key.text]}")
            else:
                seen[key.text] = key.line
                yield key, value

    def _refuse_key(self, key: Node, keys: Keys) -> None:
        if isinstance(key, Scalar) and key.tag == "merge":
            self._fault(key.line, f"a merge key (<<) in {spell(keys)} is not supported", "write the keys out")
        else:
            self._fault(key.line, f"a key in {spell(keys)} must be text, not {_name(key)}", _remedy(key, str))

    def _fault(self, line: int, message: str, remedy: str = "") -> None:
        self.faults.append(Fault(file=self._file, line=line, message=message, remedy=remedy))


def _read_scalar(node: Scalar, member: Hint) -> object:
    """Read a scalar as one scalar type, or return _BAD."""
    if hints.is_enum(member):
        return hints.find_words(member).get(node.text, _BAD)
    if hints.find_origin(member) is Literal:
        return next((option for option in get_args(member) if _equals(node, option)), _BAD)
    if member is types.NoneType:
        return None if node.tag == "null" else _BAD
    if member is bool:
        return _TRUTHS.get(node.text.lower(), _BAD) if node.tag == "bool" else _BAD
    if member is str:
        return node.text if node.tag == "str" else _BAD
    return _read_number(node, member)


def _read_number(node: Scalar, member: Hint) -> object:
    # Stricter than YAML 1.1, where 010 is eight and 1:30 is ninety.
    try:
        if member is int:
            return int(node.text, 0) if node.tag == "int" else _BAD
        number = float(node.text) if node.tag in ("int", "float") else math.nan
    except ValueError:
        return _BAD
    return number if math.isfinite(number) else _BAD


def _equals(node: Scalar, option: object) -> bool:
    # A word is compared as written, because YAML takes a bare `on` or `no` for a boolean.
    if isinstance(option, str):
        return node.tag != "null" and node.text == option
    return _read_scalar(node, type(option)) == option


def _name(node: Node) -> str:
    """Name in plain English what was found."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Table):
        return "a mapping"
    if node.tag == "null":
        return "nothing"
    shown = _shorten(node.text)
    return _FOUND[node.tag] + shown if node.tag in _FOUND else f"the text {shown!r}"


def _remedy(node: Node, hint: Hint) -> str:
    from difflib import get_close_matches

    if not isinstance(node, Scalar):
        return ""
    if node.tag == "null":
        empty = [_EMPTY[shape] for shape in map(hints.find_shape, hints.split(hint)) if shape in _EMPTY]
        return f"write {empty[0]} if it is empty" if empty else "give it a value"
    if node.tag != "str" and str in hints.split(hint):
        return f'quote it: "{_shorten(node.text)}"'
    near = get_close_matches(node.text, hints.list_options(hint), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _shorten(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
