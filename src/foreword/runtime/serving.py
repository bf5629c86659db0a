"""Servers of tools in use: which process stands behind which name, and on which terms."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from foreword.config.schema import Config, Server
from foreword.frozen import frozen
from foreword.runtime.connection import Connection, Listing
from foreword.runtime.offer import Offer, name_servers

MAX_LINKS = 500  # resources of one conversation
CAREFUL = ("never", "changes", "always")  # when a person is asked, the most careful last


class Used:
    """A server in use: its connection, what it listed, and why it does not work."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.listing: Listing | None = None
        self.fault = ""
        self.tried = 0.0
        self.asking: asyncio.Task[None] | None = None
        self.offers: dict[object, Offer] = {}
        """What was made of its lists, by the terms on which agents have it."""
        self.is_edited = False
        """Whether an edit brought it, whose owner is told if it does not start."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._calls = 0

    @property
    def is_starting(self) -> bool:
        """Whether the server has neither answered nor failed yet."""
        return self.listing is None and not self.fault

    @property
    def is_stale(self) -> bool:
        """Whether the server has said since it was last asked that its tools are others now."""
        return self.listing is not None and self.connection.changed.is_set()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Have it stay until a call is answered."""
        self._calls += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()


@frozen
class Serving:
    """A server under the name by which an agent knows it, on the terms that the owner gave it."""

    name: str
    server: Server
    used: Used


class Frozen:
    """The lists that a conversation was begun with: its tools stay what they were while a cache may hold them."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.listings: dict[str, tuple[Used, Listing]] = {}
        self.links: dict[str, Used] = {}
        """The resources that tools have linked, and who reads them."""

    def pin(self, name: str, used: Used) -> Listing | None:
        """Return the list that the conversation has of a server; the one of now if it has none."""
        known = self.listings.get(name)
        if known and known[0] is used:
            return known[1]
        if used.listing is not None:
            self.listings[name] = (used, used.listing)
        return used.listing

    def link(self, uris: Iterable[str], used: Used) -> None:
        """Remember which resources a tool has linked."""
        for uri in uris:
            self.links.pop(uri, None)
            self.links[uri] = used
        while len(self.links) > MAX_LINKS:
            del self.links[next(iter(self.links))]


@frozen
class Route:
    """Where a tool is run, and what it is called there."""

    used: Used
    server: str
    original: str
    """What the tool is called there; nothing for ours that reads its resources."""
    reader: str = ""
    """Our tool that reads the resources of the server."""


def bind(before: Server, wanted: Server) -> Server:
    """Put the stricter terms of two on a server that stays in the place of another."""
    return replace(
        before,
        trust=max(before.trust, wanted.trust),
        confirm=max(before.confirm, wanted.confirm, key=CAREFUL.index),
        tools=wanted.tools or before.tools,
    )


def make_key(server: Server) -> str:
    """Make what is equal for servers that can share a connection."""
    return json.dumps([server.command, server.url, dict(server.env), dict(server.headers), server.seconds])


def list_keys(config: Config) -> Mapping[str, Server]:
    """List the servers that a configuration names, each process once."""
    return {make_key(server): server for agent in config.agents.values() for server in agent.mcp}


def list_names(config: Config) -> Mapping[tuple[str, str], str]:
    """List which server stands behind each name by which an agent knows one."""
    return {
        (name, own): make_key(server)
        for name, agent in config.agents.items()
        for own, server in zip(name_servers(agent.mcp), agent.mcp, strict=True)
    }
