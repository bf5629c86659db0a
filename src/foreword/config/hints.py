"""What the type hints of a dataclass say: its fields, their members, and the words of an enum."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from foreword.config.nodes import Scalar, Sequence, Table
from foreword.frozen import frozen

Hint = Any
Shape = type[Scalar] | type[Sequence] | type[Table]

_PLAIN = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "nothing",
}


@frozen(eq=True)
class Slot:
    """One field that a file can set."""

    hint: Hint
    required: bool
    default: object = MISSING


@cache
def find_slots(kind: type) -> Mapping[str, Slot]:
    """Find the fields of a dataclass with their resolved hints, by name and in order."""
    hints = get_type_hints(kind)
    return {
        each.name: Slot(
            hint=hints[each.name],
            required=each.default is MISSING and each.default_factory is MISSING,
            default=each.default,
        )
        for each in fields(kind)
        if each.init
    }


@cache
def find_words(kind: type[Enum]) -> Mapping[str, Enum]:
    """Find the words that people write for the members: the name for an IntEnum, the value for the others."""
    return {
        name.lower() if issubclass(kind, int) else str(member.value): member
        for name, member in kind.__members__.items()
    }


def find_origin(hint: Hint) -> object:
    """Find what a generic hint is made from: tuple for `tuple[str, ...]`, None for a plain class."""
    return get_origin(hint)


def split(hint: Hint) -> tuple[Hint, ...]:
    """Split a union into its members; anything else is its own only member."""
    return get_args(hint) if find_origin(hint) in (Union, types.UnionType) else (hint,)


def is_enum(hint: Hint) -> bool:
    """Tell whether this hint is an enum."""
    return isinstance(hint, type) and issubclass(hint, Enum)


def find_shape(member: Hint) -> Shape:
    """Find the kind of node that a member is written as; a hint that has none is the programmer's mistake."""
    origin = find_origin(member)
    if origin is Mapping or is_dataclass(member):
        return Table
    if origin is tuple and get_args(member)[1:] == (...,):
        return Sequence
    if member in _PLAIN or origin is Literal or is_enum(member):
        return Scalar
    raise TypeError(f"{member!r} is not a type that a file can hold")


def list_options(hint: Hint) -> list[str]:
    """List the words that are valid for the enums and literals of this hint."""
    options: list[str] = []
    for member in split(hint):
        if is_enum(member):
            options += find_words(member)
        elif find_origin(member) is Literal:
            options += [str(option) for option in get_args(member)]
    return options


def name(hint: Hint) -> str:
    """Name in plain English what this hint wants."""
    names = [_PLAIN[member] for member in split(hint) if member in _PLAIN and member is not types.NoneType]
    if options := list_options(hint):
        names.append("one of " + ", ".join(options))
    shapes = {find_shape(member) for member in split(hint)}
    names += [noun for shape, noun in ((Sequence, "a list"), (Table, "a mapping")) if shape in shapes]
    return " or ".join(names) or "nothing"
