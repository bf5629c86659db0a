"""The loop: one turn of an agent, from the assembled prompt to the reply.

    outcome = await Loop(workspace, models, listeners).run(Work(assembly=assembly, history=history), received, ears)

The prompt is assembled once; each round only appends. Everything is told through the trace that `received` belongs to,
and the turn's own messages are handed to `ears.step` after every step: handed in again as `taken`, the turn goes on
after the last one, and no finished call of a tool is made twice.
"""

import asyncio
from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from foreword.assembly import Assembly
from foreword.errors import InputError
from foreword.events.event import EventType, Level
from foreword.events.listening import Listeners
from foreword.events.reader import find_reader
from foreword.events.trace import Step, Teller
from foreword.events.visible import sees_all
from foreword.ledger import Deed, Standing
from foreword.ledger.calibration import PLAIN, Calibration
from foreword.ledger.telling import tell_standing
from foreword.prices import measure_prefix
from foreword.runtime.accounting import Accounting
from foreword.runtime.acting import Bench, BuiltIn, Result, Tools, act
from foreword.runtime.calling import STOPPED, Caller, Line
from foreword.runtime.calls import Asked
from foreword.runtime.ears import DEAF, Ears, Recalled
from foreword.runtime.history import read_text
from foreword.runtime.models import Opened
from foreword.runtime.outcome import End, Ended, Outcome, ProviderError
from foreword.runtime.response_format import find_refusal
from foreword.runtime.retrying import PATIENT, Retrying
from foreword.runtime.run import USUAL, Bounds, Run, Work, open_turn
from foreword.words import Mode
from foreword.workspace import Workspace

__all__ = ["USUAL", "Bounds", "Finds", "Loop", "Work"]

BUSY = timedelta(minutes=5)  # in which turns are counted when one fails


class Finds(Protocol):
    """Where a turn finds its model."""

    def find(self, name: str) -> Opened:
        """Find a model by `provider:model`, or raise InputError."""


class Loop:
    """Runs turns of a workspace, many at once."""

    def __init__(
        self,
        workspace: Workspace,
        models: Finds,
        listeners: Listeners,
        *,
        tools: Tools | None = None,
        bounds: Bounds = USUAL,
        retrying: Retrying = PATIENT,
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._listeners = listeners
        self._tools = tools or BuiltIn(workspace)
        self._bounds = bounds
        self._retrying = retrying
        self._recent: deque[datetime] = deque()

    async def run(self, work: Work, place: Teller, ears: Ears = DEAF) -> Outcome:
        """Run a turn, and say what came of it; a model that cannot be opened is an InputError."""
        line = self._connect(work, ears, place.trace.id)
        place.tell(
            EventType.PROMPT_BUILT,
            prompt_hash=line.key,
            layers=work.assembly.prompt.section_count,
            tokens=work.assembly.used,
            cached_tokens=measure_prefix(work.assembly),
            **work.assembly.count_losses(),
            **tell_moved(work.assembly.standing),
        )
        now = place.trace.timepiece.now()
        while self._recent and self._recent[0] <= now - BUSY:
            self._recent.popleft()
        run = Run(line, work, self._tools, self._bounds)
        if work.assembly.plan.mode is Mode.BRIEF:
            await ears.hear(Recalled(passages=work.assembly.passages))
        try:
            with place.step(EventType.TURN_STARTED, model=work.assembly.turn.model, attempt=work.attempt) as turn:
                return await self._work(turn, run)
        except Ended as error:
            return await run.give_up(error)

    async def call_tool(self, assembly: Assembly, asked: Asked, place: Teller, ears: Ears, call: str) -> Result:
        """Run one tool for a turn, under an id that stays the same, before its model is asked."""
        bench = Bench(
            assembly=assembly,
            tools=self._tools,
            limits=self._bounds.limits,
            ears=ears,
            records_arguments=self._workspace.config.events.arguments,
        )
        return await act(place, bench, asked, call)

    async def ask(
        self, assembly: Assembly, above: Step, *, response_format: str = "", max_tokens: int | None = None
    ) -> str:
        """Ask a model once, outside any turn, and return what it says; no tool is run."""
        work = Work(assembly=assembly, apart=True, response_format=response_format, max_tokens=max_tokens)
        line = self._connect(work, DEAF)
        return read_text(await Caller(line).call(above, (open_turn(line.envelope),)))

    def _connect(self, work: Work, ears: Ears, turn: str = "") -> Line:
        """Find the model of a turn, keep its prompt, and open its ledger."""
        assembly = work.assembly
        opened = self._models.find(assembly.turn.model)
        if work.response_format:
            tools = bool(assembly.terms.tools)
            if why := find_refusal(opened, work.response_format, assembly.turn.model, tools=tools):
                raise InputError(why)
        # Under the key of the conversation, what stands apart from it would take its place in the cache.
        opened = replace(opened, keyed=False) if work.apart else opened
        accounting = Accounting(
            assembly,
            opened.shape,
            work.frozen,
            turn,
            diagnosed=self._is_diagnosed(assembly),
            known=self._find_learned(assembly),
            remembers=opened.remembers,
        )
        return Line(
            assembly=assembly,
            opened=opened,
            # What was said before is not in it: the history has that as it was sent.
            envelope=replace(assembly, turn=replace(assembly.turn, history=())).envelope(opened.shape),
            accounting=accounting,
            key=self._listeners.prompts.keep(assembly) if self._listeners.prompts else "",
            config=self._workspace.config,
            listeners=self._listeners,
            ears=ears,
            retrying=self._retrying,
            max_tokens=min(self._bounds.max_tokens, work.max_tokens or self._bounds.max_tokens),
            seconds=self._bounds.seconds,
            response_format=work.response_format,
        )

    def _find_learned(self, assembly: Assembly) -> Calibration:
        """Find what all calls together have taught of the model's tokens, where everything may be seen; else nothing.

        Others' private turns are in it, and so it would tell of them in the events of this one.
        """
        reader = find_reader(assembly.turn, assembly.clearance.level, self._workspace.config)
        return self._workspace.kept.find_calibration(assembly.terms.meter.facts.name) if sees_all(reader) else PLAIN

    def _is_diagnosed(self, assembly: Assembly) -> bool:
        """Whether the owner wants a provider asked why its cache missed."""
        provider = self._workspace.config.providers.get(assembly.turn.model.partition(":")[0])
        return provider is not None and provider.diagnostics

    async def _work(self, turn: Step, run: Run) -> Outcome:
        """Answer, or say what becomes of the message."""
        try:
            return await run.converse(turn)
        except Ended as error:
            turn.note(outcome=str(error.end))
            if isinstance(error, ProviderError):
                turn.note(calls_refused=error.tries)
            if error.end is End.QUEUED:
                turn.note(turns_before=len(self._recent), minutes_before=BUSY.seconds // 60)
            raise
        except asyncio.CancelledError:
            turn.note(outcome="stopped", error=STOPPED, level=Level.WARN)
            raise
        finally:
            self._recent.append(turn.trace.timepiece.now())


def tell_moved(standing: Standing) -> dict[str, Any]:
    """Tell what the ledger did about a prompt that is not what the session knows; else nothing."""
    return {} if standing.deed is Deed.REUSE else {"ledger": tell_standing(standing)}
