"""The embedded model: the time to the first word of a turn, with and without the history in its slot."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path

import foreword
from bench.figure import Figure
from bench.sample import make_sample
from foreword.agent.agent_events import AgentEvent, TextDelta
from foreword.agent.conversation import Messages, convert_to_texts
from foreword.agent.loop import AgentLoop, TurnInput, TurnLimits, finish
from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.providers.model_discovery import EMBEDDED_MODEL
from foreword.agent.segments import make_segments
from foreword.events.event import EventType, Usage, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder
from foreword.tokens.models import find_model

LONGEST = 64  # maximum tokens of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One turn: the times of its first and last word, and its usage."""

    first: float
    last: float
    usage: Usage
    messages: Messages


def run() -> Iterator[Figure]:
    """Measure two turns of a session, and the second one again in a new session."""
    find_weights_file(make_engine_settings(find_model(EMBEDDED_MODEL, {}), os.environ))  # download before timing
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
    """Run the conversation."""
    workspace = foreword.open(folder)
    models = ModelClients({}, os.environ)
    loop = AgentLoop(workspace, models, EventStream(recorder=FakeRecorder()), bounds=TurnLimits(max_tokens=LONGEST))
    begin = time.perf_counter()
    await models.start(EMBEDDED_MODEL)
    start = time.perf_counter() - begin
    one = await say(loop, workspace, "a", "What should I cook tonight? I have eggs and leeks.", ())
    two = await say(loop, workspace, "a", "And for two children?", one.messages)
    cold = await say(loop, workspace, "b", "And for two children?", one.messages)
    await models.close()
    return start, one, two, cold


async def say(loop: AgentLoop, workspace: foreword.Workspace, session: str, message: str, history: Messages) -> Spoken:
    """Run and time one turn."""
    begin, first = time.perf_counter(), 0.0

    async def watch(events: AsyncGenerator[AgentEvent]) -> AsyncGenerator[AgentEvent]:
        nonlocal first
        async for event in events:
            if isinstance(event, TextDelta) and not first:
                first = time.perf_counter() - begin
            yield event

    turn = foreword.Turn(
        user="alice",
        situation="dm",
        session=session,
        message=message,
        model=EMBEDDED_MODEL,
        history=convert_to_texts(history),
    )
    assembly = workspace.assemble(turn)
    trace = Tracer(FakeRecorder(), find_context(assembly))
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        work = TurnInput(assembly=assembly, history=make_segments(history))
        outcome = await finish(watch(loop.run(work, received)))
    last = time.perf_counter() - begin
    return Spoken(first=first, last=last, usage=outcome.usage, messages=(*history, *outcome.messages))
