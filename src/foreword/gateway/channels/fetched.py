"""Channels whose people fetch what is for them: a reply that nobody listens to stays with its turn and is not lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from foreword.gateway.channel import Hear, Heard, NeverDelivered
from foreword.gateway.message import Accepted
from foreword.gateway.receiving import Received


class Fetched:
    """A channel that delivers nothing by itself."""

    takes_key = True

    def split(self, text: str) -> Sequence[str]:
        """Leave a reply whole."""
        return (text,)

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - as every channel
        """Refuse: there is nobody whom this could reach."""
        raise NeverDelivered("nothing is delivered here; who asks fetches the reply")

    async def show_work(self, address: str) -> None:
        """Show nothing: who listens hears the reply as it comes."""

    async def run(self, hear: Hear) -> None:  # noqa: ARG002
        """Wait: what people say here comes with their request."""
        await asyncio.Event().wait()


async def hand_in(receive: Callable[[Heard], Awaitable[Received]], heard: Heard) -> Accepted:
    """Hand in what somebody says who waits for the reply; it is a turn, whatever it says."""
    received = await receive(heard)
    assert received.accepted is not None
    return received.accepted
