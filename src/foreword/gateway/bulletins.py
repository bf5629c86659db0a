"""Bulletins: summaries of memory, one per agent and clearance, made only from what that clearance may read.

The agent's model writes them; without a model, a rule does. A bulletin is made for each clearance at which the agent
was used recently, if memory has changed and the configured interval has passed.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.agent.agent_events import TurnSpending
from foreword.agent.loop import AgentLoop
from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.engine.sources.documents import Document, join_lines, normalise_lines, read_prompt
from foreword.engine.sources.memory_sections import FACTS_FILE, load_facts
from foreword.engine.trust import show_path
from foreword.errors import ForewordError
from foreword.events.event import Context, EventType, Level
from foreword.events.tracer import TraceStep
from foreword.gateway.equipment import ModelSelection
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.turn_inputs import TurnInputs
from foreword.memory.stores import Survey
from foreword.secret import find_secrets
from foreword.storage.database import format_moment, parse_moment
from foreword.storage.profiles import BulletinOrigin, claim_bulletin, find_bulletin_origin, store_bulletin
from foreword.storage.sessions import list_used_agents
from foreword.turn import Bulletin, Turn
from foreword.types import Mode, Trust, frozen
from foreword.workspace import choose_mode

USE_PERIOD = timedelta(days=7)  # an agent must have been used within this time
MAX_OPENED_MEMORIES = 100  # memory files to open, the most recently changed first
MAX_BULLETIN_CHARS = 1_000  # characters of a bulletin; it shares its budget with everything else sent with a message
MAX_MEMORY_CHARS = 24_000  # characters of memory sent to the model
MAX_LINE_CHARS = 160  # characters of one memory in a digest
MAX_EXCERPT_CHARS = 1_500  # characters of one memory sent to the model
MEMORY_END = "</memory>"  # must not occur in a memory
RULE = "rule"


@frozen(eq=True)
class DueBulletin:
    """A bulletin that may be due, and the state of the last one."""

    agent: str
    clearance: Trust
    made: BulletinOrigin


class Bulletins:
    """Makes the bulletins of a workspace."""

    def __init__(self, context: GatewayContext, choices: ModelSelection, inputs: TurnInputs, loop: AgentLoop) -> None:
        self._context = context
        self._choices = choices
        self._inputs = inputs
        self._loop = loop

    async def refresh(self, now: datetime) -> int:
        """Make every due bulletin whose memory has changed; return their number."""
        config = self._context.workspace.config
        if not config.bulletin.hours:
            return 0
        policy = self._context.workspace.memory.policy
        due = await self._context.writer.read(lambda state: find_due_bulletins(state, config, policy, now))
        return sum([await self._renew(one, now) for one in due])

    async def _renew(self, due: DueBulletin, now: datetime) -> bool:
        """Make one bulletin, unless memory is unchanged or another process makes it."""
        survey = await asyncio.to_thread(self._context.workspace.memory.survey, due.clearance)
        if survey.stamp == due.made.source:
            return False
        moment = format_moment(now)
        if not await self._context.writer.write(
            lambda s: claim_bulletin(s, due.agent, due.clearance, moment, due.made)
        ):
            return False
        trace = self._context.trace(Context(trust=due.clearance, agent=due.agent))
        with trace.step(EventType.MEMORY_WRITE, store="bulletin", memories=len(survey.paths)) as step:
            text, author = await self._write(due, survey, now, step)
            bulletin = Bulletin(text=text, trust=due.clearance)
            made = BulletinOrigin(moment=moment, source=survey.stamp, author=author)
            await self._context.writer.write(lambda state: store_bulletin(state, due.agent, bulletin, made))
            step.note(by=author, length=len(text))
        return True

    async def _write(self, due: DueBulletin, survey: Survey, now: datetime, step: TraceStep) -> tuple[str, str]:
        """Write a bulletin; return its text and its author."""
        documents = await asyncio.to_thread(self._context.workspace.memory.open_all, survey.paths[:MAX_OPENED_MEMORIES])
        text = author = ""
        if documents and self._context.workspace.config.bulletin.by != RULE:
            try:
                author = await self._choices.choose(due.agent)
                text = await self._ask(due, author, documents, now, step)
            except ForewordError as error:
                step.note(model_failed=type(error).__name__, level=Level.WARN)
        text = clean_bulletin(text)
        return (text, author) if text else (write_digest(documents, MAX_BULLETIN_CHARS), RULE)

    async def _ask(
        self, due: DueBulletin, model: str, documents: Sequence[Document], now: datetime, step: TraceStep
    ) -> str:
        """Ask the model of an agent; return an empty text for a model with a small context window."""
        if choose_mode(self._context.workspace.context.measure(model).facts) is not Mode.FULL:
            return ""
        turn = Turn(agent=due.agent, message=write_bulletin_prompt(documents), model=model, mode=Mode.NONE, now=now)
        assembly = label_clearance(await self._inputs.assemble(turn), due.clearance)
        return await self._loop.ask(assembly, step, TurnSpending())

    async def keep(self, every: float) -> None:
        """Refresh the bulletins until cancelled, with a pause of `every` seconds."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.refresh(self._context.clock())
            except sqlite3.Error:  # the disk is full or the state is locked; retry later
                pass
            except Exception as error:  # noqa: BLE001 - one failure must not end the loop
                self._context.log_error(error)


def find_due_bulletins(state: sqlite3.Connection, config: Config, policy: str, now: datetime) -> list[DueBulletin]:
    """Find the agents and clearances in recent use whose last bulletin is old enough or invalid."""
    used = list_used_agents(state, now - USE_PERIOD)
    listed = [
        DueBulletin(agent=agent, clearance=level, made=find_bulletin_origin(state, agent, level))
        for agent, level in used
        if agent in config.agents
    ]
    interval = timedelta(hours=config.bulletin.hours)
    return [
        due for due in listed if is_outdated(due.made, policy) or abs(now - parse_moment(due.made.moment)) >= interval
    ]


def is_outdated(made: BulletinOrigin, policy: str) -> bool:
    """Return whether there is no bulletin, or one from a time with another memory policy."""
    return not made.moment or (made.source != "" and not made.source.startswith(policy))


def label_clearance(assembly: Assembly, clearance: Trust) -> Assembly:
    """Set the clearance of a prompt to that of its content, so that readers below it do not see it."""
    plan = assembly.plan
    return replace(assembly, plan=replace(plan, clearance=replace(plan.clearance, level=clearance)))


def write_bulletin_prompt(documents: Sequence[Document]) -> str:
    """Write the model's prompt: the memories as text, and the instruction."""
    excerpts = write_excerpts(documents, MAX_MEMORY_CHARS).replace(MEMORY_END, MEMORY_END.replace("/", "/ "))
    return f"{read_prompt('gateway/bulletin')}\n\n<memory>\n{excerpts}\n{MEMORY_END}"


def clean_bulletin(text: str) -> str:
    """Keep the plain lines of a model's answer, up to the size limit."""
    lines = (line.strip().lstrip("#=_* ").strip() for line in normalise_lines(text).splitlines())
    return fill((shorten(line, MAX_BULLETIN_CHARS // 2) for line in lines if line.strip("-")), MAX_BULLETIN_CHARS)


def write_digest(documents: Iterable[Document], most: int) -> str:
    """Sum up by rule: a line for each memory as long as there is room."""
    return fill((f"- {name_memory(one)}: {shorten(tell_first(one), MAX_LINE_CHARS)}" for one in documents), most)


def write_excerpts(documents: Iterable[Document], most: int) -> str:
    """Write the beginning of each memory, for a model that sums them up."""
    return fill((f"[{name_memory(one)}]\n{shorten(tell_body(one), MAX_EXCERPT_CHARS)}\n" for one in documents), most)


def fill(parts: Iterable[str], most: int) -> str:
    """Join as many parts as there is room for; one that may hold a secret is left out."""
    kept: list[str] = []
    for part in parts:
        most -= len(part) + 1
        if most < 0:
            break
        if next(find_secrets(part), None) is None:
            kept.append(part)
    return "\n".join(kept)


def name_memory(document: Document) -> str:
    """Name a memory by its path, as memory_get reads it."""
    return join_lines(show_path(document.path))


def tell_body(document: Document) -> str:
    """Return the whole text of a memory; facts as a list."""
    return "\n".join(load_facts(document) or ()) if document.path == FACTS_FILE else document.body


def tell_first(document: Document) -> str:
    """Return the description of a memory, else its beginning."""
    return join_lines(document.field("description")) or next(list_words(tell_body(document)), "")


def list_words(text: str) -> Iterator[str]:
    """List the lines of a text that are more than a heading or a rule."""
    for line in text.splitlines():
        if not line.startswith("#") and (plain := join_lines(line).strip("-*_=> ")):
            yield plain


def shorten(text: str, most: int) -> str:
    """Cut a text to its beginning, at a word."""
    return text if len(text) <= most else f"{text[: most - 1].rpartition(' ')[0] or text[: most - 1]}…"
