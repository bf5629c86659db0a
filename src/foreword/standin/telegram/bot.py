"""The stand-in without its server: a bot, the updates that wait for it, and what it sent."""

import itertools
import json
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from foreword.frozen import frozen
from foreword.standin.telegram.entities import Entity, measure, read
from foreword.standin.telegram.faults import Fault, Refused

LONGEST = 4_096
BEGINNING = 1_763_208_000  # when the first message was written
TOKEN = "12345678:AAF-stand-in-token-of-a-telegram-bot"  # noqa: S105 - it opens nothing
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
Params = Mapping[str, str]
Update = dict[str, Any]


@frozen
class Flood:
    """How much the bot may send before it is told to wait: so many messages in so many seconds."""

    overall: tuple[int, float] = (30, 1.0)
    private: tuple[int, float] = (5, 4.0)
    """One in a second, where a short burst passes."""
    group: tuple[int, float] = (20, 60.0)


@frozen
class Sent:
    """A message of the bot, as people see it."""

    id: int
    chat: int
    text: str
    entities: tuple[Entity, ...]
    thread: int | None
    preview: bool
    """Whether links in it are shown with a preview."""
    time: float
    """When, by a clock that only counts."""


class StandInBot:
    """What people write to a bot, and what becomes of what it asks for."""

    def __init__(self, flood: Flood | None = None) -> None:
        self.url = ""
        """Its address, without a path."""
        self.token = TOKEN
        self.me = {"id": 12345678, "is_bot": True, "first_name": "Reid", "username": "reid_bot"}
        self.sent: list[Sent] = []
        self.calls: list[tuple[str, Params]] = []
        """Every request that came in whole: its method and what it gave."""
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        """What is done to the next requests, by their method."""
        self.choose: Callable[[str, Params], Fault | None] | None = None
        """Chooses a fault by the request instead."""
        self.barred: dict[int, str] = {}
        """Chats in which the bot is no longer, and what it is told there."""
        self.moved: dict[int, int] = {}
        """Groups that became supergroups, and their new ids."""
        self.kinds: dict[int, str] = {}
        """What chats are, where that is not to be seen by their ids, such as `channel`."""
        self.topics: dict[int, set[int]] = {}
        """The topics of chats that are forums."""
        self.closing = threading.Event()
        """Set when the server ends, so that nothing hangs on."""
        self.updates: list[Update] = []
        """Those that the bot has not confirmed."""
        self._chats: set[int] = set()
        self._flood = flood
        self._times: dict[object, deque[float]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._ids = itertools.count(700_000_001)
        self._polls = 0
        self._changed = threading.Condition()
        self._does: dict[str, Callable[[Params], Any]] = {
            "getme": lambda _: self.me,
            "getchat": self._get_chat,
            "getupdates": self._get_updates,
            "sendmessage": self._send,
            "sendchataction": self._act,
            "editmessagetext": self._edit,
        }

    def say(self, text: str | None = None, user: int = 1001, chat: int | None = None, **fields: Any) -> Update:
        """Have somebody write: in private, or in the group of a chat; further fields are those of the message."""
        return self.push("message", self.make_message(text, user, chat, **fields))

    def make_message(self, text: str | None, user: int = 1001, chat: int | None = None, **fields: Any) -> Update:
        """Make a message as the Bot API writes it."""
        number = next(self._numbers)
        place = chat or user
        kind = "private" if place > 0 else "supergroup" if str(place).startswith("-100") else "group"
        where = {"id": place, "type": kind} | ({"first_name": f"User {user}"} if place > 0 else {"title": "Kitchen"})
        who = {"id": user, "is_bot": False, "first_name": f"User {user}"}
        message = {"message_id": number, "date": BEGINNING + number, "chat": where, "from": who}
        return message | ({} if text is None else {"text": text}) | fields

    def push(self, kind: str, what: Any) -> Update:
        """Let an update of any kind wait for the bot."""
        with self._changed:
            update = {"update_id": next(self._ids), kind: what}
            self.updates.append(update)
            if isinstance(what, dict) and isinstance(what.get("chat"), dict):
                self._chats.add(what["chat"]["id"])
            self._changed.notify_all()
        return update

    def find_fault(self, method: str, params: Params) -> Fault | None:
        """Find what is done to a request instead of answering it."""
        with self._changed:
            self.calls.append((method, params))
            planned = self.faults[method.lower()]
            if planned:
                return planned.pop(0)
        return self.choose(method, params) if self.choose else None

    def do(self, token: str, method: str, params: Params) -> Any:
        """Do what was asked, or raise Refused."""
        if ":" not in token:
            raise Refused(404, "Not Found")
        if token != self.token:
            raise Refused(401, "Unauthorized")
        if method.lower() not in self._does:
            raise Refused(404, "Not Found: method not found")
        return self._does[method.lower()](params)

    def _get_updates(self, params: Params) -> list[Update]:
        """Confirm those before the offset; give the next ones, or wait for them."""
        offset, limit = int(params.get("offset") or 0), int(params.get("limit") or 100)
        until = time.monotonic() + float(params.get("timeout") or 0)
        with self._changed:
            self._polls += 1
            mine = self._polls
            self._changed.notify_all()  # whoever polled before is told that somebody else does
            if offset < 0:
                self.updates = self.updates[offset:]
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            while not self.updates and not self.closing.is_set() and (left := until - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.5))
                if self._polls != mine:
                    raise Refused(409, CONFLICT)
            return self.updates[: max(1, min(limit, 100))]

    def _get_chat(self, params: Params) -> dict[str, Any]:
        chat = self._find_chat(params)
        return {"id": chat, "type": self.kinds.get(chat, "private" if chat > 0 else "supergroup")}

    def _find_chat(self, params: Params) -> int:
        try:
            chat = int(params.get("chat_id") or "")
        except ValueError:
            raise Refused(400, "Bad Request: chat_id is empty") from None
        if chat in self.moved:
            raise Refused(
                400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=self.moved[chat]
            )
        if chat in self.barred:
            raise Refused(403, self.barred[chat])
        if chat not in self._chats and chat not in self.moved.values():
            raise Refused(400, "Bad Request: chat not found")
        return chat

    def _send(self, params: Params) -> dict[str, Any]:
        chat = self._find_chat(params)
        text, entities = check_text(params)
        thread = int(params["message_thread_id"]) if params.get("message_thread_id") else None
        if thread and thread not in self.topics.get(chat, ()):
            raise Refused(400, "Bad Request: message thread not found")
        preview = not json.loads(params.get("link_preview_options") or "{}").get("is_disabled")
        with self._changed:
            self._hold_back(chat)
            sent = Sent(
                id=next(self._numbers),
                chat=chat,
                text=text,
                entities=tuple(entities),
                thread=thread,
                preview=preview,
                time=time.monotonic(),
            )
            self.sent.append(sent)
        return self._show(sent)

    def _edit(self, params: Params) -> dict[str, Any]:
        chat, number = self._find_chat(params), int(params.get("message_id") or 0)
        text, entities = check_text(params)
        with self._changed:
            for place, sent in enumerate(self.sent):
                if (sent.chat, sent.id) == (chat, number):
                    if (sent.text, sent.entities) == (text, tuple(entities)):
                        raise Refused(400, "Bad Request: message is not modified")
                    self.sent[place] = replace(sent, text=text, entities=tuple(entities))
                    return self._show(self.sent[place])
        raise Refused(400, "Bad Request: message to edit not found")

    def _act(self, params: Params) -> bool:
        self._find_chat(params)
        if not params.get("action"):
            raise Refused(400, "Bad Request: wrong parameter action in request")
        return True

    def _show(self, sent: Sent) -> dict[str, Any]:
        kind = "private" if sent.chat > 0 else "supergroup"
        where = {"id": sent.chat, "type": kind}
        return {
            "message_id": sent.id,
            "date": BEGINNING + sent.id,
            "chat": where,
            "from": self.me,
            "text": sent.text,
            "entities": list(sent.entities),
        }

    def _hold_back(self, chat: int) -> None:
        """Refuse what comes too fast, and say how long to wait."""
        if self._flood is None:
            return
        now = time.monotonic()
        limits = {"all": self._flood.overall, chat: self._flood.private if chat > 0 else self._flood.group}
        for whose, (most, seconds) in limits.items():
            times = self._times[whose]
            while times and times[0] <= now - seconds:
                times.popleft()
            if len(times) >= most:
                wait = math.ceil(times[0] + seconds - now)
                raise Refused(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        for whose in limits:
            self._times[whose].append(now)


def check_text(params: Params) -> tuple[str, list[Entity]]:
    """Read the text of a message, which has to have one and to fit."""
    text, entities = read(params)
    if not text.strip():
        raise Refused(400, "Bad Request: message text is empty")
    if measure(text.strip()) > LONGEST:
        raise Refused(400, "Bad Request: message is too long")
    return text, entities
