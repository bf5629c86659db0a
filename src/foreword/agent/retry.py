"""The retry policy of model calls, and the translation of provider errors."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRequestTimeout,
)

from foreword.agent.agent_events import ProviderError
from foreword.engine.sources.documents import join_lines
from foreword.errors import ForewordError
from foreword.types import frozen

JITTER = 0.25  # maximum random extension of a delay, as a fraction of it
MAX_REQUESTED_DELAY_S = 30.0  # seconds that a provider may ask us to wait; beyond them the turn is queued


@frozen
class RetryPolicy:
    """Retry up to three times, after 1, 2 and 4 seconds, or later if the provider asks for it."""

    waits: tuple[float, ...] = (1.0, 2.0, 4.0)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def choose_delay(self, wait: float, asked: float | None) -> float | None:
        """Return the delay before the next attempt, or None if the provider asks for too long."""
        seconds = wait * (1 + JITTER * self.chance())
        if asked is None or asked <= seconds:
            return seconds
        return asked if asked <= MAX_REQUESTED_DELAY_S else None


DEFAULT_RETRY_POLICY = RetryPolicy()


TRANSIENT_STATUSES = (408, 409, 425, 429)  # transient statuses below 500
MAX_ERROR_CHARS = 500  # characters of a provider's message
MAX_ERROR_DEPTH = 6  # levels of nested error bodies
MESSAGE_KEYS = ("message", "error", "detail", "msg")


def translate_provider_error(error: Exception) -> ForewordError:
    """Convert an error of a provider or its library; unwrap a ForewordError that a library has wrapped."""
    causes = list(list_causes(error))
    if ours := next((cause for cause in causes if isinstance(cause, ForewordError)), None):
        return ours
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        passing = status in TRANSIENT_STATUSES or status >= 500
        too_long = isinstance(error, ModelContextWindowExceededError)
        return ProviderError(describe_http_error(error), status, error.retry_after, passing=passing, too_long=too_long)
    if isinstance(error, ModelRequestTimeout) or any("Timeout" in type(cause).__name__ for cause in causes):
        return ProviderError("the provider did not answer in time", passing=True)
    import httpx2

    broken = (ModelConnectionError, ConnectionError, httpx2.TransportError)
    if any(isinstance(cause, broken) for cause in causes):
        return ProviderError(f"the connection to the provider broke: {shorten_error(error)}", passing=True)
    if isinstance(error, ModelAPIError):
        return ProviderError(f"the provider refused: {shorten_error(error)}", passing=False)
    # The error text may quote the answer, and message text must not reach the log.
    return ProviderError(f"the answer of the provider cannot be read ({type(error).__name__})", passing=False)


def list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def describe_http_error(error: ModelHTTPError) -> str:
    """Return the provider's error type and message; never quote a body that has no message."""
    body = read_json(error.body)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    kind = (inner.get("type") or inner.get("status")) if isinstance(inner, Mapping) else ""
    words = find_message(inner) or "no message in the provider's answer"
    return f"{kind}: {words}"[:MAX_ERROR_CHARS] if isinstance(kind, str) and kind else words[:MAX_ERROR_CHARS]


def find_message(value: object, depth: int = MAX_ERROR_DEPTH) -> str:
    """Find the message in an error body; proxies nest the JSON of one error in the message of another."""
    value = read_json(value)
    if isinstance(value, str):
        return "" if value.lstrip()[:1] in ("{", "[", "<") else join_lines(value)
    if isinstance(value, Mapping):
        inner = [value[name] for name in MESSAGE_KEYS if name in value]
    else:
        inner = list(value) if isinstance(value, list) else []
    return next(filter(None, (find_message(one, depth - 1) for one in inner)), "") if depth else ""


def read_json(body: object) -> object:
    """Parse a JSON text; return any other value unchanged."""
    if not isinstance(body, str) or body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def shorten_error(error: Exception) -> str:
    """Describe an error in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:MAX_ERROR_CHARS]
