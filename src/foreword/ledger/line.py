"""Lines of the ledger: sections as a session has been told them, or shall be."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from foreword.frozen import frozen
from foreword.render import Block, Span
from foreword.words import Pace, Placement, Policy, Word


class Gate(Word):
    """What may be taken away for privacy with what leaves a section: nothing, a file as a whole, a line of a list."""

    NONE = ""
    FILE = "file"
    LISTING = "listing"


@frozen(eq=True)
class Line:
    """A section as the ledger knows it."""

    id: str
    title: str
    pace: Pace
    text: str
    """What it says, rendered by itself with every heading that it has."""
    piece: str
    """The same as it stands among its neighbours, who may have the heading that it shares."""
    tokens: int
    governs: bool = False
    """Whether safety follows from it, so that it never travels in a message of a user."""
    policy: Policy = Policy.AUTO
    """When a change of it reaches the session."""
    gated: Gate = Gate.NONE


Lines = tuple[Line, ...]


@frozen(eq=True)
class Base:
    """The leading stable part of a prompt, block by block: what a provider's cache can keep for a session."""

    blocks: tuple[Lines, ...] = ()

    @property
    def lines(self) -> Iterator[Line]:
        """All lines in their order."""
        return (line for block in self.blocks for line in block)

    @property
    def text(self) -> str:
        """What is sent."""
        return "".join(line.piece for line in self.lines)

    @property
    def tokens(self) -> int:
        """What it weighs."""
        return sum(line.tokens for line in self.lines)

    def measure(self, count: int) -> int:
        """Weigh the first so many blocks."""
        return sum(line.tokens for block in self.blocks[:count] for line in block)


def draw_blocks(base: Base) -> list[Block]:
    """Make blocks of a base, with a span for each line."""
    return [draw_block(lines) for lines in base.blocks if any(line.piece for line in lines)]


def draw_block(lines: Lines) -> Block:
    """Make one block."""
    spans, at = [], 0
    for line in lines:
        if line.piece:
            spans.append(Span(line.id, at, at + len(line.piece), line.tokens))
        at += len(line.piece)
    return Block(
        pace=lines[0].pace,
        placement=Placement.SYSTEM,
        text="".join(line.piece for line in lines),
        tokens=sum(line.tokens for line in lines),
        spans=tuple(spans),
    )


def lead(blocks: Iterable[Block]) -> list[Block]:
    """List the blocks before the first that a turn may change."""
    return list(takewhile(lambda block: block.pace is not Pace.TURN and block.placement is Placement.SYSTEM, blocks))


class Channel(Word):
    """How an update travels: with the newest message, or as a system message of its own behind it."""

    TAIL = "tail"
    SYSTEM = "system"


class Kind(Word):
    """What an update says of a section: another text, other lines, that it is new, or that it applies no longer."""

    REPLACES = "replaces"
    AMENDS = "amends"
    JOINS = "joins"
    ENDS = "ends"


@frozen(eq=True)
class Update:
    """What a session was told about one section after the fact."""

    id: str
    title: str
    kind: Kind
    channel: Channel
    said: str
    """The words as they were sent."""
    tokens: int
    line: Line | None = None
    """What counts from then on; nothing where the section applies no longer."""


def replay(base: Base, updates: Sequence[Update]) -> Mapping[str, Line]:
    """Say what counts for the model: the frozen sections, with what updates have said since."""
    told = {line.id: line for line in base.lines}
    for update in updates:
        if update.line is None:
            told.pop(update.id, None)
        else:
            told[update.id] = update.line
    return told
