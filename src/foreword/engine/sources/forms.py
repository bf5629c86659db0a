"""Forms: texts with fields, in which parts with unknown values are left out.

    Your name is {name}[ {emoji}].        a [group] is left out if one of its fields is empty
    You are {name|an assistant}.          a field may have a default
    Your vibe: {vibe}.                    a line is left out if one of its fields is empty

`[[` is a literal bracket.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from foreword.engine.sources.documents import read_builtin
from foreword.types import frozen

FORM_FIELD = re.compile(r"\{([a-z_0-9]+)(?:\|([^{}\n]*))?\}")
FORM_GROUP = re.compile(r"\[\[|\[((?:[^\[\]]|\[\[)*)\]")
FORM_NAME = re.compile(r"[a-z0-9_/-]+")
TEXT_FIELD = "text"  # the field for the slot's own text
HOLE = "\0"


@frozen
class FormField:
    """A field and its default value."""

    name: str
    default: str = ""


@frozen
class FormGroup:
    """A part of a line that needs all of its fields."""

    parts: "tuple[str | FormField, ...]"

    def fill(self, values: Mapping[str, str]) -> str | None:
        """Fill the fields in; return None if one of them is empty."""
        filled: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                # Avoid a double full stop after a value that ends with one.
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
        fields = [
            part for line in self._lines for group, _ in line for part in group.parts if isinstance(part, FormField)
        ]
        self.names = tuple(dict.fromkeys(field.name for field in fields))
        self.default = next((field.default for field in fields if field.name == TEXT_FIELD), "")
        self.needed = tuple(dict.fromkeys(field.name for field in fields if not field.default))

    def fill(self, values: Mapping[str, str]) -> str:
        """Fill the fields in; the result is empty if every line needs an unknown value."""
        lines: list[str] = []
        gone = False
        for line in self._lines:
            filled = fill_line(line, values)
            # Collapse the blank lines around a line that is left out.
            if filled is None or (gone and not filled and lines[-1:] in ([], [""])):
                gone = True
                continue
            lines.append(filled)
            gone = False
        return "\n".join(lines).strip("\n")


def fill_line(line: Sequence[tuple[FormGroup, bool]], values: Mapping[str, str]) -> str | None:
    """Fill one line in; return None if nothing of it remains."""
    filled = ""
    ended = False  # whether the last value ended with a full stop
    for group, optional in line:
        piece = group.fill(values)
        if piece is None and not optional:
            return None
        if piece:
            filled += piece[1:] if ended and piece.startswith(".") and isinstance(group.parts[0], str) else piece
            ended = piece.endswith(".") and isinstance(group.parts[-1], FormField)
    return filled if filled or not line else None


def split_lines(text: str) -> Iterator[str]:
    """Split a form into lines; a group that spans several lines stays whole."""
    flat = FORM_GROUP.sub(lambda piece: " " * len(piece[0]), text)
    start = 0
    for line in flat.split("\n"):
        yield text[start : start + len(line)]
        start += len(line) + 1


def parse_line(line: str) -> Iterator[tuple[FormGroup, bool]]:
    """Parse one line into required parts and optional groups."""
    at = 0
    needed: list[str | FormField] = []
    for piece in FORM_GROUP.finditer(line):
        needed += parse_fields(line[at : piece.start()])
        at = piece.end()
        if piece[1] is None:
            needed.append("[")
            continue
        if needed:
            yield FormGroup(parts=tuple(needed)), False
            needed = []
        yield FormGroup(parts=tuple(parse_fields(piece[1].replace("[[", "[")))), True
    if needed := [*needed, *parse_fields(line[at:])]:
        yield FormGroup(parts=tuple(needed)), False


def parse_fields(text: str) -> Iterator[str | FormField]:
    """Split a text at its fields."""
    at = 0
    for field in FORM_FIELD.finditer(text):
        if field.start() > at:
            yield text[at : field.start()]
        yield FormField(name=field[1], default=field[2] or "")
        at = field.end()
    if at < len(text):
        yield text[at:]


@cache
def read_form(form: str) -> Form:
    """Return the built-in form of this name, or parse the text as a form."""
    return Form((read_builtin(form) if FORM_NAME.fullmatch(form) else "") or form)


@lru_cache(maxsize=4_096)
def fill_form(form: str, values: tuple[str, ...]) -> str:
    """Fill a form with the values of its fields, in order; equal values return the same object."""
    known = read_form(form)
    return known.fill(dict(zip(known.names, values, strict=True)))


@lru_cache(maxsize=4_096)
def split_form(form: str, values: tuple[str, ...]) -> tuple[str, str]:
    """Fill a form around a text, and return the parts before and after the text."""
    known = read_form(form)
    told = {name: value.replace(HOLE, "") for name, value in zip(known.names, values, strict=True)}
    before, _, after = known.fill({**told, TEXT_FIELD: HOLE}).partition(HOLE)
    return before, after.replace(HOLE, "")
