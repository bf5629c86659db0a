"""Judges the arguments of a call by the tool's schema: what is missing, and what is of another kind."""

import json
from collections.abc import Mapping
from typing import Any

from foreword.runtime.calls import Asked, Malformed

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


def read(name: str, written: str | Mapping[str, Any] | None) -> Asked | Malformed:
    """Read the arguments that a model wrote."""
    if isinstance(written, Mapping):
        return Asked(name=name, arguments=written)
    try:
        value = json.loads(written or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        return Malformed(reason=f"the arguments of {name[:100]} are no JSON ({error})")
    if not isinstance(value, dict):
        return Malformed(reason=f"the arguments of {name[:100]} are no JSON object")
    return Asked(name=name, arguments=value)


def judge(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Say what is wrong with arguments, or nothing; what is inside of them is the tool's own affair."""
    properties = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in arguments]:
        return f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing"
    if schema.get("additionalProperties") is False and (
        extra := [name for name in arguments if name not in properties]
    ):
        return f"there is no {', '.join(map(repr, extra))}; there is {', '.join(sorted(properties)) or 'none'}"
    for name, value in arguments.items():
        if name in properties and (fault := judge_kind(properties[name], value)):
            return f"{name!r} {fault}"
    return ""


def judge_kind(schema: Any, value: Any) -> str:
    """Say that a value is of another kind than its schema says, or nothing."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    known = [each for each in kinds if each in KINDS]
    if not known or any(is_kind(value, each) for each in known):
        return ""
    return f"is to be {' or '.join(known)}, not {json.dumps(value, default=str)[:60]}"


def is_kind(value: Any, kind: str) -> bool:
    """Whether a value is of a kind; true and false are no numbers, and 3.0 is a whole one."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, KINDS[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())
