"""What every stand-in has: a server on the loopback that many may ask at once, and that says nothing of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietDoor(BaseHTTPRequestHandler):
    """Answers one caller, and keeps the connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # small pieces would wait 40 ms each

    def handle(self) -> None:
        """Answer until the caller goes away, which is no error of ours."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LoopbackServer(ThreadingHTTPServer):
    """A server whose threads end with the process."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, door: type[QuietDoor]) -> None:
        super().__init__(("127.0.0.1", 0), door)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(server: LoopbackServer, closing: threading.Event) -> Iterator[None]:
    """Serve until the block ends; `closing` is set first, so that nothing hangs on."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="foreword-standin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
