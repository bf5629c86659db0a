"""Generates JSON Schema from the configuration dataclasses, for completion and checks in editors."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args

from foreword.config.structure import Hint, find_origin, is_enum, list_enum_words, list_fields, list_members

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def make_json_schema(kind: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a dataclass and all nested ones."""
    definitions: dict[str, dict[str, Any]] = {}
    _define(kind, definitions)
    root = definitions.pop(kind.__name__)
    schema = {"$schema": _DIALECT, "title": kind.__name__, **root}
    return {**schema, "$defs": definitions} if definitions else schema


def _define(kind: type, definitions: dict[str, dict[str, Any]]) -> None:
    if kind.__name__ in definitions:
        return
    schema = definitions[kind.__name__] = {}
    summary, notes = _read_docstrings(kind)
    slots = list_fields(kind)
    properties = {}
    for name, slot in slots.items():
        properties[name] = _describe_hint(slot.hint, definitions)
        if name in notes:
            properties[name]["description"] = notes[name]
        properties[name] |= _describe_default(slot.field.default)
    schema |= {"description": summary} if summary else {}
    schema |= {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [name for name, slot in slots.items() if slot.required]:
        schema["required"] = required


def _describe_hint(hint: Hint, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    members, origin, arguments = list_members(hint), find_origin(hint), get_args(hint)
    shape: dict[str, Any]
    if len(members) > 1:
        shape = {"anyOf": [_describe_hint(member, definitions) for member in members]}
    elif is_enum(hint) or origin is Literal:
        shape = {"enum": list(list_enum_words(hint) if is_enum(hint) else arguments)}
    elif hint in _TYPES:
        shape = {"type": _TYPES[hint]}
    elif is_dataclass(hint) and isinstance(hint, type):
        _define(hint, definitions)
        # The first definition is the root schema; a recursive dataclass refers to it.
        whole = hint.__name__ == next(iter(definitions))
        shape = {"$ref": "#" if whole else f"#/$defs/{hint.__name__}"}
    elif origin is Mapping:
        shape = {"type": "object", "additionalProperties": _describe_hint(arguments[1], definitions)}
    elif origin is tuple:
        shape = {"type": "array", "items": _describe_hint(arguments[0], definitions)}
    else:
        raise TypeError(f"{hint!r} is not a type that a file can hold")
    return shape


def _describe_default(default: object) -> dict[str, Any]:
    """Return a default that JSON can express; omit others."""
    if isinstance(default, Enum):
        default = next(word for word, member in list_enum_words(type(default)).items() if member is default)
    elif default == ():
        return {"default": []}
    return {"default": default} if type(default) in _TYPES else {}


def _read_docstrings(kind: type) -> tuple[str, dict[str, str]]:
    """Read the docstrings of a class and of its fields, including inherited ones."""
    notes: dict[str, str] = {}
    summary = ""
    for ancestor in reversed([each for each in kind.__mro__ if is_dataclass(each)]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(ancestor))).body[0]
        if isinstance(tree, ast.ClassDef):
            summary = ast.get_docstring(tree) or ""
            for statement, following in zip(tree.body, tree.body[1:], strict=False):
                match statement, following:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(note))):
                        notes[name] = inspect.cleandoc(note)
    return summary, notes
