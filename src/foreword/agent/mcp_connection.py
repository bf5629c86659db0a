"""A connection to an MCP server over stdio or HTTP: opened at first use, and reopened after it was lost."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from foreword.config.schema import McpServer
from foreword.errors import ForewordError, ToolError
from foreword.types import frozen

if TYPE_CHECKING:
    import mcp_types
    from mcp.client import Client
    from mcp.shared.message import SessionMessage


MAX_MESSAGE_BYTES = 8_000_000  # bytes of one message
TOO_LARGE_TEXT = f"it sent more than {MAX_MESSAGE_BYTES:,} bytes at once"
MAX_INVALID_LINES = 50  # consecutive lines that are not messages
INHERITED_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
MAX_STDERR_LINES = 20  # lines of standard error
EXIT_WAIT_S = 1.0  # seconds to wait for the exit of a process after its last message


@frozen
class McpTimeouts:
    """Timeouts of MCP servers, in seconds."""

    starting: float = 120.0
    """For a server to become ready."""
    listing: float = 30.0
    """For a server to return its tool list; also the longest wait of a turn for it."""
    showing: float = 3.0
    """For a server that missed an answer to respond to a check."""
    ending: float = 2.0
    """For a process to exit after its input is closed, and again after SIGTERM."""
    again: float = 60.0
    """Delay before a failed server is retried."""


class ServerError(ForewordError):
    """A server cannot be used; the message is short, the details are for the log only."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class McpProcess:
    """A child process that exchanges lines over its standard streams, and ends with us."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], exit_timeout: float) -> None:
        self._command = command
        self._env = dict(env)
        self._exit_timeout = exit_timeout
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._stderr_ended = asyncio.Event()
        self._is_reading = True
        self.fault = ""
        """Why we stopped reading, if we did."""

    @property
    def is_alive(self) -> bool:
        """Whether the process is running and we still read from it."""
        return self._is_reading and self._process is not None and self._process.returncode is None

    async def explain(self) -> str:
        """Return the exit code and the last lines of standard error; wait briefly if the process is about to exit."""
        process = self._process
        if not self._is_reading and not self.fault:
            with suppress(TimeoutError):
                async with asyncio.timeout(EXIT_WAIT_S):
                    await self._stderr_ended.wait()
                    await wait_for_exit(process)
        code = process.returncode if process else None
        lines = " | ".join(self._stderr)
        facts = (f"exit code {code}" if code is not None else "", f"last words: {lines[-500:]}" if lines else "")
        return "; ".join(filter(None, facts))

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[TransportStreams]":
        """Start the process and yield its streams; at the end, terminate its process group."""
        from mcp.shared.message import SessionMessage

        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_MESSAGE_BYTES,
            start_new_session=True,
        )
        if not (process.stdin and process.stdout and process.stderr):
            raise AssertionError("all three are pipes")
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        with incoming, read_stream, write_stream, outgoing:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_messages, process.stdout, incoming)
                group.start_soon(write_messages, process.stdin, outgoing)
                group.start_soon(self._read_stderr, process.stderr)
                try:
                    yield read_stream, write_stream
                finally:
                    with anyio.CancelScope(shield=True):
                        await end_process_group(process, process.stdin, self._exit_timeout)
                    group.cancel_scope.cancel()

    async def _read_messages(
        self, stdout: asyncio.StreamReader, incoming: "anyio.abc.ObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Forward messages from standard output; close the stream at the end."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        invalid = 0
        async with incoming:
            try:
                while line := await stdout.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        invalid += 1
                        if invalid == MAX_INVALID_LINES:
                            self.fault = "it writes something else than MCP to its standard output"
                            break
                        continue
                    invalid = 0
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await incoming.send(SessionMessage(message))
            except ValueError:  # the line exceeds the limit
                self.fault = TOO_LARGE_TEXT
            self._is_reading = False

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(4_096):
            lines = chunk.decode("utf-8", "replace").splitlines()
            self._stderr.extend(" ".join(line.split())[:500] for line in lines if line.strip())
        self._stderr_ended.set()


async def write_messages(
    stdin: asyncio.StreamWriter, outgoing: "anyio.abc.ObjectReceiveStream[SessionMessage]"
) -> None:
    """Write messages to standard input, one per line; the reader reports the end of the process."""
    async with outgoing:
        async for message in outgoing:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            with suppress(ConnectionError):
                stdin.write(f"{line}\n".encode())
                await stdin.drain()


async def wait_for_exit(process: asyncio.subprocess.Process | None) -> None:
    """Wait for a process alone: `process.wait` also waits for its pipes, which its children may hold open."""
    while process and process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def end_process_group(process: asyncio.subprocess.Process, stdin: asyncio.StreamWriter, seconds: float) -> None:
    """End a process: close its input, then send SIGTERM and SIGKILL to its group."""
    with suppress(OSError):
        stdin.close()
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wait_for_exit(process)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


HTTP_TIMEOUT = httpx2.Timeout(30.0, read=300.0)


@asynccontextmanager
async def open_http(url: str, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Open a connection to a server by URL; limit the size of whole responses and of single events."""

    async def limit(response: httpx2.Response) -> None:
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream)

    hooks = {"response": [limit]}
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=HTTP_TIMEOUT, event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


class BoundedStream(httpx2.AsyncByteStream):
    """A response stream that raises ServerError beyond the size limit."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise ServerError(TOO_LARGE_TEXT)
            yield piece

    async def aclose(self) -> None:
        """Close the response."""
        await self._inner.aclose()


T = TypeVar("T")
MAX_LIST_PAGES = 20
MAX_REASON_CHARS = 2_000  # characters of a server's error message
MAX_SERVER_TOOLS = 128  # tools of one server


@frozen
class ServerListing:
    """The tools, instructions and capabilities of a server."""

    tools: "tuple[mcp_types.Tool, ...]"
    instructions: str
    name: str = ""
    resources: bool = False


class McpConnection:
    """The connection to one server, shared by all agents of this process; calls may run concurrently."""

    def __init__(self, server: McpServer, environ: Mapping[str, str], times: McpTimeouts) -> None:
        self.server = server
        self._environ = environ
        self._times = times
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._client: Client | None = None
        self._child: McpProcess | None = None
        self._must_check = False
        """Whether a call was not answered; the next call first checks that the server responds."""
        self.changed = asyncio.Event()
        """Set when the server announces changed tools."""

    async def list(self) -> ServerListing:
        """Request the server's tool list."""
        client = await self._connect()
        self.changed.clear()  # the list may miss changes from now on
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._times.listing):
                for _ in range(MAX_LIST_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools.extend(page.tools)
                    cursor = page.next_cursor
                    if cursor is None or len(tools) >= MAX_SERVER_TOOLS:
                        break
        except Exception as error:
            self._must_check = True
            self.changed.set()
            raise await self._describe(error) from error
        info = client.server_info
        return ServerListing(
            tools=tuple(tools[:MAX_SERVER_TOOLS]),
            instructions=client.instructions or "",
            name=info.name if info else "",
            resources=client.server_capabilities.resources is not None,
        )

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> "mcp_types.CallToolResult":
        """Call a tool once; a call without an answer is never repeated.

        Raise ToolError if the server returns an error, ServerError if the connection is lost.
        """
        return await self._send(lambda client: client.call_tool(tool, dict(arguments)))

    async def read(self, uri: str) -> "mcp_types.ReadResourceResult":
        """Read a resource."""
        return await self._send(lambda client: client.read_resource(uri))

    async def _send(self, request: "Callable[[Client], Awaitable[T]]") -> T:
        """Send a request within the time limit of a call."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        client = await self._connect()
        try:
            async with asyncio.timeout(self.server.seconds):
                return await request(client)
        except TimeoutError:
            self._must_check = True
            raise ServerError(f"it did not answer within {self.server.seconds:g} seconds") from None
        except asyncio.CancelledError:
            self._must_check = True
            raise
        except Exception as error:
            is_closed = getattr(error, "code", None) == CONNECTION_CLOSED or "connection closed" in str(error).lower()
            if isinstance(error, MCPError) and not is_closed and not self._is_lost():
                raise ToolError(str(error)[:MAX_REASON_CHARS]) from error
            self._must_check = True
            raise await self._describe(error) from error

    async def close(self) -> None:
        """Close the connection and end the process."""
        task, self._task = self._task, None
        self._stop.set()
        if task and self._client is None:
            task.cancel()  # it is still starting
        if task:
            _, late = await asyncio.wait({task}, timeout=5 * self._times.ending)
            for unfinished in late:
                unfinished.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(task, return_exceptions=True)
        self._client = None

    async def _connect(self) -> "Client":
        """Return a connected client; start the server if needed."""
        async with self._lock:
            if self._client is None or self._is_lost() or (self._must_check and not await self._responds(self._client)):
                await self.close()
                self._client = await self._start()
                self.changed.set()  # the new process may offer other tools
            self._must_check = False
            return self._client

    def _is_lost(self) -> bool:
        ended = self._task is None or self._task.done()
        return ended or (self._child is not None and not self._child.is_alive)

    async def _responds(self, client: "Client") -> bool:
        with suppress(Exception):
            async with asyncio.timeout(self._times.showing):
                await client.list_tools(cache_mode="refresh")
                return True
        return False

    async def _start(self) -> "Client":
        await asyncio.to_thread(import_module, "mcp.client")  # the import is slow enough to delay other turns
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._child = None
        # The library requires the task that opened a connection to close it.
        self._task = asyncio.create_task(self._hold_open(ready, self._stop))
        try:
            async with asyncio.timeout(self._times.starting):
                return await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise ServerError(f"it was not ready within {self._times.starting:g} seconds") from None
        except asyncio.CancelledError:
            self._stop.set()
            self._task.cancel()
            raise

    async def _hold_open(self, ready: "asyncio.Future[Client]", stop: asyncio.Event) -> None:
        """Hold the connection until `stop` is set; report a failed start through `ready`."""
        from mcp.client import Client
        from mcp_types import Implementation

        try:
            us = Implementation(name="foreword", version="1")
            opened = Client(self._open(), cache=None, client_info=us, message_handler=self._handle_notification)
            async with opened as client:
                if not ready.done():
                    ready.set_result(client)
                following = asyncio.create_task(self._follow(client))
                try:
                    await stop.wait()
                finally:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
        except Exception as error:  # noqa: BLE001 - a server may fail in any way
            if not ready.done():
                ready.set_exception(await self._describe(error))
        finally:
            ready.cancel()

    async def _handle_notification(self, message: object) -> None:
        """Handle the notification of changed tools (protocol versions up to 2025-11-25)."""
        from mcp_types import ToolListChangedNotification

        if isinstance(getattr(message, "root", message), ToolListChangedNotification):
            self.changed.set()

    async def _follow(self, client: "Client") -> None:
        """Subscribe to tool changes (later protocol versions), if the server supports it."""
        capability = client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        with suppress(Exception):  # older protocols send notifications; a failed subscription must not affect calls
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self.changed.set()

    def _open(self) -> "AbstractAsyncContextManager[TransportStreams]":
        server = self.server
        if server.command:
            # The rest of our environment is not inherited: it contains the providers' keys.
            inherited = {name: self._environ[name] for name in INHERITED_VARIABLES if name in self._environ}
            env = {**inherited, **expand_variables(server.env, self._environ)}
            self._child = McpProcess(server.command, env, self._times.ending)
            return self._child.open()
        return open_http(server.url, expand_variables(server.headers, self._environ))

    async def _describe(self, error: BaseException) -> ServerError:
        """Return a ServerError that explains why the server cannot be used."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ServerError):
            return error
        child = self._child
        described = f"{type(error).__name__}: {error}"[:300]
        if child is None:
            return ServerError("it cannot be reached", described)
        details = await child.explain()
        reason = child.fault or ("it gave no answer that can be used" if child.is_alive else "it is not running")
        return ServerError(reason, "; ".join(filter(None, (described, details))))


def expand_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Replace values that start with `$` by environment variables; raise ServerError if one is not set."""
    filled = {}
    for name, value in values.items():
        if value.startswith("$") and value[1:] not in environ:
            raise ServerError(f"{name} is to be {value}, which is not set")
        filled[name] = environ[value[1:]] if value.startswith("$") else value
    return filled
