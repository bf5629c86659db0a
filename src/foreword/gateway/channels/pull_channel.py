"""Pull channels, whose clients fetch replies themselves: the terminal, the web and scheduled runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from foreword.gateway.channel import InboundMessage, NeverDelivered, ReceiveMessage
from foreword.gateway.intake import IntakeResult
from foreword.gateway.messages import AcceptedTurn
from foreword.storage import history
from foreword.storage.writer import Writer

TERMINAL_CHANNEL = "terminal"
WEB_CHANNEL = "web"
OPENAI_CHANNEL = "web:openai"  # separate, because these clients cannot answer questions and keep their own history


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


class ScheduleChannel(PullChannel):
    """Starts due schedules, on behalf of their users."""

    def __init__(self, look: Callable[[], Awaitable[object]], every: float) -> None:
        self._look = look
        self._every = every

    async def run(self, hear: ReceiveMessage) -> None:  # noqa: ARG002 - the scheduler submits turns itself
        """Start due schedules until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(self._every)


class SessionDelivery(PullChannel):
    """Delivers messages that their turn has already added to the recipient's session."""

    def __init__(self, name: str, writer: Writer) -> None:
        self._name = name
        self._writer = writer

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - the protocol's signature
        """Check that the reply was added to the recipient's session; raise NeverDelivered otherwise."""
        turn = key.rpartition(".")[0]
        if not await self._writer.read(lambda state: history.is_added(state, turn, self._name)):
            raise NeverDelivered(f"{address} has no session on {self._name} that may show the message")
