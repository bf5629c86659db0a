"""Pull channels, whose clients fetch replies themselves: the terminal, the web and scheduled runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from foreword.gateway.channel import ChatKind, InboundMessage, NeverDelivered, ReceiveMessage
from foreword.gateway.intake import IntakeResult
from foreword.gateway.messages import AcceptedTurn
from foreword.storage.writer import Writer
from foreword.types import Mode


class PullChannel:
    """A channel that delivers nothing; clients fetch their replies."""

    takes_key = True

    def split(self, text: str) -> Sequence[str]:
        """Return the reply as one part."""
        return (text,)

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - the protocol's signature
        """Raise NeverDelivered: this channel cannot push messages."""
        raise NeverDelivered("this channel does not deliver; clients fetch the reply")

    async def show_work(self, address: str) -> None:
        """Do nothing: clients see the reply as a stream."""

    async def run(self, hear: ReceiveMessage) -> None:  # noqa: ARG002
        """Wait until cancelled: messages arrive with the requests of clients."""
        await asyncio.Event().wait()


async def submit_message(
    receive: Callable[[InboundMessage], Awaitable[IntakeResult]], heard: InboundMessage
) -> AcceptedTurn:
    """Submit a message whose sender waits for the reply; it always becomes a turn."""
    received = await receive(heard)
    assert received.accepted is not None
    return received.accepted


CHECK_INTERVAL_S = 1.0  # seconds between two checks for due schedules


class ScheduleChannel(PullChannel):
    """Starts due schedules, on behalf of their users."""

    def __init__(self, look: Callable[[], Awaitable[object]], every: float = CHECK_INTERVAL_S) -> None:
        self._look = look
        self._every = every

    async def run(self, hear: ReceiveMessage) -> None:  # noqa: ARG002 - the scheduler submits turns itself
        """Start due schedules until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(self._every)


DELIVERED_SQL = """
SELECT 1 FROM history JOIN sessions ON sessions.id = history.session_id
WHERE history.turn_id = ? AND sessions.channel = ? AND history.kind = 'room'"""


class SessionDelivery(PullChannel):
    """Delivers messages that their turn has already added to the recipient's session."""

    def __init__(self, name: str, writer: Writer) -> None:
        self._name = name
        self._writer = writer

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - the protocol's signature
        """Check that the reply was added to the recipient's session; raise NeverDelivered otherwise."""
        asked = (key.rpartition(".")[0], self._name)
        if await self._writer.read(lambda state: state.execute(DELIVERED_SQL, asked).fetchone()) is None:
            raise NeverDelivered(f"{address} has no session on {self._name} that may show the message")


TERMINAL_CHANNEL = "terminal"


class TerminalChannel(PullChannel):
    """One user at a terminal, with an agent and optionally a room."""

    def __init__(
        self,
        user: str,
        *,
        agent: str = "",
        room: str = "",
        situation: str = "",
        project: str = "",
        cwd: str = "",
        mode: Mode | None = None,
        asks: bool = True,
    ) -> None:
        self._user = user
        self._agent = agent
        self._room = room
        self._situation = situation
        self._project = project
        self._cwd = cwd
        self._mode = mode
        self.asks = asks
        """Whether the user can answer questions; if not, calls that need approval are held."""

    def hear(self, text: str, session: str = "", key: str = "") -> InboundMessage:
        """Return the inbound message for a typed text."""
        return InboundMessage(
            channel=TERMINAL_CHANNEL,
            sender=self._user,
            text=text,
            key=key,
            chat=ChatKind.GROUP if self._room else ChatKind.PRIVATE,
            place=self._room,
            agent=self._agent,
            session=session,
            situation=self._situation,
            project=self._project,
            cwd=self._cwd,
            mode=self._mode,
            asks=self.asks,
        )


WEB_CHANNEL = "web"
OPENAI_CHANNEL = "web:openai"  # separate, because these clients cannot answer questions and keep their own history


class WebChannel(PullChannel):
    """The requests of one user."""

    def __init__(self, user: str, channel: str = WEB_CHANNEL) -> None:
        self._user = user
        self._channel = channel

    def hear(self, text: str, **about: Any) -> InboundMessage:
        """Return the inbound message of a request; the sender always comes from the token."""
        return InboundMessage(**about | {"text": text, "channel": self._channel, "sender": self._user})
