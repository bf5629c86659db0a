"""The protocol of a channel: a place where people write and replies are delivered.

    message = InboundMessage(channel="telegram", sender="1001", key="7", address="1001", text="What is on today?")
    await receive(message)  # when this returns the message is stored, and the channel may acknowledge it

A channel proves the sender and the place. The gateway decides who that is, what they may see and whether the agent
answers.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from foreword.agent.images import Image
from foreword.config.schema import find_token
from foreword.errors import ForewordError, InputError
from foreword.events.event import Level
from foreword.gateway.messages import ClientRequest
from foreword.turn import Client, Message
from foreword.types import Mode, TextEnum, frozen
from foreword.workspace import STATE_FOLDER, Workspace

PUBLIC_SITUATION = (
    "broadcast"  # situation of a chat that is neither private nor a group; public unless the owner configures it
)


class ChatKind(TextEnum):
    """Kind of chat of a message; an unknown kind is treated as the most public one."""

    PRIVATE = "private"
    GROUP = "group"
    BROADCAST = "broadcast"
    """Few people write and anyone may read."""


@frozen(eq=True)
class InboundMessage:
    """A message as a channel receives it."""

    channel: str
    """Name of the channel; its family is the part before the first colon."""
    sender: str
    """The channel's id of the sender; empty if unknown."""
    text: str
    key: str = ""
    """The channel's id of the message: a message received twice is accepted once."""
    corrects: str = ""
    """Key of the message that this one edits; its own key is that key, a colon and a suffix."""
    address: str = ""
    """Where the reply is delivered; empty if the client fetches it."""
    chat: ChatKind = ChatKind.PRIVATE
    place: str = ""
    """The channel's id of the group; empty in private."""
    title: str = ""
    """Display name of the group."""
    name: str = ""
    """Display name of the sender; not trusted."""
    called: bool = False
    """Whether it addresses the agent, by name or as a reply."""
    agent: str = ""
    session: str = ""
    client: Client = Client()
    asks: bool = False
    """Whether the client can answer approval questions during the turn."""
    situation: str = ""
    """Requested situation; used only if it allows no more than the place does."""
    project: str = ""
    """Folder of the open project."""
    mode: Mode | None = None
    """Requested prompt mode; None lets the model decide."""
    cwd: str = ""
    """Working directory of a person at a terminal."""
    plan: bool | None = None
    """Whether the agent only plans; None uses the session's setting."""
    before: tuple[Message, ...] | None = None
    """Conversation history sent by a client without a session."""
    traceparent: str = ""
    """Validated W3C `traceparent` header of the client."""
    request: ClientRequest = ClientRequest()
    """Data of the HTTP request, if there is one."""
    images: tuple[Image, ...] = ()
    """Its images; the text has a marker for each."""


ReceiveMessage = Callable[[InboundMessage], Awaitable[object]]
"""Accepts a message from a channel; the message is stored when this returns."""


ReportToOwner = Callable[[str, Level], None]
"""Reports an event of a channel that belongs to no message to the owner."""


class NotStored(ForewordError):
    """A message could not be stored, so it was not accepted; the text says why."""

    def __init__(self, words: str, *, is_recorded: bool = False) -> None:
        super().__init__(words)
        self.is_recorded = is_recorded
        """Whether the event log already has this failure, so that it is logged once."""


class NotDelivered(ForewordError):
    """A channel did not accept a part. Nothing arrived; a retry may succeed."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait
        """Seconds the channel asks to wait; 0 for the default."""


class NeverDelivered(ForewordError):
    """A channel rejects this permanently: the address is gone or blocked."""


class Channel(Protocol):
    """Receives messages and delivers replies."""

    takes_key: bool
    """Whether a part delivered twice with the same key is shown once."""

    def split(self, text: str) -> Sequence[str]:
        """Split a reply into the parts to deliver, deterministically."""

    async def deliver(self, address: str, part: str, key: str) -> None:
        """Deliver a part; raise NotDelivered if nothing arrived, NeverDelivered if nothing ever will.

        Any other exception means that the delivery is uncertain.
        """

    async def show_work(self, address: str) -> None:
        """Show the typing indicator; called every few seconds, errors are ignored."""

    async def run(self, hear: ReceiveMessage) -> None:
        """Pass on messages until cancelled; do not acknowledge a message before `hear` returns."""


@runtime_checkable
class FindsChatKind(Protocol):
    """A channel that can look up the kind of chat at an address before any message arrived from it."""

    async def find_kind(self, address: str) -> ChatKind:
        """Find the kind of a chat; the most public one if unknown."""


ChannelFactory = Callable[[ReportToOwner], AbstractAsyncContextManager[Channel]]
"""Opens a channel for the duration of a `with` block."""


def find_channels(workspace: Workspace, environ: Mapping[str, str]) -> Mapping[str, ChannelFactory]:
    """Return the configured channels; raise InputError if a token or a package is missing."""
    settings = workspace.config.telegram
    if settings is None:
        return {}
    token = find_token(settings, environ)  # before importing aiogram, which takes seconds on a small machine
    try:
        from foreword.gateway.channels.telegram.bot_client import MIGRATIONS_FILE
        from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
    except ModuleNotFoundError as error:
        raise InputError(f"Telegram needs the package {error.name}: pip install 'foreword[telegram]'") from None
    migrations = os.path.join(workspace.files.root, STATE_FOLDER, MIGRATIONS_FILE)
    return {
        "telegram": lambda report: open_telegram(token, settings, TelegramOptions(report=report, migrations=migrations))
    }
