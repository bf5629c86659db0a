"""Bulletins: memory summed up at each clearance, from what that clearance may read and nothing else.

The agent's own model writes it, or a rule where no model answers. One is made where somebody speaks with the agent at
that clearance, if memory has changed, and no sooner after the last one than the configuration says.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.errors import ForewordError
from foreword.events.event import NOBODY, Context, EventType, Level, Recorder
from foreword.events.trace import Step, Timepiece, Trace, describe_error
from foreword.frozen import frozen
from foreword.gateway.moment import read_moment, write_moment
from foreword.gateway.writer import Writer
from foreword.memory.digest import Survey, fill, shorten, write_digest, write_excerpts
from foreword.sources.builtin import read_prompt
from foreword.sources.document import Document, normalise
from foreword.store.bulletins import NEVER, Made, begin_bulletin, end_bulletin, find_made
from foreword.turn import Bulletin, Turn
from foreword.words import Mode, Trust
from foreword.workspace import Workspace, choose_mode

IN_USE = timedelta(days=7)  # in which somebody has to have spoken with an agent, so that a bulletin is made for it
OPENED = 100  # memories that are opened, those changed last
LONGEST = 1_000  # characters of a bulletin; it shares its room with all that travels with a message
TOLD = 24_000  # characters of memory that a model is told
END = "</memory>"  # what nothing in a memory may be
RULE = "rule"
PLACES = "SELECT DISTINCT agent, clearance FROM sessions WHERE used >= ? AND clearance > ? ORDER BY agent, clearance"


@frozen
class Scribe:
    """By whom bulletins are written: how a model is chosen, a prompt assembled, and a model asked."""

    choose: Callable[[str], Awaitable[str]]
    assemble: Callable[[Turn], Awaitable[Assembly]]
    ask: Callable[[Assembly, Step], Awaitable[str]]


@frozen(eq=True)
class Due:
    """A bulletin that may have to be made, and what is known of the last one."""

    agent: str
    clearance: Trust
    made: Made


class Bulletins:
    """Makes the bulletins of a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        scribe: Scribe,
        recorder: Recorder,
        clock: Callable[[], datetime],
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._scribe = scribe
        self._recorder = recorder
        self._timepiece = Timepiece(now=clock)

    async def refresh(self, now: datetime) -> int:
        """Make every bulletin that is due and whose memory has changed; return how many that were."""
        config = self._workspace.config
        if not config.bulletin.hours:
            return 0
        policy = self._workspace.memory.policy
        due = await self._writer.look(lambda state: find_due(state, config, policy, now))
        return sum([await self._renew(one, now) for one in due])

    async def _renew(self, due: Due, now: datetime) -> bool:
        """Make one bulletin, unless it would be made of the same again, or another process makes it."""
        survey = await asyncio.to_thread(self._workspace.memory.survey, due.clearance)
        if survey.stamp == due.made.source:
            return False
        moment = write_moment(now)
        if not await self._writer.do(lambda s: begin_bulletin(s, due.agent, due.clearance, moment, due.made)):
            return False
        trace = Trace(self._recorder, Context(trust=due.clearance, agent=due.agent), self._timepiece)
        with trace.step(EventType.MEMORY_WRITE, store="bulletin", memories=len(survey.paths)) as step:
            text, author = await self._write(due, survey, now, step)
            bulletin = Bulletin(text=text, trust=due.clearance)
            made = Made(moment=moment, source=survey.stamp, author=author)
            await self._writer.do(lambda state: end_bulletin(state, due.agent, bulletin, made))
            step.note(by=author, length=len(text))
        return True

    async def _write(self, due: Due, survey: Survey, now: datetime, step: Step) -> tuple[str, str]:
        """Write a bulletin, and say who wrote it."""
        documents = await asyncio.to_thread(self._workspace.memory.open_all, survey.paths[:OPENED])
        text = author = ""
        if documents and self._workspace.config.bulletin.by != RULE:
            try:
                author = await self._scribe.choose(due.agent)
                text = await self._ask(due, author, documents, now, step)
            except ForewordError as error:
                step.note(model_failed=type(error).__name__, level=Level.WARN)
        text = clean(text)
        return (text, author) if text else (write_digest(documents, LONGEST), RULE)

    async def _ask(self, due: Due, model: str, documents: Sequence[Document], now: datetime, step: Step) -> str:
        """Ask the model of an agent; one with little room has none to sum up in."""
        if choose_mode(self._workspace.ground.measure(model).facts) is not Mode.FULL:
            return ""
        turn = Turn(agent=due.agent, message=write_order(documents), model=model, mode=Mode.NONE, now=now)
        return await self._scribe.ask(label(await self._scribe.assemble(turn), due.clearance), step)

    async def keep(self, every: float) -> None:
        """Keep the bulletins fresh until cancelled, with a look so many seconds after the other."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.refresh(self._timepiece.now())
            except sqlite3.Error:  # the disk is full or busy now, and is looked at again
                pass
            except Exception as error:  # noqa: BLE001 - what goes wrong once must not end all that comes later
                trace = Trace(self._recorder, NOBODY, self._timepiece)
                trace.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))


def find_due(state: sqlite3.Connection, config: Config, policy: str, now: datetime) -> list[Due]:
    """Find the places where an agent was spoken with of late and where the last bulletin is old enough, or void."""
    used = state.execute(PLACES, (write_moment(now - IN_USE), int(Trust.PUBLIC))).fetchall()
    places = [(agent, Trust(level)) for agent, level in used if agent in config.agents]
    listed = [Due(agent=agent, clearance=level, made=find_made(state, agent, level)) for agent, level in places]
    patience = timedelta(hours=config.bulletin.hours)
    return [due for due in listed if is_void(due.made, policy) or abs(now - read_moment(due.made.moment)) >= patience]


def is_void(made: Made, policy: str) -> bool:
    """Whether there is no bulletin, or one that was made when other people could read other memories."""
    return made == NEVER or (made.source != "" and not made.source.startswith(policy))


def label(assembly: Assembly, clearance: Trust) -> Assembly:
    """Label a stranger's prompt with the clearance of what it is asked about, so that nobody below reads it."""
    plan = assembly.plan
    return replace(assembly, plan=replace(plan, clearance=replace(plan.clearance, level=clearance)))


def write_order(documents: Sequence[Document]) -> str:
    """Write what a model is asked: the memories as text, and what to do with them."""
    told = write_excerpts(documents, TOLD).replace(END, END.replace("/", "/ "))
    return f"{read_prompt('gateway/bulletin')}\n\n<memory>\n{told}\n{END}"


def clean(text: str) -> str:
    """Keep the plain lines of what a model wrote, as far as there is room."""
    lines = (line.strip().lstrip("#=_* ").strip() for line in normalise(text).splitlines())
    return fill((shorten(line, LONGEST // 2) for line in lines if line.strip("-")), LONGEST)
