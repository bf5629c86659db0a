"""A conversation in the terminal: who speaks with whom, in which session, and one message after the other."""

import asyncio
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from zoneinfo import ZoneInfo

from rich.console import Console

from foreword.assembly import Assembly
from foreword.cli.chat.answer import Answer, Declined
from foreword.cli.chat.bell import Bell
from foreword.cli.chat.clean import clean
from foreword.cli.chat.later import LATER, Later, note
from foreword.cli.chat.weights import fetch_weights
from foreword.config import Config
from foreword.errors import InputError, show_name
from foreword.frozen import frozen
from foreword.gateway.channels.fetched import hand_in
from foreword.gateway.channels.terminal import Terminal
from foreword.gateway.gateway import Gateway
from foreword.gateway.lane import Found, find_lane
from foreword.gateway.message import Accepted, Exchange, Incoming, Reply
from foreword.gateway.router import place
from foreword.gateway.session import Session
from foreword.runtime.choosing import Chosen, choose_model
from foreword.runtime.ears import Asking, Returned
from foreword.runtime.models import open_models
from foreword.sources.clock import find_zone
from foreword.store.plans import Plan, PlanState
from foreword.turn import Turn
from foreword.words import Trust

SHORTEST = 4  # digits by which a session can be named
LISTED = "foreword chat /sessions lists them"


@frozen
class Seat:
    """Where the person sits: what is drawn on, how answers are shown, and how the person is asked."""

    console: Console
    screen: Callable[[], Answer]
    ask: Callable[[str], Awaitable[bool]]


class Talk:
    """What the commands of a chat act on."""

    def __init__(self, gateway: Gateway, terminal: Terminal, environ: Mapping[str, str], seat: Seat) -> None:
        self.gateway = gateway
        self.console = seat.console
        self.later = Later(gateway, seat.console, lambda: self.zone)
        self.session: Session | None = None
        """The session that goes on; None until something is said in the first one."""
        self.turn = ""
        """The last turn."""
        self.config: Config = gateway.workspace.config
        """The configuration when it was last looked at."""
        self.seen: dict[str, str | None] = {}
        """What the slots were made of then, by hash."""
        self.told: frozenset[str] = frozenset()
        """What is wrong, as far as the person was warned of it."""
        self.environ = environ
        self._terminal = terminal
        self._seat = seat
        self.bell = Bell(self.note, is_owner=self.is_owner)
        gateway.reloading.board.ways.append(self.bell)

    def is_owner(self) -> bool:
        """Whether the owner sits here, with nobody else who reads it."""
        config = self.gateway.workspace.config
        return self.place.user == config.owner and self.found.clearance.level is Trust.FULL

    @property
    def asks(self) -> bool:
        """Whether the person can be asked before something is changed."""
        return self._terminal.asks

    @property
    def place(self) -> Incoming:
        """A message without words: who speaks, with whom, and where."""
        return place(self._terminal.hear(""), self.gateway.workspace.config)

    @property
    def found(self) -> Found:
        """The lane of this place under the configuration of now, and why its clearance is what it is."""
        return find_lane(self.place, self.gateway.workspace.config)

    @property
    def zone(self) -> ZoneInfo:
        """The zone of who speaks."""
        config = self.gateway.workspace.config
        person = config.users.get(self.place.user)
        return find_zone((person.timezone if person else "") or config.host.timezone)[0]

    async def say(self, text: str) -> Reply:
        """Say something, show the answer as it comes, and return what came of it."""
        session = self.session.id if self.session else ""
        accepted = await hand_in(self.gateway.receive, self._terminal.hear(text, session))
        reply = await self.follow(accepted)
        self.session = await self.gateway.sessions.find(accepted.session)
        return reply

    async def follow(self, accepted: Accepted) -> Reply:
        """Show the answer of a turn as it comes, and return what came of it."""
        self.turn = accepted.turn
        self.later.known.add(accepted.turn)
        answer = self._seat.screen()
        try:
            with on_interrupt(lambda: self.gateway.stop(accepted.turn)):
                await self._listen(accepted.turn, answer)
                reply = await self.gateway.wait(accepted.turn)
        except BrokenPipeError:  # what reads our output has gone; left alone, another process would begin again
            await self.gateway.stop(accepted.turn)
            raise
        finally:
            answer.rest()
        answer.end(reply)
        return reply

    async def _listen(self, turn: str, answer: Answer) -> None:
        declined: str | None = None
        async for delta in self.gateway.hear(turn):
            if isinstance(delta, Asking):
                answer.rest()
                declined = None if await self._decide(turn, delta) else delta.name
            elif isinstance(delta, Returned) and delta.name == declined:
                answer.hear(Declined(name=declined))
                declined = None
            else:
                answer.hear(delta)

    async def _decide(self, turn: str, asking: Asking) -> bool:
        """Let the person decide, and return whether they allow it."""
        try:
            allowed = await self._seat.ask(clean(asking.question))
        except KeyboardInterrupt:
            await self.gateway.stop(turn)
            return False
        self.gateway.decide(turn, asking.id, allowed=allowed)
        return allowed

    def note(self, text: str) -> None:
        """Say something that is not the agent's word."""
        note(self.console, text)

    async def catch_up(self) -> None:
        """Show what came of this session while nobody was here, and what still comes when it comes."""
        if self.session:
            await self.later.catch_up(self.session.id)

    async def watch(self) -> None:
        """Show what the agent sends by itself as soon as it comes, until cancelled."""
        while True:
            with suppress(sqlite3.Error):  # a busy disk is looked at again
                if self.session is None:
                    await self.go_on()  # a scheduled run may have begun the conversation
                if self.session:
                    await self.later.show_notifications(self.session.id)
            await asyncio.sleep(LATER)

    async def hold(self) -> Session:
        """Hold a session, which is begun if there is none yet."""
        if self.session is None:
            await self.begin()
        assert self.session is not None
        return self.session

    async def begin(self) -> None:
        """Begin a new session."""
        await self._enter(await self.gateway.sessions.begin(self.found.lane, self.place.situation))

    async def go_on(self) -> None:
        """Go on with the last session of this place, if there is one."""
        if session := await self.gateway.sessions.find_current(self.found.lane):
            await self._enter(session)

    async def _enter(self, session: Session) -> None:
        self.session, self.turn = session, await self.gateway.sessions.find_newest_turn(session.id)

    async def list_waiting(self) -> list[Exchange]:
        """List this person's messages in this session that are not answered yet, the oldest first."""
        found = await self.gateway.sessions.list_unfinished(self.session.id) if self.session else ()
        return [one for one in found if one.reply.user == self.place.user]

    async def list_sessions(self) -> list[Session]:
        """List the sessions of this very place: another clearance is another conversation."""
        return list(await self.gateway.sessions.list_lane(self.found.lane))

    async def resume(self, beginning: str, listed: str = LISTED) -> None:
        """Go on with an earlier session, named by its id or the first digits of it."""
        if len(beginning) < SHORTEST:
            raise InputError(f"a session is named by its id or the first {SHORTEST} digits or more of it; {listed}")
        named = [one for one in await self.list_sessions() if one.id.startswith(beginning.lower())]
        if not named:
            raise InputError(f"there is no session {show_name(beginning)} to go on with here; {listed}")
        if len(named) > 1:
            raise InputError(f"several sessions begin with {show_name(beginning)}; write more of the id")
        await self._enter(await self.gateway.sessions.resume(named[0].id))

    def choose(self) -> Chosen:
        """Choose the model that answers, as the next turn will."""
        named = self.session.model if self.session else ""
        config = self.gateway.workspace.config
        return choose_model(named or config.agents[self.found.lane.agent].model, config, self.environ)

    async def set_model(self, name: str) -> int:
        """Switch this session to another model and retry its queued messages with it; return how many there are.

        A model that cannot be opened changes nothing.
        """
        config = self.gateway.workspace.config
        models = open_models(config, self.environ)
        try:
            await asyncio.to_thread(models.find, name)
        finally:
            await models.close()
        await asyncio.to_thread(fetch_weights, name, config, self.environ)
        session = await self.hold()
        self.session = replace(session, model=name)
        return await self.gateway.set_model(session.id, name)

    async def accept_plan(self) -> Plan:
        """Accept the newest plan, which lets the agent act."""
        session = await self.hold()
        plan = await self.gateway.sessions.settle_plan(session.id, PlanState.ACCEPTED)
        self.session = replace(session, plan=False)
        return plan

    async def set_plan(self, *, on: bool) -> None:
        """Have the agent only plan in this session, or let it act."""
        session = await self.hold()
        await self.gateway.sessions.set_plan(session.id, on=on)
        self.session = replace(session, plan=on)

    async def foresee(self) -> Assembly:
        """Assemble the next turn of this conversation, with all that the gateway would bring to it."""
        return await self.gateway.foresee(replace(self.place, session=self.session.id if self.session else ""))

    def look(self) -> Assembly:
        """Assemble what stands for this conversation: who speaks, where, and what they may see."""
        session = self.session
        turn = Turn(
            agent=self.found.lane.agent,
            user=self.place.user,
            channel=self.place.channel,
            room=self.place.room,
            situation=self.place.situation,
            session=session.id if session else "",
            project=self.place.project,
            cwd=self.place.cwd,
            plan=bool(session and session.plan),
            model=self.choose().model,
            mode=self.place.mode,
        )
        return self.gateway.workspace.assemble(turn)


@contextmanager
def on_interrupt(stop: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """Let Ctrl-C stop what runs; a second one, before it has stopped, ends the program."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    stopping: list[asyncio.Future[object]] = []

    def interrupt() -> None:
        if stopping and main:
            main.cancel()
        else:
            stopping.append(asyncio.ensure_future(stop()))

    with suppress(NotImplementedError):  # where the loop takes no signals, Ctrl-C ends the program
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)
