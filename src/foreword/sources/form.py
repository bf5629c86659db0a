"""Forms: texts with fields, in which what is not known leaves no trace.

    Your name is {name}[ {emoji}].        a [group] is left out if one of its fields is empty
    You are {name|an assistant}.          a field may have a default
    Your vibe: {vibe}.                    a line is left out if one of its fields is empty

`[[` is a bracket.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from foreword.frozen import frozen
from foreword.sources.builtin import read_builtin

FIELD = re.compile(r"\{([a-z_0-9]+)(?:\|([^{}\n]*))?\}")
PIECE = re.compile(r"\[\[|\[((?:[^\[\]]|\[\[)*)\]")
NAME = re.compile(r"[a-z0-9_/-]+")
TEXT = "text"  # the field that stands for a slot's own text
HOLE = "\0"


@frozen
class Field:
    """A field, and what stands in its place where nothing is known."""

    name: str
    default: str = ""


@frozen
class Group:
    """A part of a line that is there with all its fields, or not at all."""

    parts: "tuple[str | Field, ...]"

    def fill(self, values: Mapping[str, str]) -> str | None:
        """Fill the fields in, or answer that one of them is empty."""
        filled: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                # A value that brings its own full stop keeps it.
                ended = filled and filled[-1].endswith(".") and part.startswith(".")
                filled.append(part[1:] if ended else part)
                continue
            value = values.get(part.name, "") or part.default
            if not value:
                return None
            filled.append(value)
        return "".join(filled)


class Form:
    """A text with fields."""

    def __init__(self, text: str) -> None:
        self._lines = [tuple(parse_line(line)) for line in split_lines(text.strip("\n"))]
        fields = [part for line in self._lines for group, _ in line for part in group.parts if isinstance(part, Field)]
        self.names = tuple(dict.fromkeys(field.name for field in fields))
        self.default = next((field.default for field in fields if field.name == TEXT), "")
        self.needed = tuple(dict.fromkeys(field.name for field in fields if not field.default))

    def fill(self, values: Mapping[str, str]) -> str:
        """Fill the fields in; nothing is left of a form whose every line needs what is not known."""
        lines: list[str] = []
        gone = False
        for line in self._lines:
            filled = fill_line(line, values)
            # A blank line before what is left out, and another one behind it, are one.
            if filled is None or (gone and not filled and lines[-1:] in ([], [""])):
                gone = True
                continue
            lines.append(filled)
            gone = False
        return "\n".join(lines).strip("\n")


def fill_line(line: Sequence[tuple[Group, bool]], values: Mapping[str, str]) -> str | None:
    """Fill one line in, or answer that nothing is left of it."""
    filled = ""
    ended = False  # whether a value has just brought its own full stop
    for group, optional in line:
        piece = group.fill(values)
        if piece is None and not optional:
            return None
        if piece:
            filled += piece[1:] if ended and piece.startswith(".") and isinstance(group.parts[0], str) else piece
            ended = piece.endswith(".") and isinstance(group.parts[-1], Field)
    return filled if filled or not line else None


def split_lines(text: str) -> Iterator[str]:
    """Split a form into lines; a group that spans several stays whole."""
    flat = PIECE.sub(lambda piece: " " * len(piece[0]), text)
    start = 0
    for line in flat.split("\n"):
        yield text[start : start + len(line)]
        start += len(line) + 1


def parse_line(line: str) -> Iterator[tuple[Group, bool]]:
    """Parse one line into what must be there and the groups that may be."""
    at = 0
    needed: list[str | Field] = []
    for piece in PIECE.finditer(line):
        needed += parse_fields(line[at : piece.start()])
        at = piece.end()
        if piece[1] is None:
            needed.append("[")
            continue
        if needed:
            yield Group(parts=tuple(needed)), False
            needed = []
        yield Group(parts=tuple(parse_fields(piece[1].replace("[[", "[")))), True
    if needed := [*needed, *parse_fields(line[at:])]:
        yield Group(parts=tuple(needed)), False


def parse_fields(text: str) -> Iterator[str | Field]:
    """Split a text at its fields."""
    at = 0
    for field in FIELD.finditer(text):
        if field.start() > at:
            yield text[at : field.start()]
        yield Field(name=field[1], default=field[2] or "")
        at = field.end()
    if at < len(text):
        yield text[at:]


@cache
def read_form(form: str) -> Form:
    """Return the built-in form of this name, or the form that was written out."""
    return Form((read_builtin(form) if NAME.fullmatch(form) else "") or form)


@lru_cache(maxsize=4_096)
def fill_form(form: str, values: tuple[str, ...]) -> str:
    """Fill a form with the values of its fields, in their order; the same values give the very same text."""
    known = read_form(form)
    return known.fill(dict(zip(known.names, values, strict=True)))


@lru_cache(maxsize=4_096)
def split_form(form: str, values: tuple[str, ...]) -> tuple[str, str]:
    """Fill a form around a text, and return what stands before it and after it."""
    known = read_form(form)
    told = {name: value.replace(HOLE, "") for name, value in zip(known.names, values, strict=True)}
    before, _, after = known.fill({**told, TEXT: HOLE}).partition(HOLE)
    return before, after.replace(HOLE, "")
