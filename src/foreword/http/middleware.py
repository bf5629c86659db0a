"""The middleware in front of all routes: host, CORS, token, rate limit and body, in this order.

It adds headers to every response, answers every exception with an error and records failed requests in the log.
"""

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, NoReturn

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foreword.config.schema import Config, HttpServer
from foreword.engine.trust import resolve_trust
from foreword.errors import InputError
from foreword.events.event import NO_CONTEXT, Context, EventType, Level, Recorder
from foreword.events.tracer import Tracer, describe_error, make_id
from foreword.gateway.channel import NotStored
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.http.error_responses import MAX_QUOTED_PATH_CHARS, HttpError, to_http_error
from foreword.storage.api_tokens import ApiToken, ApiTokens
from foreword.turn import Turn
from foreword.workspace import Workspace

MAX_BODY_BYTES = 4 * 1024 * 1024
# OpenAI clients send the whole conversation with each request, images included; Anthropic takes as much.
BODY_LIMITS = {"/v1/chat/completions": 32 * 1024 * 1024}
MAX_DRAINED_BYTES = 12 * 1024 * 1024  # read beyond the limit and discarded, so that the client can read the error
BODY_TIMEOUT_S = 30.0  # within which the body must arrive
DISCONNECTED_KEY = "disconnected"  # key in the request's state
MAX_BUCKETS = 10_000  # of a rate limit; the least recently used ones are dropped first
MINUTE_S = 60.0

ANY_ORIGIN = "*"
CORS_HEADERS = {
    "Access-Control-Expose-Headers": (
        "X-Request-Id, X-Foreword-Session, Foreword-Client-Tools, Foreword-Held, Foreword-Housekeeping, Retry-After"
    ),
    "Vary": "Origin",
}
PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Headers": "Authorization, *",  # the star does not include Authorization
    "Access-Control-Max-Age": "600",
}

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound
HOST_HEADER = re.compile(r"(?:\[(?P<ipv6>[^\]]*)\]|(?P<name>[^:\[]*?)\.?)(?::\d+)?")

FAILURE_RATE_DIVISOR = 20  # an address may fail authentication at 1/20 of a user's rate
LIVE_SETTINGS = ("hosts", "rate", "cors")
RESTART_SETTINGS = ("host", "port", "public")  # the listen address, which needs a restart
OPEN_PATHS = ("/healthz", "/readyz")  # the only paths that need no token
MAX_ANONYMOUS_EVENTS_PER_MINUTE = 60  # recorded failures without a valid token; the rest is only counted
REQUEST_ID_HEADER = "X-Request-Id"
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Read the body of a request; raise a 413 or 408 if it is too large or too slow."""
    parts: list[bytes] = []
    size, limit = 0, BODY_LIMITS.get(scope["path"], MAX_BODY_BYTES)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in Request(scope, receive).stream():
                size += len(part)
                if size <= limit:
                    parts.append(part)
                elif size > limit + MAX_DRAINED_BYTES:
                    break
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} seconds") from None
    if size > limit:
        raise HttpError(413, f"the body is larger than {limit:,} bytes")
    return b"".join(parts)


def check_json(body: bytes, headers: Headers) -> None:
    """Raise a 415 or 400 unless the body is declared as UTF-8 JSON and parses as such."""
    media_type, _, options = headers.get("content-type", "").lower().partition(";")
    charset = options.replace(" ", "").replace('"', "").partition("charset=")[2] or "utf-8"
    is_plain = headers.get("content-encoding", "") in ("", "identity")
    if media_type.strip() != "application/json" or charset not in ("utf-8", "utf8") or not is_plain:
        raise HttpError(415, "send the body as JSON: Content-Type: application/json, in UTF-8 and not compressed")
    try:
        parsed = json.loads(body.decode("utf-8"), parse_constant=reject_constant)
        if b"\\u" in body:  # an escape may be an unpaired surrogate, which is not valid text
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except UnicodeEncodeError:
        raise HttpError(400, r"the body contains an unpaired surrogate (\ud800 to \udfff)") from None
    except UnicodeError:
        raise HttpError(400, "the body is not UTF-8") from None
    except ValueError as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None


def reject_constant(name: str) -> NoReturn:
    """Reject NaN and the infinities, which are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


def replay_body(body: bytes, receive: Receive, state: dict[str, Any]) -> Receive:
    """Return a `receive` that replays the buffered body, then delegates and records a disconnect in the state."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            message = await receive()
            state[DISCONNECTED_KEY] = message["type"] == "http.disconnect"
            return message
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def list_allowed_hosts(settings: HttpServer) -> frozenset[str]:
    """List the allowed Host headers, which protect against DNS rebinding: loopback, our address, `server.hosts`."""
    bound = () if settings.host in WILDCARD_HOSTS else (settings.host,)
    return frozenset(name.lower() for name in (*LOOPBACK_HOSTS, *bound, *settings.hosts))


def parse_host_header(header: str) -> str:
    """Return the name in a Host header without its port; empty if the header is malformed."""
    parsed = HOST_HEADER.fullmatch(header.strip().lower())
    return (parsed["ipv6"] or parsed["name"] or "") if parsed else ""


def check_listen_address(settings: HttpServer) -> None:
    """Raise InputError for an address reachable from other machines unless `public` is set."""
    try:
        is_loopback = ip_address(settings.host).is_loopback
    except ValueError:
        is_loopback = settings.host.lower() == "localhost"
    if not settings.public and not is_loopback:
        raise InputError(
            f"{settings.host} is reachable from other machines; to allow this, pass --public "
            "or set server.public: true in foreword.yaml"
        )


class RateLimiter:
    """Token buckets by name, each with the capacity of one minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, names: int = MAX_BUCKETS) -> None:
        self._most, self._clock, self._names = float(most), clock, names
        self._levels: dict[str, tuple[float, float]] = {}
        """Fill level of each bucket, and the time of it."""

    def take(self, name: str) -> float:
        """Take one from a bucket; return 0, or the seconds to wait if it is empty."""
        now = self._clock()
        left, at = self._levels.pop(name, (self._most, now))  # the first entry is then the least recently used
        left = min(self._most, left + (now - at) * self._most / MINUTE_S)
        wait = 0.0 if left >= 1.0 else (1.0 - left) * MINUTE_S / self._most
        self._levels[name] = (left if wait else left - 1.0, now)
        if len(self._levels) > self._names:
            del self._levels[next(iter(self._levels))]
        return wait


class AccessPolicy:
    """Allowed hosts and origins, and the rate limits of users and of failed authentication."""

    def __init__(self, settings: HttpServer, config: Config) -> None:
        self._settings = settings
        self._started = self._applied = config.server
        self._apply()

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Apply changed hosts, origins and rates; return the changed settings that need a restart."""
        server = after.server
        now = {name: getattr(server, name) for name in LIVE_SETTINGS}
        if changed := {name: value for name, value in now.items() if value != getattr(self._applied, name)}:
            self._settings = replace(self._settings, **changed)
            self._apply()
        self._applied = server
        return [f"server.{name}" for name in RESTART_SETTINGS if getattr(server, name) != getattr(self._started, name)]

    def _apply(self) -> None:
        self.hosts = list_allowed_hosts(self._settings)
        self.origins = frozenset(self._settings.cors)
        self.rates = RateLimiter(self._settings.rate)
        self.failures = RateLimiter(max(1, self._settings.rate // FAILURE_RATE_DIVISOR))

    def match_origin(self, origin: str) -> str:
        """Return the value of Access-Control-Allow-Origin for an origin; empty if the origin is not allowed."""
        if origin and ANY_ORIGIN in self.origins:
            return ANY_ORIGIN
        return origin if origin in self.origins else ""


class RequestMiddleware:
    """Authenticates, limits and checks requests before they reach the application."""

    def __init__(
        self, app: ASGIApp, policy: AccessPolicy, tokens: ApiTokens, workspace: Workspace, recorder: Recorder
    ) -> None:
        self._app, self._policy, self._tokens, self._recorder = app, policy, tokens, recorder
        self._workspace = workspace
        self._anonymous = RateLimiter(MAX_ANONYMOUS_EVENTS_PER_MINUTE)
        self._unrecorded = 0
        """Failed anonymous requests since the last recorded one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or answer it with an error."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request_id = scope.setdefault("state", {})["request_id"] = f"req_{make_id(96)}"
        headers, started = {**SECURITY_HEADERS, REQUEST_ID_HEADER: request_id}, False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(headers)
            await send(message)

        try:
            await self._handle(scope, receive, send_with_headers, headers)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the client gets an error response, the log gets the details
            failure = to_http_error(error, scope)
            self._record(scope, failure, error)
            if not started:
                response = JSONResponse(failure.to_dict(request_id), failure.status, failure.headers)
                await response(scope, receive, send_with_headers)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, sent: dict[str, str]) -> None:
        """Check a request and pass it to the application; add the CORS headers to those that are sent."""
        headers, state = Headers(scope=scope), scope["state"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or parse_host_header(hosts[0]) not in self._policy.hosts:
            raise HttpError(421, "unknown Host header; the owner can add the host to server.hosts in foreword.yaml")
        if origin := self._policy.match_origin(headers.get("origin", "")):
            sent |= {"Access-Control-Allow-Origin": origin, **CORS_HEADERS}
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                # Every method of the routes is allowed: the request itself needs a token.
                methods = {method for route in scope["app"].state.routes for method in route.methods or ()}
                allowed = {**PREFLIGHT_HEADERS, "Access-Control-Allow-Methods": ", ".join(sorted(methods))}
                await Response(status_code=204, headers=allowed)(scope, receive, send)
                return
        if scope["path"] not in OPEN_PATHS:
            token = self._authenticate(headers, scope)
            state["user"], state["token"] = token.user, token.id
            if wait := self._policy.rates.take(token.user):
                raise HttpError(429, f"too many requests; wait {wait:.0f} seconds", wait=wait)
        if body := await read_body(scope, receive):
            check_json(body, headers)
        await self._app(scope, replay_body(body, receive, state), send)

    def _authenticate(self, headers: Headers, scope: Scope) -> ApiToken:
        """Return the token of a request; raise a 401, or a 429 after too many failures from one address."""
        given = headers.getlist("authorization")
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        self._workspace.refresh()
        users = self._workspace.config.users
        if token := self._tokens.find(secret.strip() if scheme.lower() == "bearer" else "", users):
            return token
        if wait := self._policy.failures.take((scope.get("client") or ("",))[0]):
            raise HttpError(429, "too many requests without a valid token", wait=wait)
        raise HttpError(
            401,
            "missing or invalid token; send Authorization: Bearer TOKEN with a token from: foreword token create USER",
        )

    def _record(self, scope: Scope, failure: HttpError, error: Exception) -> None:
        """Record a failed request in the log. Turns record their own failures; rate limits are not recorded."""
        if failure.status == 429 or "turn" in failure.details:
            return
        context = NO_CONTEXT
        details: dict[str, Any] = {"error": f"{failure.status} {failure.message}"}
        if user := scope["state"].get("user", ""):
            clearance = resolve_trust(Turn(user=user, channel=WEB_CHANNEL, situation="dm"), self._workspace.config)
            context = Context(trust=clearance.level, user=user, channel=WEB_CHANNEL)
        elif self._anonymous.take(""):
            self._unrecorded += 1
            return
        elif self._unrecorded:
            details["unrecorded"], self._unrecorded = self._unrecorded, 0
        if failure.status >= 500 and not isinstance(error, HttpError | OSError | sqlite3.Error):
            details["error"] = describe_error(error)["error"]
        is_recorded = isinstance(error, NotStored) and error.is_recorded
        Tracer(self._recorder, context).emit(
            EventType.CHANNEL_ERROR,
            level=Level.ERROR if failure.status >= 500 and not is_recorded else Level.WARN,
            status=failure.status,
            request=f"{scope['method']} {scope['path']}"[:MAX_QUOTED_PATH_CHARS],
            request_id=scope["state"]["request_id"],
            **details,
        )
