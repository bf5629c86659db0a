"""Slots: each session keeps the one in which the engine remembers it, as long as there are enough."""

import asyncio


class Slots:
    """Hands out slots; a session gets its own again, a new one that of whoever was silent longest."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        """Slots that nobody has used yet, the first one next."""
        self._owned: dict[str, int] = {}
        """The slots of sessions, the longest silent first."""
        self._busy: set[int] = set()
        self._changed = asyncio.Event()

    async def take(self, session: str) -> int:
        """Take the slot of a session, or wait for one; without a session it is nobody's afterwards."""
        while (slot := self._find(session)) is None:
            await self._changed.wait()
        self._busy.add(slot)
        self._owned = {owner: owned for owner, owned in self._owned.items() if owned != slot}
        if session:
            self._owned[session] = slot
        return slot

    def give_back(self, slot: int) -> None:
        """Give a slot back; what its session said stays in it."""
        self._busy.discard(slot)
        if slot not in self._owned.values() and slot not in self._free:
            self._free.insert(0, slot)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _find(self, session: str) -> int | None:
        if session in self._owned:
            own = self._owned[session]
            return None if own in self._busy else own
        if self._free:
            return self._free.pop(0)
        return next((slot for slot in self._owned.values() if slot not in self._busy), None)
