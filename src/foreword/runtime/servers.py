"""The MCP servers of a configuration: started when an agent first needs them, shared by all, ended with us.

    async with Servers(workspace, recorder, environ) as servers:
        tools, extensions = await servers.list("reid")

What a server offers is asked once, so that a prompt does not move; a server that was lost is started again for the next
call. One that cannot be used is told to the log, and the agent goes on without it.
"""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from foreword.assembly import Assembly
from foreword.config.schema import Config, Server
from foreword.errors import UnknownName
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.trace import Trace
from foreword.frozen import frozen
from foreword.runtime.child import ServerError, Times
from foreword.runtime.connection import Connection, Listing
from foreword.runtime.failing import ToolFailed
from foreword.runtime.offer import Offer, make_offer, name_servers, read_answer
from foreword.tools import Answer
from foreword.turn import Extension, Tool
from foreword.workspace import Workspace

USUAL = Times()


@frozen
class Route:
    """Where a tool is run, and what it is called there."""

    connection: Connection
    server: str
    original: str


class Used:
    """A server in use: its connection, what it listed, and why it does not work."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.listing: Listing | None = None
        self.fault = ""
        self.tried = 0.0
        self.asking: asyncio.Task[None] | None = None
        self.offers: dict[object, Offer] = {}


class Servers:
    """Runs the tools of MCP servers."""

    def __init__(
        self,
        workspace: Workspace,
        recorder: Recorder,
        environ: Mapping[str, str],
        *,
        times: Times = USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._recorder = recorder
        self._environ = environ
        self._times = times
        self._clock = clock
        self._used: dict[str, Used] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end([*self._used])

    @property
    def faults(self) -> Mapping[str, str]:
        """Why servers of the configuration do not work, by name; a command itself may hold a secret."""
        lost = [one for one in self._used.values() if one.fault]
        return dict(
            zip(name_servers([one.connection.server for one in lost]), (one.fault for one in lost), strict=True)
        )

    async def list(self, agent: str, reserved: Collection[str] = ()) -> tuple[tuple[Tool, ...], tuple[Extension, ...]]:
        """List the tools of an agent's servers and their words; names that others have are not taken again."""
        await self._end([key for key in self._used if key not in list_keys(self._workspace.config)])
        servers = self._workspace.config.agents[agent].mcp
        used = [self._use(server) for server in servers]
        asking = {one.asking for one in used if one.asking and not one.asking.done()}
        if asking:
            await asyncio.wait(asking, timeout=self._times.listing)
        named = tuple(zip(name_servers(servers), servers, used, strict=True))
        offers = self._take_offers(agent, named, frozenset(reserved))
        tools = [tool for offer in offers for tool in offer.tools]
        extensions = [offer.extension for offer in offers if offer.extension]
        return tuple(sorted(tools, key=lambda one: one.name)), tuple(extensions)

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool of a server, if this turn has it."""
        route = self._routes.get((assembly.turn.agent, name))
        if route is None or name not in assembly.terms.tools:
            raise UnknownName("tool", name, ())
        try:
            result = await route.connection.call(route.original, arguments)
        except ServerError as error:
            self._tell(route.server, error)
            raise ToolFailed(f"of the server {route.server!r} there is no answer: {error}") from error
        text = read_answer(result)
        return Answer(text=text, tokens=await asyncio.to_thread(assembly.terms.meter.count, text[:100_000]))

    def _use(self, server: Server) -> Used:
        """Take a server into use, and ask what it offers unless that is known or was asked a moment ago."""
        used = self._used.setdefault(make_key(server), Used(Connection(server, self._environ, self._times)))
        idle = used.asking is None or used.asking.done()
        if used.listing is None and idle and (not used.fault or self._clock() - used.tried >= self._times.again):
            used.asking = asyncio.create_task(self._ask(used))
        return used

    async def _ask(self, used: Used) -> None:
        try:
            used.listing = await used.connection.list()
            used.fault = ""
        except ServerError as error:
            used.fault, used.tried = str(error), self._clock()
            self._tell(next(name_servers((used.connection.server,))), error)

    def _take_offers(
        self, agent: str, named: Sequence[tuple[str, Server, Used]], reserved: frozenset[str]
    ) -> tuple[Offer, ...]:
        """Take what the servers of an agent offer; asked again it is the very same, so that prompts are remembered."""
        taken, offers = set(reserved), []
        for name, server, used in named:
            if used.listing is None:
                continue
            # Servers that share a process may still be given to agents on other terms.
            key = (name, server.trust, server.confirm, server.tools, frozenset(taken))
            if key not in used.offers:
                used.offers[key] = make_offer(name, server, used.listing, taken)
                for fault in used.offers[key].faults:
                    self._tell(name, ServerError(fault))
            offer = used.offers[key]
            taken |= offer.originals.keys()
            offers.append(offer)
            for ours, original in offer.originals.items():
                self._routes[agent, ours] = Route(connection=used.connection, server=name, original=original)
        return tuple(offers)

    def _tell(self, server: str, error: ServerError) -> None:
        told = "; ".join(filter(None, (str(error), error.details)))
        Trace(self._recorder, NOBODY).tell(EventType.TOOL_ERROR, level=Level.WARN, server=server, error=told)

    def runs(self, agent: str, name: str) -> bool:
        """Whether a tool of an agent is one of a server."""
        return (agent, name) in self._routes

    async def _end(self, keys: Sequence[str]) -> None:
        """End servers, all at once."""
        ending = [self._used.pop(key) for key in keys]
        for used in ending:
            if used.asking:
                used.asking.cancel()
        gone = {id(used.connection) for used in ending}
        self._routes = {key: route for key, route in self._routes.items() if id(route.connection) not in gone}
        waiting = [used.asking for used in ending if used.asking]
        await asyncio.gather(*waiting, *(used.connection.close() for used in ending), return_exceptions=True)


def make_key(server: Server) -> str:
    """Make what is equal for servers that can share a connection."""
    return json.dumps([server.command, server.url, dict(server.env), dict(server.headers), server.seconds])


def list_keys(config: Config) -> Collection[str]:
    """List the servers that a configuration names."""
    return {make_key(server) for agent in config.agents.values() for server in agent.mcp}
