"""The stand-in as a server on the loopback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from foreword.caching.blocks import write
from foreword.standin.loopback import LoopbackServer, QuietDoor, serving
from foreword.standin.script import Breaks, Garbles, Hangs, Line, Refuses, Says
from foreword.standin.shapes import Shape, refuse
from foreword.standin.speech import Speech
from foreword.standin.stage import Received, StandIn, tell_time


class Door(QuietDoor):
    """Answers one request after the other on a connection."""

    server: "Server"

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request by the script."""
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # the caller was gone before it had said everything
            self.close_connection = True
            return
        shape, received, line, number = self.server.stand_in.receive(
            self.path.partition("?")[0], raw, dict(self.headers)
        )
        match line:
            case Refuses():
                self._send(line.status, write(refuse(shape, line)), line.retry_after)
            case Hangs():
                if line.text:
                    self._break(shape, received, self.server.stand_in.speak(received, line, number))
                self.server.stand_in.closing.wait(line.seconds)
                self.close_connection = True
            case Garbles():
                self._send(200, line.text, streamed=received.streamed)
            case Breaks():
                self._break(shape, received, self.server.stand_in.speak(received, line, number))
            case Says():
                speech = self.server.stand_in.speak(received, line, number)
                if received.streamed:
                    self._stream(shape.stream(speech))
                else:
                    self._send(200, write(shape.answer(speech)))

    def _send(self, status: int, text: str, wait: float | None = None, *, streamed: bool = False) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if wait is not None:
            self.send_header("Retry-After", f"{wait:g}")
        self.end_headers()
        self.wfile.write(data)

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _stream(self, events: Iterator[str]) -> None:
        self._open_stream()
        for event in events:
            self._write(event)
        self.wfile.write(b"0\r\n\r\n")

    def _break(self, shape: Shape, received: Received, speech: Speech) -> None:
        """Begin an answer and go away."""
        self.close_connection = True
        if received.streamed:
            events = list(shape.stream(speech))
            self._open_stream()
            for event in events[: max(1, len(events) // 2)]:
                self._write(event)
        else:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(write(shape.answer(speech)).encode())


class Server(LoopbackServer):
    """A server with what it says."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(Door)
        self.stand_in = stand_in


@contextmanager
def listen(*lines: Line, clock: Callable[[], datetime] = tell_time) -> Iterator[StandIn]:
    """Answer requests on the loopback until the block ends."""
    stand_in = StandIn(clock)
    stand_in.follow(*lines)
    server = Server(stand_in)
    stand_in.url = server.url
    with serving(server, stand_in.closing):
        yield stand_in
