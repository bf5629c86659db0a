"""Claims about the decorator for immutable values."""

import copy
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from foreword.types import frozen


@frozen(eq=True)
class Point:
    """A point with value equality."""

    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


@frozen
class Thing:
    """A value with identity equality."""

    name: str = ""

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise ValueError(self.name)


def test_made_by_keyword() -> None:
    """A value is created by keyword with its defaults, and a default list is not shared."""
    one, two = Point(x=1), Point(x=1)
    assert (one.x, one.y, one.tags) == (1, 0, [])
    assert one.tags is not two.tags
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]


def test_frozen() -> None:
    """A value cannot be changed and accepts no other attributes."""
    point = Point(x=1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError, match="a Point is frozen"):
            change()
    assert not hasattr(point, "__dict__")


def test_comparison() -> None:
    """Values are compared by their fields with `eq=True`, and otherwise by identity."""
    assert Point(x=1, y=2) == Point(x=1, y=2) != Point(x=1, y=3)
    assert Thing(name="a") != Thing(name="a")
    assert len({Thing(name="a"), Thing(name="a")}) == 2


def test_dataclass() -> None:
    """A value is a dataclass: fields, replace, copy, pickle and repr work."""
    point = replace(Point(x=1), y=5)
    assert [each.name for each in fields(Point)] == ["x", "y", "tags"]
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    assert repr(point) == "Point(x=1, y=5, tags=[])"


def test_post_init() -> None:
    """`__post_init__` of a class runs."""
    with pytest.raises(ValueError, match="bad"):
        Thing(name="bad")
