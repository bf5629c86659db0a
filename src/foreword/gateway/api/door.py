"""The door: what every request passes before a route sees it, and what every answer is given on its way out.

Host, then token, then rate, then body. What fails behind it is answered here and told to the log.
"""

from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foreword.config.schema import Config
from foreword.events.event import NOBODY, Context, EventType, Level, Recorder
from foreword.events.trace import Trace, describe_error
from foreword.gateway.api.body import Declared, Gone, check_json, hand_on, read_body
from foreword.gateway.api.faults import Fault, translate
from foreword.gateway.api.hosts import read_host
from foreword.gateway.api.terms import Terms
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.tokens import Tokens
from foreword.trust import resolve
from foreword.turn import Turn

OPEN = ("/healthz", "/readyz")  # the only paths that need no token
SHOWN = 200  # characters of a path that are told to the log
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        sent = Sent(send)
        try:
            await self._enter(scope, receive, sent)
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked gets an answer and the log the rest
            fault = translate(error)
            self._tell(scope, fault, error)
            if not sent.begun:
                await fault.respond()(scope, receive, sent)
        else:
            if fault := scope["state"].get("fault"):
                self._tell(scope, fault)

    async def _enter(self, scope: Scope, receive: Receive, send: "Sent") -> None:
        """Check a request, and hand it on."""
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state.pop("fault", None)
        named = headers.getlist("host")
        if len(named) != 1 or read_host(named[0]) not in self._terms.hosts:
            raise Fault(421, "this host is not served here; the owner can list it under server.hosts in foreword.yaml")
        if scope["path"] not in OPEN:
            state["user"] = self._identify(headers, scope)
            if wait := self._terms.rates.take(state["user"]):
                raise Fault(429, f"too many requests; wait {wait:.0f} seconds", wait=wait)
        body = await read_body(receive)
        if body:
            kind = Declared(kind=headers.get("content-type", ""), coding=headers.get("content-encoding", ""))
            check_json(body, kind)
        await self._app(scope, hand_on(body, receive), send)

    def _identify(self, headers: Headers, scope: Scope) -> str:
        """Find whose token it is; one that is missing goes the same way as one that is wrong."""
        given = headers.getlist("authorization")
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.find(secret.strip() if scheme.lower() == "bearer" else "", self._config().users)
        if token is not None:
            return token.user
        address = (scope.get("client") or ("",))[0]
        if wait := self._terms.failures.take(address):
            raise Fault(429, "too many requests without a good token", wait=wait)
        raise Fault(
            401, "send a token that is good: Authorization: Bearer …; make one with: foreword token create USER"
        )

    def _tell(self, scope: Scope, fault: Fault, error: Exception | None = None) -> None:
        """Tell the log what was refused or failed; what comes too often is not told each time."""
        if fault.status == 429:
            return
        user = scope.get("state", {}).get("user", "")
        context = NOBODY
        if user:
            config = self._config()
            level = resolve(Turn(user=user, channel=CHANNEL, situation="dm"), config).level
            context = Context(trust=level, user=user, channel=CHANNEL)
        said: dict[str, Any] = {"error": f"{fault.status} {fault.message}"}
        if fault.status >= 500 and error is not None:
            said = describe_error(error)
        Trace(self._recorder, context).tell(
            EventType.CHANNEL_ERROR,
            level=Level.ERROR if fault.status >= 500 else Level.WARN,
            status=fault.status,
            request=f"{scope['method']} {scope['path']}"[:SHOWN],
            **{name: value for name, value in said.items() if name != "status"},
        )


class Sent:
    """Sends an answer with the headers that every answer has, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await self._send(message)
