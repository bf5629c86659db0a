"""The gateway: the overhead of a turn, durability included, compared with a bare pydantic-ai loop in the same run.

The provider is the fake provider in a separate process; it answers at once. The bare loop has the same prompt, tools
and history, and stores nothing; the overhead is the difference in time.
"""

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from bench.figure import Figure, Times
from bench.sample import make_sample
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.service import Gateway
from foreword.gateway.startup import open_gateway
from foreword.storage.turns import TurnReply, TurnState
from foreword.testing import ScriptedReply, run_fake_provider
from foreword.turn import Turn
from foreword.workspace import Workspace, open_workspace

MODEL = "anthropic:claude-sonnet-5"
TURNS = 300
LENGTH = 10  # turns per session
AT_ONCE = 500


def run() -> Iterator[Figure]:
    """Measure single turns, then many sessions at once."""
    with tempfile.TemporaryDirectory() as folder, run_provider() as url:
        make_sample(Path(folder))
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
        with open_workspace(folder) as workspace:
            yield from asyncio.run(measure(workspace, environ))


SHORT_REPLY = ScriptedReply(text="It is done, and the notes are where you left them.")


@contextmanager
def run_provider(reply: ScriptedReply = SHORT_REPLY) -> Iterator[str]:
    """Run the fake provider in a separate process; it answers every request with the same reply."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    provider = context.Process(target=provide, args=(theirs, reply))
    provider.start()
    try:
        yield mine.recv()
    finally:
        mine.send(None)
        provider.join()


def provide(pipe: Connection, reply: ScriptedReply) -> None:
    """Answer every request at once, until a message on the pipe."""
    with run_fake_provider() as stand_in:
        stand_in.choose = lambda _: reply
        pipe.send(stand_in.url)
        pipe.recv()


async def measure(workspace: Workspace, environ: dict[str, str]) -> list[Figure]:
    """Measure both alternately, so that both see the same machine."""
    async with open_gateway(workspace, environ) as gateway:
        bare = Bare(workspace, environ)
        await talk(gateway, 0)
        await bare.talk(0)
        ours, theirs = [], []
        for number in range(TURNS):  # alternate, so that a slow moment affects both
            ours.append(await clock(gateway_turn(gateway), number))
            theirs.append(await clock(bare.talk, number))
        await bare.close()
        figures = compare(summarise(ours), summarise(theirs))
        return figures + await crowd(gateway)


def gateway_turn(gateway: Gateway) -> Callable[[int], Awaitable[object]]:
    """Return a function that runs one turn, ten per session."""

    async def one(number: int) -> TurnReply:
        return await talk(gateway, number // LENGTH)

    return one


async def talk(gateway: Gateway, person: int) -> TurnReply:
    """Send a message and wait for its answer."""
    accepted = await gateway.accept(RoutedMessage(text="What is on this week?", user="alice", channel=f"line-{person}"))
    reply = await gateway.wait(accepted.turn)
    if reply.state is not TurnState.ANSWERED:
        raise SystemExit(f"a turn was {reply.state}: {reply.text}")
    return reply


class Bare:
    """The same turns with pydantic-ai alone."""

    def __init__(
        self, workspace: Workspace, environ: dict[str, str], past: Sequence[ModelMessage] | None = None
    ) -> None:
        turn = Turn(user="alice", situation="dm", message="What is on this week?", model=MODEL)
        assembly = workspace.assemble(turn)
        tools = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in assembly.tools.tools
        ]
        text = "\n\n".join(block.text for block in assembly.prompt.blocks)
        self._client = AsyncAnthropic(api_key="k", base_url=environ["ANTHROPIC_BASE_URL"])
        model = AnthropicModel(MODEL.partition(":")[2], provider=AnthropicProvider(anthropic_client=self._client))
        self._agent = Agent(model, instructions=text, toolsets=[ExternalToolset(tools)])
        self._begins_anew = past is None
        self._history = list(past or ())

    async def talk(self, number: int) -> None:
        """Send a message and wait for its answer."""
        if self._begins_anew and number % LENGTH == 0:
            self._history = []
        async with self._agent.run_stream("What is on this week?", message_history=self._history) as stream:
            await stream.get_output()
            self._history = stream.all_messages()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


async def clock(call: Callable[[int], Awaitable[object]], number: int) -> float:
    """Time one call, in milliseconds."""
    begin = time.perf_counter()
    await call(number)
    return (time.perf_counter() - begin) * 1_000


def summarise(times: list[float]) -> Times:
    """Summarize single times."""
    return Times(p50=statistics.median(times), p99=statistics.quantiles(times, n=100)[98])


def compare(ours: Times, theirs: Times) -> list[Figure]:
    """Return the figures of the gateway's overhead."""
    bare = f"a bare pydantic-ai loop: p50 {theirs.p50:.1f} ms, p99 {theirs.p99:.1f} ms"
    beside = f"{bare}; with the gateway {ours.p50:.1f} and {ours.p99:.1f}"
    return [
        Figure(name="a turn beyond its model, p50", value=ours.p50 - theirs.p50, unit="ms", aim=8, baseline=beside),
        Figure(name="a turn beyond its model, p99", value=ours.p99 - theirs.p99, unit="ms", aim=30),
    ]


async def crowd(gateway: Gateway) -> list[Figure]:
    """Run many sessions at once, and measure their memory when idle."""
    before = weigh()
    begin = time.perf_counter()
    replies = await asyncio.gather(*(talk(gateway, 1_000 + person) for person in range(AT_ONCE)))
    seconds = time.perf_counter() - begin
    failed = sum(reply.state is not TurnState.ANSWERED for reply in replies)
    del replies
    return [
        Figure(name=f"{AT_ONCE} sessions at once, errors", value=failed, unit="", aim=0),
        Figure(name=f"{AT_ONCE} sessions at once, turns a second", value=AT_ONCE / seconds, unit="/s"),
        Figure(name="memory of an idle session", value=(weigh() - before) / AT_ONCE, unit="kB"),
    ]


def weigh() -> float:
    """Return the current memory of this process in kilobytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1_024
