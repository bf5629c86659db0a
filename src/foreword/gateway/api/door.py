"""The door: what every request passes before a route sees it, and what every answer is given on its way out.

Host, then token, then rate, then body. What fails behind it is answered here and told to the log.
"""

from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foreword.config.schema import Config
from foreword.events.event import NOBODY, Context, EventType, Level, Recorder
from foreword.events.trace import Trace, describe_error, make_id
from foreword.gateway.api import cors
from foreword.gateway.api.body import Declared, Gone, check_json, hand_on, read_body
from foreword.gateway.api.faults import MAX_PATH_CHARS, Fault, translate
from foreword.gateway.api.hosts import read_host
from foreword.gateway.api.terms import Terms
from foreword.gateway.channel import NotKept
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.rates import Rates
from foreword.gateway.tokens import Token, Tokens
from foreword.trust import resolve
from foreword.turn import Turn

OPEN = ("/healthz", "/readyz")  # the only paths that need no token
ANONYMOUS_PER_MINUTE = 60  # failed requests without a good token that are recorded; the others are counted
REQUEST_ID = "X-Request-Id"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Door:
    """Stands before an application."""

    def __init__(
        self, app: ASGIApp, terms: Terms, tokens: Tokens, config: Callable[[], Config], recorder: Recorder
    ) -> None:
        self._app = app
        self._terms = terms
        self._tokens = tokens
        self._config = config
        self._recorder = recorder
        self._anonymous = Rates(ANONYMOUS_PER_MINUTE)
        self._unrecorded = 0
        """Requests of strangers since the last recorded one that were not recorded."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state.pop("fault", None)
        state["request_id"] = f"req_{make_id(96)}"
        sent = Sent(send, {**HEADERS, REQUEST_ID: state["request_id"]})
        try:
            await self._enter(scope, receive, sent)
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked gets an answer and the log the rest
            fault = translate(error, scope["path"])
            fault.more["request_id"] = state["request_id"]
            self._tell(scope, fault, error)
            if not sent.begun:
                await fault.respond()(scope, receive, sent)
        else:
            if fault := scope["state"].get("fault"):
                self._tell(scope, fault)

    async def _enter(self, scope: Scope, receive: Receive, send: "Sent") -> None:
        """Check a request, and hand it on."""
        headers = Headers(scope=scope)
        state = scope["state"]
        named = headers.getlist("host")
        if len(named) != 1 or read_host(named[0]) not in self._terms.hosts:
            raise Fault(421, "this host is not served here; the owner can list it under server.hosts in foreword.yaml")
        if origin := self._terms.find_origin(headers.get("origin", "")):
            send.headers.update(cors.make_headers(origin))
            if cors.is_preflight(scope["method"], headers):
                await cors.answer_preflight(scope, receive, send)
                return
        if scope["path"] not in OPEN:
            token = self._identify(headers, scope)
            state["user"], state["token"] = token.user, token.id
            if wait := self._terms.rates.take(state["user"]):
                raise Fault(429, f"too many requests; wait {wait:.0f} seconds", wait=wait)
        body = await read_body(receive)
        if body:
            kind = Declared(kind=headers.get("content-type", ""), coding=headers.get("content-encoding", ""))
            check_json(body, kind)
        await self._app(scope, hand_on(body, receive, state), send)

    def _identify(self, headers: Headers, scope: Scope) -> Token:
        """Find the token of a request; a missing one is treated as a wrong one."""
        given = headers.getlist("authorization")
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.find(secret.strip() if scheme.lower() == "bearer" else "", self._config().users)
        if token is not None:
            return token
        address = (scope.get("client") or ("",))[0]
        if wait := self._terms.failures.take(address):
            raise Fault(429, "too many requests without a good token", wait=wait)
        raise Fault(
            401,
            "the token is missing or not valid; send Authorization: Bearer TOKEN, "
            "made with: foreword token create USER",
        )

    def _tell(self, scope: Scope, fault: Fault, error: Exception | None = None) -> None:
        """Record a refused or failed request; a turn records its own failure, and rate limits are not recorded."""
        if fault.status == 429 or "turn" in fault.more:
            return
        user = scope.get("state", {}).get("user", "")
        if not user and self._anonymous.take(""):
            self._unrecorded += 1
            return
        context = NOBODY
        if user:
            config = self._config()
            level = resolve(Turn(user=user, channel=CHANNEL, situation="dm"), config).level
            context = Context(trust=level, user=user, channel=CHANNEL)
        said: dict[str, Any] = {"error": f"{fault.status} {fault.message}"}
        if not user and self._unrecorded:
            said["unrecorded"], self._unrecorded = self._unrecorded, 0
        if fault.status >= 500 and error is not None:
            said |= describe_error(error)
        is_recorded = isinstance(error, NotKept) and error.is_recorded
        Trace(self._recorder, context).tell(
            EventType.CHANNEL_ERROR,
            level=Level.ERROR if fault.status >= 500 and not is_recorded else Level.WARN,
            status=fault.status,
            request=f"{scope['method']} {scope['path']}"[:MAX_PATH_CHARS],
            request_id=scope["state"]["request_id"],
            **{name: value for name, value in said.items() if name != "status"},
        )


class Sent:
    """Sends an answer with the headers that every answer has, and knows whether it has begun."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send = send
        self.headers = headers
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers[name] = value
        await self._send(message)
