"""Claims about the JSON Schema that editors use."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from foreword.config.json_schema import make_json_schema
from foreword.config.schema import Config
from foreword.types import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Something that grows."""

    kind: Literal["tree", "herb"] = "tree"
    """What it is."""
    height: float | None = None
    where: Placement = Placement.TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Plant):
    """A plant with branches."""

    name: str
    """What people
    call it."""
    branches: "tuple[Tree, ...]" = ()
    neighbour: Plant | None = None


def find_objects(schema: object) -> Iterator[dict[str, Any]]:
    """Find every description of a dataclass in a schema."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from find_objects(value)


def test_own_dataclass() -> None:
    """A dataclass is described with its types, words, defaults and docstrings, inherited fields included."""
    plant = {
        "kind": {"enum": ["tree", "herb"], "description": "What it is.", "default": "tree"},
        "height": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "where": {"enum": ["system", "tail", "nested"], "default": "tail"},
    }
    assert make_json_schema(Tree) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tree",
        "description": "A plant with branches.",
        "type": "object",
        "properties": {
            **plant,
            "name": {"type": "string", "description": "What people\ncall it."},
            "branches": {"type": "array", "items": {"$ref": "#"}, "default": []},
            "neighbour": {"anyOf": [{"$ref": "#/$defs/Plant"}, {"type": "null"}], "default": None},
        },
        "additionalProperties": False,
        "required": ["name"],
        "$defs": {
            "Plant": {
                "description": "Something that grows.",
                "type": "object",
                "properties": plant,
                "additionalProperties": False,
            }
        },
    }


def test_config() -> None:
    """The configuration is described whole, and every field of it has a description."""
    schema = make_json_schema(Config)
    assert list(schema["properties"]) == [each.name for each in fields(Config)]
    assert schema["required"] == ["owner"]
    for found in find_objects(schema):
        assert found["additionalProperties"] is False
        assert all(each["description"] for each in found["properties"].values())


def test_trust() -> None:
    """A level of trust is offered as its words."""
    trust = make_json_schema(Config)["$defs"]["User"]["properties"]["trust"]
    assert (trust["enum"], trust["default"]) == (["public", "familiar", "inner", "full"], "public")


def test_references() -> None:
    """Every reference leads to a definition, and the whole is JSON."""
    schema = make_json_schema(Config)
    text = json.dumps(schema)
    named = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert named == set(schema["$defs"])
