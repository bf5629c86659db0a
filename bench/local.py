"""The embedded model: until the first word of a session's turns, with what it said before in its slot and without."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import foreword
from bench.figure import Figure
from bench.sample import make_sample
from foreword.events.event import EventType, Usage
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.local.setup import locate, prepare
from foreword.runtime.choosing import EMBEDDED
from foreword.runtime.ears import Ears, Words
from foreword.runtime.history import Messages, recount
from foreword.runtime.loop import Bounds, Loop, Work
from foreword.runtime.models import Models
from foreword.runtime.stretch import stretch
from foreword.testing import Heard, Listeners
from foreword.tokens import find

LONGEST = 64  # tokens of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One turn: when its first word came, when its last, and what it used."""

    first: float
    last: float
    usage: Usage
    messages: Messages


def run() -> Iterator[Figure]:
    """Measure two turns of a session, and the second one again in a session that has said nothing yet."""
    locate(prepare(find(EMBEDDED, {}), os.environ))  # what is fetched once is no part of any turn
    with tempfile.TemporaryDirectory() as name:
        start, one, two, cold = asyncio.run(talk(str(make_sample(Path(name)))))
    read, tokens = two.usage.cache_read, two.usage.tokens_in
    yield Figure(name="engine and libraries until they are up", value=start, unit="s")
    yield Figure(name=f"first word of turn 1, {one.usage.tokens_in:,} tokens", value=one.first, unit="s")
    yield Figure(
        name=f"first word of turn 2, {tokens - read:,} of {tokens:,} new",
        value=two.first,
        unit="s",
        baseline=f"the same turn without the cache: {cold.first:,.2f} s",
    )
    speed = one.usage.tokens_out / (one.last - one.first)
    yield Figure(name="words, after the first", value=speed, unit="tokens/s")


async def talk(folder: str) -> tuple[float, Spoken, Spoken, Spoken]:
    """Have the conversation."""
    workspace = foreword.open(folder)
    models = Models({}, os.environ)
    loop = Loop(workspace, models, Listeners(recorder=Heard()), bounds=Bounds(max_tokens=LONGEST))
    begin = time.perf_counter()
    await models.start(EMBEDDED)
    start = time.perf_counter() - begin
    one = await say(loop, workspace, "a", "What should I cook tonight? I have eggs and leeks.", ())
    two = await say(loop, workspace, "a", "And for two children?", one.messages)
    cold = await say(loop, workspace, "b", "And for two children?", one.messages)
    await models.close()
    return start, one, two, cold


async def say(loop: Loop, workspace: foreword.Workspace, session: str, message: str, history: Messages) -> Spoken:
    """Run one turn with a clock beside it."""
    begin, firsts = time.perf_counter(), []

    async def hear(delta: object) -> None:
        if isinstance(delta, Words):
            firsts.append(time.perf_counter() - begin)

    turn = foreword.Turn(
        user="alice", situation="dm", session=session, message=message, model=EMBEDDED, history=recount(history)
    )
    assembly = workspace.assemble(turn)
    trace = Trace(Heard(), find_context(assembly))
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        outcome = await loop.run(Work(assembly=assembly, history=stretch(history)), received, Ears(delta=hear))
    last = time.perf_counter() - begin
    return Spoken(first=firsts[0], last=last, usage=outcome.usage, messages=(*history, *outcome.messages))
