"""The signature of a tool's function as JSON Schema, and the conversion of arguments to its hints, by pydantic.

Importing pydantic takes 70 ms. The declarations of our own tools are therefore read from `data/tools.json`, which
`make docs` writes with this module.
"""

import re
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import Parameter, cleandoc, signature
from keyword import iskeyword
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from foreword.errors import InputError, ToolError

MAX_SHOWN_ERRORS = 3
SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?):\s*")
ARGUMENT_SECTIONS = ("Args", "Arguments", "Parameters")
GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
REST_ENTRY = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
DROPPED_KEYS = ("title", "default")


def describe_function(function: Callable[..., Any], without: str = "") -> tuple[str, dict[str, Any]]:
    """Return the description and the parameters of a function's tool; raise InputError if it cannot be a tool.

    `without` names the parameter that gets the `ToolRun`.
    """
    description, _ = parse_docstring(function.__doc__ or "")
    try:
        made = make_model(function, without).model_json_schema()
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"a type hint of tool {function.__name__!r} has no JSON Schema: {reason}") from None
    return description, simplify_schema(made)


def convert_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], without: str = "") -> dict[str, Any]:
    """Convert JSON arguments to the hints of a function; raise InputError that names the wrong ones."""
    model = make_model(function, without)
    try:
        values = model.model_validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        texts = [f"{'.'.join(map(str, one['loc']))!r}: {one['msg']}" for one in found[:MAX_SHOWN_ERRORS]]
        more = [f"{len(found) - MAX_SHOWN_ERRORS:,} more errors"] if len(found) > MAX_SHOWN_ERRORS else []
        raise InputError("; ".join([*texts, *more])) from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the arguments cannot be read ({type(error).__name__})") from error
    fields = model.model_fields
    others = {name: value for name, value in arguments.items() if name not in {one.alias for one in fields.values()}}
    return {**others, **{str(fields[name].title): getattr(values, name) for name in values.model_fields_set}}


@lru_cache(maxsize=1_024)
def make_model(function: Callable[..., Any], without: str) -> type[BaseModel]:
    """Make the model of a function's arguments.

    A trailing underscore is not part of an argument's name, so that `from_` can be the argument `from`.
    """
    name = function.__name__
    try:
        # `Field` may be imported for types only, in a module that must not import pydantic.
        hints = typing.get_type_hints(function, localns={"Field": Field}, include_extras=True)
    except Exception as error:  # noqa: BLE001 - a hint may be any expression
        raise InputError(f"the type hints of tool {name!r} cannot be resolved: {error}") from None
    _, described = parse_docstring(function.__doc__ or "")
    fields: dict[str, Any] = {}
    for parameter in list_parameters(function, without):
        if parameter.name not in hints:
            raise InputError(f"the parameter {parameter.name!r} of tool {name!r} has no type hint")
        alias = parameter.name.removesuffix("_")
        shown = alias if iskeyword(alias) else parameter.name
        about: dict[str, Any] = {"alias": shown, "title": parameter.name}
        if shown in described:
            about["description"] = described[shown]
        if parameter.default is not Parameter.empty:
            about["default"] = None  # the function has the real one
        # The name of a field must not be that of a model's method.
        fields[f"argument{len(fields)}"] = (hints[parameter.name], Field(**about))
    takes_others = any(one.kind is Parameter.VAR_KEYWORD for one in signature(function).parameters.values())
    return create_model(name, __config__=ConfigDict(extra="ignore" if takes_others else "forbid"), **fields)


def list_parameters(function: Callable[..., Any], without: str) -> list[Parameter]:
    """List the parameters that the model fills in; raise InputError if one cannot be given by name."""
    known = signature(function).parameters.values()
    parameters = [one for one in known if one.name not in ("self", without) and one.kind is not Parameter.VAR_KEYWORD]
    for one in parameters:
        if one.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise InputError(f"the parameter {str(one)!r} of tool {function.__name__!r} cannot be given by name")
    return parameters


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and those of its parameters, in Google's style or in reST."""
    lines: list[str] = []
    described: dict[str, str] = {}
    section, current, depth = "", "", 0
    for line in cleandoc(text).splitlines():
        words, indent = line.strip(), len(line) - len(line.lstrip())
        if found := SECTION.fullmatch(line):
            section, current, depth = found[1], "", 0
        elif line.startswith(":"):
            section, entry = "fields", REST_ENTRY.fullmatch(line)
            current = entry[1] if entry else ""
            described |= {entry[1]: entry[2]} if entry else {}
        elif not section:
            lines.append(words)
        elif section in ARGUMENT_SECTIONS and words and indent in (depth or indent, 0):
            depth, entry = indent, GOOGLE_ENTRY.fullmatch(words)
            current = entry[1] if entry and indent else ""
            described |= {entry[1]: entry[2]} if entry and indent else {}
        elif current and words:
            described[current] += f" {words}"
    return " ".join(filter(None, lines)), described


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without titles, defaults, references and the null of optional parameters."""
    definitions = schema.get("$defs", {})
    try:
        simple = inline_references({key: value for key, value in schema.items() if key != "$defs"}, definitions)
    except RecursionError:  # a type that contains itself needs its references
        simple = inline_references(schema, {})
    required = simple.get("required", ())
    for name, shape in simple["properties"].items():
        others = [one for one in shape.get("anyOf", ()) if one != {"type": "null"}]
        if name not in required and len(others) == 1:
            simple["properties"][name] = {**others[0], **{key: shape[key] for key in shape if key != "anyOf"}}
    return {"type": "object", **{key: simple[key] for key in simple if key not in ("type", "description")}}


def inline_references(schema: Any, definitions: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:
    """Replace references by what they name, and drop titles and defaults; raise RecursionError for a circle."""
    if isinstance(schema, list):
        return [inline_references(one, definitions, above) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in above:
        raise RecursionError(name)
    if name in definitions:
        named = inline_references(definitions[name], definitions, (*above, name))
        return {**named, **{key: schema[key] for key in schema if key != "$ref" and key not in DROPPED_KEYS}}
    return {
        key: {name: inline_references(one, definitions, above) for name, one in value.items()}
        if key in ("properties", "$defs")
        else inline_references(value, definitions, above)
        for key, value in schema.items()
        if key not in DROPPED_KEYS
    }


def write_result(value: object) -> str:
    """Return what a tool's function returned as text: a text as it is, nothing for None, everything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except (ValueError, TypeError, RecursionError):
        raise ToolError(f"it returned a value of type {type(value).__name__} that cannot be written as JSON") from None
