"""Faults: everything that can be answered instead of what was asked for, in one shape that OpenAI's clients know.

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

from foreword.errors import BudgetError, InputError, UnknownName, suggest
from foreword.frozen import frozen
from foreword.gateway.channel import NotKept
from foreword.gateway.gateway import Closing
from foreword.gateway.message import BadMessage, KeyReused, NotFound, WrongSession

LONGEST = 500  # characters of a message; some quote what was asked
INVALID, SERVER = "invalid_request_error", "server_error"


@frozen(eq=True)
class Kind:
    """What a status means here: the type and the code that programs read, and a sentence for the documentation."""

    type: str
    code: str
    about: str


KINDS: Mapping[int, Kind] = {
    400: Kind(type=INVALID, code="bad_request", about="The request does not have the documented shape."),
    401: Kind(type="authentication_error", code="unauthorized", about="The token is missing, unknown or over."),
    402: Kind(type="budget_error", code="over_budget", about="A budget does not allow the turn."),
    404: Kind(type="not_found_error", code="not_found", about="There is no such thing, or it is somebody else's."),
    405: Kind(type=INVALID, code="method_not_allowed", about="The path has other methods; see the Allow header."),
    408: Kind(type=INVALID, code="too_slow", about="The body did not come in time."),
    409: Kind(type="conflict_error", code="conflict", about="The turn is not, or no longer, in a state for this."),
    413: Kind(type=INVALID, code="too_large", about="The body or the message is too long."),
    415: Kind(type=INVALID, code="not_json", about="The body is not declared to be JSON."),
    421: Kind(type=INVALID, code="unknown_host", about="The Host header names no host that is served here."),
    422: Kind(type=INVALID, code="impossible", about="The request is well-formed, and asks for what cannot be done."),
    429: Kind(type="rate_limit_error", code="too_many_requests", about="Too many requests; Retry-After says when."),
    500: Kind(type=SERVER, code="internal", about="Something failed here; the log has the details."),
    502: Kind(type=SERVER, code="failed", about="The turn failed; the message is for the person."),
    503: Kind(type=SERVER, code="unavailable", about="It cannot be done now, such as on a full disk; try again."),
}


ONLY_TEXT = "only text is understood here; attachments such as images, audio and files are refused"
REFUSED = {
    "n": "only n=1 is supported",
    "audio": ONLY_TEXT,
    "modalities": ONLY_TEXT,
    "logprobs": "logprobs is not supported",
}
MAX_PATH_CHARS = 200  # of a path that an answer or the log repeats
OPENAI = "/v1"
SESSION = "X-Foreword-Session"
KEY = "Idempotency-Key"


def explain_refusal(where: tuple[int | str, ...]) -> str:
    """Explain why a part of a request is refused, where that takes more than its type."""
    return next((REFUSED[part] for part in where if isinstance(part, str) and part in REFUSED), "")


class Fault(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str = "", **more: str | float
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
        self.code = code or KINDS[status].code
        self.more = more
        """What else the error says; `wait` and `allow` are said by headers."""

    def to_dict(self) -> dict[str, Any]:
        """Write the fault in the one shape that errors have."""
        message = self.message if len(self.message) <= LONGEST else f"{self.message[:LONGEST]}…"
        more = {name: value for name, value in self.more.items() if name not in ("wait", "allow")}
        error = {"type": KINDS[self.status].type, "message": message, "param": self.param, "code": self.code, **more}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to it: when to try again, or how to say who one is."""
        headers = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if "wait" in self.more:
            headers["Retry-After"] = str(math.ceil(float(self.more["wait"])))
        if allowed := self.more.get("allow"):
            headers["Allow"] = str(allowed)
        if self.status in (409, 502):
            headers["x-should-retry"] = "false"  # the clients of OpenAI would make the same turn again, and pay for it
        return headers

    def respond(self) -> JSONResponse:
        """Answer with it."""
        return JSONResponse(self.to_dict(), self.status, self.headers)


def missing(what: str) -> Fault:
    """Say that something is not there, in the same words whether it is not or is somebody else's."""
    return Fault(404, f"there is no such {what}")


def add_faults(app: FastAPI) -> None:
    """Answer every error of an application in the one shape."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        fault = translate(error, request.scope["path"])
        if isinstance(error, HTTPException) and fault.status == 404:
            fault.message = describe_missing_path(request)
        if fault.status == 405:
            fault.more["allow"] = list_methods(request)
        fault.more["request_id"] = request.state.request_id
        request.state.fault, request.state.error = fault, error  # for the door, which tells the log
        return fault.respond()

    for kind in (
        Fault,
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
    """List the methods that a path knows; the framework lists those of the first route alone."""
    known = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in known for method in getattr(route, "methods", None) or ()}))


def describe_missing_path(request: Request) -> str:
    """Say that a path does not exist, and name the one that was probably meant."""
    path = request.scope["path"]
    paths = {getattr(route, "path", "") for route in request.app.state.routes}
    known = sorted(path for path in paths if path and "{" not in path)
    moved = (f"{OPENAI}{path}", path.replace(OPENAI * 2, OPENAI), path.rstrip("/"))  # common mistakes in a base URL
    meant = next((repr(other) for other in moved if other in known and other != path), "")
    hint = f"; did you mean {meant}?" if meant else suggest(path, known)
    return f"there is no path {path[:MAX_PATH_CHARS]!r}{hint}"


def describe_http(status: int) -> str:
    """Describe what the framework refuses by itself."""
    known = {404: "there is no such path", 405: "method not allowed; see the Allow header"}
    return known.get(status, "the request cannot be read")


def translate(error: Exception, path: str = "") -> Fault:
    """Translate an error into what the caller is told; the words of unexpected ones are for the log."""
    match error:
        case Fault():
            fault = error
        case RequestValidationError():
            fault = read_validation(error)
        case HTTPException():
            status = error.status_code if error.status_code in KINDS else 400
            fault = Fault(status, describe_http(status))
        case InputError() | BudgetError():
            fault = translate_input(error, openai=path.startswith(OPENAI))
        case NotKept() | Closing():
            fault = Fault(503, str(error), wait=5)
        case sqlite3.Error() | OSError():
            fault = Fault(503, "the state cannot be read or written now; try again", wait=5)
        case _:
            fault = Fault(500, "something failed here; the log has the details")
    return fault


def translate_input(error: InputError | BudgetError, *, openai: bool) -> Fault:
    """Translate what the caller can mend; `param` is the name that the route has for the value at fault."""
    session = SESSION if openai else "session"
    match error:
        case NotFound():
            fault = Fault(404, str(error), param=session if error.what == "session" else None)
        case UnknownName(kind="agent"):
            fault = Fault(404, str(error), param="model" if openai else "agent", code="model_not_found")
        case KeyReused():
            fault = Fault(422, str(error), param=KEY, code="idempotency_key_reused")
        case WrongSession():
            fault = Fault(422, str(error), param=session)
        case BadMessage(field="response_format"):
            fault = Fault(400, str(error), param=error.field)
        case BadMessage():
            fault = Fault(422, str(error), param="messages" if openai and error.field == "text" else error.field)
        case _:
            fault = Fault(422, str(error))
    return fault


def read_validation(error: RequestValidationError) -> Fault:
    """Say what does not fit, and where; what was given is not quoted."""
    first = next(iter(error.errors()), {"loc": (), "msg": "it does not fit", "type": ""})
    place = find_place(first, error.body)
    where = ".".join(str(part) for part in place) or "the request"
    status = 413 if first["type"] == "string_too_long" and place[:1] in (("text",), ("messages",)) else 400
    return Fault(status, f"{where}: {explain_refusal(place) or first['msg']}", param=where if place else None)


def find_place(fault: Mapping[str, Any], body: Any) -> tuple[int | str, ...]:
    """Find where a request does not fit; in a body the framework names its own types, too, which are no places."""
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
