"""A connection to a server of tools: opened when it is first needed, and again after it was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from foreword.config.schema import Server
from foreword.frozen import frozen
from foreword.runtime.child import INHERITED, Child, ServerError, Times
from foreword.runtime.failing import ToolFailed

if TYPE_CHECKING:
    import mcp_types
    from mcp.client import Client
    from mcp.client._transport import TransportStreams

T = TypeVar("T")
PAGES = 20
LONGEST_REASON = 2_000  # characters of an error that a server answers with
MANY = 128  # tools of one server


@frozen
class Listing:
    """What a server offers."""

    tools: "tuple[mcp_types.Tool, ...]"
    instructions: str
    name: str = ""
    """What the server calls itself."""
    resources: bool = False
    """Whether it has resources that can be read."""


class Connection:
    """One server, for everybody who uses it in this process; calls may be made at the same time."""

    def __init__(self, server: Server, environ: Mapping[str, str], times: Times) -> None:
        self.server = server
        self._environ = environ
        self._times = times
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._client: Client | None = None
        self._child: Child | None = None
        self._suspect = False
        """Whether a call was not answered, so that the next one looks first whether anybody is there."""
        self.changed = asyncio.Event()
        """Set once the server says that its tools are others now."""

    async def list(self) -> Listing:
        """Ask what the server offers."""
        client = await self._reach()
        self.changed.clear()  # a change from now on may not be in the list
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._times.listing):
                for _ in range(PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools.extend(page.tools)
                    cursor = page.next_cursor
                    if cursor is None or len(tools) >= MANY:
                        break
        except Exception as error:
            self._suspect = True
            self.changed.set()
            raise await self._describe(error) from error
        info = client.server_info
        return Listing(
            tools=tuple(tools[:MANY]),
            instructions=client.instructions or "",
            name=info.name if info else "",
            resources=client.server_capabilities.resources is not None,
        )

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> "mcp_types.CallToolResult":
        """Call a tool once; a call that was sent and not answered is never repeated.

        Raise ToolFailed for an error that the server answers with, ServerError where the connection is lost.
        """
        return await self._ask(lambda client: client.call_tool(tool, dict(arguments)))

    async def read(self, uri: str) -> "mcp_types.ReadResourceResult":
        """Read a resource."""
        return await self._ask(lambda client: client.read_resource(uri))

    async def _ask(self, request: "Callable[[Client], Awaitable[T]]") -> T:
        """Send a request within the time of a call."""
        from mcp.shared.exceptions import MCPError

        client = await self._reach()
        try:
            async with asyncio.timeout(self.server.seconds):
                return await request(client)
        except TimeoutError:
            self._suspect = True
            raise ServerError(f"it did not answer within {self.server.seconds:g} seconds") from None
        except asyncio.CancelledError:
            self._suspect = True
            raise
        except MCPError as error:
            if self._is_lost() or is_closed(error):
                self._suspect = True
                raise await self._describe(error) from error
            raise ToolFailed(str(error)[:LONGEST_REASON]) from error
        except Exception as error:
            self._suspect = True
            raise await self._describe(error) from error

    async def close(self) -> None:
        """End the connection, and the process with it."""
        task, self._task = self._task, None
        self._stop.set()
        if task and self._client is None:
            task.cancel()  # it is still on its way to be ready
        if task:
            _, late = await asyncio.wait({task}, timeout=5 * self._times.ending)
            for one in late:
                one.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(task, return_exceptions=True)
        self._client = None

    async def _reach(self) -> "Client":
        """Return the server, started if it is not there."""
        async with self._lock:
            if self._client and not self._is_lost() and (not self._suspect or await self._answers(self._client)):
                self._suspect = False
                return self._client
            await self.close()
            self._client = await self._start()
            self._suspect = False
            self.changed.set()  # another process may offer others
            return self._client

    def _is_lost(self) -> bool:
        ended = self._task is None or self._task.done()
        return ended or (self._child is not None and not self._child.is_alive)

    async def _answers(self, client: "Client") -> bool:
        with suppress(Exception):
            async with asyncio.timeout(self._times.showing):
                await client.list_tools(cache_mode="refresh")
                return True
        return False

    async def _start(self) -> "Client":
        await asyncio.to_thread(import_module, "mcp.client")  # it takes long enough to hold up other turns
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._child = None
        # The library wants a connection to be closed by the task that has opened it.
        self._task = asyncio.create_task(self._live(ready, self._stop))
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

    async def _live(self, ready: "asyncio.Future[Client]", stop: asyncio.Event) -> None:
        """Hold the connection until it is to end; what goes wrong before is told to whoever waits."""
        from mcp.client import Client
        from mcp_types import Implementation

        try:
            us = Implementation(name="foreword", version="1")
            opened = Client(self._open(), cache=None, client_info=us, message_handler=self._take_note)
            async with opened as client:
                if not ready.done():
                    ready.set_result(client)
                following = asyncio.create_task(self._follow(client))
                try:
                    await stop.wait()
                finally:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
        except Exception as error:  # noqa: BLE001 - whatever a server does is its own fault
            if not ready.done():
                ready.set_exception(await self._describe(error))
        finally:
            ready.cancel()

    async def _take_note(self, message: object) -> None:
        """Take note of a notification that the tools have changed, as protocols up to 2025-11-25 send it."""
        from mcp_types import ToolListChangedNotification

        if isinstance(getattr(message, "root", message), ToolListChangedNotification):
            self.changed.set()

    async def _follow(self, client: "Client") -> None:
        """Subscribe to changes of the tools, as later protocols have it; a server without that is asked once."""
        capability = client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        with suppress(Exception):  # an older protocol sends notifications; whatever else fails, calls go on
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self.changed.set()

    def _open(self) -> "AbstractAsyncContextManager[TransportStreams]":
        server = self.server
        if server.command:
            # Nothing else of our environment is handed on: it holds the keys of the providers.
            inherited = {name: self._environ[name] for name in INHERITED if name in self._environ}
            env = {**inherited, **fill_in(server.env, self._environ)}
            self._child = Child(server.command, env, self._times.ending)
            return self._child.open()
        from foreword.runtime.address import open_address

        return open_address(server.url, fill_in(server.headers, self._environ))

    async def _describe(self, error: BaseException) -> ServerError:
        """Say why a server cannot be used."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ServerError):
            return error
        child = self._child
        told = f"{type(error).__name__}: {error}"[:300]
        if child is None:
            return ServerError("it cannot be reached", told)
        await child.settle()
        reason = child.fault or ("it gave no answer that can be used" if child.is_alive else "it is not running")
        return ServerError(reason, "; ".join(filter(None, (told, child.explain()))))


def is_closed(error: Exception) -> bool:
    """Whether an error says that the connection has ended."""
    from mcp_types import CONNECTION_CLOSED

    return getattr(error, "code", None) == CONNECTION_CLOSED or "connection closed" in str(error).lower()


def fill_in(values: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Put variables in the place of values that begin with a dollar sign; one that is not set is an error."""
    filled = {}
    for name, value in values.items():
        if value.startswith("$") and value[1:] not in environ:
            raise ServerError(f"{name} is to be {value}, which is not set")
        filled[name] = environ[value[1:]] if value.startswith("$") else value
    return filled
