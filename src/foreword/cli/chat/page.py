"""An answer on the screen: Markdown as a model writes it, of which nothing is taken for an order to the terminal."""

from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from foreword.cli.chat.clean import clean

LONGEST = 100_000  # characters that are read as Markdown; what is longer is shown as it is
# Without HTML, a tag is shown as it was written, where Rich would swallow it. Without references, blocks can be drawn
# one by one, and no line vanishes into the definition of one.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")


class Page:
    """A text that is drawn as Markdown, and as it is where that cannot be done."""

    def __init__(self, text: str) -> None:
        self.text = clean(text).strip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, block in enumerate(cut(self.text)):
            if number:
                yield Segment.line()
            yield from draw(block, console, options)


def draw(block: str, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
    """Draw one block, without empty lines around it."""
    try:
        lines = render(read_markdown(block) if len(block) <= LONGEST else as_it_is(block), console, options)
    except Exception:  # noqa: BLE001 - whatever a renderer stumbles over, the person is to see the words
        lines = render(as_it_is(block), console, options)
    full = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    for line in lines[full[0] : full[-1] + 1] if full else []:
        yield from line
        yield Segment.line()


def render(what: RenderableType, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """Render to lines, and clean them once more: Markdown has names for signs that were not there before."""
    lines = console.render_lines(what, options.update(height=None), pad=False)
    return [[Segment(clean(segment.text), segment.style) for segment in line if not segment.control] for line in lines]


def as_it_is(text: str) -> Text:
    """Show a text as it was written."""
    return Text(text, overflow="fold")


def read_markdown(text: str) -> Markdown:
    """Read Markdown; lines end where the model ended them, and where a link leads is written out."""
    markdown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    markdown.parsed = PARSER.parse(text)
    for token in markdown.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return markdown


def cut(text: str) -> list[str]:
    """Cut a text into its blocks; joined they are the text."""
    if len(text) > LONGEST:
        return [text]
    begins = [token.map[0] for token in PARSER.parse(text) if token.level == 0 and token.map and token.nesting >= 0]
    lines = text.split("\n")
    return ["\n".join(part) + ("\n" if more else "") for part, more in slice_lines(lines, begins[1:])]


def slice_lines(lines: list[str], begins: Iterable[int]) -> Iterator[tuple[list[str], bool]]:
    """Slice lines where blocks begin; say of each slice whether another follows."""
    start = 0
    for begin in begins:
        yield lines[start:begin], True
        start = begin
    yield lines[start:], False


def split(text: str) -> tuple[str, str]:
    """Split a text that still grows: the blocks that are finished, and the last one, which may yet change."""
    *finished, rest = cut(text)
    return "".join(finished), rest
