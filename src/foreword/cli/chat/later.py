"""Answers that nobody here has heard: those that came while nobody was here, and those that still come."""

import asyncio
from collections.abc import Callable
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.text import Text

from foreword.cli.chat.answer import tell_end
from foreword.cli.chat.clean import clean, clean_line
from foreword.cli.chat.page import Page
from foreword.events.line import show_time
from foreword.gateway.gateway import Gateway
from foreword.gateway.message import Exchange, State

LATER = 1.0  # seconds between two looks for an answer that comes later
LONGEST = 72  # characters of a question that are shown again


class Later:
    """Shows answers that are not heard piece by piece, each once."""

    def __init__(self, gateway: Gateway, console: Console, zone: Callable[[], ZoneInfo]) -> None:
        self.known: set[str] = set()
        """The turns whose answers are shown here or will be, and the keys of notifications that are."""
        self._gateway = gateway
        self._console = console
        self._zone = zone
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
        await self.show_notifications(session)

    async def show_notifications(self, session: str) -> None:
        """Show what the agent added to a session by itself, each once, under a label that says where it comes from."""
        for one in await self._gateway.sessions.list_notifications(session):
            if one.key not in self.known:
                self.known.add(one.key)
                moment = f", {show_time(one.moment, self._zone())}" if one.moment else ""
                note(self._console, f"[{clean_line(one.label)}{moment}]")
                self._console.print(Page(one.text))

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
        if reply and reply.state is not State.STOPPED:
            self._show(Exchange(asked=exchange.asked, reply=reply))

    def _show(self, exchange: Exchange) -> None:
        """Show a question in short, and what came of it."""
        note(self._console, f"> {shorten(exchange.asked)}")
        if exchange.reply.state is State.ANSWERED:
            self._console.print(Page(exchange.reply.text))
        if words := tell_end(exchange.reply):
            note(self._console, words)


def shorten(asked: str) -> str:
    """Shorten a message to one line that names it."""
    line = clean_line(asked)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def note(console: Console, text: str) -> None:
    """Say something that is not the agent's word."""
    console.print(Text(clean(text), style="dim"), soft_wrap=True)
