"""A fake provider on the loopback: it records and validates requests, and answers them by a script."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from foreword.promptcache.rules import Body, CacheUsage, PrefixCache, list_blocks, serialize_json
from foreword.testing.fake_answers import (
    SHAPES,
    FakeAnswer,
    FakeShape,
    ScriptedDisconnect,
    ScriptedError,
    ScriptedGarbage,
    ScriptedHang,
    ScriptedReply,
    ScriptLine,
    find_request_errors,
    find_requested_model,
    write_error_body,
)
from foreword.testing.fixtures import LoopbackHandler, LoopbackServer, serve_in_thread
from foreword.testing.request_rules import diagnose_miss, find_compared_id
from foreword.tokens.count import Counter
from foreword.tokens.models import find_model
from foreword.types import Vocabulary, frozen

PROVIDERS_BY_SHAPE = {"anthropic": "anthropic", "openai": "openai", "responses": "openai", "gemini": "google"}
ID_PREFIXES = {"anthropic": "msg", "responses": "resp"}  # id prefixes of the shapes with cache diagnostics
DEFAULT_REPLY = ScriptedReply(text="Yes.")


@frozen
class ReceivedRequest:
    """One received request."""

    path: str
    shape: str
    raw: bytes
    headers: Mapping[str, str]
    streamed: bool
    refused: str
    """The errors that a provider answers with status 400; empty if the request is valid."""
    counted: CacheUsage = CacheUsage()

    @property
    def body(self) -> dict[str, Any]:
        """The parsed request, with its keys in order."""
        body: dict[str, Any] = json.loads(self.raw)
        return body


def get_time() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


class FakeProvider:
    """A fake provider: its address, its script, and the received requests."""

    def __init__(self, clock: Callable[[], datetime] = get_time) -> None:
        self.url = ""
        """The address without a path."""
        self.requests: list[ReceivedRequest] = []
        self.script: list[ScriptLine] = []
        """The answers to the next requests; when it is empty the answer is "Yes."."""
        self.choose: Callable[[Body], ScriptLine] | None = None
        """Selects a line by the request instead of the script, for concurrent clients."""
        self.cache = PrefixCache(clock, Counter(Vocabulary.O200K).count)
        self._count = Counter(Vocabulary.O200K).count
        self._lock = threading.Lock()
        self._answered: dict[str, Body] = {}
        self.closing = threading.Event()
        """Set when the server ends, so that hanging requests end."""

    @property
    def body(self) -> dict[str, Any]:
        """The body of the newest request."""
        return self.requests[-1].body

    def follow(self, *lines: ScriptLine) -> None:
        """Replace the script."""
        with self._lock:
            self.script = list(lines)

    def receive(
        self, path: str, raw: bytes, headers: Mapping[str, str]
    ) -> tuple[FakeShape, ReceivedRequest, ScriptLine, int]:
        """Record a request, and return its shape, its record, its script line and its number."""
        shape = next(shape for ending, shape in SHAPES.items() if path.endswith(ending))
        body = json.loads(raw)
        faults = "; ".join(find_request_errors(shape, body, find_requested_model(path, body)))
        with self._lock:
            line = self._take(faults, body)
        counted = (
            self._use(shape, path, body)
            if isinstance(line, ScriptedReply | ScriptedDisconnect | ScriptedHang) and not faults
            else CacheUsage()
        )
        received = ReceivedRequest(
            path=path,
            shape=shape.name,
            raw=raw,
            headers=headers,
            streamed=bool(body.get("stream")) or path.endswith(":streamGenerateContent"),
            refused=faults,
            counted=counted,
        )
        with self._lock:
            self.requests.append(received)
            number = len(self.requests)
        return shape, received, line, number

    def _take(self, faults: str, body: Body) -> ScriptLine:
        if faults:
            return ScriptedError(status=400, message=faults)
        if self.choose:
            return self.choose(body)
        return self.script.pop(0) if self.script else DEFAULT_REPLY

    def _use(self, shape: FakeShape, path: str, body: Body) -> CacheUsage:
        """Simulate the prompt cache of the provider."""
        model, blocks = find_requested_model(path, body), list_blocks(shape.name, body)
        return self.cache.use(model, blocks, find_model(f"{PROVIDERS_BY_SHAPE[shape.name]}:{model}", {}).cache)

    def make_answer(
        self, received: ReceivedRequest, line: ScriptedReply | ScriptedDisconnect | ScriptedHang, number: int
    ) -> FakeAnswer:
        """Make the answer for a script line."""
        calls = line.calls if isinstance(line, ScriptedReply) else ()
        body, named = received.body, ID_PREFIXES.get(received.shape, "")
        with self._lock:
            diagnosis = diagnose_miss(received.shape, body, self._answered) if named else ""
            if named and find_compared_id(received.shape, body) is not None:
                self._answered[f"{named}_{number}"] = body
        return FakeAnswer(
            model=find_requested_model(received.path, received.body),
            text=line.text,
            calls=tuple((call.id or f"call_{number}_{at}", call) for at, call in enumerate(calls, 1)),
            counted=received.counted,
            thought=line.thought if isinstance(line, ScriptedReply) else "",
            out=self._count(line.text) + sum(self._count(call.name + call.written) for call in calls),
            cut=isinstance(line, ScriptedReply) and line.cut,
            number=number,
            diagnosis=diagnosis,
        )


class FakeProviderHandler(LoopbackHandler):
    """Handles the requests of one connection."""

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request by the script."""
        raw, provider = self.read_body(), self.server.fake
        if raw is None:
            return
        shape, received, line, number = provider.receive(self.path.partition("?")[0], raw, dict(self.headers))
        match line:
            case ScriptedError():
                wait = {} if line.retry_after is None else {"Retry-After": f"{line.retry_after:g}"}
                self.send_text(line.status, serialize_json(write_error_body(shape, line)), **wait)
            case ScriptedHang():
                if line.text:
                    self._break(shape, received, provider.make_answer(received, line, number))
                provider.closing.wait(line.seconds)
                self.close_connection = True
            case ScriptedGarbage():
                kind = {"Content-Type": "text/event-stream"} if received.streamed else {}
                self.send_text(200, line.text, **kind)
            case ScriptedDisconnect():
                self._break(shape, received, provider.make_answer(received, line, number))
            case ScriptedReply():
                answer = provider.make_answer(received, line, number)
                if received.streamed:
                    self._stream(shape.stream(answer))
                else:
                    self.send_text(200, serialize_json(shape.answer(answer)))

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

    def _break(self, shape: FakeShape, received: ReceivedRequest, answer: FakeAnswer) -> None:
        """Start an answer, then close the connection."""
        self.close_connection = True
        if received.streamed:
            events = list(shape.stream(answer))
            self._open_stream()
            for event in events[: max(1, len(events) // 2)]:
                self._write(event)
        else:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(serialize_json(shape.answer(answer)).encode())


@contextmanager
def run_fake_provider(*lines: ScriptLine, clock: Callable[[], datetime] = get_time) -> Iterator[FakeProvider]:
    """Run a fake provider on the loopback until the block ends."""
    provider = FakeProvider(clock)
    provider.follow(*lines)
    server = LoopbackServer(FakeProviderHandler, provider)
    provider.url = server.url
    with serve_in_thread(server, provider.closing):
        yield provider
