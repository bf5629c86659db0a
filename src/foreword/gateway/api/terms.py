"""The terms of the API: under which names and from which origins it is reached, and how often one may ask.

An edit of them holds at once.
"""

from collections.abc import Iterable
from dataclasses import replace

from foreword.config.schema import Config, HttpServer
from foreword.gateway.api import cors
from foreword.gateway.api.hosts import list_hosts
from foreword.gateway.rates import Rates

FAILURES = 20  # the part of a person's rate at which an address may try wrong tokens
LIVE = ("hosts", "rate", "cors")
BOUND = ("host", "port", "public")  # where it listens, which is settled when it starts


class Terms:
    """What every request is held to."""

    def __init__(self, settings: HttpServer, config: Config) -> None:
        self._settings = settings
        self._started = self._known = config.server
        self._apply(settings)

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Apply changed names, origins and rate; the address that it listens on stays until a restart."""
        server = after.server
        changed = {name: getattr(server, name) for name in LIVE if getattr(server, name) != getattr(self._known, name)}
        if changed:
            self._settings = replace(self._settings, **changed)
            self._apply(self._settings)
        self._known = server
        return [f"server.{name}" for name in BOUND if getattr(server, name) != getattr(self._started, name)]

    def find_origin(self, origin: str) -> str:
        """Return what to answer for the origin of a page; nothing where it is not allowed."""
        return cors.find_origin(origin, self._origins)

    def _apply(self, settings: HttpServer) -> None:
        self.hosts = list_hosts(settings)
        self._origins = frozenset(settings.cors)
        self.rates = Rates(settings.rate)
        self.failures = Rates(max(1, settings.rate // FAILURES))
