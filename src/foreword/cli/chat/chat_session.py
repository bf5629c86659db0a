"""A chat session in the terminal: its participants, its current session, and sending messages.

Notifications for the owner, printed at the prompt and never inside an answer. Answers that were not streamed here:
missed ones, and those that arrive later. Download the weights of an embedded model before a chat: a progress bar and
an answer cannot share the screen. The first lines of a chat: agent, model, clearance and session.
"""

import asyncio
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.text import Text

from foreword.agent.agent_events import ApprovalNeeded, ToolFinished
from foreword.agent.providers.model_clients import EMBEDDED_PREFIX, open_models
from foreword.agent.providers.model_discovery import ChosenModel, choose_model, describe_embedded, find_model_servers
from foreword.assembly import Assembly
from foreword.cli.chat.renderer import AnswerRenderer, MarkdownText, ToolDeclined, describe_end
from foreword.cli.output import clean_line, clean_text, count
from foreword.cli.turn_options import find_user_zone
from foreword.config.schema import Config
from foreword.errors import InputError, quote_name
from foreword.events.event import Notice
from foreword.events.lines import SHORT_ID_DIGITS, show_time
from foreword.gateway.channels.pull_channel import TerminalChannel, submit_message
from foreword.gateway.history import HistoryKind
from foreword.gateway.messages import AcceptedTurn, Exchange, RoutedMessage, TurnReply, TurnState
from foreword.gateway.router import make_routed_message
from foreword.gateway.service import Gateway
from foreword.gateway.session_lookup import ResolvedKey, resolve_session_key
from foreword.storage.sessions import Session
from foreword.storage.tasks import PlanState, SessionPlan
from foreword.tokens.models import find_model
from foreword.turn import Turn
from foreword.types import Trust, frozen


class ChatNotifications:
    """Holds notices until the terminal is free; for anyone but the owner, they go only to the log."""

    def __init__(self, say: Callable[[str], None], *, is_owner: Callable[[], bool]) -> None:
        self._say = say
        self._is_owner = is_owner
        self._held: list[Notice] = []
        self._free = False

    def notify(self, notice: Notice) -> None:
        """Add a notice."""
        self._held.append(notice)
        if self._free:
            self._ring()

    @contextmanager
    def free(self) -> Iterator[None]:
        """Print notices while the person types, starting with those held so far."""
        self._free = True
        try:
            self._ring()
            yield
        finally:
            self._free = False

    def _ring(self) -> None:
        held, self._held = self._held, []
        if self._is_owner():
            for notice in held:
                self._say(f"{notice.level}: {notice.text}")


POLL_INTERVAL_S = 1.0  # seconds between two polls for a late answer
MAX_QUESTION_CHARS = 72  # characters of a question that are repeated


class LateAnswers:
    """Shows each answer that was not streamed here once."""

    def __init__(self, gateway: Gateway, console: Console, zone: Callable[[], ZoneInfo]) -> None:
        self.known: set[str] = set()
        """Turns whose answers are or will be shown here, and keys of shown notifications."""
        self._gateway = gateway
        self._console = console
        self._zone = zone
        self._waiting: set[asyncio.Task[None]] = set()

    async def catch_up(self, session: str) -> None:
        """Show the missed answers of a session, and later ones when they arrive."""
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
        """Show each message that the agent sent on its own initiative once, under a label with its origin."""
        for one in await self._gateway.sessions.list_notifications(session):
            if one.key not in self.known:
                self.known.add(one.key)
                moment = f", {show_time(one.moment, self._zone())}" if one.moment else ""
                print_note(self._console, f"[{clean_line(one.label)}{moment}]")
                self._console.print(MarkdownText(one.text))

    def wait_for(self, exchange: Exchange) -> None:
        """Show a late answer when it arrives."""
        self.known.add(exchange.reply.turn)
        task = asyncio.get_running_loop().create_task(self._wait(exchange))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait(self, exchange: Exchange) -> None:
        turn = exchange.reply.turn
        reply = await self._gateway.find(turn)
        while reply and not reply.state.ended:
            await asyncio.sleep(POLL_INTERVAL_S)
            reply = await self._gateway.find(turn)
        if reply and reply.state is not TurnState.STOPPED:
            self._show(Exchange(asked=exchange.asked, reply=reply))

    def _show(self, exchange: Exchange) -> None:
        """Show a shortened question and its result."""
        print_note(self._console, f"> {shorten_message(exchange.asked)}")
        if exchange.reply.state is TurnState.ANSWERED:
            self._console.print(MarkdownText(exchange.reply.text))
        if words := describe_end(exchange.reply):
            print_note(self._console, words)


def shorten_message(asked: str) -> str:
    """Shorten a message to one line."""
    line = clean_line(asked)
    return line if len(line) <= MAX_QUESTION_CHARS else f"{line[: MAX_QUESTION_CHARS - 1]}…"


def print_note(console: Console, text: str) -> None:
    """Print a note that is not part of an answer."""
    console.print(Text(clean_text(text), style="dim"), soft_wrap=True)


def fetch_weights(model: str, config: Config, environ: Mapping[str, str]) -> None:
    """Download the missing files of a local model; other models need none."""
    if model.partition(":")[0] == EMBEDDED_PREFIX:
        from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings

        find_weights_file(make_engine_settings(find_model(model, config.models), environ))


MIN_SESSION_ID_CHARS = 4  # digits that identify a session
SESSIONS_HINT = "foreword chat /sessions lists them"


@frozen
class ChatTerminal:
    """The terminal of the person: the console, the renderer of answers, and a way to ask for approval."""

    console: Console
    screen: Callable[[], AnswerRenderer]
    ask: Callable[[str], Awaitable[bool]]


class ChatSession:
    """A chat session: the state that chat commands act on."""

    def __init__(
        self, gateway: Gateway, terminal: TerminalChannel, environ: Mapping[str, str], seat: ChatTerminal
    ) -> None:
        self.gateway = gateway
        self.console = seat.console
        self.later = LateAnswers(gateway, seat.console, lambda: self.zone)
        self.session: Session | None = None
        """The current session; None before the first message of a new conversation."""
        self.turn = ""
        """The id of the last turn."""
        self.config: Config = gateway.workspace.config
        """The configuration at the last reload."""
        self.seen: dict[str, str | None] = {}
        """The hashes of the slots at the last reload."""
        self.told: frozenset[str] = frozenset()
        """The problems already reported."""
        self.environ = environ
        self._terminal = terminal
        self._seat = seat
        self.bell = ChatNotifications(self.note, is_owner=self.is_owner)
        gateway.reloading.board.ways.append(self.bell)

    def is_owner(self) -> bool:
        """Return whether the owner is at the terminal and no one else reads along."""
        config = self.gateway.workspace.config
        return self.place.user == config.owner and self.found.clearance.level is Trust.FULL

    @property
    def asks(self) -> bool:
        """Whether the person can be asked for approval."""
        return self._terminal.asks

    @property
    def place(self) -> RoutedMessage:
        """An empty message with the user, the agent and the place of this conversation."""
        return make_routed_message(self._terminal.hear(""), self.gateway.workspace.config)

    @property
    def found(self) -> ResolvedKey:
        """The session key under the current configuration, with its clearance and the reason."""
        return resolve_session_key(self.place, self.gateway.workspace.config)

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the user."""
        return find_user_zone(self.place.user, self.gateway.workspace.config)

    async def say(self, text: str) -> TurnReply:
        """Send a message, show the answer as it arrives, and return the reply."""
        session = self.session.id if self.session else ""
        accepted = await submit_message(self.gateway.receive, self._terminal.hear(text, session))
        reply = await self.follow(accepted)
        self.session = await self.gateway.sessions.find(accepted.session)
        return reply

    async def follow(self, accepted: AcceptedTurn) -> TurnReply:
        """Show the answer of a turn as it arrives, and return the reply."""
        self.turn = accepted.turn
        self.later.known.add(accepted.turn)
        answer = self._seat.screen()
        try:
            with stop_on_interrupt(lambda: self.gateway.stop(accepted.turn)):
                await self._listen(accepted.turn, answer)
                reply = await self.gateway.wait(accepted.turn)
        except BrokenPipeError:  # our output is closed; without a stop, another process would retry the turn
            await self.gateway.stop(accepted.turn)
            raise
        finally:
            answer.rest()
        answer.end(reply)
        return reply

    async def _listen(self, turn: str, answer: AnswerRenderer) -> None:
        declined: str | None = None
        async for delta in self.gateway.hear(turn):
            if isinstance(delta, ApprovalNeeded):
                answer.rest()
                declined = None if await self._decide(turn, delta) else delta.name
            elif isinstance(delta, ToolFinished) and delta.name == declined:
                answer.hear(ToolDeclined(name=declined))
                declined = None
            else:
                answer.hear(delta)

    async def _decide(self, turn: str, asking: ApprovalNeeded) -> bool:
        """Ask the person for approval; return whether they allow the call."""
        try:
            allowed = await self._seat.ask(clean_text(asking.question))
        except KeyboardInterrupt:
            await self.gateway.stop(turn)
            return False
        self.gateway.decide(turn, asking.id, allowed=allowed)
        return allowed

    def note(self, text: str) -> None:
        """Print a note that is not part of an answer."""
        print_note(self.console, text)

    async def catch_up(self) -> None:
        """Show the missed answers of this session, and later ones when they arrive."""
        if self.session:
            await self.later.catch_up(self.session.id)

    async def watch(self) -> None:
        """Show messages that the agent sends on its own initiative, until cancelled."""
        while True:
            with suppress(sqlite3.Error):  # the database may be busy; try again
                if self.session is None:
                    await self.go_on()  # a scheduled run may have started the conversation
                if self.session:
                    await self.later.show_notifications(self.session.id)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def hold(self) -> Session:
        """Return the current session; start one if there is none."""
        if self.session is None:
            await self.begin()
        assert self.session is not None
        return self.session

    async def begin(self) -> None:
        """Start a new session."""
        await self._enter(await self.gateway.sessions.begin(self.found.lane, self.place.situation))

    async def go_on(self) -> None:
        """Resume the last session of this place, if there is one."""
        if session := await self.gateway.sessions.find_current(self.found.lane):
            await self._enter(session)

    async def _enter(self, session: Session) -> None:
        self.session, self.turn = session, await self.gateway.sessions.find_newest_turn(session.id)

    async def list_waiting(self) -> list[Exchange]:
        """List this person's unanswered messages in this session, oldest first."""
        found = await self.gateway.sessions.list_unfinished(self.session.id) if self.session else ()
        return [one for one in found if one.reply.user == self.place.user]

    async def list_sessions(self) -> list[Session]:
        """List the sessions of this place; another clearance is another conversation."""
        return list(await self.gateway.sessions.list_lane(self.found.lane))

    async def resume(self, beginning: str, listed: str = SESSIONS_HINT) -> None:
        """Resume an earlier session, given its id or the first digits of it."""
        if len(beginning) < MIN_SESSION_ID_CHARS:
            raise InputError(f"give the id of a session, or at least its first {MIN_SESSION_ID_CHARS} digits; {listed}")
        named = [one for one in await self.list_sessions() if one.id.startswith(beginning.lower())]
        if not named:
            raise InputError(f"no session {quote_name(beginning)} can be resumed here; {listed}")
        if len(named) > 1:
            raise InputError(f"several session ids start with {quote_name(beginning)}; give more digits")
        await self._enter(await self.gateway.sessions.resume(named[0].id))

    def choose(self) -> ChosenModel:
        """Return the model that will answer the next turn."""
        named = self.session.model if self.session else ""
        config = self.gateway.workspace.config
        return choose_model(named or config.agents[self.found.lane.agent].model, config, self.environ)

    async def set_model(self, name: str) -> int:
        """Switch this session to another model and retry its queued messages; return their number.

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

    async def accept_plan(self) -> SessionPlan:
        """Accept the newest plan and turn plan mode off."""
        session = await self.hold()
        plan = await self.gateway.sessions.settle_plan(session.id, PlanState.ACCEPTED)
        self.session = replace(session, plan=False)
        return plan

    async def set_plan(self, *, on: bool) -> None:
        """Turn plan mode on or off for this session."""
        session = await self.hold()
        await self.gateway.sessions.set_plan(session.id, on=on)
        self.session = replace(session, plan=on)

    async def foresee(self) -> Assembly:
        """Assemble the next turn of this conversation exactly as the gateway would."""
        return await self.gateway.foresee(replace(self.place, session=self.session.id if self.session else ""))

    def look(self) -> Assembly:
        """Assemble a turn for this conversation without its history: who speaks, where, and what they may see."""
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
def stop_on_interrupt(stop: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """Stop the turn on Ctrl-C; a second Ctrl-C ends the program."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    stopping: list[asyncio.Future[object]] = []

    def interrupt() -> None:
        if stopping and main:
            main.cancel()
        else:
            stopping.append(asyncio.ensure_future(stop()))

    with suppress(NotImplementedError):  # without signal support in the loop, Ctrl-C ends the program
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


async def print_greeting(talk: ChatSession) -> None:
    """Print a note if the embedded model answers, then the agent and the session."""
    if line := await describe_embedded_model(talk, "type /model"):
        talk.note(line)
    found = talk.found
    clearance = f"clearance {found.clearance.level}, because {found.clearance.reason}"
    talk.note(f"{found.lane.agent} · {talk.choose().model} · {clearance}")
    talk.note(await describe_session(talk))


async def describe_session(talk: ChatSession) -> str:
    """Describe the current session, and how to start another."""
    session = talk.session
    if session is None:
        return "new conversation; /help lists the commands"
    turns = sum(row.kind is HistoryKind.TURN for row in await talk.gateway.sessions.read(session.id))
    waiting = len(await talk.gateway.sessions.list_unfinished(session.id))
    if not (turns or waiting or session.plan):
        return f"session {session.id[:SHORT_ID_DIGITS]} started; /help lists the commands"
    past = f"{count(turns, 'turn')}, last used {show_time(session.used, talk.zone)}" if turns else "no turns yet"
    plan = ", plan mode is on" if session.plan else ""
    come = f"; {count(waiting, 'message')} {'is' if waiting == 1 else 'are'} still being answered" if waiting else ""
    resumed = f"resuming {session.id[:SHORT_ID_DIGITS]} ({past}){plan}{come}"
    return f"{resumed}; /new starts a new session, /help lists the commands"


def format_model(talk: ChatSession) -> str:
    """Show the model that answers, and why if it is not the configured one."""
    chosen = talk.choose()
    return f"{chosen.model} ({chosen.reason})" if chosen.reason else chosen.model


async def describe_embedded_model(talk: ChatSession, switch: str) -> str:
    """Explain why the embedded model answers and how to change that; empty if the named model answers."""
    chosen = talk.choose()
    if not chosen.reason:
        return ""
    config = talk.gateway.workspace.config
    servers = await asyncio.to_thread(find_model_servers, config, talk.environ)
    return describe_embedded(chosen, config.agents[talk.found.lane.agent].model, servers, switch)
