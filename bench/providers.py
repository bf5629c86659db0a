"""Our providers compared with the vendors' SDKs: `python -m bench.providers` prints a Markdown table.

Both send the same request to the fake provider in a separate process and read the streamed answer: 200 chunks of text
and a tool call. Times are processor times of one process: calls alternate, so that both see the same machine, and each
import has a new process. Lines of code are those of a wire shape and of the two modules that all shapes share.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import files
from pathlib import Path
from typing import Any

from bench.gateway import run_provider
from bench.sample import make_sample, make_tools
from foreword.agent.providers import http_provider, provider
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.providers.provider import AnswerDone, RequestOptions
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.envelope import Envelope
from foreword.testing import ScriptedCall, ScriptedReply
from foreword.turn import Turn
from foreword.workspace import Workspace, open_workspace

CALLS = 100
WARM = 10  # warm-up calls
IMPORTS = 5  # processes per import
REPLY = ScriptedReply(
    text="It rains. " * 140, calls=(ScriptedCall(name="memory_get", arguments={"path": "memory/shared/garden.md"}),)
)
OURS = "foreword.agent.providers.http_provider"
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k"}
Call = Callable[[], Awaitable[int]]
Connection = tuple[Call, Callable[[], Awaitable[None]]]  # sends the request, and closes the client


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """A vendor's SDK: what it is, and how to send a request with it."""

    model: str
    package: str
    module: str
    connect: Callable[[str, Mapping[str, Any]], Connection]
    """Takes the address and the request; the call returns the number of characters of text."""


def connect_anthropic(url: str, request: Mapping[str, Any]) -> Connection:
    """Use the SDK of Anthropic."""
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="k", base_url=url)

    async def call() -> int:
        length = 0
        async for event in await client.messages.create(**request):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                length += len(event.delta.text)
        return length

    return call, client.close


def connect_chat(url: str, request: Mapping[str, Any]) -> Connection:
    """Use chat completions of OpenAI's SDK."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="k", base_url=f"{url}/v1")

    async def call() -> int:
        length = 0
        async for chunk in await client.chat.completions.create(**request):
            if chunk.choices:
                length += len(chunk.choices[0].delta.content or "")
        return length

    return call, client.close


def connect_responses(url: str, request: Mapping[str, Any]) -> Connection:
    """Use the Responses API of OpenAI's SDK."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="k", base_url=f"{url}/v1")

    async def call() -> int:
        length = 0
        async for event in await client.responses.create(**request):
            if event.type == "response.output_text.delta":
                length += len(event.delta)
        return length

    return call, client.close


def connect_gemini(url: str, request: Mapping[str, Any]) -> Connection:
    """Use Google's SDK, which takes the fields beside the conversation as its configuration."""
    from google import genai

    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url, api_version="v1beta"))
    config = genai.types.GenerateContentConfig(
        system_instruction=request["systemInstruction"],
        tools=request["tools"],
        max_output_tokens=request["generationConfig"]["maxOutputTokens"],
    )

    async def call() -> int:
        length = 0
        stream = client.aio.models.generate_content_stream(
            model="gemini-3-pro", contents=request["contents"], config=config
        )
        async for chunk in await stream:
            for candidate in chunk.candidates or ():
                length += sum(len(part.text or "") for part in candidate.content.parts)
        return length

    return call, client.aio.aclose


SDKS = {
    "anthropic": Sdk(
        model="anthropic:claude-sonnet-5", package="anthropic", module="anthropic", connect=connect_anthropic
    ),
    "openai": Sdk(model="openai:gpt-5", package="openai", module="openai", connect=connect_chat),
    "responses": Sdk(model="openai-responses:gpt-5", package="openai", module="openai", connect=connect_responses),
    "gemini": Sdk(model="google:gemini-3-pro", package="google-genai", module="google.genai", connect=connect_gemini),
}


def run() -> Iterator[str]:
    """Measure every shape; yield the rows of a table."""
    yield "| shape | a call: ours, SDK | import: ours, SDK | lines of ours | installed SDK |"
    yield "|---|---|---|---|---|"
    ours = measure_import(OURS)
    with tempfile.TemporaryDirectory() as folder, run_provider(REPLY) as url:
        make_sample(Path(folder))
        with open_workspace(folder) as workspace:
            for shape, sdk in SDKS.items():
                thin, thick = asyncio.run(compare(workspace, url, sdk))
                yield (
                    f"| {shape} | {thin:.1f} and {thick:.1f} ms | {ours:.0f} and {measure_import(sdk.module):.0f} ms"
                    f" | {count_lines(shape)} | {measure_size(sdk.package):.1f} MB of {sdk.package} |"
                )


async def compare(workspace: Workspace, url: str, sdk: Sdk) -> tuple[float, float]:
    """Return the processor time of a call in milliseconds, with our provider and with the SDK."""
    addresses = {"anthropic": url, "google": f"{url}/v1beta", "openai": f"{url}/v1"}
    models = ModelClients(addresses, KEYS)
    opened = models.find(sdk.model)
    turn = Turn(user="alice", situation="dm", message="What is on this week?", model=sdk.model, tools=make_tools())
    envelope = workspace.assemble(turn).envelope(opened.shape)
    request = opened.wire.complete(envelope.request, RequestOptions(max_tokens=1_000))
    whole = Envelope(shape=opened.shape, model=sdk.model, request=request)

    async def call() -> int:
        async with aclosing(opened.provider.stream(whole)) as events:
            async for event in events:
                if isinstance(event, AnswerDone):
                    return len(event.answer.text)
        raise AssertionError("a provider's stream ends with the answer or an error")

    theirs, close = sdk.connect(url, request)
    thin, thick = [], []
    try:
        for number in range(WARM + CALLS):
            for one, times in ((call, thin), (theirs, thick)):
                spent = await measure_call(one)
                times.extend([spent] if number >= WARM else [])
    finally:
        await models.close()
        await close()
    return statistics.median(thin), statistics.median(thick)


async def measure_call(call: Call) -> float:
    """Return the processor time of one call in milliseconds."""
    before = time.process_time()
    length = await call()
    spent = (time.process_time() - before) * 1_000
    if length != len(REPLY.text):
        raise SystemExit(f"an answer had {length} characters instead of {len(REPLY.text)}")
    return spent


def measure_import(module: str) -> float:
    """Return the processor time of an import in milliseconds, the median of several processes."""
    code = f"import time; begin = time.process_time(); import {module}; print(time.process_time() - begin)"
    command = [sys.executable, "-c", code]
    times = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(IMPORTS)]
    return statistics.median(times) * 1_000


def count_lines(shape: str) -> int:
    """Count the lines of a shape's module and of the modules that all shapes share."""
    modules = (import_module(type(WIRE_SHAPES[shape]).__module__), provider, http_provider)
    return sum(len(Path(module.__file__ or "").read_text(encoding="utf-8").splitlines()) for module in modules)


def measure_size(package: str) -> float:
    """Return the size of an installed package in megabytes, without compiled files."""
    places = [file.locate() for file in files(package) or () if file.suffix != ".pyc"]
    return sum(os.path.getsize(place) for place in places if os.path.isfile(place)) / 1e6


if __name__ == "__main__":
    for row in run():
        print(row, flush=True)
