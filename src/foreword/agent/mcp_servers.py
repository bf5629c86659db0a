"""The MCP servers of a configuration: started at first use, shared by all agents, stopped with the process.

    async with McpServers(workspace, recorder, environ) as servers:
        tools, extensions = await servers.list("reid")

The tool list of a server is read when it starts, and again before the next turn after the server announces a change. A
conversation keeps its first tool list while a provider may cache it, so that its prefix does not change. A lost server
is restarted for the next call. A server that cannot be used is logged, and the agent continues without it.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from foreword.agent import mcp_tools
from foreword.agent.mcp_connection import McpConnection, McpTimeouts, ServerError, ServerListing
from foreword.agent.mcp_tools import ServerTools, name_servers
from foreword.agent.tools.arguments import check_arguments
from foreword.agent.tools.declaration import ToolRun
from foreword.assembly import Assembly
from foreword.config.schema import Config, McpServer
from foreword.errors import InputError, ToolError, UnknownName
from foreword.events.event import NO_CONTEXT, EventType, Level, Notice, NoticeFanout, NoticeTarget, Recorder
from foreword.events.tracer import Tracer
from foreword.turn import Extension, Tool, ToolAnswer
from foreword.types import frozen
from foreword.workspace import Workspace

MAX_LINKS = 500  # resources of one conversation
CONFIRM_LEVELS = ("never", "changes", "always")  # values of `confirm`, the strictest last


class RunningServer:
    """A server in use: its connection, its tool list, and its fault."""

    def __init__(self, connection: McpConnection) -> None:
        self.connection = connection
        self.listing: ServerListing | None = None
        self.fault = ""
        self.tried = 0.0
        self.listing_task: asyncio.Task[None] | None = None
        self.converted: dict[object, ServerTools] = {}
        """Offers made from its tool lists, by the settings of the agents."""
        self.is_edited = False
        """Whether a configuration edit added it; the owner is notified if it does not start."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._calls = 0

    @property
    def is_stale(self) -> bool:
        """Whether the server has announced changed tools since the last list request."""
        return self.listing is not None and self.connection.changed.is_set()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the server running until the block ends."""
        self._calls += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()


@frozen
class AgentServer:
    """A server as one agent uses it: its name and its configured settings."""

    name: str
    server: McpServer
    used: RunningServer


class PinnedTools:
    """The tool lists that a conversation started with; they stay fixed while a provider may cache them."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.listings: dict[str, tuple[RunningServer, ServerListing]] = {}
        self.links: dict[str, RunningServer] = {}
        """The server of each linked resource."""

    def pin(self, name: str, used: RunningServer) -> ServerListing | None:
        """Return the tool list that the conversation uses for a server; pin the current list if there is none."""
        known = self.listings.get(name)
        if known and known[0] is used:
            return known[1]
        if used.listing is not None:
            self.listings[name] = (used, used.listing)
        return used.listing


@frozen
class ToolRoute:
    """The server that runs a tool, and the tool's original name."""

    used: RunningServer
    server: str
    original: str
    """The tool's name on the server; empty for our tool that reads its resources."""
    reader: str = ""
    """Our tool that reads the resources of the server."""


def merge_stricter_settings(before: McpServer, wanted: McpServer) -> McpServer:
    """Return the previous server with the stricter settings of the two."""
    return replace(
        before,
        trust=max(before.trust, wanted.trust),
        confirm=max(before.confirm, wanted.confirm, key=CONFIRM_LEVELS.index),
        tools=wanted.tools or before.tools,
    )


def make_server_key(server: McpServer) -> str:
    """Return a key that is equal for servers that can share a connection."""
    return json.dumps([server.command, server.url, dict(server.env), dict(server.headers), server.seconds])


def list_servers_by_key(config: Config) -> Mapping[str, McpServer]:
    """Return the servers of a configuration by key, each process once."""
    return {make_server_key(server): server for agent in config.agents.values() for server in agent.mcp}


def list_server_names(config: Config) -> Mapping[tuple[str, str], str]:
    """Return the server key of each agent and server name."""
    return {
        (name, own): make_server_key(server)
        for name, agent in config.agents.items()
        for own, server in zip(name_servers(agent.mcp), agent.mcp, strict=True)
    }


DEFAULT_TIMEOUTS = McpTimeouts()
TOOL_CACHE_S = 3_600.0  # seconds for which a provider may cache the tools of a conversation
MAX_CONVERSATIONS = 10_000
MAX_CONVERTED = 64  # of one server

ResultReader = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""Reads the stored tool results of a session: pairs of tool name and text."""


async def read_no_results(_: str) -> Sequence[tuple[str, str]]:
    """Return no results, for use without stored history."""
    return ()


class McpServers:
    """Runs the tools of MCP servers."""

    def __init__(
        self,
        workspace: Workspace,
        recorder: Recorder,
        environ: Mapping[str, str],
        *,
        times: McpTimeouts = DEFAULT_TIMEOUTS,
        clock: Callable[[], float] = time.monotonic,
        notices: NoticeTarget | None = None,
        results: ResultReader = read_no_results,
    ) -> None:
        self._workspace = workspace
        self._recorder = recorder
        self._environ = environ
        self._times = times
        self._clock = clock
        self._notices = notices or NoticeFanout()
        self._results = results
        self._used: dict[str, RunningServer] = {}
        self._serving: dict[tuple[str, str], AgentServer] = {}
        self._routes: dict[tuple[str, str], ToolRoute] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._names: dict[tuple[str, str], str] = {}
        """The tool name prefix of a server, by agent and the server's name before it has started."""
        self._pinned: dict[str | Assembly, PinnedTools] = {}
        """The tool lists and links of sessions, and of turns without a session; the most recently used last."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for used in self._used.values():
            used.idle.set()  # stop without waiting for pending calls
        await self._end([*self._used])

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Start the servers that a configuration edit added, and stop those that it removed."""
        new = list_servers_by_key(after).keys() - list_servers_by_key(before).keys()
        if new or list_server_names(before) != list_server_names(after):
            self._start(self._apply_edit(new))
        return ()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _apply_edit(self, new: Collection[str]) -> None:
        """Start new servers, then stop those that are no longer needed."""
        servers = list_servers_by_key(self._workspace.config)
        for key in new & servers.keys():
            if key not in self._used:
                self._ensure_running(servers[key]).is_edited = True
        listing = [used.listing_task for key in new if (used := self._used.get(key)) and used.listing_task]
        await asyncio.gather(*listing, return_exceptions=True)
        await self._stop_unused()

    async def list(
        self, agent: str, reserved: Collection[str] = (), session: str = ""
    ) -> tuple[tuple[Tool, ...], tuple[Extension, ...]]:
        """Return the tools and instructions of an agent's servers; reserved tool names are not used.

        A session keeps its first tool list until it was unused for an hour.
        """
        await self._stop_unused()
        servers = self._workspace.config.agents[agent].mcp
        named = [
            AgentServer(name=name, server=server, used=self._ensure_running(server))
            for name, server in zip(name_servers(servers), servers, strict=True)
        ]
        waited = [one.used.listing_task for one in named if (agent, one.name) not in self._serving or one.used.is_stale]
        if unfinished := {task for task in waited if task and not task.done()}:
            await asyncio.wait(unfinished, timeout=self._times.listing)
        settled = [self._choose_running(agent, one) for one in named]
        pinned = self._find_pinned(session) if session else PinnedTools()
        offers = self._collect_tools(agent, settled, frozenset(reserved), pinned)
        tools = [tool for offer in offers for tool in offer.tools]
        extensions = [offer.extension for offer in offers if offer.extension]
        return tuple(sorted(tools, key=lambda one: one.name)), tuple(extensions)

    def read(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the arguments of a call; the server has the last word."""
        check_arguments(tool, arguments)
        return arguments

    async def call(self, run: ToolRun, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run one tool of a server."""
        assembly, route = run.assembly, self._routes.get((run.turn.agent, run.name))
        if route is None:
            raise UnknownName("tool", run.name, ())
        pinned = self._find_pinned(assembly.turn.session or assembly)
        try:
            with route.used.hold():
                if route.original:
                    text = await self._call_tool(route, pinned, arguments)
                else:
                    text = await self._read_resource(route, assembly, pinned, str(arguments.get("uri", "")))
        except ServerError as error:
            self._record(route.server, error)
            raise ToolError(f"server {route.server!r} did not answer: {error}") from error
        return ToolAnswer(text=text, tokens=await asyncio.to_thread(assembly.meter.count, text[:100_000]))

    async def _call_tool(self, route: ToolRoute, pinned: PinnedTools, arguments: Mapping[str, Any]) -> str:
        """Call a tool of a server, and record the resources that its answer links."""
        used = route.used
        if used.listing and route.original not in {one.name for one in used.listing.tools}:
            raise ToolError(f"the server {route.server!r} has no such tool any more")
        result = await used.connection.call(route.original, arguments)
        if route.reader:
            pinned.links |= dict.fromkeys(mcp_tools.list_links(result), used)
            for uri in list(pinned.links)[:-MAX_LINKS]:
                del pinned.links[uri]
        return mcp_tools.read_answer(result, route.reader)

    async def _read_resource(self, route: ToolRoute, assembly: Assembly, pinned: PinnedTools, uri: str) -> str:
        """Read a resource that a tool of the same server linked in the same conversation."""
        turn, line = assembly.turn, mcp_tools.render_link(route.reader, uri)
        if pinned.links.get(uri) is not route.used and turn.session:  # links in memory are lost at a restart
            for tool, text in await self._results(turn.session):
                other = self._routes.get((turn.agent, tool))
                if other and other.original and other.used is route.used and line in text.split("\n"):
                    pinned.links[uri] = route.used
                    break
        if pinned.links.get(uri) is not route.used:
            raise InputError(
                "no tool of this server has linked that resource in this conversation; call the tool that links it"
            )
        return mcp_tools.read_resource(await route.used.connection.read(uri))

    def _find_pinned(self, owner: str | Assembly) -> PinnedTools:
        """Return the tool lists and links of a session, or of a turn without a session."""
        now = self._clock()
        for name, one in list(self._pinned.items()):
            if now - one.used_at < TOOL_CACHE_S and len(self._pinned) <= MAX_CONVERSATIONS:
                break
            del self._pinned[name]
        pinned = self._pinned.pop(owner, None) or PinnedTools()
        pinned.used_at = now
        self._pinned[owner] = pinned
        return pinned

    def _ensure_running(self, server: McpServer) -> RunningServer:
        """Return a server in use; request its tool list unless it is known or was requested recently."""
        used = self._used.setdefault(
            make_server_key(server), RunningServer(McpConnection(server, self._environ, self._times))
        )
        idle = used.listing_task is None or used.listing_task.done()
        if (
            (used.listing is None or used.is_stale)
            and idle
            and (not used.fault or self._clock() - used.tried >= self._times.again)
        ):
            used.listing_task = asyncio.create_task(self._request_listing(used))
        return used

    async def _request_listing(self, used: RunningServer) -> None:
        try:
            used.listing = await used.connection.list()
            used.fault = ""
        except ServerError as error:
            used.fault, used.tried = str(error), self._clock()
            name = next(name_servers((used.connection.server,)))
            self._record(name, error, Level.ERROR if used.is_edited else Level.WARN)
            if used.is_edited:
                text = f"the MCP server {name!r} of foreword.yaml does not start: {error}; the previous one stays"
                self._notices.notify(Notice(text=text))
                used.is_edited = False

    def _choose_running(self, agent: str, wanted: AgentServer) -> AgentServer:
        """Return the server to use for a name: the wanted one if it works, else its predecessor.

        A predecessor gets the stricter of the old and the new settings.
        """
        before = self._serving.get((agent, wanted.name))
        if wanted.used.listing is None and before and before.used.listing is not None:
            return replace(wanted, used=before.used, server=merge_stricter_settings(before.server, wanted.server))
        if wanted.used.listing is not None:
            self._serving[agent, wanted.name] = wanted
        return wanted

    def _collect_tools(
        self, agent: str, named: Sequence[AgentServer], reserved: frozenset[str], pinned: PinnedTools
    ) -> tuple[ServerTools, ...]:
        """Return the offers of an agent's servers; equal offers are the same object, so that prompts stay cached."""
        taken, offers = set(reserved), []
        for one in self._find_ready(agent, named):
            listing, current = pinned.pin(one.name, one.used), one.used.listing
            if listing is None or current is None:
                continue
            name = self._choose_prefix(agent, one)
            offer = self._convert_listing(name, one, listing, taken)
            if listing is not current:
                offer = mcp_tools.add_change_note(
                    name, one.server, offer, self._convert_listing(name, one, current, taken)
                )
            taken |= {tool.name for tool in offer.tools}
            offers.append(offer)
            for tool in offer.tools:
                original = offer.originals.get(tool.name, "")
                route = ToolRoute(used=one.used, server=name, original=original, reader=offer.reader)
                self._routes[agent, tool.name] = route
        return tuple(offers)

    def _find_ready(self, agent: str, named: Sequence[AgentServer]) -> Iterator[AgentServer]:
        """Yield the servers that have answered and whose names are certain.

        Servers that report the same name are numbered in configuration order. A server without a final name therefore
        waits while an earlier one, which may report the same name, is still starting.
        """
        is_open = False
        for one in named:
            if one.used.listing is None:
                is_open |= not (one.used.fault or one.server.name)
            elif one.server.name or not is_open or (agent, one.name) in self._names:
                yield one

    def _choose_prefix(self, agent: str, one: AgentServer) -> str:
        """Return the name of a server for an agent; choose it once and keep it."""
        key = (agent, one.name)
        if key not in self._names:
            assert one.used.listing is not None
            taken = {name for (owner, _), name in self._names.items() if owner == agent}
            # A configured name is never given to another server that merely reports it.
            written = zip(name_servers(mcp := self._workspace.config.agents[agent].mcp), mcp, strict=True)
            taken |= {name for name, server in written if server.name and name != one.name}
            self._names[key] = mcp_tools.choose_server_name(one.server, one.used.listing, one.name, taken)
        return self._names[key]

    def _convert_listing(self, name: str, one: AgentServer, listing: ServerListing, taken: set[str]) -> ServerTools:
        """Make the offer of a tool list under an agent's settings, once."""
        server, known = one.server, one.used.converted
        # Agents that share a process may use it with different settings.
        key = (name, server.trust, server.confirm, server.tools, frozenset(taken), listing)
        if key not in known:
            if len(known) >= MAX_CONVERTED:
                known.clear()
            made = mcp_tools.make_server_tools(name, server, listing, taken)
            known[key] = replace(made, tools=tuple(replace(tool, function=self) for tool in made.tools))
            for fault in known[key].faults:
                self._record(name, ServerError(fault))
        return known[key]

    def _record(self, server: str, error: ServerError, level: Level = Level.WARN) -> None:
        text = "; ".join(filter(None, (str(error), error.details)))
        Tracer(self._recorder, NO_CONTEXT).emit(EventType.TOOL_ERROR, level=level, server=server, error=text)

    async def _stop_unused(self) -> None:
        """Stop servers that are no longer configured; keep one until its successor has started."""
        config = self._workspace.config
        names, wanted = list_server_names(config), list_servers_by_key(config)
        self._serving = {name: one for name, one in self._serving.items() if name in names}
        self._names = {key: name for key, name in self._names.items() if key in names}
        needed = set(wanted)
        for name, one in self._serving.items():
            following = self._used.get(names[name])
            if following is None or following.listing is None:
                needed.add(make_server_key(one.server))
        await self._end([key for key in self._used if key not in needed])

    async def _end(self, keys: Sequence[str]) -> None:
        """Stop servers concurrently; one with a pending call stops after it has answered."""
        ending = [self._used.pop(key) for key in keys]
        self._routes = {key: route for key, route in self._routes.items() if route.used not in ending}
        listing = [used.listing_task for used in ending if used.listing_task]
        for task in listing:
            task.cancel()
        idle = [used for used in ending if used.idle.is_set()]
        for used in ending:
            if used not in idle:
                self._start(self._close_when_idle(used))
        closing = [used.connection.close() for used in idle]
        await asyncio.gather(*listing, *closing, return_exceptions=True)

    async def _close_when_idle(self, used: RunningServer) -> None:
        """Stop a server after its last pending call, which has its own time limit, or when we stop."""
        try:
            await used.idle.wait()
        finally:
            await used.connection.close()
