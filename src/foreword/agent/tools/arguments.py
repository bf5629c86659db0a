"""Checks of the arguments of a tool call against the tool's schema; every error names its argument."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from foreword.errors import InputError
from foreword.turn import Tool

MAX_SHOWN_CHARS = 60  # characters shown of a wrong value
JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}
LIMITS: Sequence[tuple[tuple[type, ...], tuple[str, str, str]]] = (
    ((int, float), ("minimum", "maximum", "")),
    ((str,), ("minLength", "maxLength", " characters")),
    ((list, tuple), ("minItems", "maxItems", " entries")),
)
"""The limits of a value by its type: the keys of the schema, and the unit."""


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that are too long, missing, unknown or of a wrong type.

    Nested values are left to the tool.
    """
    check_size(tool, arguments)
    schema = tool.parameters
    properties = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in arguments]:
        raise InputError(f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing")
    if schema.get("additionalProperties") is False:
        refuse_unknown(properties, arguments)
    for name, value in arguments.items():
        if name in properties and (fault := find_type_fault(properties[name], value)):
            raise InputError(f"{name!r} {fault}")


def read_arguments(tool: Tool, arguments: Mapping[str, Any], *, takes_others: bool = False) -> dict[str, Any]:
    """Check the arguments of a Python function, with the limits of their values, and return them as it takes them.

    A null for an optional argument counts as left out, and 3.0 is the integer 3.
    """
    properties, required = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
    if not takes_others:
        refuse_unknown(properties, arguments)
    shapes = {name: properties.get(name, {}) for name in arguments}
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or not find_type_fault(shapes[name], value)
    }
    check_arguments(tool, given)
    for name, value in given.items():
        if fault := find_limit_fault(shapes[name], value):
            raise InputError(f"{name!r} {fault}")
    return {
        name: int(value) if isinstance(value, float) and shapes[name].get("type") == "integer" else value
        for name, value in given.items()
    }


def check_size(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that are too long together; the error names the longest."""
    sizes = {name: len(json.dumps(value, ensure_ascii=False, default=str)) for name, value in arguments.items()}
    if (total := sum(sizes.values())) > tool.max_argument_chars:
        longest = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"the arguments have {total:,} characters, {longest[:MAX_SHOWN_CHARS]!r} alone {sizes[longest]:,}; "
            f"the limit is {tool.max_argument_chars:,}"
        )


def refuse_unknown(properties: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Refuse unknown arguments: a call that ignores one would do something else than was asked."""
    if extra := [str(name)[:MAX_SHOWN_CHARS] for name in arguments if name not in properties]:
        raise InputError(f"unknown argument {', '.join(map(repr, extra))}; known: {', '.join(properties) or 'none'}")


def find_type_fault(schema: Any, value: Any) -> str:
    """Return an error if a value does not have the type of its schema, or an empty text."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    known = [each for each in kinds if each in JSON_TYPES]
    if not known or any(has_type(value, each) for each in known):
        return ""
    return f"is to be {' or '.join(known)}, not {show_value(value)}"


def has_type(value: Any, kind: str) -> bool:
    """Return whether a value has a JSON type; booleans are not numbers, and 3.0 is an integer."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, JSON_TYPES[kind]) or (
        kind == "integer" and isinstance(value, float) and value.is_integer()
    )


def find_limit_fault(schema: Mapping[str, Any], value: Any) -> str:
    """Return an error if a value is outside the limits of its schema, or an empty text."""
    low_key, high_key, unit = next((names for kind, names in LIMITS if isinstance(value, kind)), ("", "", ""))
    low, high, size = schema.get(low_key), schema.get(high_key), len(value) if unit else value
    limits = [f"at least {low:,}"] if low is not None else []
    limits += [f"at most {high:,}"] if high is not None else []
    if not limits or ((low is None or size >= low) and (high is None or size <= high)):
        return ""
    return f"is to {'have' if unit else 'be'} {' and '.join(limits)}{unit}, not {size:,}"


def show_value(value: Any) -> str:
    """Return the start of a value as JSON."""
    return json.dumps(value, default=str)[:MAX_SHOWN_CHARS]
