"""The MCP servers of a configuration: started when an agent first needs them, shared by all, ended with us.

    async with Servers(workspace, recorder, environ) as servers:
        tools, extensions = await servers.list("reid")

What a server offers is asked once, so that a prompt does not move; a server that was lost is started again for the next
call. One that cannot be used is told to the log, and the agent goes on without it.

When the configuration is edited, new servers are started at once, those that are named as before stay, and the others
end as soon as nobody waits for their answer. Where an edited one does not start, the one before it stays in its place.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from foreword.assembly import Assembly
from foreword.config.schema import Config, Server
from foreword.errors import UnknownName
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.notices import Board, Notice, Notices
from foreword.events.trace import Trace
from foreword.runtime.child import ServerError, Times
from foreword.runtime.connection import Connection
from foreword.runtime.failing import ToolFailed
from foreword.runtime.offer import Offer, make_offer, name_servers, read_answer
from foreword.runtime.serving import Route, Serving, Used, bind, list_keys, list_names, make_key
from foreword.tools import Answer
from foreword.turn import Extension, Tool
from foreword.workspace import Workspace

USUAL = Times()


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
    ) -> None:
        self._workspace = workspace
        self._recorder = recorder
        self._environ = environ
        self._times = times
        self._clock = clock
        self._notices = notices or Board()
        self._used: dict[str, Used] = {}
        self._serving: dict[tuple[str, str], Serving] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: list[Used] = []

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

    async def list(self, agent: str, reserved: Collection[str] = ()) -> tuple[tuple[Tool, ...], tuple[Extension, ...]]:
        """List the tools of an agent's servers and their words; names that others have are not taken again."""
        await self._tidy()
        servers = self._workspace.config.agents[agent].mcp
        named = [
            Serving(name=name, server=server, used=self._use(server))
            for name, server in zip(name_servers(servers), servers, strict=True)
        ]
        waited = [one.used.asking for one in named if (agent, one.name) not in self._serving]
        if asking := {one for one in waited if one and not one.done()}:
            await asyncio.wait(asking, timeout=self._times.listing)
        offers = self._take_offers(agent, [self._settle(agent, one) for one in named], frozenset(reserved))
        tools = [tool for offer in offers for tool in offer.tools]
        extensions = [offer.extension for offer in offers if offer.extension]
        return tuple(sorted(tools, key=lambda one: one.name)), tuple(extensions)

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool of a server, if this turn has it."""
        route = self._routes.get((assembly.turn.agent, name))
        if route is None or name not in assembly.terms.tools:
            raise UnknownName("tool", name, ())
        try:
            with route.used.calling():
                result = await route.used.connection.call(route.original, arguments)
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

    def _take_offers(self, agent: str, named: Sequence[Serving], reserved: frozenset[str]) -> tuple[Offer, ...]:
        """Take what the servers of an agent offer; asked again it is the very same, so that prompts are remembered."""
        taken, offers = set(reserved), []
        for one in named:
            name, server, used = one.name, one.server, one.used
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
                self._routes[agent, ours] = Route(used=used, server=name, original=original)
        return tuple(offers)

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
