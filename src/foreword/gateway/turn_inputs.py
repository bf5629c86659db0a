"""Prepares a turn: loads history, state, ledger and tools, compacts a full conversation, and assembles the prompt.

The agent's model writes the summary of the oldest turns. If it fails, the messages are shortened by rule, so a session
never gets stuck.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from foreword.agent.agent_events import TurnSpending
from foreword.agent.conversation import ImagePart, Messages, convert_to_texts, list_images, load_messages
from foreword.agent.images import count_image_tokens
from foreword.agent.segments import HistorySegment
from foreword.assembly import Assembly
from foreword.engine.blueprint import TurnRoomKind
from foreword.engine.signal import classify
from foreword.errors import BudgetError, ForewordError, InputError
from foreword.events.event import EventType, find_context, find_reader
from foreword.events.tracer import Tracer, TraceStep
from foreword.gateway.compaction import (
    choose_compacted,
    make_summary_piece,
    make_summary_turn,
    summarise_by_rule,
    write_summary_prompt,
)
from foreword.gateway.equipment import Equipment, EquipmentFinder
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import RoutedMessage, write_model_text
from foreword.gateway.rooms import catch_up
from foreword.gateway.router import ACCESS_CHANGED, is_same_sender
from foreword.gateway.session_manager import resolve_session_key
from foreword.gateway.session_state import (
    HistoryRow,
    SessionCache,
    StoredLedger,
    list_plain_messages,
    load_ledger,
    read_session_state,
)
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.promptcache.ledger import LedgerState
from foreword.storage.history import HistoryKind, compact_history
from foreword.storage.ledgers import remove_all_updates, remove_update_texts
from foreword.storage.sessions import Session, find_active_task
from foreword.storage.turns import read_taken
from foreword.tokens.count import Meter
from foreword.turn import State, Turn
from foreword.types import Mode, Pace, frozen
from foreword.workspace import Workspace

COMPACT_ABOVE_SHARE = 0.8  # of the room for a conversation; above it the oldest turns are compacted
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
    ledger_state: LedgerState | None = None
    """The session's ledger before the turn."""
    recorded: bool = True
    """Whether the turn updates the session's ledger."""


class Assembler:
    """Assembles prompts outside the event loop, one at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="foreword-assemble")

    async def assemble(self, turn: Turn, ledger: Ledger = NO_LEDGER) -> Assembly:
        """Assemble a turn."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._workspace.assemble, turn, ledger)

    def close(self) -> None:
        """Stop the thread."""
        self._executor.shutdown()


class TurnInputs:
    """Prepares the turns of a workspace."""

    def __init__(
        self,
        context: GatewayContext,
        equipment: EquipmentFinder,
        assembler: Assembler,
        ask: Callable[[Assembly, TraceStep, TurnSpending], Awaitable[str]],
        *,
        find_engine_start: Callable[[str, datetime], datetime | None],
    ) -> None:
        self.workspace = workspace = context.workspace
        self.now = now = context.clock
        self._writer = context.writer
        self._equipment = equipment
        self._ask = ask
        self._since = now()
        self.cache = SessionCache(on_erasure=workspace.clear_token_counts)
        self._find_engine_start = find_engine_start
        self.assemble = assembler.assemble

    async def prepare(
        self, trace: Tracer, claimed: ClaimedTurn, spending: TurnSpending, *, compact: bool = False
    ) -> PreparedTurn:
        """Prepare a turn; compact a conversation that is too long first."""
        if change := await self.find_change(claimed):
            raise AccessChanged(change)
        history, session_state, ledger = await self._load(claimed)
        if ledger.damaged and not is_light(claimed):  # updates in the history may be outdated, and no ledger lists them
            history, claimed = await self._rewrite(claimed, remove_all_updates)
        equipment = add_session_state(await self._equipment.equip(claimed), session_state)
        if single := self._is_single(claimed, equipment):
            history = ()
        turn = self._make_turn(claimed, equipment, history)
        try:
            assembly = await self._assemble(claimed, turn, ledger, single=single)
        except BudgetError:  # the history may leave too little room; without it the prompt fits, or nothing helps
            assembly = await self._assemble_bare(claimed, turn, ledger)
            compact = True
        if assembly.clearance.level != claimed.session.key.clearance:  # the configuration was reloaded in between
            raise AccessChanged(ACCESS_CHANGED)
        trace.context = find_context(assembly, trace.context.schedule)
        room = find_history_room(assembly, ledger)
        message = assembly.meter.count(claimed.incoming.text)
        message += count_image_tokens(assembly.meter.facts, claimed.incoming.images)
        if message > room:
            raise InputError(TOO_LONG.format(message, room))
        if history and (compact or is_full(history, message, room)):
            history = await self._compact(trace, claimed, history, assembly, room, spending=spending)
            turn = self._make_turn(claimed, equipment, history)
            assembly = await self._assemble(claimed, turn, ledger, compacted=True)
        if removed := assembly.prefix_decision.scrub:
            history, claimed = await self._rewrite(
                claimed, lambda state, session: remove_update_texts(state, session, removed)
            )
            turn = self._make_turn(claimed, equipment, history)
            assembly = await self._assemble(claimed, turn, ledger)
        return PreparedTurn(
            assembly=assembly,
            history=tuple(row.segment for row in history),
            taken=claimed.taken,
            ledger_state=ledger.ledger_state,
            recorded=not (single or is_light(claimed)),
        )

    async def preview(self, claimed: ClaimedTurn) -> Assembly:
        """Assemble the prompt of a message that is not sent, as its turn would."""
        history, session_state, ledger = await self._read(claimed.session)
        equipment = add_session_state(await self._equipment.equip(claimed), session_state)
        single = self._is_single(claimed, equipment)
        turn = self._make_turn(claimed, equipment, () if single else history)
        return await self._assemble(claimed, turn, ledger, single=single)

    def _make_turn(self, claimed: ClaimedTurn, equipment: Equipment, history: Sequence[HistoryRow]) -> Turn:
        """Make the turn of a message, with the tokens of the images in it and its history."""
        turn = make_turn(claimed, equipment, history, self.now())
        images = [*claimed.incoming.images, *chain.from_iterable(row.segment.images for row in history)]
        return replace(turn, image_tokens=self._count_images(turn, images)) if images else turn

    def _count_images(self, turn: Turn, images: Sequence[ImagePart]) -> int:
        model = turn.model or self.workspace.config.agents[turn.agent].model
        return count_image_tokens(self.workspace.context.measure(model).facts, images)

    async def _rewrite(
        self, claimed: ClaimedTurn, remove: Callable[[sqlite3.Connection, str], None]
    ) -> tuple[Sequence[HistoryRow], ClaimedTurn]:
        """Remove text from the stored history and from this turn's own steps; return both."""
        session = claimed.session.id

        def work(state: sqlite3.Connection) -> tuple[Sequence[HistoryRow], bytes | None]:
            remove(state, session)
            return self.cache.read(state, session), read_taken(state, claimed.turn)

        history, taken = await self._writer.write(work)
        messages = load_messages(taken) if claimed.taken and taken else ()
        return limit_history(claimed, history), replace(claimed, taken=messages)

    async def _load(self, claimed: ClaimedTurn) -> tuple[Sequence[HistoryRow], State, StoredLedger]:
        """Load the inputs of a turn; in a room, first add the messages outside its session."""
        session = claimed.session
        if session.key.user == "" and claimed.incoming.room and not claimed.taken:
            await self._writer.write(lambda state: catch_up(state, session))
        history, session_state, ledger = await self._read(session)
        return limit_history(claimed, history), session_state, ledger

    async def _read(self, session: Session) -> tuple[Sequence[HistoryRow], State, StoredLedger]:
        """Read the history, the state and the ledger of a session."""
        policy = self.workspace.memory.policy
        history, session_state, ledger = await self._writer.read(
            lambda state: (
                self.cache.read(state, session.id),
                read_session_state(state, session, policy),
                load_ledger(state, session.id, self._since, self.cache.read_ledger),
            )
        )
        model = ledger.ledger_state.identity.model if ledger.ledger_state else ""
        return history, session_state, ledger.follow(self._find_engine_start(model, self.now()))

    def _is_single(self, claimed: ClaimedTurn, equipment: Equipment) -> bool:
        """Return whether a message is sent without history, because its model is too small for a conversation.

        The stored history stays complete for a larger model.
        """
        config = self.workspace.config
        model = equipment.model or config.agents[claimed.session.key.agent].model
        return not self.workspace.context.measure(model).facts.history

    async def _assemble(
        self, claimed: ClaimedTurn, turn: Turn, stored: StoredLedger, *, compacted: bool = False, single: bool = False
    ) -> Assembly:
        """Assemble a turn of a session against its ledger."""
        if single or is_light(claimed):  # its prompt or history differs from other turns of its session
            return await self.assemble(turn)
        reader = find_reader(turn, claimed.session.key.clearance, self.workspace.config)
        ledger = stored.redact_for(reader).open(
            self.workspace, turn, self.now(), compacted=compacted, taken=claimed.taken
        )
        return await self.assemble(turn, ledger)

    async def find_change(self, claimed: ClaimedTurn) -> str:
        """Return why the sender no longer has the session's identity or clearance; empty if nothing changed."""
        incoming = claimed.incoming
        self.workspace.refresh()
        config = self.workspace.config
        try:
            key = resolve_session_key(incoming, config).key
        except InputError as error:
            return str(error)
        if key.clearance != claimed.session.key.clearance:
            return ACCESS_CHANGED
        if incoming.proof is None or await self._writer.read(lambda state: is_same_sender(state, incoming, config)):
            return ""
        return ACCESS_CHANGED

    async def _assemble_bare(self, claimed: ClaimedTurn, turn: Turn, ledger: StoredLedger) -> Assembly:
        """Assemble a turn without history; if that does not fit either, report the length of the message."""
        bare = replace(turn, history=(), image_tokens=self._count_images(turn, claimed.incoming.images))
        try:
            return await self.assemble(bare)
        except BudgetError as error:
            empty = await self.assemble(replace(bare, message="", image_tokens=0))
            message = empty.meter.count(turn.message) + bare.image_tokens
            raise InputError(TOO_LONG.format(message, find_history_room(empty, ledger))) from error

    async def _compact(
        self,
        trace: Tracer,
        claimed: ClaimedTurn,
        history: Sequence[HistoryRow],
        assembly: Assembly,
        room: int,
        *,
        spending: TurnSpending,
    ) -> Sequence[HistoryRow]:
        """Compact the oldest turns, and log it."""
        meter, session = assembly.meter, claimed.session.id
        compacted = choose_compacted(history, room)
        if not compacted:
            return history
        messages = list_plain_messages(compacted)
        turns = sum(row.kind is HistoryKind.TURN for row in compacted)
        before = sum(row.tokens for row in history)
        with trace.step(EventType.SESSION_COMPACTED, turns=turns, tokens_before=before) as step:
            text, by = "", assembly.turn.model
            try:
                turn = make_summary_turn(assembly, write_summary_prompt(messages, meter, room))
                text = await self._ask(await self.assemble(turn), step, spending)
            except ForewordError as error:
                step.note(model_failed=type(error).__name__)
            if not text.strip():
                text, by = summarise_by_rule(messages, meter, room), "rule"
            piece = make_summary_piece(text, meter)

            def work(state: sqlite3.Connection) -> Sequence[HistoryRow]:
                compact_history(state, session, compacted[-1].position, piece)
                return self.cache.read(state, session)

            kept = await self._writer.write(work)
            step.note(tokens_after=sum(row.tokens for row in kept), by=by)
        return kept


def is_full(history: Sequence[HistoryRow], message: int, room: int) -> bool:
    """Return whether a conversation leaves too little room for the next message."""
    return sum(row.tokens for row in history) + message > room * COMPACT_ABOVE_SHARE


def limit_history(claimed: ClaimedTurn, history: Sequence[HistoryRow]) -> Sequence[HistoryRow]:
    """Limit the history of a light run."""
    return history[-LIGHT_RUN_ROWS:] if is_light(claimed) else history


def is_light(claimed: ClaimedTurn) -> bool:
    """Return whether a turn is a light scheduled run."""
    run = claimed.incoming.scheduled_run
    return run is not None and run.light


def add_session_state(equipment: Equipment, session_state: State) -> Equipment:
    """Add the session state and the current task to a turn's equipment."""
    return replace(equipment, task=find_active_task(session_state.tasks), state=session_state)


def make_turn(claimed: ClaimedTurn, equipment: Equipment, history: Sequence[HistoryRow], now: datetime) -> Turn:
    """Make the turn of a message."""
    incoming, session = claimed.incoming, claimed.session
    return Turn(
        agent=session.key.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        session=session.id,
        message=write_model_text(incoming),
        history=list_plain_messages(history),
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
    run = incoming.scheduled_run
    if run is None:
        return {}
    light = {"mode": Mode.MINIMAL} if run.light else {}
    # A person has just allowed a held call: this is no background work.
    background = {} if incoming.held else {"background": run.delivery}
    return {"ceiling": run.ceiling, **background, **light}


def count_tokens(meter: Meter, messages: Messages) -> int:
    """Count the tokens of messages, with an estimate for their images."""
    texts = sum(meter.count(message.text) for message in convert_to_texts(messages))
    return texts + count_image_tokens(meter.facts, list_images(messages))


def find_history_room(assembly: Assembly, ledger: StoredLedger) -> int:
    """Return the tokens left for the conversation besides the prompt and the answer, in our count.

    If a model bills more than we count, its window is smaller in our tokens.
    """
    facts = assembly.meter.facts
    calibration = ledger.calibrations.get(facts.name)
    usable = facts.window - min(8_192, facts.window // 4)
    return max(0, int(usable / (calibration.window_factor if calibration else 1.0)) - count_fixed_tokens(assembly))


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
