"""The sources by name; a new kind of section is one function with this decorator."""

from collections.abc import Callable, Iterable
from typing import Any

from foreword.blueprint import Planned
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.sources.section import Item
from foreword.words import Pace

Fill = Callable[[Any, Planned], tuple[Item, ...] | Item]


@frozen(eq=True)
class Source:
    """A way to fill a slot, and the pace of what it depends on."""

    name: str
    pace: Pace
    fill: Fill
    fields: frozenset[str] = frozenset()
    """The fields that it fills into its slot's form by itself; another source's form only surrounds {text}."""


SOURCES: dict[str, Source] = {}


def source(name: str, pace: Pace, fields: Iterable[str] = ()) -> Callable[[Fill], Fill]:
    """Register a function as the source of this name; it is handed a view of its slot's pace."""

    def register(fill: Fill) -> Fill:
        if name in SOURCES and SOURCES[name].fill.__module__ != fill.__module__:
            raise InputError(f"there is already a source called {name!r}")
        SOURCES[name] = Source(name=name, pace=pace, fill=fill, fields=frozenset(fields))
        return fill

    return register
