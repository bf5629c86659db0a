"""Prepares a turn: loads history, state, ledger and tools, and assembles the prompt."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.agent.conversation import HistorySegment, Messages, convert_to_texts, load_messages
from foreword.assembly import Assembly
from foreword.engine.blueprint import TurnRoomKind
from foreword.engine.signal import classify
from foreword.errors import BudgetError, ForewordError, InputError
from foreword.events.event import EventType
from foreword.events.query import find_context, find_reader
from foreword.events.tracer import Tracer, TraceStep
from foreword.gateway.compaction import choose_cut, is_full, summarise_by_rule, write_summary, write_summary_prompt
from foreword.gateway.equipment import Equipment, EquipmentFinder
from foreword.gateway.history import HistoryRow, compact_history, list_plain_messages
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.rooms import catch_up, write_model_text
from foreword.gateway.router import ACCESS_CHANGED, is_same_sender
from foreword.gateway.session_lookup import resolve_session_key
from foreword.gateway.session_state import SessionCache, StoredLedger, load_ledger, read_session_state
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.promptcache.ledger import LedgerState
from foreword.storage.ledgers import remove_all_updates, remove_update_texts
from foreword.storage.sessions import Session
from foreword.storage.tasks import find_active_task
from foreword.storage.writer import Writer
from foreword.tokens.count import Meter
from foreword.turn import State, Turn
from foreword.types import Mode, Pace, frozen
from foreword.workspace import Workspace

LIGHT_RUN_ROWS = 3  # turns of history in a light run

TOO_LONG = "the message is too long: {:,} tokens, but the model has room for {:,} besides its prompt and answer"


class AccessChanged(InputError):
    """A person's access changed after they wrote; a session's clearance never changes."""


@frozen
class PreparedTurn:
    """A turn that is ready to run."""

    assembly: Assembly
    history: tuple[HistorySegment, ...]
    taken: Messages = ()
    """The turn's own messages, if it continues an earlier attempt."""
    frozen: LedgerState | None = None
    """The session's ledger before the turn."""
    recorded: bool = True
    """Whether the turn updates the session's ledger."""


class TurnInputs:
    """Prepares the turns of a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        equips: EquipmentFinder,
        ask: Callable[[Assembly, TraceStep], Awaitable[str]],
        now: Callable[[], datetime],
        *,
        remembers: Callable[[str, datetime], datetime | None],
    ) -> None:
        self.workspace = workspace
        self._writer = writer
        self._equips = equips
        self._ask = ask
        self.now = now
        self._since = now()
        self.remembered = SessionCache(forget=workspace.clear_token_counts)
        self._remembers = remembers
        # One thread: prompts are assembled outside the event loop, one at a time.
        self._bench = ThreadPoolExecutor(1, thread_name_prefix="foreword-assemble")

    async def prepare(self, trace: Tracer, claimed: ClaimedTurn, *, fold: bool = False) -> PreparedTurn:
        """Prepare a turn; compact a conversation that is too long first."""
        if fault := await self.find_change(claimed):
            raise AccessChanged(fault)
        incoming = claimed.incoming
        past, living, books = await self._recall(claimed)
        if books.damaged and not is_light(claimed):  # updates in the history may be outdated, and no ledger lists them
            past, claimed = await self._rewrite(claimed, remove_all_updates)
        equipment = add_session_state(await self._equips.equip(claimed), living)
        if single := self._is_single(claimed, equipment):
            past = ()
        turn = make_turn(claimed, equipment, past, self.now())
        try:
            assembly = await self._assemble(claimed, turn, books, single=single)
        except BudgetError:  # the history may leave too little room; without it the prompt fits, or nothing helps
            assembly = await self._assemble_bare(turn, books)
            fold = True
        if assembly.clearance.level != claimed.session.lane.clearance:  # the configuration was reloaded in between
            raise AccessChanged(ACCESS_CHANGED)
        trace.context = find_context(assembly, trace.context.schedule)
        room, message = find_history_room(assembly, books), assembly.terms.meter.count(incoming.text)
        if message > room:
            raise InputError(TOO_LONG.format(message, room))
        if past and (fold or is_full(past, message, room)):
            past = await self._fold(trace, claimed, past, assembly, room)
            turn = make_turn(claimed, equipment, past, self.now())
            assembly = await self._assemble(claimed, turn, books, folded=True)
        if gone := assembly.standing.scrub:
            past, claimed = await self._rewrite(
                claimed, lambda state, session: remove_update_texts(state, session, gone)
            )
            assembly = await self._assemble(claimed, make_turn(claimed, equipment, past, self.now()), books)
        return PreparedTurn(
            assembly=assembly,
            history=tuple(row.stretch for row in past),
            taken=claimed.taken,
            frozen=books.frozen,
            recorded=not (single or is_light(claimed)),
        )

    async def _rewrite(
        self, claimed: ClaimedTurn, scrub: Callable[[sqlite3.Connection, str], None]
    ) -> tuple[Sequence[HistoryRow], ClaimedTurn]:
        """Remove text from the stored history and from this turn's own steps; return both."""
        session = claimed.session.id

        def work(state: sqlite3.Connection) -> tuple[Sequence[HistoryRow], bytes | None]:
            scrub(state, session)
            (taken,) = state.execute("SELECT taken FROM turns WHERE id = ?", (claimed.turn,)).fetchone()
            return self.remembered.read(state, session), taken

        past, taken = await self._writer.do(work)
        return limit_history(claimed, past), replace(
            claimed, taken=load_messages(taken) if claimed.taken and taken else ()
        )

    async def _recall(self, claimed: ClaimedTurn) -> tuple[Sequence[HistoryRow], State, StoredLedger]:
        """Load the inputs of a turn; in a room, first add the messages outside its session."""
        session = claimed.session
        if session.lane.user == "" and claimed.incoming.room and not claimed.taken:
            await self._writer.do(lambda state: catch_up(state, session))
        past, around, books = await self._look_up(session)
        return limit_history(claimed, past), around, books

    async def _look_up(self, session: Session) -> tuple[Sequence[HistoryRow], State, StoredLedger]:
        """Read the history, the state and the ledger of a session."""
        policy = self.workspace.memory.policy
        past, living, books = await self._writer.look(
            lambda state: (
                self.remembered.read(state, session.id),
                read_session_state(state, session, policy),
                load_ledger(state, session.id, self._since, self.remembered.read_ledger),
            )
        )
        model = books.frozen.identity.model if books.frozen else ""
        return past, living, books.follow(self._remembers(model, self.now()))

    async def foresee(self, claimed: ClaimedTurn) -> Assembly:
        """Assemble the prompt of a message that is not sent, as its turn would."""
        past, living, books = await self._look_up(claimed.session)
        equipment = add_session_state(await self._equips.equip(claimed), living)
        single = self._is_single(claimed, equipment)
        turn = make_turn(claimed, equipment, () if single else past, self.now())
        return await self._assemble(claimed, turn, books, single=single)

    def _is_single(self, claimed: ClaimedTurn, equipment: Equipment) -> bool:
        """Return whether a message is sent without history, because its model is too small for a conversation.

        The stored history stays complete for a larger model.
        """
        config = self.workspace.config
        model = equipment.model or config.agents[claimed.session.lane.agent].model
        return not self.workspace.ground.measure(model).facts.history

    async def assemble(self, turn: Turn, ledger: Ledger = NO_LEDGER) -> Assembly:
        """Assemble a turn outside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._bench, self.workspace.assemble, turn, ledger)

    async def _assemble(
        self, claimed: ClaimedTurn, turn: Turn, books: StoredLedger, *, folded: bool = False, single: bool = False
    ) -> Assembly:
        """Assemble a turn of a session against its ledger."""
        if single or is_light(claimed):  # its prompt or history differs from other turns of its session
            return await self.assemble(turn)
        reader = find_reader(turn, claimed.session.lane.clearance, self.workspace.config)
        told = books.reveal(reader)
        book = told.open(self.workspace, turn, self.now(), folded=folded, taken=claimed.taken)
        return await self.assemble(turn, book)

    async def find_change(self, claimed: ClaimedTurn) -> str:
        """Return why the sender no longer has the session's identity or clearance; empty if nothing changed."""
        incoming = claimed.incoming
        self.workspace.refresh()
        config = self.workspace.config
        try:
            lane = resolve_session_key(incoming, config).lane
        except InputError as error:
            return str(error)
        if lane.clearance != claimed.session.lane.clearance:
            return ACCESS_CHANGED
        if incoming.proof is None or await self._writer.look(lambda state: is_same_sender(state, incoming, config)):
            return ""
        return ACCESS_CHANGED

    def close(self) -> None:
        """Stop the assembly thread."""
        self._bench.shutdown()

    async def _assemble_bare(self, turn: Turn, books: StoredLedger) -> Assembly:
        """Assemble a turn without history; if that does not fit either, report the length of the message."""
        bare = replace(turn, history=())
        try:
            return await self.assemble(bare)
        except BudgetError as error:
            empty = await self.assemble(replace(bare, message=""))
            message = empty.terms.meter.count(turn.message)
            raise InputError(TOO_LONG.format(message, find_history_room(empty, books))) from error

    async def _fold(
        self, trace: Tracer, claimed: ClaimedTurn, past: Sequence[HistoryRow], assembly: Assembly, room: int
    ) -> Sequence[HistoryRow]:
        """Compact the oldest turns, and log it."""
        meter = assembly.terms.meter
        cut = choose_cut(past, room)
        if not cut.folded:
            return past
        before = sum(row.tokens for row in past)
        with trace.step(EventType.SESSION_COMPACTED, turns=cut.turns, tokens_before=before) as step:
            order = write_summary_prompt(cut, meter, room)
            text, by = "", assembly.turn.model
            try:
                bare = make_summary_turn(claimed, assembly, order)
                text = await self._ask(await self.assemble(bare), step)
            except ForewordError as error:
                step.note(model_failed=type(error).__name__)
            if not text.strip():
                text, by = summarise_by_rule(cut, meter, room), "rule"
            piece = write_summary(text, meter, self.now())
            upto = cut.folded[-1].position

            def work(state: sqlite3.Connection) -> Sequence[HistoryRow]:
                compact_history(state, claimed.session.id, upto, piece)
                return self.remembered.read(state, claimed.session.id)

            kept = await self._writer.do(work)
            step.note(tokens_after=sum(row.tokens for row in kept), by=by)
        return kept


def limit_history(claimed: ClaimedTurn, past: Sequence[HistoryRow]) -> Sequence[HistoryRow]:
    """Limit the history of a light run."""
    return past[-LIGHT_RUN_ROWS:] if is_light(claimed) else past


def is_light(claimed: ClaimedTurn) -> bool:
    """Return whether a turn is a light scheduled run."""
    errand = claimed.incoming.errand
    return errand is not None and errand.light


def add_session_state(equipment: Equipment, living: State) -> Equipment:
    """Add the session state and the current task to a turn's equipment."""
    return replace(equipment, task=find_active_task(living.tasks), state=living)


def make_turn(claimed: ClaimedTurn, equipment: Equipment, past: Sequence[HistoryRow], now: datetime) -> Turn:
    """Make the turn of a message."""
    incoming, session = claimed.incoming, claimed.session
    return Turn(
        agent=session.lane.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        session=session.id,
        message=write_model_text(incoming),
        history=list_plain_messages(past),
        project=equipment.project.path,
        project_root=equipment.project.root,
        cwd=incoming.cwd,
        plan=session.plan if incoming.plan is None else incoming.plan,
        client=incoming.client,
        tools=equipment.tools,
        extensions=equipment.extensions,
        model=equipment.model,
        task=equipment.task,
        state=equipment.state,
        signal=classify(incoming.text, incoming.channel),
        git=equipment.git,
        host=equipment.host,
        sandbox=equipment.sandbox,
        now=now,
        **{"mode": incoming.mode, **find_run_arguments(incoming)},
    )


def find_run_arguments(incoming: RoutedMessage) -> dict[str, Any]:
    """Return the turn arguments of a scheduled run."""
    errand = incoming.errand
    if errand is None:
        return {}
    light = {"mode": Mode.MINIMAL} if errand.light else {}
    # A person has just allowed a held call: this is no background work.
    background = {} if incoming.held else {"background": errand.delivery}
    return {"ceiling": errand.ceiling, **background, **light}


def make_summary_turn(claimed: ClaimedTurn, assembly: Assembly, order: str) -> Turn:
    """Make the turn that writes a summary: without tools and history."""
    incoming = claimed.incoming
    return Turn(
        agent=assembly.turn.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        session=claimed.session.id,
        message=order,
        model=assembly.turn.model,
        ceiling=assembly.turn.ceiling,
        mode=Mode.NONE,
        now=assembly.turn.now,
    )


def count_tokens(meter: Meter, messages: Messages) -> int:
    """Count the tokens of messages."""
    return sum(meter.count(message.text) for message in convert_to_texts(messages))


def find_history_room(assembly: Assembly, books: StoredLedger) -> int:
    """Return the tokens left for the conversation besides the prompt and the answer, in our count.

    If a model bills more than we count, its window is smaller in our tokens.
    """
    facts = assembly.terms.meter.facts
    known = books.calibrations.get(facts.name)
    usable = facts.window - min(8_192, facts.window // 4)
    return max(0, int(usable / (known.window_factor if known else 1.0)) - count_fixed_tokens(assembly))


def count_fixed_tokens(assembly: Assembly) -> int:
    """Count the tokens of the prompt that remain when the conversation grows.

    If turn slots share the rest of the window, only the required ones count.
    """
    blueprint = assembly.plan.blueprint
    if blueprint.budget.turn_room is TurnRoomKind.FIXED:
        return assembly.used
    required = {slot.id for slot in blueprint.slots if slot.required}
    spans = (span for block in assembly.prompt.blocks if block.pace is Pace.TURN for span in block.spans)
    return assembly.system_tokens + sum(span.tokens for span in spans if span.id.partition(":")[0] in required)
