"""Where people look by themselves: what is sent to them there stands in their conversation when they do."""

from foreword.gateway.channel import NeverDelivered
from foreword.gateway.channels.fetched import Fetched
from foreword.gateway.writer import Writer

SHOWN = """
SELECT 1 FROM history JOIN sessions ON sessions.id = history.session_id
WHERE history.turn_id = ? AND sessions.channel = ? AND history.kind = 'room'"""


class Shelf(Fetched):
    """Delivers what was added to somebody's conversation with the turn that it comes from, and nothing else."""

    def __init__(self, name: str, writer: Writer) -> None:
        self._name = name
        self._writer = writer

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - as every channel
        """Check that the reply was added to the conversation of its reader."""
        asked = (key.rpartition(".")[0], self._name)
        if await self._writer.look(lambda state: state.execute(SHOWN, asked).fetchone()) is None:
            raise NeverDelivered(f"{address} has no conversation on {self._name} in which it may be shown")
