"""Clocks, a recorder and workspaces for tests, and the HTTP server of the fakes."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from foreword.events.event import Event
from foreword.workspace import Workspace, open_workspace


class LoopbackHandler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    server: "LoopbackServer"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # small chunks would be delayed by 40 ms each

    def handle(self) -> None:
        """Handle requests until the client disconnects, which is not an error."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def read_body(self) -> bytes | None:
        """Read the body of a request; None if the client disconnected before its end."""
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        if len(raw) == length:
            return raw
        self.close_connection = True
        return None

    def send_text(self, status: int, text: str, **headers: str) -> None:
        """Send a complete response, by default as JSON."""
        data = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class LoopbackServer(ThreadingHTTPServer):
    """A server on the loopback for one fake; its threads end with the process."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, handler: type[LoopbackHandler], fake: Any = None) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.fake = fake

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve_in_thread(server: LoopbackServer, closing: threading.Event) -> Iterator[None]:
    """Serve until the block ends; set `closing` first, so that hanging requests end."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="foreword-fake", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class FrozenClock:
    """A clock that returns the same time until it is set."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the frozen time."""
        return self.now


class ManualClock(FrozenClock):
    """A clock that stops until it is moved."""

    def move(self, seconds: float) -> None:
        """Advance it."""
        self.now += timedelta(seconds=seconds)

    def elapsed(self) -> float:
        """Return the seconds since a fixed time in the past."""
        return (self.now - LONG_AGO).total_seconds()


class FakeRecorder:
    """A recorder that stores the events it gets."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        """Store an event."""
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        """The types of the recorded events, in order."""
        return [event.type.value for event in self.events]


def write_files(folder: str | os.PathLike[str], files: Mapping[str, str]) -> None:
    """Write texts to paths below a folder, creating folders as needed."""
    for path, text in files.items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)


def make_workspace(folder: str | os.PathLike[str], files: Mapping[str, str]) -> Workspace:
    """Write a workspace and open it at a frozen time in UTC; the default foreword.yaml has the owner alice."""
    config = "owner: alice\nusers: {alice: {trust: full}}\n"
    write_files(folder, {"foreword.yaml": config, **files})
    return open_workspace(os.fspath(folder), FrozenClock(), zone="UTC")
