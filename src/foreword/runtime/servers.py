"""The MCP servers of a configuration: started when an agent first needs them, shared by all, ended with us.

    async with Servers(workspace, recorder, environ) as servers:
        tools, extensions = await servers.list("reid")

What a server offers is asked when it starts, and again for the next turn after it has said that its tools changed. A
conversation keeps the list that it was begun with while a cache may hold its tools, so that its prefix does not move. A
server that was lost is started again for the next call. One that cannot be used is recorded in the log, and the agent
goes on without it.

When the configuration is edited, new servers are started at once, those that are named as before stay, and the others
end as soon as nobody waits for their answer. Where an edited one does not start, the one before it stays in its place.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from foreword.assembly import Assembly
from foreword.config.schema import Config, Server
from foreword.errors import InputError, UnknownName
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.notices import Board, Notice, Notices
from foreword.events.trace import Trace
from foreword.runtime.child import ServerError, Times
from foreword.runtime.connection import Connection, Listing
from foreword.runtime.failing import ToolFailed
from foreword.runtime.offer import (
    Offer,
    choose_name,
    extend,
    list_links,
    make_offer,
    name_servers,
    read_answer,
    read_resource,
    show_link,
)
from foreword.runtime.serving import Frozen, Route, Serving, Used, bind, list_keys, list_names, make_key
from foreword.tools import Answer
from foreword.turn import Extension, Tool
from foreword.workspace import Workspace

USUAL = Times()
CACHED = 3_600.0  # seconds for which a provider may hold the tools of a conversation
MAX_CONVERSATIONS = 10_000
MAX_OFFERS = 64  # of one server

Results = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""Reads the stored results of a session: the name of each tool, and its text."""


async def read_nothing(_: str) -> Sequence[tuple[str, str]]:
    """Read no results, where no history is stored."""
    return ()


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
        notices: Notices | None = None,
        results: Results = read_nothing,
    ) -> None:
        self._workspace = workspace
        self._recorder = recorder
        self._environ = environ
        self._times = times
        self._clock = clock
        self._notices = notices or Board()
        self._results = results
        self._used: dict[str, Used] = {}
        self._serving: dict[tuple[str, str], Serving] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: list[Used] = []
        self._names: dict[tuple[str, str], str] = {}
        """What the tools of a server begin with, by agent and the name it has before it has started."""
        self._frozen: dict[str | Assembly, Frozen] = {}
        """The lists and links of sessions, and of turns without a session; the most recently used last."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end([*self._used])
        await asyncio.gather(*(used.connection.close() for used in self._leaving), return_exceptions=True)

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Start the servers that an edit brought, and end those that it took away."""
        new = list_keys(after).keys() - list_keys(before).keys()
        if new or list_names(before) != list_names(after):
            self._work(self._renew(new))
        return ()

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew(self, new: Collection[str]) -> None:
        """Start new servers, and end what nobody needs any more once they are there."""
        servers = list_keys(self._workspace.config)
        for key in new & servers.keys():
            if key not in self._used:
                self._use(servers[key]).is_edited = True
        asking = [used.asking for key in new if (used := self._used.get(key)) and used.asking]
        await asyncio.gather(*asking, return_exceptions=True)
        await self._tidy()

    @property
    def faults(self) -> Mapping[str, str]:
        """Why servers of the configuration do not work, by name; a command itself may hold a secret."""
        lost = [one for one in self._used.values() if one.fault]
        return dict(
            zip(name_servers([one.connection.server for one in lost]), (one.fault for one in lost), strict=True)
        )

    async def list(
        self, agent: str, reserved: Collection[str] = (), session: str = ""
    ) -> tuple[tuple[Tool, ...], tuple[Extension, ...]]:
        """List the tools of an agent's servers and their words; names that others have are not taken again.

        A session keeps the tools that it was begun with, until it was not used for an hour.
        """
        await self._tidy()
        servers = self._workspace.config.agents[agent].mcp
        named = [
            Serving(name=name, server=server, used=self._use(server))
            for name, server in zip(name_servers(servers), servers, strict=True)
        ]
        waited = [one.used.asking for one in named if (agent, one.name) not in self._serving or one.used.is_stale]
        if asking := {one for one in waited if one and not one.done()}:
            await asyncio.wait(asking, timeout=self._times.listing)
        settled = [self._settle(agent, one) for one in named]
        frozen = self._find_frozen(session) if session else Frozen()
        offers = self._take_offers(agent, settled, frozenset(reserved), frozen)
        tools = [tool for offer in offers for tool in offer.tools]
        extensions = [offer.extension for offer in offers if offer.extension]
        return tuple(sorted(tools, key=lambda one: one.name)), tuple(extensions)

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool of a server, if this turn has it."""
        route = self._routes.get((assembly.turn.agent, name))
        if route is None or name not in assembly.terms.tools:
            raise UnknownName("tool", name, ())
        frozen = self._find_frozen(assembly.turn.session or assembly)
        try:
            with route.used.calling():
                if not route.original:
                    await self._restore_link(route, assembly, frozen, str(arguments.get("uri", "")))
                text = await self._ask_server(route, frozen, arguments)
        except ServerError as error:
            self._tell(route.server, error)
            raise ToolFailed(f"server {route.server!r} did not answer: {error}") from error
        return Answer(text=text, tokens=await asyncio.to_thread(assembly.terms.meter.count, text[:100_000]))

    async def _ask_server(self, route: Route, frozen: Frozen, arguments: Mapping[str, Any]) -> str:
        """Call a tool of a server, or read a resource that one of its tools has linked in the same conversation."""
        used = route.used
        if not route.original:
            uri = str(arguments.get("uri", ""))
            if frozen.links.get(uri) is not used:
                raise InputError(
                    "no tool of this server has linked that resource in this conversation; call the tool that links it"
                )
            return read_resource(await used.connection.read(uri))
        if used.listing and route.original not in {one.name for one in used.listing.tools}:
            raise ToolFailed(f"the server {route.server!r} has no such tool any more")
        result = await used.connection.call(route.original, arguments)
        if route.reader:
            frozen.link(list_links(result), used)
        return read_answer(result, route.reader)

    async def _restore_link(self, route: Route, assembly: Assembly, frozen: Frozen, uri: str) -> None:
        """Find a link in the stored results of the conversation: a restart forgets what is kept here."""
        turn = assembly.turn
        if not turn.session or frozen.links.get(uri) is route.used:
            return
        line = show_link(route.reader, uri)
        for tool, text in await self._results(turn.session):
            other = self._routes.get((turn.agent, tool))
            if other and other.original and other.used is route.used and line in text.split("\n"):
                frozen.link([uri], route.used)
                return

    def _find_frozen(self, owner: str | Assembly) -> Frozen:
        """Find the lists and links of a session, or of a single turn that has no session."""
        now = self._clock()
        for name, one in list(self._frozen.items()):
            if now - one.used_at < CACHED and len(self._frozen) <= MAX_CONVERSATIONS:
                break
            del self._frozen[name]
        frozen = self._frozen.pop(owner, None) or Frozen()
        frozen.used_at = now
        self._frozen[owner] = frozen
        return frozen

    def _use(self, server: Server) -> Used:
        """Take a server into use, and ask what it offers unless that is known or was asked a moment ago."""
        used = self._used.setdefault(make_key(server), Used(Connection(server, self._environ, self._times)))
        idle = used.asking is None or used.asking.done()
        if (
            (used.listing is None or used.is_stale)
            and idle
            and (not used.fault or self._clock() - used.tried >= self._times.again)
        ):
            used.asking = asyncio.create_task(self._ask(used))
        return used

    async def _ask(self, used: Used) -> None:
        try:
            used.listing = await used.connection.list()
            used.fault = ""
        except ServerError as error:
            used.fault, used.tried = str(error), self._clock()
            name = next(name_servers((used.connection.server,)))
            self._tell(name, error, Level.ERROR if used.is_edited else Level.WARN)
            if used.is_edited:
                text = f"the MCP server {name!r} of foreword.yaml does not start: {error}; what was there before stays"
                self._notices.notify(Notice(text=text))
                used.is_edited = False

    def _settle(self, agent: str, wanted: Serving) -> Serving:
        """Settle which server stands behind a name: the one that is wanted, else the one before it.

        That one keeps its place on whichever terms are the stricter, its own or those of the edit.
        """
        before = self._serving.get((agent, wanted.name))
        if wanted.used.listing is None and before and before.used.listing is not None:
            return replace(wanted, used=before.used, server=bind(before.server, wanted.server))
        if wanted.used.listing is not None:
            self._serving[agent, wanted.name] = wanted
        return wanted

    def _take_offers(
        self, agent: str, named: Sequence[Serving], reserved: frozenset[str], frozen: Frozen
    ) -> tuple[Offer, ...]:
        """Take what the servers of an agent offer; asked again it is the very same, so that prompts are remembered."""
        taken, offers = set(reserved), []
        for one in self._find_ready(agent, named):
            listing, current = frozen.pin(one.name, one.used), one.used.listing
            if listing is None or current is None:
                continue
            name = self._name(agent, one)
            offer = self._make_offer(name, one, listing, taken)
            if listing is not current:
                offer = extend(name, one.server, offer, self._make_offer(name, one, current, taken))
            taken |= {tool.name for tool in offer.tools}
            offers.append(offer)
            for tool in offer.tools:
                original = offer.originals.get(tool.name, "")
                route = Route(used=one.used, server=name, original=original, reader=offer.reader)
                self._routes[agent, tool.name] = route
        return tuple(offers)

    def _find_ready(self, agent: str, named: Sequence[Serving]) -> Iterator[Serving]:
        """Find the servers that have answered and whose names are certain.

        Servers with the same own name are numbered in the order of the configuration. So one that has no name yet waits
        while an earlier one, which may have the same own name, is still starting.
        """
        is_open = False
        for one in named:
            if one.used.listing is None:
                is_open |= one.used.is_starting and not one.server.name
            elif one.server.name or not is_open or (agent, one.name) in self._names:
                yield one

    def _name(self, agent: str, one: Serving) -> str:
        """Name a server for an agent once its own name is known; it keeps that name."""
        key = (agent, one.name)
        if key not in self._names:
            assert one.used.listing is not None
            taken = {name for (owner, _), name in self._names.items() if owner == agent}
            # A configured name is never given to a server that only calls itself so.
            written = zip(name_servers(mcp := self._workspace.config.agents[agent].mcp), mcp, strict=True)
            taken |= {name for name, server in written if server.name and name != one.name}
            self._names[key] = choose_name(one.server, one.used.listing, one.name, taken)
        return self._names[key]

    def _make_offer(self, name: str, one: Serving, listing: Listing, taken: set[str]) -> Offer:
        """Make what a list offers on the terms of an agent, once."""
        server, known = one.server, one.used.offers
        # Servers that share a process may still be given to agents on other terms.
        key = (name, server.trust, server.confirm, server.tools, frozenset(taken), listing)
        if key not in known:
            if len(known) >= MAX_OFFERS:
                known.clear()
            known[key] = make_offer(name, server, listing, taken)
            for fault in known[key].faults:
                self._tell(name, ServerError(fault))
        return known[key]

    def _tell(self, server: str, error: ServerError, level: Level = Level.WARN) -> None:
        told = "; ".join(filter(None, (str(error), error.details)))
        Trace(self._recorder, NOBODY).tell(EventType.TOOL_ERROR, level=level, server=server, error=told)

    def runs(self, agent: str, name: str) -> bool:
        """Whether a tool of an agent is one of a server."""
        return (agent, name) in self._routes

    async def _tidy(self) -> None:
        """End the servers that the configuration names no more; one stays while what follows it is not there."""
        config = self._workspace.config
        names, wanted = list_names(config), list_keys(config)
        self._serving = {name: one for name, one in self._serving.items() if name in names}
        self._names = {key: name for key, name in self._names.items() if key in names}
        needed = set(wanted)
        for name, one in self._serving.items():
            following = self._used.get(names[name])
            if following is None or following.listing is None:
                needed.add(make_key(one.server))
        await self._end([key for key in self._used if key not in needed])

    async def _end(self, keys: Sequence[str]) -> None:
        """End servers, all at once; one that somebody waits for ends when it has answered."""
        ending = [self._used.pop(key) for key in keys]
        self._routes = {key: route for key, route in self._routes.items() if route.used not in ending}
        for used in ending:
            if used.asking:
                used.asking.cancel()
            if not used.idle.is_set():
                self._leaving.append(used)
                self._work(self._leave(used))
        free = [used for used in ending if used not in self._leaving]
        waiting = [used.asking for used in free if used.asking]
        await asyncio.gather(*waiting, *(used.connection.close() for used in free), return_exceptions=True)

    async def _leave(self, used: Used) -> None:
        """End a server once its last call is answered, which has its own time."""
        await used.idle.wait()
        await used.connection.close()
        with suppress(ValueError):
            self._leaving.remove(used)
