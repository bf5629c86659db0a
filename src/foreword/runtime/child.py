"""A server of tools as a child process: it speaks in lines, is held to bounds, and ends with us.

The library has such a transport of its own; this one also bounds what a server may send at once, keeps its last words
for whoever asks why it failed, and stops listening to one that speaks something else.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from foreword.errors import ForewordError
from foreword.frozen import frozen

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

LONGEST = 8_000_000  # bytes of one message
GARBLED = 50  # lines that are no message, one after the other
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
LAST_WORDS = 20  # lines of standard error
SETTLING = 1.0  # seconds between the last message of a process and its end


@frozen
class Times:
    """How long servers are waited for, in seconds."""

    starting: float = 120.0
    """Until one has to be ready."""
    listing: float = 30.0
    """Until it has to say what it offers, and the longest that a turn waits for that."""
    showing: float = 3.0
    """Until one that has not answered has to show that it is there."""
    ending: float = 2.0
    """Until it has to end by itself, and again after it was asked to."""
    again: float = 60.0
    """Until one that failed is tried again."""


class ServerError(ForewordError):
    """A server cannot be used; the message says why in a few words, and the details are for the log alone."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class Child:
    """One child process and what it says."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], ending: float) -> None:
        self._command = command
        self._env = dict(env)
        self._ending = ending
        self._process: asyncio.subprocess.Process | None = None
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self._spoken, self._ended = asyncio.Event(), asyncio.Event()
        """Whether it has said its last words, and its last message."""
        self.fault = ""
        """Why we stopped listening, where that was our doing."""

    @property
    def is_alive(self) -> bool:
        """Whether the process is running and still listened to."""
        running = self._process is not None and self._process.returncode is None
        return running and not self._ended.is_set()

    async def settle(self) -> None:
        """Wait a moment for the end of one that has nothing more to say, so that it can be explained."""
        if not self._ended.is_set() or self.fault:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await self._spoken.wait()
                while self._process and self._process.returncode is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    def explain(self) -> str:
        """Say what is known about its end: its exit code, and its last words."""
        code = self._process.returncode if self._process else None
        said = " | ".join(self._last_words)
        known = (f"exit code {code}" if code is not None else "", f"last words: {said[-500:]}" if said else "")
        return "; ".join(filter(None, known))

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[TransportStreams]":
        """Start the process and speak with it; at the end it is gone, with everything that it has started."""
        from mcp.shared.message import SessionMessage

        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST,
            start_new_session=True,
        )
        heard, hearing = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        saying, said = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, process, heard)
                group.start_soon(self._speak, process, said)
                group.start_soon(self._keep_last_words, process)
                try:
                    yield hearing, saying
                finally:
                    with anyio.CancelScope(shield=True):
                        await end(process, self._ending)
                    group.cancel_scope.cancel()
        finally:
            for stream in (heard, hearing, saying, said):
                stream.close()

    async def _listen(
        self, process: asyncio.subprocess.Process, heard: "anyio.abc.ObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Hand on message by message; the stream is closed when no more can come."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        garbled = 0
        async with heard:
            while garbled < GARBLED and (line := await self._read_line(process)):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    garbled += 1
                    continue
                garbled = 0
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await heard.send(SessionMessage(message))
            if garbled >= GARBLED:
                self.fault = "it writes something else than MCP to its standard output"
            self._ended.set()

    async def _read_line(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout  # it was opened with pipes
        try:
            return await process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError:
            self.fault = f"it sent more than {LONGEST:,} bytes at once"
            return b""

    async def _speak(
        self, process: asyncio.subprocess.Process, said: "anyio.abc.ObjectReceiveStream[SessionMessage]"
    ) -> None:
        assert process.stdin  # it was opened with pipes
        async with said:
            async for message in said:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                with suppress(ConnectionError):  # whoever waits for an answer hears of the end from the reader
                    process.stdin.write(f"{line}\n".encode())
                    await process.stdin.drain()

    async def _keep_last_words(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr  # it was opened with pipes
        while piece := await process.stderr.read(4_096):
            lines = piece.decode("utf-8", "replace").splitlines()
            self._last_words.extend(" ".join(line.split())[:500] for line in lines if line.strip())
        self._spoken.set()


async def end(process: asyncio.subprocess.Process, patience: float) -> None:
    """End a process: its input is closed, then its group is asked, then it is killed."""
    assert process.stdin  # it was opened with pipes
    with suppress(OSError):
        process.stdin.close()
    for further in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            # Its pipes may be held open by its own children, so the process alone is waited for.
            async with asyncio.timeout(patience):
                while process.returncode is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, further)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await process.wait()
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
