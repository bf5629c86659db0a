"""The stand-in without its server: it records every request, judges it, and finds what is said to it."""

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from foreword.caching.blocks import Body, list_blocks
from foreword.caching.cache import Counted, PrefixCache
from foreword.frozen import frozen
from foreword.standin.diagnosis import diagnose, find_compared
from foreword.standin.script import Breaks, Hangs, Line, Refuses, Says
from foreword.standin.shapes import SHAPES, Shape, find_model, judge
from foreword.standin.speech import Speech
from foreword.tokens import Counter, find
from foreword.words import Vocabulary

PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "responses": "openai", "gemini": "google"}  # by shape
NAMED = {"anthropic": "msg", "responses": "resp"}  # how answers are called by those who diagnose
USUAL = Says(text="Yes.")


@frozen
class Received:
    """One request, as it came."""

    path: str
    shape: str
    raw: bytes
    headers: Mapping[str, str]
    streamed: bool
    refused: str
    """What a provider would have answered with a 400, or nothing."""
    counted: Counted = Counted()

    @property
    def body(self) -> dict[str, Any]:
        """The request as JSON, its keys in their order."""
        body: dict[str, Any] = json.loads(self.raw)
        return body


def tell_time() -> datetime:
    """Tell the time of the host."""
    return datetime.now(UTC)


class StandIn:
    """Where the stand-in listens, what it says next, and what it was sent."""

    def __init__(self, clock: Callable[[], datetime] = tell_time) -> None:
        self.url = ""
        """Its address, without a path."""
        self.requests: list[Received] = []
        self.script: list[Line] = []
        """What it does with the next requests; when nothing is left it says Yes."""
        self.choose: Callable[[Body], Line] | None = None
        """Chooses a line by the request instead, for many who ask at once."""
        self.cache = PrefixCache(clock, Counter(Vocabulary.O200K).count)
        self._count = Counter(Vocabulary.O200K).count
        self._lock = threading.Lock()
        self._answered: dict[str, Body] = {}
        self.closing = threading.Event()
        """Set when the server ends, so that nothing hangs on."""

    @property
    def body(self) -> dict[str, Any]:
        """The newest request."""
        return self.requests[-1].body

    def follow(self, *lines: Line) -> None:
        """Follow a new script."""
        with self._lock:
            self.script = list(lines)

    def receive(self, path: str, raw: bytes, headers: Mapping[str, str]) -> tuple[Shape, Received, Line, int]:
        """Record a request, and find what is done with it."""
        shape = next(shape for ending, shape in SHAPES.items() if path.endswith(ending))
        body = json.loads(raw)
        faults = "; ".join(judge(shape, body, find_model(path, body)))
        with self._lock:
            line = self._take(faults, body)
        counted = self._use(shape, path, body) if isinstance(line, Says | Breaks | Hangs) and not faults else Counted()
        received = Received(
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

    def _take(self, faults: str, body: Body) -> Line:
        if faults:
            return Refuses(status=400, message=faults)
        if self.choose:
            return self.choose(body)
        return self.script.pop(0) if self.script else USUAL

    def _use(self, shape: Shape, path: str, body: Body) -> Counted:
        """Use the cache as the provider of this shape does."""
        model, blocks = find_model(path, body), list_blocks(shape.name, body)
        return self.cache.use(model, blocks, find(f"{PROVIDERS[shape.name]}:{model}", {}).cache)

    def speak(self, received: Received, line: Says | Breaks | Hangs, number: int) -> Speech:
        """Make an answer of a line."""
        calls = line.calls if isinstance(line, Says) else ()
        body, named = received.body, NAMED.get(received.shape, "")
        with self._lock:
            diagnosis = diagnose(received.shape, body, self._answered) if named else ""
            if named and find_compared(received.shape, body) is not None:
                self._answered[f"{named}_{number}"] = body
        return Speech(
            model=find_model(received.path, received.body),
            text=line.text,
            calls=tuple((call.id or f"call_{number}_{at}", call) for at, call in enumerate(calls, 1)),
            counted=received.counted,
            out=self._count(line.text) + sum(self._count(call.name + call.written) for call in calls),
            cut=isinstance(line, Says) and line.cut,
            number=number,
            diagnosis=diagnosis,
        )
