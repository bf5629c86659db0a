"""The stand-in of the Bot API as a server on the loopback."""

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from foreword.standin.loopback import LoopbackServer, QuietDoor, serving
from foreword.standin.telegram.bot import Flood, StandInBot
from foreword.standin.telegram.faults import Delays, Drops, Errs, Refused


class BotDoor(QuietDoor):
    """Answers one request after the other on a connection."""

    server: "BotServer"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request whose parameters are in its address."""
        self._answer({})

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request whose parameters are in its body."""
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        if len(raw) < length:  # the caller was gone before it had said everything
            self.close_connection = True
            return
        if self.headers.get_content_type() == "application/json":
            given = json.loads(raw or b"{}")
            self._answer({name: one if isinstance(one, str) else json.dumps(one) for name, one in given.items()})
        else:
            self._answer(dict(urllib.parse.parse_qsl(raw.decode(), keep_blank_values=True)))

    def _answer(self, params: dict[str, str]) -> None:
        parts = urllib.parse.urlsplit(self.path)
        params |= dict(urllib.parse.parse_qsl(parts.query))
        token, _, method = urllib.parse.unquote(parts.path).removeprefix("/bot").partition("/")
        bot = self.server.bot
        fault = bot.find_fault(method, params)
        if isinstance(fault, Delays):
            bot.closing.wait(fault.seconds)
        if isinstance(fault, Errs):
            wait = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
            self._refuse(Refused(fault.status, fault.description, **wait), fault.text)
            return
        if isinstance(fault, Drops) and not fault.done:
            self.close_connection = True
            return
        try:
            result = bot.do(token, method, params)
        except Refused as refused:
            self._refuse(refused)
            return
        if isinstance(fault, Drops):
            self.close_connection = True
        else:
            self._send(200, json.dumps({"ok": True, "result": result}))

    def _refuse(self, refused: Refused, text: str = "") -> None:
        said: dict[str, Any] = {"ok": False, "error_code": refused.status, "description": refused.description}
        if refused.parameters:
            said["parameters"] = refused.parameters
        self._send(refused.status, text or json.dumps(said))

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class BotServer(LoopbackServer):
    """A server with the bot that it is for."""

    def __init__(self, bot: StandInBot) -> None:
        super().__init__(BotDoor)
        self.bot = bot


@contextmanager
def listen_telegram(flood: Flood | None = None) -> Iterator[StandInBot]:
    """Answer a bot's requests on the loopback until the block ends; without a flood limit it may send as it likes."""
    bot = StandInBot(flood)
    server = BotServer(bot)
    bot.url = server.url
    with serving(server, bot.closing):
        yield bot
