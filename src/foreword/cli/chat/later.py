"""Answers that nobody here has heard: those that came while nobody was here, and those that still come."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import takewhile

from rich.console import Console
from rich.text import Text

from foreword.cli.chat.answer import tell_end
from foreword.cli.chat.clean import clean, clean_line
from foreword.cli.chat.page import Page
from foreword.gateway.gateway import Gateway
from foreword.gateway.message import Exchange, State
from foreword.gateway.past import Kind, Row

LATER = 1.0  # seconds between two looks for an answer that comes later
LONGEST = 72  # characters of a question that are shown again


class Later:
    """Shows answers that are not heard piece by piece, each once."""

    def __init__(self, gateway: Gateway, console: Console) -> None:
        self.known: set[str] = set()
        """The turns whose answers are shown here, or will be, and the places of letters that are."""
        self._gateway = gateway
        self._console = console
        self._waiting: set[asyncio.Task[None]] = set()

    async def catch_up(self, session: str) -> None:
        """Show what was missed of a session and not shown here, and the answers to come when they come."""
        sessions = self._gateway.sessions
        for exchange in await sessions.list_unfinished(session):
            if exchange.reply.turn not in self.known:
                self.wait_for(exchange)
        missed = [one for one in await sessions.list_missed(session) if one.reply.turn not in self.known]
        self.known |= {one.reply.turn for one in missed}
        for exchange in missed:
            self._show(exchange)
        for letter in find_letters(await sessions.read(session)):
            if (place := f"{session} {letter.position}") not in self.known:
                self.known.add(place)
                self._console.print(Page(letter.stretch.told[-1].text))

    def wait_for(self, exchange: Exchange) -> None:
        """See to it that an answer which comes later is shown when it comes."""
        self.known.add(exchange.reply.turn)
        task = asyncio.get_running_loop().create_task(self._wait(exchange))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait(self, exchange: Exchange) -> None:
        turn = exchange.reply.turn
        reply = await self._gateway.find(turn)
        while reply and not reply.state.ended:
            await asyncio.sleep(LATER)
            reply = await self._gateway.find(turn)
        if reply:
            self._show(Exchange(asked=exchange.asked, reply=reply))

    def _show(self, exchange: Exchange) -> None:
        """Show a question in short, and what came of it."""
        asked = clean_line(exchange.asked)
        note(self._console, f"> {asked if len(asked) <= LONGEST else f'{asked[: LONGEST - 1]}…'}")
        if exchange.reply.state is State.ANSWERED:
            self._console.print(Page(exchange.reply.text))
        if words := tell_end(exchange.reply):
            note(self._console, words)


def find_letters(past: Sequence[Row]) -> Iterator[Row]:
    """Find what the agent sent by itself since somebody last spoke here."""
    return reversed([*takewhile(lambda row: row.kind is Kind.ROOM, reversed(past))])


def note(console: Console, text: str) -> None:
    """Say something that is not the agent's word."""
    console.print(Text(clean(text), style="dim"), soft_wrap=True)
