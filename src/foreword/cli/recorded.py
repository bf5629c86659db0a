"""A recorded assembly: what `foreword build --json` wrote, or what a turn has sent, read back and checked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from foreword.assembly import SCHEMA
from foreword.errors import InputError
from foreword.frozen import frozen

if TYPE_CHECKING:
    from foreword.events.sent import Sent

T = TypeVar("T")


@frozen(eq=True)
class Part:
    """A section as it was recorded; its text is None where it was not in the prompt."""

    id: str
    verdict: str
    tokens: int
    start: int
    text: str | None


@frozen(eq=True)
class Piece:
    """A block as it was recorded."""

    pace: str
    placement: str
    text: str
    tokens: int
    marked: bool


@frozen(eq=True)
class Recorded:
    """An assembly as it was recorded."""

    file: str
    model: str
    tokens: int
    tools: str
    tool_tokens: int
    parts: tuple[Part, ...]
    pieces: tuple[Piece, ...]

    @property
    def system(self) -> str:
        """The system text."""
        return "".join(piece.text for piece in self.pieces if piece.placement == "system")

    @property
    def used(self) -> int:
        """What the prompt uses of the window: text and tool schemas."""
        return self.tokens + self.tool_tokens


def read_recorded(file: str) -> Recorded:
    """Read a recorded assembly, or raise InputError with what is wrong with the file."""
    from foreword.cli.files import read_json

    value = read_json(file)
    hint = "make it with: foreword build --json"
    if not isinstance(value, dict) or "schema" not in value:
        raise InputError(f"{file} is no assembly: it has no schema; {hint}")
    if value["schema"] != SCHEMA:
        raise InputError(f"{file} has the schema {value['schema']!r}, and only {SCHEMA!r} can be read; {hint}")
    try:
        return convert(file, value)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file} is no whole assembly: {reason}; {hint}") from None


def convert(file: str, value: Mapping[str, Any]) -> Recorded:
    """Convert the JSON of an assembly into a value."""
    text = take(value, "text", str)
    tokens = take(value, "tokens", int)
    pieces = tuple(convert_block(block) for block in take(value, "blocks", list))
    if "".join(piece.text for piece in pieces) != text:
        raise ValueError("its blocks are not its text")
    return Recorded(
        file=file,
        model=take(value, "model", str),
        tokens=tokens,
        tools=take(value, "tools", str),
        tool_tokens=take(take(value, "budget", dict), "used", int) - tokens,
        parts=tuple(convert_section(section, text) for section in take(value, "sections", list)),
        pieces=pieces,
    )


def convert_sent(name: str, sent: "Sent") -> Recorded:
    """Convert what a turn has sent; its sections have the texts that were sent, whatever they were wanted to be."""
    from foreword.events.sent import TEXT

    parts, start = [], 0
    for piece in sent.pieces:
        if piece.kind == TEXT:
            if piece.name:
                parts.append(Part(id=piece.name, verdict="kept", tokens=piece.tokens, start=start, text=piece.text))
            start += len(piece.text)
    known = {part.id for part in parts}
    absent = (row for row in sent.rows if row.id not in known)
    facts = sent.facts
    return Recorded(
        file=name,
        model=take(facts, "model", str),
        tokens=take(facts, "tokens", int),
        tools=take(facts, "tools", str),
        tool_tokens=take(take(facts, "budget", dict), "used", int) - take(facts, "tokens", int),
        parts=(*parts, *(Part(id=row.id, verdict=str(row.verdict), tokens=0, start=0, text=None) for row in absent)),
        pieces=tuple(convert_block(block) for block in sent.blocks),
    )


def convert_block(block: Mapping[str, Any]) -> Piece:
    """Convert one block."""
    return Piece(
        pace=take(block, "pace", str),
        placement=take(block, "placement", str),
        text=take(block, "text", str),
        tokens=take(block, "tokens", int),
        marked=block["cache"] is not None,
    )


def convert_section(section: Mapping[str, Any], text: str) -> Part:
    """Convert one section, with the text that its span means."""
    name = take(section, "id", str)
    span = section["span"]
    start, end = (0, 0) if span is None else tuple(span)
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end <= len(text):
        raise ValueError(f"the span of section {name!r} lies outside its text")
    return Part(
        id=name,
        verdict=take(section, "verdict", str),
        tokens=take(section, "tokens", int),
        start=start,
        text=None if span is None else text[start:end],
    )


def take(value: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Take a value of this kind."""
    found = value[key]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise TypeError(f"{key!r} is {type(found).__name__} and should be {kind.__name__}")
    return found
