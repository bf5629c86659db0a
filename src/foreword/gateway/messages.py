"""Messages as the gateway routes, checks and stores them.

The inbox stores the text of a message in one column and all other fields as JSON in another.
"""

import json
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

from foreword.agent.conversation import ImagePart
from foreword.errors import ForewordError, InputError
from foreword.turn import Client, Message
from foreword.types import Delivery, Mode, Trust, frozen


class NotFound(InputError):
    """No such session or turn, or one of another person; the message is the same for both."""

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}")
        self.what = what


class KeyReused(InputError):
    """An idempotency key was reused with a different message."""


class LateResults(InputError):
    """A client sent the results of its tools after the conversation had gone on without them."""


class WrongSession(InputError):
    """The session exists and belongs to this person, but the message cannot be part of it."""


class ShuttingDown(ForewordError):
    """The gateway is shutting down and accepts no messages."""


class BadMessage(InputError):
    """A message is invalid; `field` names the part."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


@frozen(eq=True)
class ScheduledRun:
    """A scheduled run: a message that a schedule sent, without a waiting client."""

    schedule: str
    """Id of the schedule; each schedule has its own session."""
    delivery: Delivery
    ceiling: Trust
    """The lower of the clearances of its creator and of its destination."""
    light: bool = False
    """Whether it uses the small prompt of a heartbeat and little history."""
    home: Trust | None = None
    """The person's own clearance in private, for replies that are added to their conversations."""
    late: int = 0
    """Number of missed runs that it also covers."""
    asked: str = ""
    """The text of the schedule."""


@frozen(eq=True)
class SenderIds:
    """Sender and place as the channel's ids, from which user and room can be resolved again."""

    sender: str
    place: str


@frozen(eq=True)
class ClientRequest:
    """Data of the HTTP request of a message, apart from its text."""

    id: str = ""
    """Id of the request in its response and in the log."""
    token: str = ""
    """Id of the token."""
    digest: str = ""
    """Hash of the request, without delivery options."""
    retry: bool = False
    """Whether the client marks the request as a retry."""
    streamed: bool = False
    """Whether the client streams the text, including text before tool calls."""
    client_tools: int = 0
    """Number of tools that the client sent and that the model does not see."""
    tools: str = ""
    """The client's tools that the model sees, as JSON; the client runs their calls."""
    response_format: str = ""
    """Required response format as OpenAI's JSON; empty for plain text."""


@frozen(eq=True)
class RoutedMessage:
    """An inbound message; the channel proves the sender, the text never does."""

    text: str
    user: str = ""
    channel: str = "terminal"
    agent: str = ""
    """The addressed agent; empty for the first agent of the configuration."""
    situation: str = "dm"
    room: str = ""
    session: str = ""
    """Id of its session; empty for the current session of its session key."""
    client: Client = Client()
    project: str = ""
    mode: Mode | None = None
    """Requested prompt mode; None lets the model decide."""
    cwd: str = ""
    """Working directory of a person at a terminal."""
    plan: bool | None = None
    """Whether the agent only plans; None uses the session's setting."""
    key: str = ""
    """The channel's id of the message: a message delivered twice is one turn."""
    before: tuple[Message, ...] | None = None
    """History sent by a client without a session; used to find the session, and not stored."""
    beginning: str | None = None
    """Hash of `before`; stored."""
    continued: str = ""
    """Hash of the conversation up to the calls of client tools with whose results the turn continues."""
    resumed: str = ""
    """The time of these results."""
    asks: bool = False
    """Whether the client can answer approval questions during the turn."""
    address: str = ""
    """Where the reply is delivered on a channel that pushes; empty if the client fetches it."""
    through: str = ""
    """Channel that delivers the reply, if it is not its own."""
    pull_channels: tuple[str, ...] = ()
    """Channels on which the reply is added to the person's private conversation."""
    scheduled_run: ScheduledRun | None = None
    """The scheduled run, if a schedule sent the message."""
    origin: str = ""
    """The channel's ids of place and sender; they identify a repeated message after names change."""
    held: str = ""
    """Id of the held call that the person allows with it; set only by the gateway."""
    traceparent: str = ""
    """Validated W3C `traceparent` header of the client; exported spans continue it."""
    proof: SenderIds | None = None
    """Ids from which user and room were resolved; None if the channel uses names of the configuration."""
    request: ClientRequest = ClientRequest()
    """Data of the HTTP request, if there is one."""
    images: tuple[ImagePart, ...] = ()
    """References to its images, which are stored before it; its text has a marker for each."""


@frozen(eq=True)
class AcceptedTurn:
    """An accepted message: it is stored and will be answered."""

    turn: str
    session: str
    repeated: bool = False
    """Whether the same message was accepted before."""


def prefix_author(user: str, text: str) -> str:
    """Prefix a text with its author; no further line of it can look like another author's."""
    return f"{name_author(user)}: " + "\n  ".join(text.splitlines())


def name_author(user: str) -> str:
    """Name an author: a user by name, a stranger by a hash that cannot be a user's name."""
    if not user:
        return "a stranger"
    return f"stranger {sha256(user.encode()).hexdigest()[:8]}" if ":" in user else user


def write_model_text(incoming: RoutedMessage) -> str:
    """Return the text of a message for the model; in a room, with its author."""
    return prefix_author(incoming.user, incoming.text) if incoming.room else incoming.text


STORED_NAMES = {"scheduled_run": "errand", "pull_channels": "shelves"}  # names in stored rows
FIELD_NAMES = {stored: name for name, stored in STORED_NAMES.items()}


def dump_message(incoming: RoutedMessage) -> str:
    """Write all fields of a message except its text as JSON."""
    said = {STORED_NAMES.get(one.name, one.name): getattr(incoming, one.name) for one in fields(incoming)}
    if not incoming.images:
        del said["images"]
    return json.dumps(said | {"text": ""}, ensure_ascii=False, separators=(",", ":"), default=list_fields)


def list_fields(value: Any) -> dict[str, Any] | str:
    """Return a value that JSON lacks as its fields, or as text if it has none."""
    return {one.name: getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else str(value)


def load_message(text: str, request: str) -> RoutedMessage:
    """Read a stored message."""
    said: dict[str, Any] = {FIELD_NAMES.get(name, name): value for name, value in json.loads(request).items()}
    run = load_scheduled_run(said["scheduled_run"]) if said.get("scheduled_run") else None
    proof = SenderIds(**said["proof"]) if said.get("proof") else None
    mode = Mode(said["mode"]) if said.get("mode") else None
    sent = ClientRequest(**said.get("request", {}))
    images = tuple(ImagePart(**one) for one in said.get("images", ()))
    read = {"text": text, "client": Client(**said["client"]), "scheduled_run": run, "proof": proof, "mode": mode}
    known = {"pull_channels": tuple(said.get("pull_channels", ())), "request": sent, "images": images}
    return RoutedMessage(**said | read | known)


def load_scheduled_run(said: dict[str, Any]) -> ScheduledRun:
    """Read the scheduled run of a stored message."""
    home = said.get("home")
    levels = {"ceiling": Trust(said["ceiling"]), "home": None if home is None else Trust(home)}
    return ScheduledRun(**said | {"delivery": Delivery(said["delivery"]), **levels})


MAX_CLIENT_FACT_CHARS = 100  # characters of a time zone, a language or a location
MAX_MESSAGE_CHARS = 1_000_000  # characters of a message; no model takes more


def check_message(incoming: RoutedMessage) -> None:
    """Raise BadMessage for an invalid message."""
    if not incoming.text.strip():
        raise BadMessage("text", "the message is empty")
    if len(incoming.text) > MAX_MESSAGE_CHARS:
        raise BadMessage(
            "text", f"the message has {len(incoming.text):,} characters; the limit is {MAX_MESSAGE_CHARS:,}"
        )
    if incoming.room.startswith("("):  # names in parentheses are reserved for groups without a name
        raise BadMessage("room", "room names must not start with '('")
    named = (incoming.user, incoming.channel, incoming.agent, incoming.situation, incoming.room, incoming.session)
    told = (incoming.client.zone, incoming.client.language, incoming.client.location)
    if any(len(fact) > MAX_CLIENT_FACT_CHARS for fact in told):
        raise BadMessage(
            "client", f"time zone, language and location are limited to {MAX_CLIENT_FACT_CHARS:,} characters each"
        )
    if any("\x00" in text for text in (incoming.text, *named, *told, incoming.key)):
        raise BadMessage("text", "the message contains a NUL character")
    try:
        f"{dump_message(incoming)}{incoming.text}".encode()
    except UnicodeEncodeError:
        raise BadMessage("text", "the message contains an unpaired surrogate") from None
