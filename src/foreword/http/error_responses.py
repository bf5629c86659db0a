"""HTTP errors: every failure is answered in the one JSON shape that OpenAI clients know.

{"error": {"type": "not_found_error", "message": "there is no such turn", "param": null, "code": "not_found",
           "request_id": "req_2f…"}}
"""

import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from foreword.errors import BudgetError, InputError, UnknownName, suggest_name
from foreword.gateway import messages
from foreword.gateway.channel import NotStored
from foreword.gateway.messages import ShuttingDown

MAX_ERROR_MESSAGE_CHARS = 500  # characters of an error message; some messages quote the request
MAX_QUOTED_PATH_CHARS = 200  # of a request path quoted in an error or in the log
INVALID_REQUEST, SERVER_ERROR = "invalid_request_error", "server_error"


class StatusKind(NamedTuple):
    """The error type and code of an HTTP status, and its description in the OpenAPI document."""

    type: str
    code: str
    about: str


STATUS_KINDS: Mapping[int, StatusKind] = {
    400: StatusKind(INVALID_REQUEST, "bad_request", "The request does not match the schema."),
    401: StatusKind("authentication_error", "unauthorized", "The token is missing, unknown or expired."),
    402: StatusKind("budget_error", "over_budget", "A budget does not allow the turn."),
    404: StatusKind("not_found_error", "not_found", "The object does not exist or belongs to another user."),
    405: StatusKind(
        INVALID_REQUEST, "method_not_allowed", "The path does not support this method; see the Allow header."
    ),
    408: StatusKind(INVALID_REQUEST, "too_slow", "The body did not arrive in time."),
    409: StatusKind("conflict_error", "conflict", "The turn is not in a state that allows this."),
    413: StatusKind(INVALID_REQUEST, "too_large", "The body or the message is too long."),
    415: StatusKind(INVALID_REQUEST, "not_json", "The body is not declared to be JSON."),
    421: StatusKind(INVALID_REQUEST, "unknown_host", "The Host header names a host that is not configured."),
    422: StatusKind(INVALID_REQUEST, "impossible", "The request is well-formed but cannot be carried out."),
    429: StatusKind("rate_limit_error", "too_many_requests", "Too many requests; Retry-After gives the wait."),
    500: StatusKind(SERVER_ERROR, "internal", "Internal error; the log has the details."),
    502: StatusKind(SERVER_ERROR, "failed", "The turn failed; the message can be shown to the user."),
    503: StatusKind(
        SERVER_ERROR, "unavailable", "Temporarily unavailable, for example because the disk is full; try again."
    ),
}
ATTACHMENTS = "only text and images are supported; other attachments, such as audio and files, are rejected"
ONLY_TEXT = "replies are only text"
UNSUPPORTED_PARAMETERS = {
    "n": "only n=1 is supported",
    "audio": ONLY_TEXT,
    "modalities": ONLY_TEXT,
    "logprobs": "logprobs is not supported",
}
OPENAI_PREFIX = "/v1"
SESSION_HEADER = "X-Foreword-Session"
IDEMPOTENCY_HEADER = "Idempotency-Key"


class ErrorDetail(BaseModel):
    """The details of an error."""

    model_config = ConfigDict(extra="allow")
    type: str
    message: str
    param: str | None
    code: str
    request_id: str = Field(description="The id of the request, also in the X-Request-Id header and in the log.")


class ErrorAnswer(BaseModel):
    """The response body of every error."""

    error: ErrorDetail


def list_error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for errors; without statuses, for those that every route may answer."""
    listed = statuses or (400, 401, 404, 408, 413, 415, 421, 422, 429, 500, 503)
    return {status: {"model": ErrorAnswer, "description": STATUS_KINDS[status].about} for status in listed}


class HttpError(Exception):
    """An HTTP error: status, message, parameter, code, and further fields of the error."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str = "", wait: float = 0, **details: str
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.details = status, message, param, details
        self.code = code or STATUS_KINDS[status].code
        self.headers: dict[str, str] = {"Retry-After": str(math.ceil(wait))} if wait else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        elif status in (409, 502):
            self.headers["x-should-retry"] = "false"  # OpenAI's SDKs would repeat the turn and pay twice

    def to_dict(self, request_id: str) -> dict[str, Any]:
        """Return the error as JSON data."""
        is_long = len(self.message) > MAX_ERROR_MESSAGE_CHARS
        error = {
            "type": STATUS_KINDS[self.status].type,
            "message": f"{self.message[:MAX_ERROR_MESSAGE_CHARS]}…" if is_long else self.message,
            "param": self.param,
            "code": self.code,
            **self.details,
            "request_id": request_id,
        }
        return {"error": error}


def make_not_found(what: str) -> HttpError:
    """Make a 404 with the same message for missing objects and for those of other users."""
    return HttpError(404, f"there is no such {what}")


def add_error_handlers(app: FastAPI) -> None:
    """Replace the framework's error responses: the middleware answers every exception."""

    async def reraise(_: Request, error: Exception) -> NoReturn:
        raise error

    app.add_exception_handler(RequestValidationError, reraise)
    app.add_exception_handler(HTTPException, reraise)


def to_http_error(error: Exception, scope: Scope) -> HttpError:
    """Convert an exception to an HTTP error; the text of unexpected exceptions goes only to the log."""
    match error:
        case HttpError():
            converted = error
        case RequestValidationError():
            converted = convert_validation_error(error)
        case HTTPException():
            converted = convert_framework_error(error.status_code, scope)
        case InputError() | BudgetError():
            converted = convert_input_error(error, openai=scope["path"].startswith(OPENAI_PREFIX))
        case NotStored() | ShuttingDown():
            converted = HttpError(503, str(error), wait=5)
        case sqlite3.Error() | OSError():
            converted = HttpError(503, "cannot read or write the state now; try again", wait=5)
        case _:
            converted = HttpError(500, "internal error; the log has the details")
    return converted


def convert_framework_error(status: int, scope: Scope) -> HttpError:
    """Convert an error of the framework: an unknown path, a wrong method or a malformed request."""
    routes = scope["app"].state.routes
    if status == 404:
        return HttpError(404, describe_missing_path(scope["path"], {route.path for route in routes}))
    if status == 405:
        error = HttpError(405, "method not allowed; see the Allow header")
        # The framework lists only the methods of the first route that matches.
        matches = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
        error.headers["Allow"] = ", ".join(sorted({method for route in matches for method in route.methods or ()}))
        return error
    return HttpError(status if status in STATUS_KINDS else 400, "invalid request")


def describe_missing_path(path: str, paths: Iterable[str]) -> str:
    """Describe an unknown path and suggest the path that was probably meant."""
    fixed = sorted(path for path in paths if "{" not in path)
    mistakes = (f"{OPENAI_PREFIX}{path}", path.replace(OPENAI_PREFIX * 2, OPENAI_PREFIX), path.rstrip("/"))
    meant = next((other for other in mistakes if other in fixed and other != path), "")
    hint = f"; did you mean {meant!r}?" if meant else suggest_name(path, fixed)
    return f"there is no path {path[:MAX_QUOTED_PATH_CHARS]!r}{hint}"


def convert_input_error(error: InputError | BudgetError, *, openai: bool) -> HttpError:
    """Convert an input or budget error; `param` is the route's name for the wrong value."""
    session = SESSION_HEADER if openai else "session"
    status, param, code = 422, None, ""
    match error:
        case messages.NotFound():
            status, param = 404, session if error.what == "session" else None
        case UnknownName(kind="agent"):
            status, param, code = 404, "model" if openai else "agent", "model_not_found"
        case messages.KeyReused():
            param, code = IDEMPOTENCY_HEADER, "idempotency_key_reused"
        case messages.LateResults():
            status, param = 409, "messages"
        case messages.WrongSession():
            param = session
        case messages.BadMessage():
            status = 400 if error.field.startswith(("response_format", "tools", "images")) else 422
            param = "messages" if openai and error.field in ("text", "images") else error.field
    return HttpError(status, str(error), param=param, code=code)


def convert_validation_error(error: RequestValidationError) -> HttpError:
    """Convert a validation error: name the field and the problem without quoting the value."""
    first = next(iter(error.errors()), {"loc": (), "msg": "invalid value", "type": ""})
    path = find_invalid_field(first, error.body)
    where = ".".join(str(part) for part in path) or "the request"
    status = 413 if first["type"] == "string_too_long" and path[:1] in (("text",), ("messages",)) else 400
    problem = next((UNSUPPORTED_PARAMETERS[part] for part in path if part in UNSUPPORTED_PARAMETERS), first["msg"])
    return HttpError(status, f"{where}: {problem}", param=where if path else None)


def find_invalid_field(problem: Mapping[str, Any], body: Any) -> tuple[Any, ...]:
    """Return the path of the invalid field, without the type names that pydantic adds to it."""
    source, *parts = problem["loc"] or ("",)
    if source != "body":
        return tuple(parts)
    path: list[int | str] = []
    for at, part in enumerate(parts, 1):
        if (isinstance(body, dict) and part in body) or (isinstance(body, list) and part in range(len(body))):
            path.append(part)
            body = body[part]
        elif at == len(parts) and problem["type"] == "missing":
            path.append(part)
    if problem["type"] == "union_tag_invalid":
        path.append(str(problem["ctx"]["discriminator"]).strip("'"))
    return tuple(path)
