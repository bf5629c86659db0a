"""What went wrong in a call of a model, in our words: a status, a wait, and whether trying again may help."""

import json
from collections.abc import Iterator, Mapping

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRequestTimeout,
)

from foreword.errors import ForewordError
from foreword.runtime.outcome import ProviderError
from foreword.sources.document import one_line

PASSING = (408, 409, 425, 429)  # statuses below 500 that may pass by themselves
LONGEST = 500  # characters of a provider's own words
NESTED = 6  # bodies within bodies
MESSAGES = ("message", "error", "detail", "msg")


def explain(error: Exception) -> ForewordError:
    """Explain an error of a provider or of its library; one of our own that a library has wrapped stays ours."""
    for cause in unwrap(error):
        if isinstance(cause, ForewordError):
            return cause
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        passing = status in PASSING or status >= 500
        too_long = isinstance(error, ModelContextWindowExceededError)
        return ProviderError(find_words(error), status, error.retry_after, passing=passing, too_long=too_long)
    if isinstance(error, TimeoutError | ModelRequestTimeout) or any(
        "Timeout" in type(c).__name__ for c in unwrap(error)
    ):
        return ProviderError("the provider did not answer in time", passing=True)
    if isinstance(error, ModelConnectionError) or any(is_broken(cause) for cause in unwrap(error)):
        return ProviderError(f"the connection to the provider broke: {shorten(error)}", passing=True)
    if isinstance(error, ModelAPIError):
        return ProviderError(f"the provider refused: {shorten(error)}", passing=False)
    # The words of such an error may quote the answer, and no message text belongs in the log.
    return ProviderError(f"the answer of the provider cannot be read ({type(error).__name__})", passing=False)


def unwrap(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_broken(error: BaseException) -> bool:
    """Whether an error is one of the connection."""
    import httpx2

    return isinstance(error, httpx2.TransportError | ConnectionError)


def find_words(error: ModelHTTPError) -> str:
    """Return the provider's kind of error and its message; a body without one is described and not quoted."""
    body = read_json(error.body)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    kind = (inner.get("type") or inner.get("status")) if isinstance(inner, Mapping) else ""
    words = find_message(inner) or "no message in the provider's answer"
    return f"{kind}: {words}"[:LONGEST] if isinstance(kind, str) and kind else words[:LONGEST]


def find_message(value: object, depth: int = NESTED) -> str:
    """Find the sentence in an error's body: proxies put the JSON of one error into the message of another."""
    value = read_json(value)
    if isinstance(value, str):
        return "" if value.lstrip()[:1] in ("{", "[", "<") else one_line(value)
    if isinstance(value, Mapping):
        inner = [value[name] for name in MESSAGES if name in value]
    else:
        inner = list(value) if isinstance(value, list) else []
    return next(filter(None, (find_message(one, depth - 1) for one in inner)), "") if depth else ""


def read_json(body: object) -> object:
    """Parse a text that is JSON; return anything else unchanged."""
    if not isinstance(body, str) or body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def shorten(error: Exception) -> str:
    """Say an error in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:LONGEST]
