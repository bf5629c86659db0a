"""The first answer: how many of 20 questions about the sample's files are answered by the output a new user sees.

The output is the quotes and the text of the embedded model. The baseline is the same model with the minimal prompt
and no recall, which was its earlier prompt.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass

import foreword
from bench.figure import Figure
from bench.sample import EXAMPLE
from foreword.agent.agent_events import PassagesRecalled, TextDelta
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.providers.model_discovery import EMBEDDED_MODEL
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder
from foreword.tokens.models import find_model
from foreword.types import Mode

QUESTIONS = (
    ("When is Carol's birthday?", "14 March"),
    ("What is on Thursday evening?", "choir"),
    ("Where is the main water valve?", "behind the bicycles"),
    ("What do I not eat?", "shellfish"),
    ("When does Lina go swimming?", "17:15"),
    ("What is Bob allergic to?", "hazelnuts"),
    ("When is the rent of the workshop due?", "fifth"),
    ("How much may the garden room cost?", "14,000"),
    ("Which bin goes out on Friday?", "ousehold"),
    ("What is the surprise for Carol?", "Lisbon"),
    ("Who takes the children to school on Wednesday?", "Bob"),
    ("Where are the manuals and warranties?", "blue box"),
    ("When is Noé's birthday?", "2 June"),
    ("Which flowers does my mother not like?", "lilies"),
    ("When is the workshop open on Saturday?", "10:00–13:00"),
    ("What goes into Carol's lentil salad?", "walnut oil"),
    ("What do we always forget on trips?", "goggles"),
    ("How must forms for the school be printed?", "one side"),
    ("Where do drafts go?", "drafts/"),
    ("What must not run together with the car charger?", "press"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The visible output of one turn."""

    quotes: str
    words: str


def run() -> Iterator[Figure]:
    """Ask every question in a new session, with the model's prompt and with the earlier one."""
    find_weights_file(make_engine_settings(find_model(EMBEDDED_MODEL, {}), os.environ))  # download before timing
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(EXAMPLE, name, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".foreword"))
        now, before = asyncio.run(ask_all(name))
    old = count_answered(shown.words for shown in before)
    yield Figure(
        name=f"of {len(QUESTIONS)} questions, answered by what is shown",
        value=count_answered(f"{shown.quotes}\n{shown.words}" for shown in now),
        unit="questions",
        baseline=f"minimal prompt without recall: {old}",
    )
    yield Figure(
        name="answered by the words of the model alone",
        value=count_answered(shown.words for shown in now),
        unit="questions",
        baseline=f"minimal prompt without recall: {old}",
    )


def count_answered(texts: Iterator[str]) -> int:
    """Count the texts that contain the answer to their question."""
    return sum(answer in text for text, (_, answer) in zip(texts, QUESTIONS, strict=True))


async def ask_all(folder: str) -> tuple[list[Shown], list[Shown]]:
    """Ask every question with both prompts."""
    workspace = foreword.open(folder)
    models = ModelClients({}, os.environ)
    loop = AgentLoop(workspace, models, EventStream(recorder=FakeRecorder()))
    try:
        now = [await ask(loop, workspace, question, None) for question, _ in QUESTIONS]
        before = [await ask(loop, workspace, question, Mode.MINIMAL) for question, _ in QUESTIONS]
    finally:
        await models.close()
        workspace.close()
    return now, before


async def ask(loop: AgentLoop, workspace: foreword.Workspace, question: str, mode: Mode | None) -> Shown:
    """Ask one question as the owner, in a new session."""
    quotes: list[str] = []
    words: list[str] = []
    turn = foreword.Turn(
        user="alice",
        channel="terminal",
        situation="dm",
        session=f"{question} {mode}",
        message=question,
        model=EMBEDDED_MODEL,
        mode=mode,
    )
    assembly = workspace.assemble(turn)
    trace = Tracer(FakeRecorder(), find_context(assembly))
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        async with aclosing(loop.run(TurnInput(assembly=assembly), received)) as events:
            async for event in events:
                if isinstance(event, PassagesRecalled):
                    quotes.extend(passage.text for passage in event.passages)
                elif isinstance(event, TextDelta):
                    words.append(event.text)
    return Shown(quotes="\n".join(quotes), words="".join(words))
