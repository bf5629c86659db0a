"""HTTP errors: every failure is answered in the one JSON shape that OpenAI clients know.

{"error": {"type": "not_found_error", "message": "there is no such turn", "param": null, "code": "not_found",
           "request_id": "req_2f…"}}
"""

import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from foreword.errors import BudgetError, InputError, UnknownName, suggest_name
from foreword.gateway.channel import NotStored
from foreword.gateway.messages import BadMessage, KeyReused, NotFound, WrongSession
from foreword.gateway.service import ShuttingDown
from foreword.types import frozen

MAX_ERROR_MESSAGE_CHARS = 500  # characters of an error message; some messages quote the request
INVALID_REQUEST, SERVER_ERROR = "invalid_request_error", "server_error"


@frozen(eq=True)
class StatusKind:
    """The error type and code of an HTTP status, and its description in the OpenAPI document."""

    type: str
    code: str
    about: str


STATUS_KINDS: Mapping[int, StatusKind] = {
    400: StatusKind(type=INVALID_REQUEST, code="bad_request", about="The request does not match the schema."),
    401: StatusKind(
        type="authentication_error", code="unauthorized", about="The token is missing, unknown or expired."
    ),
    402: StatusKind(type="budget_error", code="over_budget", about="A budget does not allow the turn."),
    404: StatusKind(
        type="not_found_error", code="not_found", about="The object does not exist or belongs to another user."
    ),
    405: StatusKind(
        type=INVALID_REQUEST,
        code="method_not_allowed",
        about="The path does not support this method; see the Allow header.",
    ),
    408: StatusKind(type=INVALID_REQUEST, code="too_slow", about="The body did not arrive in time."),
    409: StatusKind(type="conflict_error", code="conflict", about="The turn is not in a state that allows this."),
    413: StatusKind(type=INVALID_REQUEST, code="too_large", about="The body or the message is too long."),
    415: StatusKind(type=INVALID_REQUEST, code="not_json", about="The body is not declared to be JSON."),
    421: StatusKind(
        type=INVALID_REQUEST, code="unknown_host", about="The Host header names a host that is not configured."
    ),
    422: StatusKind(
        type=INVALID_REQUEST, code="impossible", about="The request is well-formed but cannot be carried out."
    ),
    429: StatusKind(
        type="rate_limit_error", code="too_many_requests", about="Too many requests; Retry-After gives the wait."
    ),
    500: StatusKind(type=SERVER_ERROR, code="internal", about="Internal error; the log has the details."),
    502: StatusKind(type=SERVER_ERROR, code="failed", about="The turn failed; the message can be shown to the user."),
    503: StatusKind(
        type=SERVER_ERROR,
        code="unavailable",
        about="Temporarily unavailable, for example because the disk is full; try again.",
    ),
}


ONLY_TEXT = "only text is supported; attachments such as images, audio and files are rejected"
UNSUPPORTED_PARAMETERS = {
    "n": "only n=1 is supported",
    "audio": ONLY_TEXT,
    "modalities": ONLY_TEXT,
    "logprobs": "logprobs is not supported",
}
MAX_QUOTED_PATH_CHARS = 200  # of a request path quoted in an error or in the log
OPENAI_PREFIX = "/v1"
SESSION_HEADER = "X-Foreword-Session"
IDEMPOTENCY_HEADER = "Idempotency-Key"


def explain_unsupported(where: tuple[int | str, ...]) -> str:
    """Return the specific message for an unsupported parameter; empty if there is none."""
    return next(
        (UNSUPPORTED_PARAMETERS[part] for part in where if isinstance(part, str) and part in UNSUPPORTED_PARAMETERS), ""
    )


class HttpError(Exception):
    """An HTTP error: status, message, parameter and code."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str = "", **more: str | float
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
        self.code = code or STATUS_KINDS[status].code
        self.more = more
        """Further fields of the error; `wait` and `allow` become headers."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        message = (
            self.message
            if len(self.message) <= MAX_ERROR_MESSAGE_CHARS
            else f"{self.message[:MAX_ERROR_MESSAGE_CHARS]}…"
        )
        more = {name: value for name, value in self.more.items() if name not in ("wait", "allow")}
        error = {
            "type": STATUS_KINDS[self.status].type,
            "message": message,
            "param": self.param,
            "code": self.code,
            **more,
        }
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the error, such as Retry-After."""
        headers = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if "wait" in self.more:
            headers["Retry-After"] = str(math.ceil(float(self.more["wait"])))
        if allowed := self.more.get("allow"):
            headers["Allow"] = str(allowed)
        if self.status in (409, 502):
            headers["x-should-retry"] = "false"  # OpenAI's SDKs would repeat the turn and pay twice
        return headers

    def respond(self) -> JSONResponse:
        """Return the error as a response."""
        return JSONResponse(self.to_dict(), self.status, self.headers)


def make_not_found(what: str) -> HttpError:
    """Make a 404 with the same message for missing objects and for those of other users."""
    return HttpError(404, f"there is no such {what}")


def add_error_handlers(app: FastAPI) -> None:
    """Register the exception handlers, so that all errors of an application have the same shape."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        fault = to_http_error(error, request.scope["path"])
        if isinstance(error, HTTPException) and fault.status == 404:
            fault.message = describe_missing_path(request)
        if fault.status == 405:
            fault.more["allow"] = list_methods(request)
        fault.more["request_id"] = request.state.request_id
        request.state.fault, request.state.error = fault, error  # for the middleware, which records it
        return fault.respond()

    for kind in (
        HttpError,
        InputError,
        BudgetError,
        RequestValidationError,
        HTTPException,
        sqlite3.Error,
        OSError,
        Exception,
    ):
        app.add_exception_handler(kind, answer)


def list_methods(request: Request) -> str:
    """List the methods of all routes that match a path; the framework lists only those of the first."""
    known = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in known for method in getattr(route, "methods", None) or ()}))


def describe_missing_path(request: Request) -> str:
    """Describe an unknown path and suggest the path that was probably meant."""
    path = request.scope["path"]
    paths = {getattr(route, "path", "") for route in request.app.state.routes}
    known = sorted(path for path in paths if path and "{" not in path)
    moved = (
        f"{OPENAI_PREFIX}{path}",
        path.replace(OPENAI_PREFIX * 2, OPENAI_PREFIX),
        path.rstrip("/"),
    )  # common mistakes in a base URL
    meant = next((repr(other) for other in moved if other in known and other != path), "")
    hint = f"; did you mean {meant}?" if meant else suggest_name(path, known)
    return f"there is no path {path[:MAX_QUOTED_PATH_CHARS]!r}{hint}"


def describe_framework_error(status: int) -> str:
    """Return the message for an error raised by the framework."""
    known = {404: "there is no such path", 405: "method not allowed; see the Allow header"}
    return known.get(status, "invalid request")


def to_http_error(error: Exception, path: str = "") -> HttpError:
    """Convert an exception to an HTTP error; the text of unexpected exceptions goes only to the log."""
    match error:
        case HttpError():
            fault = error
        case RequestValidationError():
            fault = convert_validation_error(error)
        case HTTPException():
            status = error.status_code if error.status_code in STATUS_KINDS else 400
            fault = HttpError(status, describe_framework_error(status))
        case InputError() | BudgetError():
            fault = convert_input_error(error, openai=path.startswith(OPENAI_PREFIX))
        case NotStored() | ShuttingDown():
            fault = HttpError(503, str(error), wait=5)
        case sqlite3.Error() | OSError():
            fault = HttpError(503, "cannot read or write the state now; try again", wait=5)
        case _:
            fault = HttpError(500, "internal error; the log has the details")
    return fault


def convert_input_error(error: InputError | BudgetError, *, openai: bool) -> HttpError:
    """Convert an input or budget error; `param` is the route's name for the wrong value."""
    session = SESSION_HEADER if openai else "session"
    match error:
        case NotFound():
            fault = HttpError(404, str(error), param=session if error.what == "session" else None)
        case UnknownName(kind="agent"):
            fault = HttpError(404, str(error), param="model" if openai else "agent", code="model_not_found")
        case KeyReused():
            fault = HttpError(422, str(error), param=IDEMPOTENCY_HEADER, code="idempotency_key_reused")
        case WrongSession():
            fault = HttpError(422, str(error), param=session)
        case BadMessage(field="response_format"):
            fault = HttpError(400, str(error), param=error.field)
        case BadMessage():
            fault = HttpError(422, str(error), param="messages" if openai and error.field == "text" else error.field)
        case _:
            fault = HttpError(422, str(error))
    return fault


def convert_validation_error(error: RequestValidationError) -> HttpError:
    """Convert a validation error: name the field and the problem without quoting the value."""
    first = next(iter(error.errors()), {"loc": (), "msg": "invalid value", "type": ""})
    place = find_invalid_field(first, error.body)
    where = ".".join(str(part) for part in place) or "the request"
    status = 413 if first["type"] == "string_too_long" and place[:1] in (("text",), ("messages",)) else 400
    return HttpError(status, f"{where}: {explain_unsupported(place) or first['msg']}", param=where if place else None)


def find_invalid_field(fault: Mapping[str, Any], body: Any) -> tuple[int | str, ...]:
    """Return the path of the invalid field, without the type names that pydantic adds to it."""
    source, *parts = fault["loc"] or ("",)
    if source != "body":
        return tuple(parts)
    place: list[int | str] = []
    for at, part in enumerate(parts, 1):
        if (isinstance(body, dict) and part in body) or (isinstance(body, list) and part in range(len(body))):
            place.append(part)
            body = body[part]
        elif at == len(parts) and fault["type"] == "missing":
            place.append(part)
    if fault["type"] == "union_tag_invalid":
        place.append(str(fault["ctx"]["discriminator"]).strip("'"))
    return tuple(place)
