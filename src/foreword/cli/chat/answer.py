"""An answer while it comes: drawn as Markdown where there is a terminal, and else written as plain text."""

import asyncio
import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from foreword.cli.chat.clean import clean, clean_line
from foreword.cli.chat.page import Page, split
from foreword.frozen import frozen
from foreword.gateway.message import Reply, State
from foreword.runtime.ears import Anew, Calling, Delta, Recalled, Returned, Words
from foreword.sources.passage import Passage

TICK = 0.1  # seconds between two pictures of an answer that grows
BEHIND = "Your message is kept, and will be answered after the one before it."
RUNS = (
    "It is tried again while foreword chat or foreword serve runs in this workspace; "
    "/model NAME tries another model at once, and /drop cancels the message."
)
CUT = "(cut: the answer reached its limit)"
NO_PASSAGES = "(no passage of your files has the words of this message)"
ANEW = "the model is asked again; what it had begun to say does not count"


@frozen(eq=True)
class Declined:
    """A tool has ended without being called, since nobody here has allowed it."""

    name: str


Piece = Delta | Declined


class Answer(Protocol):
    """Where the pieces of an answer go."""

    def hear(self, piece: Piece) -> None:
        """Show a piece."""

    def rest(self) -> None:
        """End what is being shown, so that something else can be; more may follow."""

    def end(self, reply: Reply) -> None:
        """Show what came of the turn, as far as it was not heard."""


def open_answer(console: Console) -> Answer:
    """Open an answer as this output can show it."""
    return Drawn(console) if console.is_terminal and not console.is_dumb_terminal else Written(sys.stdout, sys.stderr)


SILENT = "(nothing to say)"


class Unheard:
    """An answer that is not shown, since something else is made of it."""

    def __init__(self) -> None:
        self.passages: tuple[Passage, ...] = ()
        """The passages that the model was given and a person would be shown as quotes."""

    def hear(self, piece: Piece) -> None:
        """Show nothing, and keep the passages."""
        if isinstance(piece, Recalled):
            self.passages = piece.passages

    def rest(self) -> None:
        """Have nothing to end."""

    def end(self, reply: Reply) -> None:
        """Show nothing."""


class Written:
    """An answer as plain text; what is not the agent's word goes beside it."""

    def __init__(self, out: TextIO, aside: TextIO) -> None:
        self._out = out
        self._aside = aside
        self._open = False
        self._heard = ""

    def hear(self, piece: Piece) -> None:
        """Write a piece at once."""
        if isinstance(piece, Words):
            self._write(piece.text)
            return
        self.rest()
        if isinstance(piece, Anew):
            self._heard = ""
        if isinstance(piece, Recalled):
            print("".join(f"{quote(one)}\n" for one in piece.passages), file=self._aside, flush=True)
        if note := tell(piece):
            print(note, file=self._aside, flush=True)

    def end(self, reply: Reply) -> None:
        """Write an answer that was not heard, or say beside it why there is none."""
        if reply.state is State.ANSWERED and not self._heard.strip():
            self._write(reply.text)
        self.rest()
        if note := tell_end(reply):
            print(note, file=self._aside, flush=True)

    def _write(self, text: str) -> None:
        self._heard += text
        if shown := clean(text):
            self._out.write(shown)
            self._out.flush()
            self._open = not shown.endswith("\n")

    def rest(self) -> None:
        """End the line."""
        if self._open:
            self._out.write("\n")
            self._out.flush()
            self._open = False


class Drawn:
    """An answer as Markdown: finished blocks stand, and the last one is drawn anew while it grows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rest = self._drawn = ""
        self._spoken = False
        self._live: Live | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._heard = ""
        self._start()

    def hear(self, piece: Piece) -> None:
        """Draw a piece, at the latest with the next picture."""
        if isinstance(piece, Words):
            self._heard += piece.text
            self._rest += clean(piece.text)
            self._start()
            return
        self._settle()
        if isinstance(piece, Anew):
            self._heard = ""
        if isinstance(piece, Recalled):
            for one in piece.passages:
                self._above(Padding(Text(quote(one), style="dim"), (0, 0, 0, 2)))
        if note := tell(piece):
            self._above(Text(f"  {note}", style="dim", overflow="ellipsis", no_wrap=True))
        self._start()

    def rest(self) -> None:
        """Let what is there stand."""
        self._settle()
        if self._tick:
            self._tick.cancel()
            self._tick = None
        if self._live:
            self._live.update(Text(), refresh=True)
            self._live.stop()
            self._live = None

    def end(self, reply: Reply) -> None:
        """Draw an answer that was not heard, or say why there is none."""
        if reply.state is State.ANSWERED and not self._heard.strip():
            self._rest = reply.text
        self.rest()
        if note := tell_end(reply):
            self._console.print(Text(note, style="dim"))

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stderr=False)
            self._live.start()
            self._spinner = Spinner("dots", style="dim")
            self._draw()

    def _draw(self) -> None:
        """Draw a picture, and see to the next one."""
        if self._live is None:
            return
        finished, self._rest = split(self._rest)
        if finished.strip():
            self._above(Page(finished))
        if not self._rest.strip():
            self._live.update(self._spinner, refresh=True)
        elif self._rest != self._drawn:
            self._live.update(self._crop(), refresh=True)
        self._drawn = self._rest
        self._tick = asyncio.get_running_loop().call_later(TICK, self._draw)

    def _crop(self) -> Segments:
        """Take the last lines of what still grows: a picture that is higher than the screen cannot be taken back."""
        height = max(1, self._console.height - 3)
        text = self._rest if len(self._rest) < 8_000 else self._rest[-8_000:]
        lines = self._console.render_lines(Page(text), pad=False)[-height:]
        shown = [segment for line in lines for segment in (*line, Segment.line())]
        return Segments([Segment.line(), *shown] if self._spoken else shown)

    def _settle(self) -> None:
        """Let the words so far stand as they are."""
        if self._rest.strip():
            rest, self._rest = self._rest, ""
            self._above(Page(rest))
        self._rest = ""

    def _above(self, what: Page | Text | Padding) -> None:
        """Print something that stays, above what still changes."""
        if self._live:
            self._live.update(Text(), refresh=True)  # else the old picture is drawn once more below
        if isinstance(what, Page) and self._spoken:
            self._console.print()
        self._spoken = isinstance(what, Page)
        self._console.print(what)


def tell_end(reply: Reply) -> str:
    """Tell why there is no answer, or no whole one."""
    if reply.state is State.ANSWERED:
        return SILENT if reply.silent else CUT if reply.cut else ""
    if reply.state is State.STOPPED:
        return "stopped"
    if reply.state.ended:
        return clean(reply.text)
    return f"{clean(reply.text) or BEHIND} {RUNS}"


def tell(piece: Piece) -> str:
    """Tell in a few words what an agent does beside speaking."""
    match piece:
        case Calling():
            return f"· {clean_line(piece.name) or 'a tool'} …"
        case Returned(done=False):
            return f"· {clean_line(piece.name) or 'a tool'} failed"
        case Declined():
            return f"· {clean_line(piece.name) or 'a tool'} was not allowed"
        case Anew():
            return f"· {ANEW}"
        case Recalled(passages=()):
            return NO_PASSAGES
        case _:
            return ""


def quote(passage: Passage) -> str:
    """Quote a passage, with the file and the line it begins in."""
    text = f"{passage.heading}: {passage.text.removeprefix('- ')}" if passage.heading else passage.text
    line = f", line {passage.line}" if passage.line else ""
    whose = f" ({passage.origin})" if passage.origin else ""
    return f"> {clean_line(text)}\n  {clean_line(passage.file + line + whose)}"
