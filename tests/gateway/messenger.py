"""A fake messenger without a network: people write to it, and replies are delivered to it."""

import asyncio
from itertools import count

from foreword.gateway.channel import InboundMessage
from waiting import until

NUMBERS = count(1)  # unique message keys, also after a restart


class Messenger:
    """A channel whose people are played by a test."""

    takes_key = True

    def __init__(self, name="telegram", arrived=None):
        self.name = name
        self.arrived = [] if arrived is None else arrived
        """Address and text of all that was delivered."""
        self.worked = []
        self.faults = []
        """What goes wrong with the next deliveries."""
        self._keys = set()
        self._hear = None
        self._running = asyncio.Event()

    def split(self, text):
        """Do not split a reply."""
        return [text]

    async def deliver(self, address, part, key):
        """Accept a reply."""
        if self.faults:
            raise self.faults.pop(0)
        if key not in self._keys:
            self.arrived.append((address, part))
        self._keys.add(key)

    async def show_work(self, address):
        """Record the typing signal."""
        self.worked.append(address)

    async def run(self, hear):
        """Receive the messages of the test."""
        self._hear = hear
        self._running.set()
        await asyncio.Event().wait()

    async def write(self, text, sender="1001", **fields):
        """Write a message as a user; return the result of the handler."""
        await self._running.wait()
        place = fields.get("place", "")
        given = {"key": f"m{next(NUMBERS)}", "address": place or sender}
        return await self._hear(InboundMessage(channel=self.name, sender=sender, text=text, **given | fields))

    async def until(self, count):
        """Wait until `count` replies have arrived, and return their texts."""
        await until(lambda: len(self.arrived) >= count)
        return [text for _, text in self.arrived]
