"""A messenger on no network: people write into it, and what is delivered arrives in it."""

import asyncio
from itertools import count

from foreword.gateway.channel import Heard
from waiting import until

NUMBERS = count(1)  # no two messages have one key, also after a restart


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
        """Leave a reply whole."""
        return [text]

    async def deliver(self, address, part, key):
        """Take a reply."""
        if self.faults:
            raise self.faults.pop(0)
        if key not in self._keys:
            self.arrived.append((address, part))
        self._keys.add(key)

    async def show_work(self, address):
        """Note that a reply is being made."""
        self.worked.append(address)

    async def run(self, hear):
        """Hear whom the test plays."""
        self._hear = hear
        self._running.set()
        await asyncio.Event().wait()

    async def write(self, text, sender="1001", **fields):
        """Write a message as somebody; return what became of it."""
        await self._running.wait()
        place = fields.get("place", "")
        given = {"key": f"m{next(NUMBERS)}", "address": place or sender}
        return await self._hear(Heard(channel=self.name, sender=sender, text=text, **given | fields))

    async def until(self, count):
        """Wait until so many replies have arrived, and return their texts."""
        await until(lambda: len(self.arrived) >= count)
        return [text for _, text in self.arrived]
