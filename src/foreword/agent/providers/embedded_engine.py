"""The embedded engine: its process, the slots of its sessions, and the HTTP transport of its requests.

The process is started on demand and restarted after it has died. Requests are sent without control tokens of the chat
template in their messages, and a reply that repeats itself is ended.
"""

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import IO, Any

import httpx2

from foreword.agent.providers import embedded_process
from foreword.agent.providers.embedded_weights import EngineSettings, find_weights_file
from foreword.errors import InputError
from foreword.tokens.gguf import read_header
from foreword.types import frozen


def escape_request(body: Mapping[str, Any], control: tuple[str, ...]) -> dict[str, Any]:
    """Return a request without control tokens in its messages."""
    pattern = compile_control_tokens(control)
    if pattern is None:
        return dict(body)
    messages = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, str):
            content = escape_control_tokens(content, pattern)
        elif isinstance(content, list):
            content = [
                {**part, "text": escape_control_tokens(part["text"], pattern)} if "text" in part else part
                for part in content
            ]
        messages.append({**message, "content": content} if "content" in message else message)
    return {**body, "messages": messages}


def escape_control_tokens(text: str, pattern: re.Pattern[str]) -> str:
    """Escape the control tokens in a text; repeat for tokens that overlap or that an escape creates."""
    while True:
        escaped = pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        if escaped == text:
            return text
        text = escaped


@cache
def compile_control_tokens(control: tuple[str, ...]) -> re.Pattern[str] | None:
    """Compile the control tokens of a model into a pattern; ignore tokens that contain a space."""
    tokens = sorted((token for token in control if " " not in token), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, tokens))) if tokens else None


MAX_START_S = 300.0  # seconds to load the weights
MAX_ENGINE_ERROR_CHARS = 300  # characters of the engine's last log line
# The engine's threads wait for each other many times per token. Spin waits would make them 10 to 30 times slower as
# soon as another process runs.
THREAD_ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}


@frozen
class RunningEngine:
    """A running engine."""

    process: "subprocess.Popen[bytes]"
    url: str
    key: str
    control: tuple[str, ...]
    """The control tokens of the chat template, which the engine recognizes anywhere in a text."""

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None


class EmbeddedEngine:
    """One model in a child process; thread-safe."""

    def __init__(self, setup: EngineSettings) -> None:
        self.setup = setup
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # held briefly, unlike the lock of `start`
        self._held: tuple[RunningEngine | None, int] = (None, 0)
        """The running engine and the number of starts; one value, because it is read during a start."""
        self._cache_start_number = 0
        """The number of the start that began the current cache lifetime; the next start if the engine is dead."""
        self._cache_start: datetime | None = None

    def start(self) -> RunningEngine:
        """Return the running engine; fetch its weights and start it if needed, which takes seconds."""
        with self._lock:
            running, starts = self._held
            if running and not running.alive:
                self.stop()  # close its pipes
                running = None
            if running is None:
                running = start_engine(self.setup)
                self._held = (running, starts + 1)
            return running

    def find_cache_start(self, at: datetime) -> datetime:
        """Return the start of the current cache lifetime; call it before and after each request, with its time.

        A dead engine has lost its cache, and the next request restarts it.
        """
        with self._asking:
            running, starts = self._held
            gone = running is None or not running.alive
            now = starts + 1 if gone else starts
            if self._cache_start is None or now != self._cache_start_number:
                self._cache_start_number, self._cache_start = now, at
            return at if gone else self._cache_start

    def stop(self) -> None:
        """End the process."""
        running, starts = self._held
        self._held = (None, starts)
        if running:
            kill_process(running.process)


def start_engine(setup: EngineSettings) -> RunningEngine:
    """Start the process and wait until it serves."""
    path = find_weights_file(setup)
    control = read_header(path).control
    key = secrets.token_urlsafe(24)
    weights = setup.weights
    settings = {
        "path": path,
        "name": os.path.basename(path),
        "key": key,
        "window": setup.window,
        "slots": setup.slots,
        "spill_mb": setup.spill_mb,
        "threads": setup.threads,
        "template": weights.template if weights else "",
        "temp": weights.temperature if weights else None,
        "top_p": weights.top_p if weights else None,
        "penalty_repeat": weights.repeat_penalty if weights else None,
    }
    # A separate session: Ctrl-C in a terminal stops a turn, not the engine.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", embedded_process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**THREAD_ENVIRONMENT, **os.environ},
            start_new_session=True,
        )
        reply = exchange_settings(process, settings)
        if "url" not in reply:
            kill_process(process)
            raise InputError(f"{path} cannot be loaded as a model: {reply.get('error') or read_last_line(log)}")
    return RunningEngine(process=process, url=reply["url"], key=key, control=control)


def exchange_settings(process: "subprocess.Popen[bytes]", settings: dict[str, object]) -> dict[str, str]:
    """Send the process its settings and return its answer; empty if it dies or takes too long."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    watchdog = threading.Timer(MAX_START_S, process.kill)
    watchdog.start()
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = b""
    finally:
        watchdog.cancel()
    reply: dict[str, str] = json.loads(line) if line else {}
    return reply


def read_last_line(log: IO[bytes]) -> str:
    """Return the last log line of a process that failed to start."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:MAX_ENGINE_ERROR_CHARS] if lines else "the engine ended without an error message"


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):
                pipe.close()


EVENT_END = b"\n\n"
DATA_PREFIX = b"data: "
STREAM_END = b"data: [DONE]" + EVENT_END


async def end_repetition(stream: AsyncIterator[bytes], ngram: int) -> AsyncIterator[bytes]:
    """Pass on the events of a chat completion; end it when it repeats a sequence of `ngram` tokens."""
    guard = RepetitionGuard(ngram)
    rest = b""
    async for piece in stream:
        *events, rest = (rest + piece).split(EVENT_END)
        for event in events:
            for one in guard.pass_on(event + EVENT_END):
                yield one
            if guard.ended:
                return
    if rest:
        yield rest


class RepetitionGuard:
    """Watches the tokens of one reply; holds tokens back while they may start a repetition."""

    def __init__(self, ngram: int) -> None:
        self.ended = False
        self._ngram = ngram
        self._tokens: list[str] = []
        self._known: set[tuple[str, ...]] = set()
        self._held: list[bytes] = []

    def pass_on(self, event: bytes) -> list[bytes]:
        """Return the events that may be passed on now."""
        # Pings and the end of the stream are no chunks.
        chunk = json.loads(event[len(DATA_PREFIX) :]) if event.startswith(DATA_PREFIX + b"{") else {}
        choices = chunk.get("choices") or [{}]
        token = choices[0].get("delta", {}).get("content")
        if not token:
            return [*self._release(), event] if choices[0].get("finish_reason") else [event]
        self._tokens.append(token)
        newest = [tuple(self._tokens[-size:]) for size in (1, 2, self._ngram)]
        first, going_on, whole = (len(self._tokens) > len(tokens) and tokens in self._known for tokens in newest)
        self._known.update(newest)
        if whole:
            self.ended = True
            return write_stop_events(chunk)
        if self._held and going_on:
            self._held.append(event)
            return [self._held.pop(0)] if len(self._held) > self._ngram else []
        passed = self._release()
        if first:
            self._held = [event]
            return passed
        return [*passed, event]

    def _release(self) -> list[bytes]:
        held, self._held = self._held, []
        return held


def write_stop_events(chunk: dict[str, Any]) -> list[bytes]:
    """Write the events that end a reply as if the model had stopped, with the usage so far."""
    timings = chunk.pop("timings", {})
    cached, written = timings.get("cache_n", 0), timings.get("predicted_n", 0)
    prompt = cached + timings.get("prompt_n", 0)
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    stop = {**chunk, "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]}
    events = (stop, {**chunk, "choices": [], "usage": usage})
    written_events = [DATA_PREFIX + json.dumps(event, ensure_ascii=False).encode() + EVENT_END for event in events]
    return [*written_events, STREAM_END]


class EngineSlots:
    """Assigns slots: a session gets its previous slot, a new session the least recently used one."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        """Unused slots, the next one first."""
        self._owned: dict[str, int] = {}
        """The slots of sessions, the least recently used first."""
        self._busy: set[int] = set()
        self._changed = asyncio.Event()

    async def take(self, session: str) -> int:
        """Take a slot for a session and wait if none is available; without a session the slot is not assigned."""
        while (slot := self._find(session)) is None:
            await self._changed.wait()
        self._busy.add(slot)
        self._owned = {owner: owned for owner, owned in self._owned.items() if owned != slot}
        if session:
            self._owned[session] = slot
        return slot

    def give_back(self, slot: int) -> None:
        """Release a slot; the cached conversation stays in it."""
        self._busy.discard(slot)
        if slot not in self._owned.values() and slot not in self._free:
            self._free.insert(0, slot)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _find(self, session: str) -> int | None:
        if session in self._owned:
            own = self._owned[session]
            return None if own in self._busy else own
        if self._free:
            return self._free.pop(0)
        return next((slot for slot in self._owned.values() if slot not in self._busy), None)


class EngineTransport(httpx2.AsyncBaseTransport):
    """Sends chat completion requests to the engine; closing a response stops the engine's work on it."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine
        self._slots = EngineSlots(engine.setup.slots)
        self._inner = httpx2.AsyncHTTPTransport()
        weights = engine.setup.weights
        self._ngram = weights.repeat_ngram if weights else 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request when its session has a slot, and hold the slot until the response is closed."""
        body = json.loads(await request.aread())
        slot = await self._slots.take(body.pop("prompt_cache_key", ""))
        try:
            # A reply that we end early has no usage report; the timings per token replace it.
            response = await self._try(request, {**body, "id_slot": slot, "timings_per_token": bool(self._ngram)})
        except BaseException:
            self._slots.give_back(slot)
            raise

        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=SlotStream(self, response, slot),
            extensions=response.extensions,
        )

    def read(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Read a response; end a streamed reply when it repeats itself."""
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("the engine's response must be an async stream")
        pieces = aiter(response.stream)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        return end_repetition(pieces, self._ngram) if self._ngram and is_stream else pieces

    async def close(self, response: httpx2.Response, slot: int) -> None:
        """Close the connection, which stops the engine's work, and release the slot."""
        try:
            await response.aclose()
        finally:
            self._slots.give_back(slot)

    async def _try(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        """Send a request; retry once if the engine has just died, because nothing was sent."""
        try:
            return await self._send(request, body)
        except httpx2.ConnectError:
            await self.give_up()
            return await self._send(request, body)
        except httpx2.ReadTimeout:
            await self.give_up()
            raise

    async def _send(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        running = await asyncio.to_thread(self._engine.start)
        address = httpx2.URL(running.url)
        content = json.dumps(escape_request(body, running.control), ensure_ascii=False).encode()
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(scheme=address.scheme, host=address.host, port=address.port),
                headers={"authorization": f"Bearer {running.key}", "content-type": "application/json"},
                content=content,
                extensions=request.extensions,
            )
        )

    async def give_up(self) -> None:
        """Stop an engine that does not answer: it sends pings, so silence means that it hangs."""
        await asyncio.to_thread(self._engine.stop)

    async def aclose(self) -> None:
        """Close the connections and stop the engine."""
        await self._inner.aclose()
        await asyncio.to_thread(self._engine.stop)


class SlotStream(httpx2.AsyncByteStream):
    """A response stream that holds a slot."""

    def __init__(self, transport: EngineTransport, response: httpx2.Response, slot: int) -> None:
        self._transport = transport
        self._response = response
        self._slot = slot

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the response; stop an engine that hangs."""
        try:
            async for piece in self._transport.read(self._response):
                yield piece
        except httpx2.ReadTimeout:
            await self._transport.give_up()
            raise

    async def aclose(self) -> None:
        """Close the connection and release the slot."""
        await self._transport.close(self._response, self._slot)
