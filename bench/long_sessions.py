"""Long sessions: the CPU time of a turn as its history grows, compared with a bare pydantic-ai loop.

The provider is the fake provider in a separate process, so its time does not count. The bare loop has the same
prompt, tools and history in memory, and stores nothing. A turn of the history has a tool call, its result and an
answer, two kilobytes in total.
"""

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from pydantic_ai import messages as library

from bench.figure import Figure
from bench.gateway import MODEL, Bare, run_provider, talk
from bench.sample import make_sample
from foreword.agent.conversation import (
    Answer,
    CallPart,
    HistoryMessage,
    Messages,
    ResultPart,
    TextPart,
    ToolResults,
    UserMessage,
    dump_messages,
    make_answer,
    make_user_message,
)
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.session_manager import find_or_create_session, resolve_session_key
from foreword.gateway.startup import open_gateway
from foreword.gateway.turn_inputs import count_tokens
from foreword.storage.database import open_state
from foreword.storage.history import HistoryKind, HistoryPiece, append_piece
from foreword.types import frozen
from foreword.workspace import Workspace, open_workspace

LENGTHS = (10, 100, 300, 1_000)
WARM = 3  # warm-up turns: the first reads everything
TURNS = 12
BEAT = 0.001  # seconds between two checks of the event loop
SEED = 7
WORDS = """
the notes of that week say where each box went and who has the key to the shed behind the old house while nobody asked
for the bill from März which came to 1,204.50 € and was paid on Tuesday
"""


def run() -> Iterator[Figure]:
    """Measure sessions of each length, the short ones first."""
    with tempfile.TemporaryDirectory() as folder, run_provider() as url:
        make_sample(Path(folder))
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
        with open_workspace(folder) as workspace:
            pasts = {length: make_past(length) for length in LENGTHS}
            keep(workspace, pasts)
            yield from asyncio.run(measure(workspace, environ, pasts))


def make_past(turns: int) -> Sequence[Messages]:
    """Generate turns of about two kilobytes, the same in every run."""
    chance = random.Random(SEED)

    def write(words: int) -> str:
        return " ".join(chance.choices(WORDS.split(), k=words))

    def make_turn(number: int) -> Messages:
        name, call = "memory_search", f"toolu_{number:06}"
        return (
            make_user_message(f"<now>\n{write(12)}\n</now>", write(40)),
            Answer(
                parts=(
                    TextPart(text=write(10)),
                    CallPart(id=call, name=name, arguments=json.dumps({"query": write(4)})),
                )
            ),
            ToolResults(parts=(ResultPart(id=call, name=name, text=write(160)),)),
            make_answer(write(120)),
        )

    return [make_turn(number) for number in range(turns)]


def convert_for_library(message: HistoryMessage) -> library.ModelMessage:
    """Convert a message for the bare loop."""
    if isinstance(message, UserMessage):
        return library.ModelRequest(parts=[library.UserPromptPart(content=list(message.texts))])
    if isinstance(message, ToolResults):
        results = [library.ToolReturnPart(part.name, part.text, part.id) for part in message.parts]
        return library.ModelRequest(parts=results)
    texts = [library.TextPart(part.text) for part in message.parts if isinstance(part, TextPart)]
    calls = [library.ToolCallPart(call.name, call.arguments, call.id) for call in message.calls]
    return library.ModelResponse(parts=[*texts, *calls])


def keep(workspace: Workspace, pasts: Mapping[int, Sequence[Messages]]) -> None:
    """Store each history as that of a session."""
    meter = workspace.context.measure(MODEL)
    with closing(open_state(workspace.state).connection) as state:
        state.execute("BEGIN")
        for length, past in pasts.items():
            incoming = RoutedMessage(text="Hello", user="alice", channel=name(length))
            session = find_or_create_session(
                state, incoming, resolve_session_key(incoming, workspace.config).key, datetime.now(UTC)
            ).session
            for messages in past:
                tokens = count_tokens(meter, messages)
                append_piece(
                    state,
                    session.id,
                    HistoryPiece(kind=HistoryKind.TURN, messages=dump_messages(messages), tokens=tokens),
                )
        state.execute("COMMIT")


def name(length: int) -> str:
    """Return the channel of the session with this many turns, as `talk` names it."""
    return f"line-{length}"


@frozen
class Spent:
    """The time of turns in milliseconds: mean CPU time of this process, and median longest stall."""

    cpu: float
    stall: float


async def measure(
    workspace: Workspace, environ: dict[str, str], pasts: Mapping[int, Sequence[Messages]]
) -> list[Figure]:
    """Measure both loops at each length."""
    figures = []
    async with open_gateway(workspace, environ) as gateway:
        for length, past in pasts.items():
            bare = Bare(workspace, environ, [convert_for_library(message) for messages in past for message in messages])
            ours = await spend(lambda _, length=length: talk(gateway, length))
            theirs = await spend(bare.talk)
            await bare.close()
            beside = f"a bare pydantic-ai loop: {theirs.cpu:.1f} and {theirs.stall:.1f} ms"
            figures += [
                Figure(name=f"after {length:,} turns, processor", value=ours.cpu, unit="ms", baseline=beside),
                Figure(name=f"after {length:,} turns, longest stall", value=ours.stall, unit="ms"),
            ]
    return figures


async def spend(call: Callable[[int], Awaitable[object]]) -> Spent:
    """Measure turns one after the other; stalls separately, because detecting them uses CPU time."""
    for number in range(WARM):
        await call(1 + number)
    before = time.process_time()
    for number in range(TURNS):
        await call(1 + WARM + number)
    cpu = (time.process_time() - before) * 1_000 / TURNS
    return Spent(cpu=cpu, stall=statistics.median([await watch(call(1 + WARM + TURNS)) for _ in range(TURNS)]))


async def watch(turn: Awaitable[object]) -> float:
    """Run a turn and return the longest stall of the event loop in milliseconds."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(BEAT)
            longest = max(longest, time.perf_counter() - before - BEAT)

    beating = asyncio.create_task(beat())
    try:
        await turn
    finally:
        beating.cancel()
    return longest * 1_000
