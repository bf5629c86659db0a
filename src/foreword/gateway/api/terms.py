"""The terms of the API: under which names it is reached, and how often one may ask; an edit of them holds at once."""

from collections.abc import Iterable
from dataclasses import replace

from foreword.config.schema import Config, HttpServer
from foreword.gateway.api.hosts import list_hosts
from foreword.gateway.rates import Rates

FAILURES = 20  # the part of a person's rate at which an address may try wrong tokens
BOUND = ("host", "port", "public")  # where it listens, which is settled when it starts


class Terms:
    """What every request is held to."""

    def __init__(self, settings: HttpServer, config: Config) -> None:
        self._settings = settings
        self._started = self._known = config.server
        self._apply(settings)

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Hold to other names and another rate; the address that it listens on stays until a restart."""
        server = after.server
        if (server.hosts, server.rate) != (self._known.hosts, self._known.rate):
            self._apply(replace(self._settings, hosts=server.hosts, rate=server.rate))
        self._known = server
        return [f"server.{name}" for name in BOUND if getattr(server, name) != getattr(self._started, name)]

    def _apply(self, settings: HttpServer) -> None:
        self.hosts = list_hosts(settings)
        self.rates = Rates(settings.rate)
        self.failures = Rates(max(1, settings.rate // FAILURES))
