"""A YAML document as plain frozen values, each of which knows its line."""

from typing import Union

from foreword.frozen import frozen


@frozen(eq=True)
class Scalar:
    """A single value as it was written, with the short name of its YAML tag, such as str, int or null."""

    line: int
    text: str
    tag: str
    size: int = 1
    height: int = 1


@frozen(eq=True)
class Sequence:
    """A list; size counts every value below it with aliases expanded, height its longest way down."""

    line: int
    items: tuple["Node", ...]
    size: int
    height: int


@frozen(eq=True)
class Table:
    """A mapping as pairs in the order of the file, so that duplicate keys are still there to be found."""

    line: int
    entries: tuple[tuple["Node", "Node"], ...]
    size: int
    height: int


Node = Union[Scalar, Sequence, Table]  # noqa: UP007 - the names above are strings, which `|` does not take
