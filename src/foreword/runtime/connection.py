"""A connection to a server of tools: opened when it is first needed, and again after it was lost."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foreword.config.schema import Server
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.runtime.child import INHERITED, Child, ServerError, Times

if TYPE_CHECKING:
    import mcp_types
    from mcp.client import Client
    from mcp.client._transport import TransportStreams

PAGES = 20
MANY = 128  # tools of one server


@frozen
class Listing:
    """What a server offers."""

    tools: "tuple[mcp_types.Tool, ...]"
    instructions: str


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

    async def list(self) -> Listing:
        """Ask what the server offers."""
        client = await self._reach()
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
            raise await self._describe(error) from error
        return Listing(tools=tuple(tools[:MANY]), instructions=client.instructions or "")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> "mcp_types.CallToolResult":
        """Call a tool; what was sent and not answered is not sent again."""
        from mcp.shared.exceptions import MCPError

        client = await self._reach()
        try:
            async with asyncio.timeout(self.server.seconds):
                return await client.call_tool(tool, dict(arguments))
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
            raise InputError(str(error)[:2_000]) from error
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
            async with Client(self._open(), cache=None, client_info=us) as client:
                if not ready.done():
                    ready.set_result(client)
                await stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever a server does is its own fault
            if not ready.done():
                ready.set_exception(await self._describe(error))
        finally:
            ready.cancel()

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
