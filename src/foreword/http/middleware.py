"""The middleware in front of all routes: host, CORS, token, rate limit and body, in this order.

It adds headers to every response, answers every exception with an error and records failed requests in the log.

Request bodies: read with limits on size and time, checked to be JSON, and replayed to the application. CORS: lets web
pages of the origins in `server.cors` call the API. Allowed Host headers, which protect against DNS rebinding, and the
check of the listen address. The access policy of the API: allowed hosts, CORS origins and rate limits. Edits apply
without a restart.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, NoReturn

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foreword.config.schema import Config, HttpServer
from foreword.engine.trust import resolve_trust
from foreword.errors import InputError
from foreword.events.event import NO_CONTEXT, Context, EventType, Level, Recorder
from foreword.events.tracer import Tracer, describe_error, make_id
from foreword.gateway.channel import NotStored
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.rate_limit import RateLimiter
from foreword.http.error_responses import MAX_QUOTED_PATH_CHARS, HttpError, to_http_error
from foreword.storage.api_tokens import ApiToken, ApiTokens
from foreword.turn import Turn
from foreword.types import frozen

MAX_BODY_BYTES = 4 * 1024 * 1024  # bytes; OpenAI clients send the whole conversation with each request
MAX_DRAINED_BYTES = 4 * MAX_BODY_BYTES  # bytes read and discarded, so that the client can read the error response
DISCONNECTED_KEY = "hung_up"  # key in the request's state
BODY_TIMEOUT_S = 30.0  # seconds within which the body must arrive


@frozen
class BodyHeaders:
    """The content type and content encoding of a body, as the headers declare them."""

    kind: str = ""
    coding: str = ""


async def read_body(receive: Receive) -> bytes:
    """Read the body of a request; raise a 413 or 408 if it is too large or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                part = message.get("body", b"")
                size += len(part)
                if size <= MAX_BODY_BYTES:
                    parts.append(part)
                if not message.get("more_body") or size > MAX_DRAINED_BYTES:
                    break
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} seconds") from None
    if size > MAX_BODY_BYTES:
        raise HttpError(413, f"the body is larger than {MAX_BODY_BYTES:,} bytes")
    return b"".join(parts)


class ClientDisconnected(Exception):
    """The client disconnected before the request was complete."""


def check_json(body: bytes, declared: BodyHeaders) -> None:
    """Raise a 415 or 400 unless the body is declared as UTF-8 JSON and parses as such."""
    kind, _, options = declared.kind.lower().partition(";")
    charset = options.replace(" ", "").replace('"', "").partition("charset=")[2] or "utf-8"
    if (
        kind.strip() != "application/json"
        or charset not in ("utf-8", "utf8")
        or declared.coding not in ("", "identity")
    ):
        raise HttpError(415, "send the body as JSON: Content-Type: application/json, in UTF-8 and not compressed")
    try:
        parsed = json.loads(body.decode("utf-8"), parse_constant=reject_constant)
        if b"\\u" in body:  # an escape may be an unpaired surrogate, which is not valid text
            write_json(parsed).encode("utf-8")
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


def write_json(value: Any) -> str:
    """Write a value as compact JSON, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def replay_body(body: bytes, receive: Receive, state: dict[str, Any]) -> Receive:
    """Return a `receive` that replays the buffered body, then delegates and records a disconnect in the state."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            message = await receive()
            state[DISCONNECTED_KEY] = message["type"] == "http.disconnect"
            return message
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


ANY_ORIGIN = "*"
EXPOSED_HEADERS = (
    "X-Request-Id, X-Foreword-Session, Foreword-Client-Tools, Foreword-Held, Foreword-Housekeeping, Retry-After"
)
PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Headers": "Authorization, *",  # the star does not include Authorization
    "Access-Control-Max-Age": "600",
}


def match_origin(origin: str, allowed: Collection[str]) -> str:
    """Return the value of Access-Control-Allow-Origin for an origin; empty if the origin is not allowed."""
    if origin and ANY_ORIGIN in allowed:
        return ANY_ORIGIN
    return origin if origin in allowed else ""


def make_cors_headers(origin: str) -> dict[str, str]:
    """Make the headers that let a page of an allowed origin read the response."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED_HEADERS, "Vary": "Origin"}


def is_preflight(method: str, headers: Headers) -> bool:
    """Return whether a request is a CORS preflight."""
    return method == "OPTIONS" and "access-control-request-method" in headers


async def answer_preflight(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a preflight: allow every method of the application's routes. The request itself needs a token."""
    routes = scope["app"].state.routes
    methods = sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
    headers = {**PREFLIGHT_HEADERS, "Access-Control-Allow-Methods": ", ".join(methods)}
    await Response(status_code=204, headers=headers)(scope, receive, send)


LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound


def list_allowed_hosts(settings: HttpServer) -> frozenset[str]:
    """List the allowed hosts: loopback names, the listen address and `server.hosts`."""
    bound = () if settings.host in WILDCARD_HOSTS else (settings.host,)
    return frozenset(name.lower() for name in (*LOOPBACK_HOSTS, *bound, *settings.hosts))


def parse_host_header(header: str) -> str:
    """Return the name in a Host header without its port; empty if the header is malformed."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        return name if bracket and (not port or is_port(port)) else ""
    name, colon, port = text.partition(":")
    return name.removesuffix(".") if not colon or port.isdecimal() else ""


def is_port(text: str) -> bool:
    """Return whether a text is a colon and a port number."""
    return text.startswith(":") and text[1:].isdecimal()


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_listen_address(settings: HttpServer) -> None:
    """Raise InputError for an address reachable from other machines unless `public` is set."""
    if not settings.public and not is_loopback(settings.host):
        raise InputError(
            f"{settings.host} is reachable from other machines; to allow this, pass --public "
            "or set server.public: true in foreword.yaml"
        )


FAILURE_RATE_DIVISOR = 20  # an address may fail authentication at 1/20 of a user's rate
LIVE_SETTINGS = ("hosts", "rate", "cors")
RESTART_SETTINGS = ("host", "port", "public")  # the listen address, which needs a restart


class AccessPolicy:
    """Allowed hosts and origins, and the rate limits of users and of failed authentication."""

    def __init__(self, settings: HttpServer, config: Config) -> None:
        self._settings = settings
        self._started = self._known = config.server
        self._apply(settings)

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Apply changed hosts, origins and rates; return the changed settings that need a restart."""
        server = after.server
        changed = {
            name: getattr(server, name) for name in LIVE_SETTINGS if getattr(server, name) != getattr(self._known, name)
        }
        if changed:
            self._settings = replace(self._settings, **changed)
            self._apply(self._settings)
        self._known = server
        return [f"server.{name}" for name in RESTART_SETTINGS if getattr(server, name) != getattr(self._started, name)]

    def _apply(self, settings: HttpServer) -> None:
        self.hosts = list_allowed_hosts(settings)
        self.origins = frozenset(settings.cors)
        self.rates = RateLimiter(settings.rate)
        self.failures = RateLimiter(max(1, settings.rate // FAILURE_RATE_DIVISOR))


OPEN_PATHS = ("/healthz", "/readyz")  # the only paths that need no token
MAX_ANONYMOUS_EVENTS_PER_MINUTE = (
    60  # failed requests without a valid token that are recorded; the rest is only counted
)
REQUEST_ID_HEADER = "X-Request-Id"
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class RequestMiddleware:
    """Authenticates, limits and checks requests before they reach the application."""

    def __init__(
        self, app: ASGIApp, terms: AccessPolicy, tokens: ApiTokens, config: Callable[[], Config], recorder: Recorder
    ) -> None:
        self._app = app
        self._terms = terms
        self._tokens = tokens
        self._config = config
        self._recorder = recorder
        self._anonymous = RateLimiter(MAX_ANONYMOUS_EVENTS_PER_MINUTE)
        self._unrecorded = 0
        """Failed anonymous requests since the last recorded one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or answer it with an error."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state.pop("fault", None)
        state["request_id"] = f"req_{make_id(96)}"
        sent = ResponseSender(send, {**SECURITY_HEADERS, REQUEST_ID_HEADER: state["request_id"]})
        try:
            await self._enter(scope, receive, sent)
        except ClientDisconnected:
            return
        except Exception as error:  # noqa: BLE001 - the client gets an error response, the log gets the details
            fault = to_http_error(error, scope["path"])
            fault.more["request_id"] = state["request_id"]
            self._tell(scope, fault, error)
            if not sent.begun:
                await fault.respond()(scope, receive, sent)
        else:
            if fault := scope["state"].get("fault"):
                self._tell(scope, fault)

    async def _enter(self, scope: Scope, receive: Receive, send: "ResponseSender") -> None:
        """Check a request and pass it to the application."""
        headers = Headers(scope=scope)
        state = scope["state"]
        named = headers.getlist("host")
        if len(named) != 1 or parse_host_header(named[0]) not in self._terms.hosts:
            raise HttpError(421, "unknown Host header; the owner can add the host to server.hosts in foreword.yaml")
        if origin := match_origin(headers.get("origin", ""), self._terms.origins):
            send.headers.update(make_cors_headers(origin))
            if is_preflight(scope["method"], headers):
                await answer_preflight(scope, receive, send)
                return
        if scope["path"] not in OPEN_PATHS:
            token = self._identify(headers, scope)
            state["user"], state["token"] = token.user, token.id
            if wait := self._terms.rates.take(state["user"]):
                raise HttpError(429, f"too many requests; wait {wait:.0f} seconds", wait=wait)
        body = await read_body(receive)
        if body:
            kind = BodyHeaders(kind=headers.get("content-type", ""), coding=headers.get("content-encoding", ""))
            check_json(body, kind)
        await self._app(scope, replay_body(body, receive, state), send)

    def _identify(self, headers: Headers, scope: Scope) -> ApiToken:
        """Return the token of a request; raise a 401, or a 429 after too many failures from one address."""
        given = headers.getlist("authorization")
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.find(secret.strip() if scheme.lower() == "bearer" else "", self._config().users)
        if token is not None:
            return token
        address = (scope.get("client") or ("",))[0]
        if wait := self._terms.failures.take(address):
            raise HttpError(429, "too many requests without a valid token", wait=wait)
        raise HttpError(
            401,
            "missing or invalid token; send Authorization: Bearer TOKEN with a token from: foreword token create USER",
        )

    def _tell(self, scope: Scope, fault: HttpError, error: Exception | None = None) -> None:
        """Record a failed request in the log. Turns record their own failures; rate limits are not recorded."""
        if fault.status == 429 or "turn" in fault.more:
            return
        user = scope.get("state", {}).get("user", "")
        if not user and self._anonymous.take(""):
            self._unrecorded += 1
            return
        context = NO_CONTEXT
        if user:
            config = self._config()
            level = resolve_trust(Turn(user=user, channel=WEB_CHANNEL, situation="dm"), config).level
            context = Context(trust=level, user=user, channel=WEB_CHANNEL)
        said: dict[str, Any] = {"error": f"{fault.status} {fault.message}"}
        if not user and self._unrecorded:
            said["unrecorded"], self._unrecorded = self._unrecorded, 0
        if fault.status >= 500 and error is not None:
            said |= describe_error(error)
        is_recorded = isinstance(error, NotStored) and error.is_recorded
        Tracer(self._recorder, context).tell(
            EventType.CHANNEL_ERROR,
            level=Level.ERROR if fault.status >= 500 and not is_recorded else Level.WARN,
            status=fault.status,
            request=f"{scope['method']} {scope['path']}"[:MAX_QUOTED_PATH_CHARS],
            request_id=scope["state"]["request_id"],
            **{name: value for name, value in said.items() if name != "status"},
        )


class ResponseSender:
    """A `send` that adds the common headers and remembers whether the response has started."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send = send
        self.headers = headers
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Send one ASGI message."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers[name] = value
        await self._send(message)
