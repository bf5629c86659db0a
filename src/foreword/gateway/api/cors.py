"""CORS: lets web pages of listed origins call the API.

No origin is let in unless `server.cors` lists it. Credentials are never allowed: a token travels in the header
Authorization, which a page has to set itself, so cookies of another page are of no use.
"""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

ANY = "*"
EXPOSED = "X-Request-Id, X-Foreword-Session, Foreword-Client-Tools, Foreword-Held, Foreword-Housekeeping, Retry-After"
PREFLIGHT = {
    "Access-Control-Allow-Headers": "Authorization, *",  # the star does not include Authorization
    "Access-Control-Max-Age": "600",
}


def find_origin(origin: str, allowed: Collection[str]) -> str:
    """Return what to answer for an origin: itself, the star, or nothing where it is not allowed."""
    if origin and ANY in allowed:
        return ANY
    return origin if origin in allowed else ""


def make_headers(origin: str) -> dict[str, str]:
    """Make the headers with which a page of an allowed origin may read the answer."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED, "Vary": "Origin"}


def is_preflight(method: str, headers: Headers) -> bool:
    """Return whether a browser asks if it may send a request."""
    return method == "OPTIONS" and "access-control-request-method" in headers


async def answer_preflight(scope: Scope, receive: Receive, send: Send) -> None:
    """Allow a request with any method that a route of the application has; the request itself needs a token."""
    routes = scope["app"].state.routes
    methods = sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
    headers = {**PREFLIGHT, "Access-Control-Allow-Methods": ", ".join(methods)}
    await Response(status_code=204, headers=headers)(scope, receive, send)
