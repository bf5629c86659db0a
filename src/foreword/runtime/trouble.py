"""What went wrong in a call of a model, in our words: a status, a wait, and whether trying again may help."""

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

PASSING = (408, 409, 425, 429)  # statuses below 500 that may pass by themselves
LONGEST = 500  # characters of a provider's own words


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
    """Find what a provider says about its refusal."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
        kind = inner.get("type") or inner.get("status") or ""
        return f"{kind}: {inner['message']}"[:LONGEST].removeprefix(": ")
    return str(body or "without a word")[:LONGEST]


def shorten(error: Exception) -> str:
    """Say an error in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:LONGEST]
