"""Rows as values: queries that return values, and values that are inserted as rows."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from foreword.storage.database import format_moment, parse_moment
from foreword.types import TextEnum

T = TypeVar("T")


def fetch_all(kind: type[T], state: sqlite3.Connection, query: str, *values: Any) -> list[T]:
    """Make a value of each row. A column sets the field of its name, without a final `_id`."""
    rows = fetch_rows(state, query, *values)
    return [make_value(kind, {name.removesuffix("_id"): part for name, part in row.items()}) for row in rows]


def fetch_one(kind: type[T], state: sqlite3.Connection, query: str, *values: Any) -> T | None:
    """Make a value of the first row, if any."""
    return next(iter(fetch_all(kind, state, query, *values)), None)


def fetch_rows(state: sqlite3.Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return each row as a mapping from its columns."""
    cursor = state.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def fetch_column(state: sqlite3.Connection, query: str, *values: Any) -> list[Any]:
    """Return the first column of each row."""
    return [row[0] for row in state.execute(query, values).fetchall()]


def fetch_cell(kind: Callable[[Any], T], state: sqlite3.Connection, query: str, *values: Any) -> T | None:
    """Return the first column of the first row as a value of a kind, or None without a row or a value."""
    row = state.execute(query, values).fetchone()
    return None if row is None or row[0] is None else kind(row[0])


def make_value(kind: Any, row: Mapping[str, Any], *, nested: bool = False) -> Any:
    """Make a value from columns by its type hints. A nested value without a column has one column for each field."""
    values: dict[str, Any] = {}
    for name, (hint, is_optional) in list_hints(kind).items():
        if name not in row and is_dataclass(hint):
            values[name] = make_value(hint, row, nested=True)
        elif name in row or nested:
            value = row[name]
            if value is not None:
                values[name] = find_converter(hint)(value)
            elif is_optional or hint is str:
                values[name] = None if is_optional else ""
    return kind(**values)


@cache
def list_hints(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field, and whether it may be None."""
    found: dict[str, tuple[Any, bool]] = {}
    for name, hint in get_type_hints(kind).items():
        members = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        found[name] = (next(member for member in members if member is not NoneType), NoneType in members)
    return found


@cache
def find_converter(hint: Any) -> Callable[[Any], Any]:
    """Find the function that converts a column: JSON to a structure, text or seconds to a time, and words to enums."""
    origin = get_origin(hint) or hint
    if origin is tuple:
        return lambda raw: tuple(json.loads(raw))
    if is_dataclass(origin):
        return lambda raw: hint(**json.loads(raw))
    if origin is datetime:
        return lambda raw: parse_moment(raw) if isinstance(raw, str) else datetime.fromtimestamp(raw, UTC)
    if isinstance(origin, type) and issubclass(origin, Enum | bool):
        return origin
    return json.loads if origin is Mapping else lambda raw: raw


def insert_row(state: sqlite3.Connection, table: str, verb: str = "INSERT", /, **columns: Any) -> int:
    """Insert a row; return the number of inserted rows. Words of enums and times are stored as text."""
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    values = [
        format_moment(value) if isinstance(value, datetime) else str(value) if isinstance(value, TextEnum) else value
        for value in columns.values()
    ]
    return state.execute(f"{verb} INTO {table} ({names}) VALUES ({places})", values).rowcount


ID_FIELDS = ("session", "turn", "user")  # their columns end in `_id`


def list_columns(value: Any) -> dict[str, Any]:
    """Return a value as columns, from which `fetch_all` makes it again."""
    columns: dict[str, Any] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if is_dataclass(part):
            columns |= list_columns(part)
        else:
            columns[f"{field.name}_id" if field.name in ID_FIELDS else field.name] = part
    return columns
