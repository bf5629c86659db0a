"""Renderers for a streaming answer: Markdown on a terminal, plain text otherwise. No text can control the terminal."""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TextIO

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from foreword.agent import agent_events
from foreword.cli.output import clean_line, clean_text
from foreword.engine.sources.sections import Passage
from foreword.storage.turns import TurnReply, TurnState
from foreword.types import frozen

MAX_MARKDOWN_CHARS = 100_000  # characters; longer text is shown unrendered
# Rich drops HTML, so show tags as text. Without link references, blocks can be drawn one by one, and no line is
# consumed as a definition.
MARKDOWN_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
REDRAW_INTERVAL_S = 0.1  # seconds between two redraws
QUEUED_NOTE = "Your message is queued and will be answered after the previous one."
RETRY_NOTE = (
    "It is retried while foreword chat or foreword serve runs in this workspace; "
    "/model NAME tries another model now, and /drop cancels the message."
)
SUPPRESSED_NOTE = "(nothing to say)"
CUT_NOTE = "(cut: the answer reached its limit)"
NO_PASSAGES_NOTE = "(no passage in your files matches this message)"
RESTART_NOTE = "asking the model again; ignore the partial answer above"


class MarkdownText:
    """A text rendered as Markdown, or unrendered if that fails."""

    def __init__(self, text: str) -> None:
        self.text = clean_text(text).strip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, block in enumerate(split_blocks(self.text)):
            if number:
                yield Segment.line()
            yield from render_block(block, console, options)


def render_block(block: str, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
    """Render one block, without surrounding empty lines."""
    plain = Text(block, overflow="fold")
    try:
        markdown = parse_markdown(block) if len(block) <= MAX_MARKDOWN_CHARS else plain
        lines = render_lines(markdown, console, options)
    except Exception:  # noqa: BLE001 - if rendering fails, show the plain text
        lines = render_lines(plain, console, options)
    full = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    for line in lines[full[0] : full[-1] + 1] if full else []:
        yield from line
        yield Segment.line()


def render_lines(what: RenderableType, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """Render to lines and clean them again: Markdown entities can produce new control characters."""
    lines = console.render_lines(what, options.update(height=None), pad=False)
    return [
        [Segment(clean_text(segment.text), segment.style) for segment in line if not segment.control] for line in lines
    ]


def parse_markdown(text: str) -> Markdown:
    """Parse Markdown; keep the model's line breaks, and print link targets."""
    markdown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    markdown.parsed = MARKDOWN_PARSER.parse(text)
    for token in markdown.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return markdown


def split_blocks(text: str) -> list[str]:
    """Split a text into its blocks; joined, they are the text."""
    if len(text) > MAX_MARKDOWN_CHARS:
        return [text]
    tokens = [token for token in MARKDOWN_PARSER.parse(text) if token.level == 0 and token.nesting >= 0]
    starts = [token.map[0] for token in tokens if token.map][1:]
    lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
    return ["".join(lines[start:end]) for start, end in pairwise([0, *starts, len(lines)])]


def split_finished(text: str) -> tuple[str, str]:
    """Split a growing text into its finished blocks and the last one, which may still change."""
    *finished, rest = split_blocks(text)
    return "".join(finished), rest


@frozen(eq=True)
class ToolDeclined:
    """A tool call ended because the person did not allow it."""

    name: str


AnswerDelta = agent_events.ShownEvent | ToolDeclined


class TextRenderer:
    """Shows an answer as plain text: the answer goes to one stream, notes go to another."""

    def __init__(self, out: TextIO, notes: TextIO) -> None:
        self.passages: tuple[Passage, ...] = ()  # the recalled passages
        self._out = out
        self._notes = notes
        self._open = False
        self._streamed = ""

    def show(self, delta: AnswerDelta) -> None:
        """Show a delta of the answer."""
        if isinstance(delta, agent_events.TextDelta):
            self._streamed += delta.text
            self._write(delta.text)
            return
        self._settle()
        if isinstance(delta, agent_events.CallRestarted):
            self._streamed = ""
        if isinstance(delta, agent_events.PassagesRecalled):
            self.passages = delta.passages
            self._quote(delta.passages)
        if note := describe_delta(delta):
            self._note(note)

    def end(self, reply: TurnReply) -> None:
        """Show an answer that was not streamed, or a note on why there is none."""
        if reply.state is TurnState.ANSWERED and not self._streamed.strip():
            self._write(reply.text)
        self.pause()
        if note := describe_end(reply):
            self._end_note(note)

    def pause(self) -> None:
        """Finish the current output, so that other text can be printed; more may follow."""
        self._settle()

    def _write(self, text: str) -> None:
        if shown := clean_text(text):
            self._out.write(shown)
            self._out.flush()
            self._open = not shown.endswith("\n")

    def _settle(self) -> None:
        if self._open:
            self._out.write("\n")
            self._out.flush()
            self._open = False

    def _quote(self, passages: Sequence[Passage]) -> None:
        self._note("".join(f"{format_quote(one)}\n" for one in passages))

    def _note(self, text: str) -> None:
        print(text, file=self._notes, flush=True)

    _end_note = _note


class TerminalMarkdown(TextRenderer):
    """Shows an answer as Markdown: prints finished blocks, and redraws the last one while it grows."""

    def __init__(self, console: Console) -> None:
        super().__init__(sys.stdout, sys.stderr)
        self._console = console
        self._rest = self._drawn = ""
        self._printed_text = False
        self._live: Live | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._start()

    def show(self, delta: AnswerDelta) -> None:
        """Draw a delta, at the latest with the next redraw."""
        super().show(delta)
        self._start()

    def pause(self) -> None:
        """Print the current text and stop redrawing."""
        self._settle()
        if self._tick:
            self._tick.cancel()
            self._tick = None
        if self._live:
            self._live.update(Text(), refresh=True)
            self._live.stop()
            self._live = None

    def _write(self, text: str) -> None:
        self._rest += clean_text(text)

    def _settle(self) -> None:
        """Print the text so far permanently."""
        if self._rest.strip():
            self._above(MarkdownText(self._rest))
        self._rest = ""

    def _quote(self, passages: Sequence[Passage]) -> None:
        for one in passages:
            self._above(Padding(Text(format_quote(one), style="dim"), (0, 0, 0, 2)))

    def _note(self, text: str) -> None:
        self._above(Text(f"  {text}", style="dim", overflow="ellipsis", no_wrap=True))

    def _end_note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stderr=False)
            self._live.start()
            self._spinner = Spinner("dots", style="dim")
            self._draw()

    def _draw(self) -> None:
        """Redraw, and schedule the next redraw."""
        if self._live is None:
            return
        finished, self._rest = split_finished(self._rest)
        if finished.strip():
            self._above(MarkdownText(finished))
        if not self._rest.strip():
            self._live.update(self._spinner, refresh=True)
        elif self._rest != self._drawn:
            self._live.update(self._crop(), refresh=True)
        self._drawn = self._rest
        self._tick = asyncio.get_running_loop().call_later(REDRAW_INTERVAL_S, self._draw)

    def _crop(self) -> Segments:
        """Return the last lines of the growing text: output taller than the screen cannot be erased."""
        height = max(1, self._console.height - 3)
        text = self._rest if len(self._rest) < 8_000 else self._rest[-8_000:]
        lines = self._console.render_lines(MarkdownText(text), pad=False)[-height:]
        shown = [segment for line in lines for segment in (*line, Segment.line())]
        return Segments([Segment.line(), *shown] if self._printed_text else shown)

    def _above(self, what: MarkdownText | Text | Padding) -> None:
        """Print permanent output above the part that is redrawn."""
        if self._live:
            self._live.update(Text(), refresh=True)  # otherwise the old frame is drawn again below
        if isinstance(what, MarkdownText) and self._printed_text:
            self._console.print()
        self._printed_text = isinstance(what, MarkdownText)
        self._console.print(what)


def describe_end(reply: TurnReply) -> str:
    """Describe why there is no answer, or only part of one."""
    if reply.state is TurnState.ANSWERED:
        return SUPPRESSED_NOTE if reply.silent else CUT_NOTE if reply.cut else ""
    if reply.state is TurnState.STOPPED:
        return "stopped"
    if reply.state.ended:
        return clean_text(reply.text)
    return f"{clean_text(reply.text) or QUEUED_NOTE} {RETRY_NOTE}"


def describe_delta(delta: AnswerDelta) -> str:
    """Describe a delta that is not text, in a few words."""
    match delta:
        case agent_events.ToolStarted():
            return f"· {clean_line(delta.name) or 'a tool'} …"
        case agent_events.ToolFinished(done=False):
            return f"· {clean_line(delta.name) or 'a tool'} failed"
        case ToolDeclined():
            return f"· {clean_line(delta.name) or 'a tool'} was not allowed"
        case agent_events.CallRestarted():
            return f"· {RESTART_NOTE}"
        case agent_events.PassagesRecalled(passages=()):
            return NO_PASSAGES_NOTE
        case _:
            return ""


def format_quote(passage: Passage) -> str:
    """Quote a passage, with its file and first line."""
    text = f"{passage.heading}: {passage.text.removeprefix('- ')}" if passage.heading else passage.text
    line = f", line {passage.line}" if passage.line else ""
    whose = f" ({passage.origin})" if passage.origin else ""
    return f"> {clean_line(text)}\n  {clean_line(passage.file + line + whose)}"
