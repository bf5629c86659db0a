"""A channel: a place where people write and replies arrive, behind one protocol.

    heard = Heard(channel="telegram", sender="1001", key="7", address="1001", text="What is on today?")
    await hear(heard)  # when this returns it is kept, and the channel may acknowledge it

Who wrote and where is the channel's proof; who that is, what it may see and whether the agent answers is decided by
others.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from foreword.errors import ForewordError
from foreword.events.event import Level
from foreword.frozen import frozen
from foreword.gateway.message import ClientRequest
from foreword.turn import Client, Message
from foreword.words import Mode, Word

OPEN = "broadcast"  # the situation of what is neither private nor a group; unless the owner lists it, it is public


class Chat(Word):
    """What kind of place a message was written in; one that is not known is treated as the most public."""

    PRIVATE = "private"
    GROUP = "group"
    BROADCAST = "broadcast"
    """Few write and anybody may read."""


@frozen(eq=True)
class Heard:
    """A message as a channel hears it."""

    channel: str
    """The channel's name; its family is the part before the first colon."""
    sender: str
    """The channel's own id of who wrote; nothing where it knows none."""
    text: str
    key: str = ""
    """The channel's own id of the message: heard twice, it is one."""
    corrects: str = ""
    """The key of the message that this is an edit of; its own begins with that and a colon."""
    address: str = ""
    """Where a reply is delivered; nothing where whoever asked fetches it."""
    chat: Chat = Chat.PRIVATE
    place: str = ""
    """The channel's own id of the group; nothing in private."""
    title: str = ""
    """What people call the group."""
    name: str = ""
    """What the sender calls themselves; it proves nothing."""
    called: bool = False
    """Whether it speaks to the agent: by its name, or in reply to it."""
    agent: str = ""
    session: str = ""
    client: Client = Client()
    asks: bool = False
    """Whether whoever hears the turn can be asked before it changes something."""
    situation: str = ""
    """The situation it asks for, which counts where that allows no more than the place does."""
    project: str = ""
    """The folder of the project that is open."""
    mode: Mode | None = None
    """The prompt mode that is asked for; else the model decides."""
    cwd: str = ""
    """The working directory of a person at a terminal."""
    plan: bool | None = None
    """Whether the agent only plans; else as the session has it."""
    before: tuple[Message, ...] | None = None
    """What a client that keeps no session says was said before."""
    traceparent: str = ""
    """The cleaned W3C header of the client's trace."""
    request: ClientRequest = ClientRequest()
    """What the HTTP request said, where there was one."""


Hear = Callable[[Heard], Awaitable[object]]
"""Takes what a channel heard; when it returns, it is kept."""


Tell = Callable[[str, Level], None]
"""Tells the owner, in words, that something happened on a channel which belongs to no message."""


class NotKept(ForewordError):
    """A message could not be kept, so it was not accepted; the words say why."""

    def __init__(self, words: str, *, is_recorded: bool = False) -> None:
        super().__init__(words)
        self.is_recorded = is_recorded
        """Whether the event log has it already: one failure is one error row."""


class NotDelivered(ForewordError):
    """A channel did not take a part; nothing of it arrived, and trying again may help."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait
        """Seconds for which the channel wants to be left alone; the usual time where it does not say."""


class NeverDelivered(ForewordError):
    """A channel will never take this: its address is gone, or it is barred."""


class Channel(Protocol):
    """Hears people and delivers replies."""

    takes_key: bool
    """Whether a part that is delivered twice with one key is shown once."""

    def split(self, text: str) -> Sequence[str]:
        """Split a reply into the parts that arrive one by one; always the same ones for the same text."""

    async def deliver(self, address: str, part: str, key: str) -> None:
        """Deliver a part; raise NotDelivered where nothing arrived, NeverDelivered where nothing ever will.

        Anything else that is raised means that nobody knows.
        """

    async def show_work(self, address: str) -> None:
        """Show that a reply is being made; called every few seconds, and nothing depends on it."""

    async def run(self, hear: Hear) -> None:
        """Hand in what people write until cancelled; what was not handed in is not acknowledged."""


@runtime_checkable
class Locates(Protocol):
    """A channel that can say what kind of place an address is before anything was heard there."""

    async def find_kind(self, address: str) -> Chat:
        """Find the kind of a place; where nobody can say, it is the most public one."""
