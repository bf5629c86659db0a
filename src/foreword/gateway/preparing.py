"""Prepares a turn: what was said before, what the store knows, the tools, and the prompt of now."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from foreword.assembly import Assembly
from foreword.blueprint.slot import Room
from foreword.errors import BudgetError, ForewordError, InputError
from foreword.events.event import EventType
from foreword.events.reader import find_context, find_reader
from foreword.events.trace import Step, Trace
from foreword.frozen import frozen
from foreword.gateway.admission import CHARS_PER_TOKEN
from foreword.gateway.bookkeeping import Books, read_books
from foreword.gateway.compaction import choose_cut, is_full, shorten_all, write_order, write_summary
from foreword.gateway.inbox import Claimed
from foreword.gateway.lane import find_lane
from foreword.gateway.living import read_state
from foreword.gateway.message import Incoming
from foreword.gateway.past import Row, fold, tell_past
from foreword.gateway.projects import NO_PROJECT, Project
from foreword.gateway.remembered import Remembered
from foreword.gateway.room import catch_up, find_words
from foreword.gateway.session import Session
from foreword.gateway.standing import CHANGED, is_same
from foreword.gateway.writer import Writer
from foreword.ledger import NOTHING_FROZEN, Frozen, Ledger
from foreword.runtime.history import Messages, load, recount
from foreword.runtime.stretch import Stretch
from foreword.signal import classify
from foreword.store.ledgers import scrub_said, scrub_updates
from foreword.store.tasks import find_bound
from foreword.tokens import Meter
from foreword.turn import Extension, Git, Host, Sandbox, State, Task, Toolset, Turn
from foreword.words import Mode, Pace
from foreword.workspace import Workspace

FEW = 3  # turns that a light run knows of

TOO_LONG = "the message is too long: {:,} tokens, and the model has room for {:,} beside its prompt and its answer"


class Changed(InputError):
    """What a person may see has changed since they wrote; a session keeps its clearance for life."""


@frozen
class Equipment:
    """What a session brings to its turns, beyond what was said."""

    tools: Toolset
    extensions: tuple[Extension, ...] = ()
    model: str = ""
    task: Task | None = None
    state: State = State()
    project: Project = NO_PROJECT
    git: Git | None = None
    host: Host | None = None
    sandbox: Sandbox | None = None


class Equips(Protocol):
    """Where a turn finds its tools and its model."""

    async def equip(self, claimed: Claimed) -> Equipment:
        """Find what a turn works with."""


@frozen
class Prepared:
    """A turn that is ready to run."""

    assembly: Assembly
    history: tuple[Stretch, ...]
    taken: Messages = ()
    """What it has said itself, where it goes on."""
    frozen: Frozen | None = None
    """What its session has sent before."""
    recorded: bool = True
    """Whether the ledger of its session goes on with it."""


class Preparing:
    """Prepares the turns of a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        equips: Equips,
        ask: Callable[[Assembly, Step], Awaitable[str]],
        now: Callable[[], datetime],
        *,
        remembers: Callable[[str, datetime], datetime | None],
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._equips = equips
        self._ask = ask
        self.now = now
        self._since = now()
        self.remembered = Remembered(forget=workspace.forget_counted)
        self._remembers = remembers
        # One thread: the prompt is assembled beside the loop, and one at a time.
        self._bench = ThreadPoolExecutor(1, thread_name_prefix="foreword-assemble")

    async def prepare(self, trace: Trace, claimed: Claimed, *, fold: bool = False) -> Prepared:
        """Prepare a turn; a conversation that has become too long is folded first."""
        if fault := await self.find_change(claimed):
            raise Changed(fault)
        incoming = claimed.incoming
        past, living, books = await self._recall(claimed)
        if books.damaged and not is_light(claimed):  # what updates said may be wrong by now, and no ledger knows it
            past, claimed = await self._rewrite(claimed, scrub_updates)
        equipment = bind(await self._equips.equip(claimed), living)
        if single := self._is_single(claimed, equipment):
            past = ()
        turn = make_turn(claimed, equipment, past, self.now())
        try:
            assembly = await self._assemble(claimed, turn, books, single=single)
        except BudgetError:  # what was said may leave too little; without it there is room, or nothing helps
            assembly = await self._assemble_bare(turn, books)
            fold = True
        if assembly.clearance.level != claimed.session.lane.clearance:  # the configuration was read anew just now
            raise Changed(CHANGED)
        trace.context = find_context(assembly, trace.context.schedule)
        room, message = find_room(assembly, books), assembly.terms.meter.count(incoming.text)
        if message > room:
            raise InputError(TOO_LONG.format(message, room))
        if past and (fold or is_full(past, message, room)):
            past = await self._fold(trace, claimed, past, assembly, room)
            turn = make_turn(claimed, equipment, past, self.now())
            assembly = await self._assemble(claimed, turn, books, folded=True)
        if gone := assembly.standing.scrub:
            past, claimed = await self._rewrite(claimed, lambda state, session: scrub_said(state, session, gone))
            assembly = await self._assemble(claimed, make_turn(claimed, equipment, past, self.now()), books)
        return Prepared(
            assembly=assembly,
            history=tuple(row.stretch for row in past),
            taken=claimed.taken,
            frozen=books.frozen,
            recorded=not (single or is_light(claimed)),
        )

    async def _rewrite(
        self, claimed: Claimed, scrub: Callable[[sqlite3.Connection, str], None]
    ) -> tuple[Sequence[Row], Claimed]:
        """Take what must not stand there out of what was said, this turn's own steps among it."""
        session = claimed.session.id

        def work(state: sqlite3.Connection) -> tuple[Sequence[Row], bytes | None]:
            scrub(state, session)
            (taken,) = state.execute("SELECT taken FROM turns WHERE id = ?", (claimed.turn,)).fetchone()
            return self.remembered.read(state, session), taken

        past, taken = await self._writer.do(work)
        return shorten(claimed, past), replace(claimed, taken=load(taken) if claimed.taken and taken else ())

    async def _recall(self, claimed: Claimed) -> tuple[Sequence[Row], State, Books]:
        """Read what a turn goes on from; one that begins in a room hears first what was said there beside it."""
        session = claimed.session
        if session.lane.user == "" and claimed.incoming.room and not claimed.taken:
            await self._writer.do(lambda state: catch_up(state, session))
        past, around, books = await self._look_up(session)
        return shorten(claimed, past), around, books

    async def _look_up(self, session: Session) -> tuple[Sequence[Row], State, Books]:
        """Look up the past of a session, what goes on around it, and what it has sent."""
        policy = self._workspace.memory.policy
        past, living, books = await self._writer.look(
            lambda state: (
                self.remembered.read(state, session.id),
                read_state(state, session, policy),
                read_books(state, session.id, self._since, self.remembered.read_ledger),
            )
        )
        model = books.frozen.identity.model if books.frozen else ""
        return past, living, books.follow(self._remembers(model, self.now()))

    async def foresee(self, claimed: Claimed) -> Assembly:
        """Assemble the prompt of a message that nobody has sent, as its turn would have it."""
        past, living, books = await self._look_up(claimed.session)
        equipment = bind(await self._equips.equip(claimed), living)
        single = self._is_single(claimed, equipment)
        turn = make_turn(claimed, equipment, () if single else past, self.now())
        return await self._assemble(claimed, turn, books, single=single)

    def _is_single(self, claimed: Claimed, equipment: Equipment) -> bool:
        """Return whether a message is sent by itself, because its model is too small for a conversation.

        The stored history stays whole, for a larger model that may answer next.
        """
        config = self._workspace.config
        model = equipment.model or config.agents[claimed.session.lane.agent].model
        return not self._workspace.ground.measure(model).facts.history

    async def assemble(self, turn: Turn, ledger: Ledger = NOTHING_FROZEN) -> Assembly:
        """Assemble a turn beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._bench, self._workspace.assemble, turn, ledger)

    async def _assemble(
        self, claimed: Claimed, turn: Turn, books: Books, *, folded: bool = False, single: bool = False
    ) -> Assembly:
        """Assemble a turn of a session, against what that has sent; one that goes on says nothing new."""
        if single or is_light(claimed):  # it has another prompt or another past than other turns of its session
            return await self.assemble(turn)
        reader = find_reader(turn, claimed.session.lane.clearance, self._workspace.config)
        told = books.reveal(reader)
        book = told.open(self._workspace, turn, self.now(), folded=folded, taken=claimed.taken)
        return await self.assemble(turn, book)

    async def find_change(self, claimed: Claimed) -> str:
        """Say that whoever wrote is somebody else by now, or not cleared as their session is; else nothing."""
        incoming = claimed.incoming
        self._workspace.refresh()
        config = self._workspace.config
        try:
            lane = find_lane(incoming, config).lane
        except InputError as error:
            return str(error)
        if lane.clearance != claimed.session.lane.clearance:
            return CHANGED
        if incoming.proof is None or await self._writer.look(lambda state: is_same(state, incoming, config)):
            return ""
        return CHANGED

    def has_telegram(self) -> bool:
        """Whether people can be reached on Telegram here."""
        return self._workspace.config.telegram is not None

    def weigh(self, prepared: Prepared, messages: Messages) -> int:
        """Weigh messages as the model of the turn counts them."""
        return weigh(prepared.assembly.terms.meter, messages)

    def weigh_roughly(self, messages: Messages) -> int:
        """Weigh messages of a turn that never had a prompt."""
        return sum(len(message.text) for message in recount(messages)) // CHARS_PER_TOKEN

    def close(self) -> None:
        """Let go of the thread."""
        self._bench.shutdown()

    async def _assemble_bare(self, turn: Turn, books: Books) -> Assembly:
        """Assemble a turn without what was said before; where that does not fit either, the message may be why."""
        bare = replace(turn, history=())
        try:
            return await self.assemble(bare)
        except BudgetError as error:
            empty = await self.assemble(replace(bare, message=""))
            message = empty.terms.meter.count(turn.message)
            raise InputError(TOO_LONG.format(message, find_room(empty, books))) from error

    async def _fold(
        self, trace: Trace, claimed: Claimed, past: Sequence[Row], assembly: Assembly, room: int
    ) -> Sequence[Row]:
        """Fold the oldest turns, and tell it."""
        meter = assembly.terms.meter
        cut = choose_cut(past, room)
        if not cut.folded:
            return past
        before = sum(row.tokens for row in past)
        with trace.step(EventType.SESSION_COMPACTED, turns=cut.turns, tokens_before=before) as step:
            order = write_order(cut, meter, room)
            text, by = "", assembly.turn.model
            try:
                bare = make_order(claimed, assembly, order)
                text = await self._ask(await self.assemble(bare), step)
            except ForewordError as error:
                step.note(model_failed=type(error).__name__)
            if not text.strip():
                text, by = shorten_all(cut, meter, room), "rule"
            piece = write_summary(text, meter, self.now())
            upto = cut.folded[-1].position

            def work(state: sqlite3.Connection) -> Sequence[Row]:
                fold(state, claimed.session.id, upto, piece)
                return self.remembered.read(state, claimed.session.id)

            kept = await self._writer.do(work)
            step.note(tokens_after=sum(row.tokens for row in kept), by=by)
        return kept


def shorten(claimed: Claimed, past: Sequence[Row]) -> Sequence[Row]:
    """Shorten what a turn goes on from, where it is a light run."""
    return past[-FEW:] if is_light(claimed) else past


def is_light(claimed: Claimed) -> bool:
    """Whether a turn is a light run of a schedule."""
    errand = claimed.incoming.errand
    return errand is not None and errand.light


def bind(equipment: Equipment, living: State) -> Equipment:
    """Bind a turn to what goes on around its session, and to the task that is under way."""
    return replace(equipment, task=find_bound(living.tasks), state=living)


def make_turn(claimed: Claimed, equipment: Equipment, past: Sequence[Row], now: datetime) -> Turn:
    """Make the turn of a message."""
    incoming, session = claimed.incoming, claimed.session
    return Turn(
        agent=session.lane.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        session=session.id,
        message=find_words(incoming),
        history=tell_past(past),
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
        **{"mode": incoming.mode, **find_errand(incoming)},
    )


def find_errand(incoming: Incoming) -> dict[str, Any]:
    """Find what a turn has of the schedule that it runs for."""
    errand = incoming.errand
    if errand is None:
        return {}
    light = {"mode": Mode.MINIMAL} if errand.light else {}
    # A person has just allowed a held call: this is no background work.
    background = {} if incoming.held else {"background": errand.delivery}
    return {"ceiling": errand.ceiling, **background, **light}


def make_order(claimed: Claimed, assembly: Assembly, order: str) -> Turn:
    """Make the turn that sums up: without tools, and without what was said as a history."""
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


def weigh(meter: Meter, messages: Messages) -> int:
    """Weigh messages."""
    return sum(meter.count(message.text) for message in recount(messages))


def find_room(assembly: Assembly, books: Books) -> int:
    """Find how many tokens are left for the conversation beside the prompt and the answer, as we count them.

    A model that has been billing more than we count has a smaller window in our tokens.
    """
    facts = assembly.terms.meter.facts
    known = books.calibrations.get(facts.name)
    usable = facts.window - min(8_192, facts.window // 4)
    return max(0, int(usable / (known.caution if known else 1.0)) - weigh_fixed(assembly))


def weigh_fixed(assembly: Assembly) -> int:
    """Weigh the part of a prompt that stays whole when the conversation grows.

    Where the turn's slots get the rest of the window, all but the required ones make room for the conversation.
    """
    blueprint = assembly.plan.blueprint
    if blueprint.budget.turn_room is Room.FIXED:
        return assembly.used
    required = {slot.id for slot in blueprint.slots if slot.required}
    spans = (span for block in assembly.prompt.blocks if block.pace is Pace.TURN for span in block.spans)
    return assembly.system_tokens + sum(span.tokens for span in spans if span.id.partition(":")[0] in required)
