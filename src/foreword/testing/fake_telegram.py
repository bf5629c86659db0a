"""A fake Bot API of Telegram on the loopback: pending updates, sent messages, flood limits and injected faults."""

import html
import itertools
import json
import math
import re
import threading
import time
import urllib.parse
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from foreword.testing.fixtures import LoopbackHandler, LoopbackServer, serve_in_thread
from foreword.types import frozen


@frozen
class DroppedConnection:
    """The connection closes without an answer."""

    done: bool = False
    """Whether the request is executed anyway."""


@frozen
class InjectedError:
    """The server answers with an error and does nothing."""

    status: int = 500
    description: str = "Internal Server Error"
    retry_after: int | None = None
    """The `retry_after` parameter of the error, in seconds."""
    text: str = ""
    """The whole body if it is not JSON, such as the page of a proxy."""


@frozen
class InjectedDelay:
    """The server waits some seconds, then answers normally."""

    seconds: float = 30.0


InjectedFault = DroppedConnection | InjectedError | InjectedDelay


class BotApiError(Exception):
    """An error response of the Bot API."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


TAGS_BY_ENTITY_TYPE = {
    "bold": ("b", "strong"),
    "italic": ("i", "em"),
    "underline": ("u", "ins"),
    "strikethrough": ("s", "strike", "del"),
    "spoiler": ("tg-spoiler",),
    "code": ("code",),
    "pre": ("pre",),
    "text_link": ("a",),
    "blockquote": ("blockquote",),
}
ENTITY_TYPES = {tag: kind for kind, tags in TAGS_BY_ENTITY_TYPE.items() for tag in tags}
MAX_ENTITIES = 100  # entities of one message; further ones are dropped
_PIECE = re.compile(r"<(/?)([^\s<>]*)([^<>]*)>|<|[^<]+")
_HREF = re.compile(r"""\s*href\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*""")
_LANGUAGE = re.compile(r'\s*class\s*=\s*"language-([^"]*)"\s*')
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")
Entity = dict[str, Any]


def count_utf16_units(text: str) -> int:
    """Count UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read_entities(params: Mapping[str, str]) -> tuple[str, list[Entity]]:
    """Return the text and the entities of a request."""
    text, mode = params.get("text", ""), params.get("parse_mode", "")
    if mode.lower() == "html":
        return parse_html(text)
    if mode:
        raise BotApiError(400, f"Bad Request: unsupported parse_mode: the fake supports HTML, not {mode}")
    entities = json.loads(params.get("entities") or "[]")
    for entity in entities:
        if not 0 <= entity["offset"] < entity["offset"] + entity["length"] <= count_utf16_units(text):
            raise BotApiError(400, "Bad Request: ENTITY_BOUNDS_INVALID")
    return text, entities[:MAX_ENTITIES]


def parse_html(written: str) -> tuple[str, list[Entity]]:
    """Parse HTML; tags must be known, closed and nested correctly."""
    text, opened, entities = "", list[tuple[str, Entity]](), list[Entity]()
    for piece in _PIECE.finditer(written):
        closing, name, rest = piece[1], (piece[2] or "").lower(), piece[3] or ""
        if piece[2] is None and piece[0] != "<":
            text += _ENTITY.sub(lambda found: html.unescape(found[0]), piece[0])
        elif closing:
            close_entity(name, opened, entities, count_utf16_units(text), piece.start())
        elif name not in ENTITY_TYPES:
            raise make_markup_error(f'Unsupported start tag "{name}" at byte offset {piece.start()}')
        else:
            opened.append((name, open_entity(name, rest, count_utf16_units(text))))
    if opened:
        raise make_markup_error(f'Can\'t find end tag corresponding to start tag "{opened[-1][0]}"')
    kept = [entity for entity in entities if entity["length"] and "skip" not in entity]
    return text, sorted(kept, key=lambda entity: (entity["offset"], -entity["length"]))[:MAX_ENTITIES]


def open_entity(name: str, rest: str, offset: int) -> Entity:
    """Start an entity."""
    entity: Entity = {"type": ENTITY_TYPES[name], "offset": offset, "length": 0}
    if name == "a":
        found = _HREF.fullmatch(rest)
        return entity | ({"url": html.unescape(found[1] or found[2] or found[3] or "")} if found else {"skip": True})
    if name == "code" and (language := _LANGUAGE.fullmatch(rest)):
        return entity | {"language": html.unescape(language[1])}
    return entity


def close_entity(name: str, opened: list[tuple[str, Entity]], entities: list[Entity], end: int, place: int) -> None:
    """Close the innermost open entity, which must have this name."""
    if not opened:
        raise make_markup_error(f"Unexpected end tag at byte offset {place}")
    begun, entity = opened.pop()
    if name and begun != name:
        raise make_markup_error(f'Unmatched end tag at byte offset {place}, expected "</{begun}>", found "</{name}>"')
    entity["length"] = end - entity["offset"]
    if opened and opened[-1][0] == "pre" and entity.get("language"):
        opened[-1][1]["language"] = entity["language"]  # a nested code tag sets the language of its block
        return
    entities.append(entity)


def make_markup_error(why: str) -> BotApiError:
    """Make the error for markup that cannot be parsed."""
    return BotApiError(400, f"Bad Request: can't parse entities: {why}")


MAX_TEXT_UNITS = 4_096
FIRST_MESSAGE_TIME = 1_763_208_000  # Unix time of the first message
FAKE_TOKEN = "12345678:AAF-stand-in-token-of-a-telegram-bot"  # noqa: S105 - not a real token
CONFLICT_TEXT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
Params = Mapping[str, str]
Update = dict[str, Any]


@frozen
class FloodLimits:
    """Flood limits of the bot, each as messages per seconds."""

    overall: tuple[int, float] = (30, 1.0)
    private: tuple[int, float] = (5, 4.0)
    """One message per second, with short bursts."""
    group: tuple[int, float] = (20, 60.0)


@frozen
class SentMessage:
    """A message that the bot sent, as people see it."""

    id: int
    chat: int
    text: str
    entities: tuple[Entity, ...]
    thread: int | None
    preview: bool
    """Whether links have a preview."""
    time: float
    """Monotonic time of sending."""


class FakeBot:
    """A fake bot: receives messages from people and executes the bot's requests."""

    def __init__(self, flood: FloodLimits | None = None) -> None:
        self.url = ""
        """The address without a path."""
        self.token = FAKE_TOKEN
        self.me = {"id": 12345678, "is_bot": True, "first_name": "Reid", "username": "reid_bot"}
        self.sent: list[SentMessage] = []
        self.calls: list[tuple[str, Params]] = []
        """Every complete request: its method and parameters."""
        self.faults: dict[str, list[InjectedFault]] = defaultdict(list)
        """Faults of the next requests, by method."""
        self.choose: Callable[[str, Params], InjectedFault | None] | None = None
        """Selects a fault by the request instead."""
        self.barred: dict[int, str] = {}
        """Chats that the bot was removed from, and the error there."""
        self.moved: dict[int, int] = {}
        """Groups that became supergroups, and their new ids."""
        self.kinds: dict[int, str] = {}
        """Types of chats that their ids do not show, such as `channel`."""
        self.topics: dict[int, set[int]] = {}
        """The topics of chats that are forums."""
        self.closing = threading.Event()
        """Set when the server ends, so that hanging requests end."""
        self.updates: list[Update] = []
        """Updates that the bot has not confirmed."""
        self._chats: set[int] = set()
        self._flood = flood
        self._times: dict[object, deque[float]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._ids = itertools.count(700_000_001)
        self._polls = 0
        self._changed = threading.Condition()
        self._methods: dict[str, Callable[[Params], Any]] = {
            "getme": lambda _: self.me,
            "getchat": self._get_chat,
            "getupdates": self._get_updates,
            "sendmessage": self._send,
            "sendchataction": self._act,
            "editmessagetext": self._edit,
        }

    def say(self, text: str | None = None, user: int = 1001, chat: int | None = None, **fields: Any) -> Update:
        """Send the bot a message: private, or in a group if `chat` is given; `fields` are added to the message."""
        return self.push("message", self.make_message(text, user, chat, **fields))

    def make_message(self, text: str | None, user: int = 1001, chat: int | None = None, **fields: Any) -> Update:
        """Make a message in the Bot API's format."""
        number = next(self._numbers)
        place = chat or user
        kind = "private" if place > 0 else "supergroup" if str(place).startswith("-100") else "group"
        where = {"id": place, "type": kind} | ({"first_name": f"User {user}"} if place > 0 else {"title": "Kitchen"})
        who = {"id": user, "is_bot": False, "first_name": f"User {user}"}
        message = {"message_id": number, "date": FIRST_MESSAGE_TIME + number, "chat": where, "from": who}
        return message | ({} if text is None else {"text": text}) | fields

    def push(self, kind: str, what: Any) -> Update:
        """Queue an update of any kind for the bot."""
        with self._changed:
            update = {"update_id": next(self._ids), kind: what}
            self.updates.append(update)
            if isinstance(what, dict) and isinstance(what.get("chat"), dict):
                self._chats.add(what["chat"]["id"])
            self._changed.notify_all()
        return update

    def find_fault(self, method: str, params: Params) -> InjectedFault | None:
        """Record a request, and return its fault if there is one."""
        with self._changed:
            self.calls.append((method, params))
            planned = self.faults[method.lower()]
            if planned:
                return planned.pop(0)
        return self.choose(method, params) if self.choose else None

    def do(self, token: str, method: str, params: Params) -> Any:
        """Execute a request, or raise BotApiError."""
        if ":" not in token:
            raise BotApiError(404, "Not Found")
        if token != self.token:
            raise BotApiError(401, "Unauthorized")
        if method.lower() not in self._methods:
            raise BotApiError(404, "Not Found: method not found")
        return self._methods[method.lower()](params)

    def _get_updates(self, params: Params) -> list[Update]:
        """Confirm the updates before the offset; return the next ones, or wait for them."""
        offset, limit = int(params.get("offset") or 0), int(params.get("limit") or 100)
        until = time.monotonic() + float(params.get("timeout") or 0)
        with self._changed:
            self._polls += 1
            mine = self._polls
            self._changed.notify_all()  # an earlier poll ends with a conflict
            if offset < 0:
                self.updates = self.updates[offset:]
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            while not self.updates and not self.closing.is_set() and (left := until - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.5))
                if self._polls != mine:
                    raise BotApiError(409, CONFLICT_TEXT)
            return self.updates[: max(1, min(limit, 100))]

    def _get_chat(self, params: Params) -> dict[str, Any]:
        chat = self._find_chat(params)
        return {"id": chat, "type": self.kinds.get(chat, "private" if chat > 0 else "supergroup")}

    def _find_chat(self, params: Params) -> int:
        try:
            chat = int(params.get("chat_id") or "")
        except ValueError:
            raise BotApiError(400, "Bad Request: chat_id is empty") from None
        if chat in self.moved:
            raise BotApiError(
                400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=self.moved[chat]
            )
        if chat in self.barred:
            raise BotApiError(403, self.barred[chat])
        if chat not in self._chats and chat not in self.moved.values():
            raise BotApiError(400, "Bad Request: chat not found")
        return chat

    def _send(self, params: Params) -> dict[str, Any]:
        chat = self._find_chat(params)
        text, entities = check_text(params)
        thread = int(params["message_thread_id"]) if params.get("message_thread_id") else None
        if thread and thread not in self.topics.get(chat, ()):
            raise BotApiError(400, "Bad Request: message thread not found")
        preview = not json.loads(params.get("link_preview_options") or "{}").get("is_disabled")
        with self._changed:
            self._check_flood(chat)
            number, now = next(self._numbers), time.monotonic()
            sent = SentMessage(
                id=number, chat=chat, text=text, entities=tuple(entities), thread=thread, preview=preview, time=now
            )
            self.sent.append(sent)
        return self._describe(sent)

    def _edit(self, params: Params) -> dict[str, Any]:
        chat, number = self._find_chat(params), int(params.get("message_id") or 0)
        text, entities = check_text(params)
        with self._changed:
            for place, sent in enumerate(self.sent):
                if (sent.chat, sent.id) == (chat, number):
                    if (sent.text, sent.entities) == (text, tuple(entities)):
                        raise BotApiError(400, "Bad Request: message is not modified")
                    self.sent[place] = replace(sent, text=text, entities=tuple(entities))
                    return self._describe(self.sent[place])
        raise BotApiError(400, "Bad Request: message to edit not found")

    def _act(self, params: Params) -> bool:
        self._find_chat(params)
        if not params.get("action"):
            raise BotApiError(400, "Bad Request: wrong parameter action in request")
        return True

    def _describe(self, sent: SentMessage) -> dict[str, Any]:
        return {
            "message_id": sent.id,
            "date": FIRST_MESSAGE_TIME + sent.id,
            "chat": {"id": sent.chat, "type": "private" if sent.chat > 0 else "supergroup"},
            "from": self.me,
            "text": sent.text,
            "entities": list(sent.entities),
        }

    def _check_flood(self, chat: int) -> None:
        """Raise BotApiError with `retry_after` if a flood limit is exceeded."""
        if self._flood is None:
            return
        now = time.monotonic()
        limits = {"all": self._flood.overall, chat: self._flood.private if chat > 0 else self._flood.group}
        for key, (most, seconds) in limits.items():
            times = self._times[key]
            while times and times[0] <= now - seconds:
                times.popleft()
            if len(times) >= most:
                wait = math.ceil(times[0] + seconds - now)
                raise BotApiError(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        for key in limits:
            self._times[key].append(now)


def check_text(params: Params) -> tuple[str, list[Entity]]:
    """Return the text and entities of a message; refuse an empty or too long text."""
    text, entities = read_entities(params)
    if not text.strip():
        raise BotApiError(400, "Bad Request: message text is empty")
    if count_utf16_units(text.strip()) > MAX_TEXT_UNITS:
        raise BotApiError(400, "Bad Request: message is too long")
    return text, entities


class FakeBotHandler(LoopbackHandler):
    """Handles the requests of one connection."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request with its parameters in the URL."""
        self._answer({})

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request with its parameters in the body."""
        raw = self.read_body()
        if raw is None:
            return
        if self.headers.get_content_type() == "application/json":
            given = json.loads(raw or b"{}")
            self._answer({name: part if isinstance(part, str) else json.dumps(part) for name, part in given.items()})
        else:
            self._answer(dict(urllib.parse.parse_qsl(raw.decode(), keep_blank_values=True)))

    def _answer(self, params: dict[str, str]) -> None:
        parts = urllib.parse.urlsplit(self.path)
        params |= dict(urllib.parse.parse_qsl(parts.query))
        token, _, method = urllib.parse.unquote(parts.path).removeprefix("/bot").partition("/")
        bot: FakeBot = self.server.fake
        fault = bot.find_fault(method, params)
        if isinstance(fault, InjectedDelay):
            bot.closing.wait(fault.seconds)
        if isinstance(fault, InjectedError):
            wait = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
            self._refuse(BotApiError(fault.status, fault.description, **wait), fault.text)
            return
        if isinstance(fault, DroppedConnection) and not fault.done:
            self.close_connection = True
            return
        try:
            result = bot.do(token, method, params)
        except BotApiError as error:
            self._refuse(error)
            return
        if isinstance(fault, DroppedConnection):
            self.close_connection = True
        else:
            self.send_text(200, json.dumps({"ok": True, "result": result}))

    def _refuse(self, error: BotApiError, text: str = "") -> None:
        body: dict[str, Any] = {"ok": False, "error_code": error.status, "description": error.description}
        if error.parameters:
            body["parameters"] = error.parameters
        self.send_text(error.status, text or json.dumps(body))


@contextmanager
def run_fake_telegram(flood: FloodLimits | None = None) -> Iterator[FakeBot]:
    """Run a fake Bot API on the loopback until the block ends; without `flood` there are no flood limits."""
    bot = FakeBot(flood)
    server = LoopbackServer(FakeBotHandler, bot)
    bot.url = server.url
    with serve_in_thread(server, bot.closing):
        yield bot
