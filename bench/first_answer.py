"""The first answer: of 20 questions about the sample's files, in how many what a new person sees has the answer.

What is seen is the quotes and the words of the embedded model. The baseline is the same model with the minimal prompt
and no recall, which was its prompt before.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import foreword
from bench.figure import Figure
from bench.sample import EXAMPLE
from foreword.events.event import EventType
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.local.setup import locate, prepare
from foreword.runtime.choosing import EMBEDDED
from foreword.runtime.ears import Ears, Recalled, Words
from foreword.runtime.loop import Loop, Work
from foreword.runtime.models import Models
from foreword.testing import Heard, Listeners
from foreword.tokens import find
from foreword.words import Mode

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
    """What a person sees of one turn."""

    quotes: str
    words: str


def run() -> Iterator[Figure]:
    """Ask every question in a session of its own, with the prompt made for the model and with the one before."""
    locate(prepare(find(EMBEDDED, {}), os.environ))  # the download is no part of any turn
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
    """Count the texts that have the answer to their question."""
    return sum(answer in text for text, (_, answer) in zip(texts, QUESTIONS, strict=True))


async def ask_all(folder: str) -> tuple[list[Shown], list[Shown]]:
    """Ask every question twice, with both prompts."""
    workspace = foreword.open(folder)
    models = Models({}, os.environ)
    loop = Loop(workspace, models, Listeners(recorder=Heard()))
    try:
        now = [await ask(loop, workspace, question, None) for question, _ in QUESTIONS]
        before = [await ask(loop, workspace, question, Mode.MINIMAL) for question, _ in QUESTIONS]
    finally:
        await models.close()
        workspace.close()
    return now, before


async def ask(loop: Loop, workspace: foreword.Workspace, question: str, mode: Mode | None) -> Shown:
    """Ask one question as the owner, in a session of its own."""
    quotes: list[str] = []
    words: list[str] = []

    async def hear(delta: object) -> None:
        if isinstance(delta, Recalled):
            quotes.extend(passage.text for passage in delta.passages)
        if isinstance(delta, Words):
            words.append(delta.text)

    turn = foreword.Turn(
        user="alice",
        channel="terminal",
        situation="dm",
        session=f"{question} {mode}",
        message=question,
        model=EMBEDDED,
        mode=mode,
    )
    assembly = workspace.assemble(turn)
    trace = Trace(Heard(), find_context(assembly))
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        await loop.run(Work(assembly=assembly), received, Ears(delta=hear))
    return Shown(quotes="\n".join(quotes), words="".join(words))
