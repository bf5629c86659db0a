"""A chat session in the terminal: sending messages, late answers, and notifications between answers."""

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
from foreword.agent.providers import model_clients, model_discovery
from foreword.assembly import Assembly
from foreword.cli.chat.renderer import MarkdownText, TextRenderer, ToolDeclined, describe_end
from foreword.cli.inputs import find_user_zone
from foreword.cli.output import clean_line, clean_text, count, pick
from foreword.config.schema import Config
from foreword.errors import InputError, quote_name
from foreword.events import event, lines
from foreword.gateway import messages, router, service, session_manager
from foreword.gateway.channel import InboundMessage
from foreword.gateway.channels.pull_channel import submit_message
from foreword.storage import history, turns
from foreword.storage.sessions import PlanState, Session, SessionPlan
from foreword.tokens.models import find_model
from foreword.turn import Turn
from foreword.types import Trust

POLL_INTERVAL_S = 1.0  # seconds between two polls for a late answer
MAX_QUESTION_CHARS = 72  # characters of a question that are repeated
MIN_SESSION_ID_CHARS = 4  # digits that identify a session
SESSIONS_HINT = "foreword chat /sessions lists them"


class ChatNotifications:
    """Holds notices until the terminal is free; for anyone but the owner, they go only to the log."""

    def __init__(self, show: Callable[[str], None], *, is_owner: Callable[[], bool]) -> None:
        self._show, self._is_owner = show, is_owner
        self._pending: list[event.Notice] = []
        self._free = False

    def notify(self, notice: event.Notice) -> None:
        """Add a notice."""
        self._pending.append(notice)
        if self._free:
            self._print_pending()

    @contextmanager
    def free(self) -> Iterator[None]:
        """Print notices while the person types, starting with those held so far."""
        self._free = True
        try:
            self._print_pending()
            yield
        finally:
            self._free = False

    def _print_pending(self) -> None:
        pending, self._pending = self._pending, []
        if self._is_owner():
            for notice in pending:
                self._show(f"{notice.level}: {notice.text}")


class LateAnswers:
    """Shows each answer that was not streamed here once."""

    def __init__(self, gateway: service.Gateway, console: Console, zone: Callable[[], ZoneInfo]) -> None:
        self.shown: set[str] = set()  # turns whose answers are or will be shown here, and keys of shown notifications
        self._gateway, self._console, self._zone = gateway, console, zone
        self._waiting: set[asyncio.Task[None]] = set()

    async def catch_up(self, session: str) -> None:
        """Show the missed answers of a session, and later ones when they arrive."""
        sessions = self._gateway.sessions
        for exchange in await sessions.list_unfinished(session):
            if exchange.reply.turn not in self.shown:
                self.wait_for(exchange)
        missed = [one for one in await sessions.list_missed(session) if one.reply.turn not in self.shown]
        self.shown |= {one.reply.turn for one in missed}
        for exchange in missed:
            self._show(exchange)
        await self.show_notifications(session)

    async def show_notifications(self, session: str) -> None:
        """Show each message that the agent sent on its own initiative once, under a label with its origin."""
        for one in await self._gateway.sessions.list_notifications(session):
            if one.key not in self.shown:
                self.shown.add(one.key)
                moment = f", {lines.show_time(one.moment, self._zone())}" if one.moment else ""
                print_note(self._console, f"[{clean_line(one.label)}{moment}]")
                self._console.print(MarkdownText(one.text))

    def wait_for(self, exchange: turns.Exchange) -> None:
        """Show a late answer when it arrives."""
        self.shown.add(exchange.reply.turn)
        task = asyncio.get_running_loop().create_task(self._wait(exchange))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait(self, exchange: turns.Exchange) -> None:
        turn = exchange.reply.turn
        reply = await self._gateway.find(turn)
        while reply and not reply.state.ended:
            await asyncio.sleep(POLL_INTERVAL_S)
            reply = await self._gateway.find(turn)
        if reply and reply.state is not turns.TurnState.STOPPED:
            self._show(turns.Exchange(asked=exchange.asked, reply=reply))

    def _show(self, exchange: turns.Exchange) -> None:
        """Show a shortened question and its result."""
        print_note(self._console, f"> {shorten_message(exchange.asked)}")
        if exchange.reply.state is turns.TurnState.ANSWERED:
            self._console.print(MarkdownText(exchange.reply.text))
        if words := describe_end(exchange.reply):
            print_note(self._console, words)


def shorten_message(message: str) -> str:
    """Shorten a message to one line."""
    line = clean_line(message)
    return line if len(line) <= MAX_QUESTION_CHARS else f"{line[: MAX_QUESTION_CHARS - 1]}…"


def print_note(console: Console, text: str) -> None:
    """Print a note that is not part of an answer."""
    console.print(Text(clean_text(text), style="dim"), soft_wrap=True)


def fetch_weights(model: str, config: Config, environ: Mapping[str, str]) -> None:
    """Download the missing files of a local model; other models need none."""
    if model.partition(":")[0] == model_clients.EMBEDDED_PREFIX:
        from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings

        find_weights_file(make_engine_settings(find_model(model, config.models), environ))


class ChatSession:
    """A chat session: the state that chat commands act on."""

    def __init__(
        self,
        gateway: service.Gateway,
        terminal: InboundMessage,
        environ: Mapping[str, str],
        *,
        console: Console,
        make_renderer: Callable[[], TextRenderer],
        ask: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.gateway, self.terminal, self.environ, self.console = gateway, terminal, environ, console
        self._make_renderer, self._ask = make_renderer, ask
        self.late_answers = LateAnswers(gateway, console, lambda: self.zone)
        self.session: Session | None = None  # the current session; None before the first message of a new conversation
        self.turn = ""  # the id of the last turn
        self.config: Config = gateway.workspace.config  # the configuration at the last reload
        self.slot_hashes: dict[str, str | None] = {}  # the hashes of the slots at the last reload
        self.reported: frozenset[str] = frozenset()  # the problems already reported
        self.notifications = ChatNotifications(self.note, is_owner=self.is_owner)
        gateway.reloading.board.targets.append(self.notifications)

    def is_owner(self) -> bool:
        """Return whether the owner is at the terminal and no one else reads along."""
        config = self.gateway.workspace.config
        return self.place.user == config.owner and self.found.clearance.level is Trust.FULL

    @property
    def place(self) -> messages.RoutedMessage:
        """An empty message with the user, the agent and the place of this conversation."""
        return router.make_routed_message(self.terminal, self.gateway.workspace.config)

    @property
    def found(self) -> session_manager.ResolvedKey:
        """The session key under the current configuration, with its clearance and the reason."""
        return session_manager.resolve_session_key(self.place, self.gateway.workspace.config)

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the user."""
        return find_user_zone(self.place.user, self.gateway.workspace.config)

    async def say(self, text: str) -> turns.TurnReply:
        """Send a message, show the answer as it arrives, and return the reply."""
        session = self.session.id if self.session else ""
        accepted = await submit_message(self.gateway.receive, replace(self.terminal, text=text, session=session))
        reply = await self.follow(accepted)
        self.session = await self.gateway.sessions.find(accepted.session)
        return reply

    async def follow(self, accepted: messages.AcceptedTurn) -> turns.TurnReply:
        """Show the answer of a turn as it arrives, and return the reply."""
        self.turn = accepted.turn
        self.late_answers.shown.add(accepted.turn)
        answer = self._make_renderer()
        try:
            with stop_on_interrupt(lambda: self.gateway.stop(accepted.turn)):
                await self._listen(accepted.turn, answer)
                reply = await self.gateway.wait(accepted.turn)
        except BrokenPipeError:  # our output is closed; without a stop, another process would retry the turn
            await self.gateway.stop(accepted.turn)
            raise
        finally:
            answer.pause()
        answer.end(reply)
        return reply

    async def _listen(self, turn: str, answer: TextRenderer) -> None:
        declined: str | None = None
        async for delta in self.gateway.hear(turn):
            if isinstance(delta, ApprovalNeeded):
                answer.pause()
                declined = None if await self._decide(turn, delta) else delta.name
            elif isinstance(delta, ToolFinished) and delta.name == declined:
                answer.show(ToolDeclined(name=declined))
                declined = None
            else:
                answer.show(delta)

    async def _decide(self, turn: str, needed: ApprovalNeeded) -> bool:
        """Ask the person for approval; return whether they allow the call."""
        try:
            allowed = await self._ask(clean_text(needed.question))
        except KeyboardInterrupt:
            await self.gateway.stop(turn)
            return False
        self.gateway.decide(turn, needed.id, allowed=allowed)
        return allowed

    def note(self, text: str) -> None:
        """Print a note that is not part of an answer."""
        print_note(self.console, text)

    async def catch_up(self) -> None:
        """Show the missed answers of this session, and later ones when they arrive."""
        if self.session:
            await self.late_answers.catch_up(self.session.id)

    async def watch(self) -> None:
        """Show messages that the agent sends on its own initiative, until cancelled."""
        while True:
            with suppress(sqlite3.Error):  # the database may be busy; try again
                if self.session is None:
                    await self.resume_last()  # a scheduled run may have started the conversation
                if self.session:
                    await self.late_answers.show_notifications(self.session.id)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def ensure_session(self) -> Session:
        """Return the current session; start one if there is none."""
        if self.session is None:
            await self.begin()
        assert self.session is not None
        return self.session

    async def begin(self) -> None:
        """Start a new session."""
        await self._enter(await self.gateway.sessions.begin(self.found.key, self.place.situation))

    async def resume_last(self) -> None:
        """Resume the last session of this place, if there is one."""
        if session := await self.gateway.sessions.find_current(self.found.key):
            await self._enter(session)

    async def _enter(self, session: Session) -> None:
        self.session, self.turn = session, await self.gateway.sessions.find_newest_turn(session.id)

    async def list_waiting(self) -> list[turns.Exchange]:
        """List this person's unanswered messages in this session, oldest first."""
        found = await self.gateway.sessions.list_unfinished(self.session.id) if self.session else ()
        return [one for one in found if one.reply.user == self.place.user]

    async def list_sessions(self) -> list[Session]:
        """List the sessions of this place; another clearance is another conversation."""
        return list(await self.gateway.sessions.list_of_key(self.found.key))

    async def resume(self, prefix: str, hint: str = SESSIONS_HINT) -> None:
        """Resume an earlier session, given its id or the first digits of it."""
        if len(prefix) < MIN_SESSION_ID_CHARS:
            raise InputError(f"give the id of a session, or at least its first {MIN_SESSION_ID_CHARS} digits; {hint}")
        named = [one for one in await self.list_sessions() if one.id.startswith(prefix.lower())]
        if not named:
            raise InputError(f"no session {quote_name(prefix)} can be resumed here; {hint}")
        if len(named) > 1:
            raise InputError(f"several session ids start with {quote_name(prefix)}; give more digits")
        await self._enter(await self.gateway.sessions.resume(named[0].id))

    def choose_model(self) -> model_discovery.ChosenModel:
        """Return the model that will answer the next turn."""
        named = self.session.model if self.session else ""
        config = self.gateway.workspace.config
        return model_discovery.choose_model(named or config.agents[self.found.key.agent].model, config, self.environ)

    async def set_model(self, name: str) -> int:
        """Switch this session to another model and retry its queued messages; return their number.

        A model that cannot be opened changes nothing.
        """
        config = self.gateway.workspace.config
        models = model_clients.open_models(config, self.environ)
        try:
            await asyncio.to_thread(models.find, name)
        finally:
            await models.close()
        await asyncio.to_thread(fetch_weights, name, config, self.environ)
        session = await self.ensure_session()
        self.session = replace(session, model=name)
        return await self.gateway.set_model(session.id, name)

    async def accept_plan(self) -> SessionPlan:
        """Accept the newest plan and turn plan mode off."""
        session = await self.ensure_session()
        plan = await self.gateway.sessions.settle_plan(session.id, PlanState.ACCEPTED)
        self.session = replace(session, plan=False)
        return plan

    async def set_plan(self, *, on: bool) -> None:
        """Turn plan mode on or off for this session."""
        session = await self.ensure_session()
        await self.gateway.sessions.set_plan(session.id, on=on)
        self.session = replace(session, plan=on)

    async def preview_next(self) -> Assembly:
        """Assemble the next turn of this conversation exactly as the gateway would."""
        return await self.gateway.foresee(replace(self.place, session=self.session.id if self.session else ""))

    def assemble_bare(self) -> Assembly:
        """Assemble a turn for this conversation without its history: who speaks, where, and what they may see."""
        session, place = self.session, self.place
        turn = Turn(
            **pick(place, "user", "channel", "room", "situation", "project", "cwd", "mode"),
            agent=self.found.key.agent,
            session=session.id if session else "",
            plan=bool(session and session.plan),
            model=self.choose_model().model,
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


async def print_greeting(chat: ChatSession) -> None:
    """Print a note if the embedded model answers, then the agent and the session."""
    if line := await describe_embedded_model(chat, "type /model"):
        chat.note(line)
    found = chat.found
    clearance = f"clearance {found.clearance.level}, because {found.clearance.reason}"
    chat.note(f"{found.key.agent} · {chat.choose_model().model} · {clearance}")
    chat.note(await describe_session(chat))


async def describe_session(chat: ChatSession) -> str:
    """Describe the current session, and how to start another."""
    session = chat.session
    if session is None:
        return "new conversation; /help lists the commands"
    answered = sum(row.kind is history.HistoryKind.TURN for row in await chat.gateway.sessions.read(session.id))
    waiting = len(await chat.gateway.sessions.list_unfinished(session.id))
    if not (answered or waiting or session.plan):
        return f"session {session.id[: lines.SHORT_ID_DIGITS]} started; /help lists the commands"
    used = f"{count(answered, 'turn')}, last used {lines.show_time(session.used, chat.zone)}"
    past = used if answered else "no turns yet"
    plan = ", plan mode is on" if session.plan else ""
    come = f"; {count(waiting, 'message')} {'is' if waiting == 1 else 'are'} still being answered" if waiting else ""
    resumed = f"resuming {session.id[: lines.SHORT_ID_DIGITS]} ({past}){plan}{come}"
    return f"{resumed}; /new starts a new session, /help lists the commands"


async def describe_embedded_model(chat: ChatSession, switch: str) -> str:
    """Explain why the embedded model answers and how to change that; empty if the named model answers."""
    chosen = chat.choose_model()
    if not chosen.reason:
        return ""
    config = chat.gateway.workspace.config
    servers = await asyncio.to_thread(model_discovery.find_model_servers, config, chat.environ)
    return model_discovery.describe_embedded(chosen, config.agents[chat.found.key.agent].model, servers, switch)
