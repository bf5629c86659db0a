"""The outbox: replies on their way to channels that deliver by themselves, such as a messenger.

A reply is in the outbox from the moment its turn ends. Where a channel takes a key, one that is sent
twice is shown once; for the others a send whose end nobody knows is recorded as uncertain and not repeated in silence.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from foreword.errors import ForewordError
from foreword.events.event import EventType, Level
from foreword.events.listening import Listeners
from foreword.events.trace import Timepiece, Trace
from foreword.frozen import frozen
from foreword.gateway.belonging import find_context
from foreword.gateway.inbox import Claimed
from foreword.gateway.moment import write_moment
from foreword.gateway.owner import is_dead, name_owner
from foreword.gateway.sqlite_inbox import get_claimed
from foreword.gateway.writer import Writer
from foreword.words import Word

LEASE = timedelta(seconds=60)
WAITS = (
    1.0,
    2.0,
    4.0,
    30.0,
    120.0,
    600.0,
)  # seconds before a failed delivery is tried again, the last ones for ever
LONGEST = 30.0  # seconds that a delivery may take
DISK = 1.0  # seconds after which is written again what a full or busy disk did not take
LOST = "the reply was on its way when its process ended; nobody knows whether it arrived, and it is not sent again"
MOST = 64  # deliveries at once


class Delivery(Word):
    """How far a reply is."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    """It was on its way when something broke, and the channel knows no key: a person has to look."""
    REFUSED = "refused"
    """The channel will never take it."""


class NotDelivered(ForewordError):
    """A channel did not take a reply; nothing arrived, and trying again may help."""


class NeverDelivered(ForewordError):
    """A channel will never take this reply: its address is gone, or it is barred."""


class Channel(Protocol):
    """Where replies are delivered."""

    takes_key: bool
    """Whether the channel shows a reply once that is delivered twice with one key."""

    async def deliver(self, address: str, text: str, key: str) -> None:
        """Deliver a reply; raise NotDelivered where nothing arrived, and anything else where nobody knows."""


@frozen
class Parcel:
    """A reply that this process delivers, and the turn that it answers."""

    number: int
    claimed: Claimed
    text: str
    attempt: int


class Outbox:
    """Delivers replies in their order at each address, and writes down what became of them."""

    def __init__(
        self,
        writer: Writer,
        channels: Mapping[str, Channel],
        listeners: Listeners,
        clock: Callable[[], datetime],
    ) -> None:
        self._writer = writer
        self._channels = channels
        self._listeners = listeners
        self._clock = clock
        self._owner = name_owner()

    async def deliver(self) -> int:
        """Deliver what is due; return how many replies were tried."""
        parcels, lost = await self._writer.seal(self._claim)
        for claimed in lost:
            self._make_trace(claimed).tell(EventType.CHANNEL_ERROR, level=Level.ERROR, error=LOST)
        await asyncio.gather(*(self._deliver(parcel) for parcel in parcels))
        return len(parcels)

    def _claim(self, state: sqlite3.Connection) -> tuple[Sequence[Parcel], Sequence[Claimed]]:
        """Claim the first reply of each address that is due; return also the turns whose reply is uncertain now."""
        now = self._clock()
        lost = self._take_over(state, now)
        got = state.execute(
            "UPDATE outbox SET state = 'sending', attempt = attempt + 1, lease_owner = ?, lease_until = ?"
            " WHERE id IN (SELECT id FROM outbox AS mine WHERE state = 'pending' AND due <= ?"
            " AND channel IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM outbox AS other"
            " WHERE other.state IN ('pending', 'sending') AND other.channel = mine.channel"
            " AND other.address = mine.address AND other.id < mine.id) ORDER BY id LIMIT ?)"
            " RETURNING id, turn_id, text, attempt",
            (self._owner, (now + LEASE).timestamp(), now.timestamp(), json.dumps(list(self._channels)), MOST),
        ).fetchall()
        parcels = [
            Parcel(number=number, claimed=get_claimed(state, turn), text=text, attempt=attempt)
            for number, turn, text, attempt in sorted(got)
        ]
        return parcels, lost

    def _take_over(self, state: sqlite3.Connection, now: datetime) -> list[Claimed]:
        """Take up what a dead process was sending where a key makes that safe; the rest is uncertain."""
        keyed = json.dumps([name for name, channel in self._channels.items() if channel.takes_key])
        asked = "SELECT DISTINCT lease_owner FROM outbox WHERE state = 'sending' AND lease_owner != ?"
        lost: list[Claimed] = []
        for (owner,) in state.execute(asked, (self._owner,)).fetchall():
            became = state.execute(
                "UPDATE outbox SET state = iif(channel IN (SELECT value FROM json_each(?)), 'pending', 'uncertain'),"
                " lease_owner = '' WHERE state = 'sending' AND lease_owner = ? AND (lease_until < ? OR ?)"
                " RETURNING turn_id, state",
                (keyed, owner, now.timestamp(), is_dead(owner)),
            ).fetchall()
            lost += [get_claimed(state, turn) for turn, word in became if word == Delivery.UNCERTAIN.value]
        return lost

    def _make_trace(self, claimed: Claimed) -> Trace:
        context = find_context(claimed.session, claimed.incoming)
        return Trace(self._listeners.recorder, context, Timepiece(now=self._clock), goes_on=claimed.place)

    async def _deliver(self, parcel: Parcel) -> None:
        claimed = parcel.claimed
        incoming = claimed.incoming
        trace = self._make_trace(claimed)
        channel = self._channels[incoming.channel]
        try:
            with trace.step(EventType.MESSAGE_SENT, length=len(parcel.text), attempt=parcel.attempt):
                async with asyncio.timeout(LONGEST):
                    await channel.deliver(incoming.address, parcel.text, claimed.turn)
            state = Delivery.SENT
        except NotDelivered:
            state = Delivery.PENDING
        except NeverDelivered:
            state = Delivery.REFUSED
        except Exception:  # noqa: BLE001 - whatever broke, nobody knows whether it arrived
            state = Delivery.PENDING if channel.takes_key else Delivery.UNCERTAIN
        while True:
            try:
                await self._writer.seal(lambda connection: self._settle(connection, parcel, state))
            except sqlite3.Error:  # until it is written, nothing else goes to this address
                await asyncio.sleep(DISK)
            else:
                return

    def _settle(self, state: sqlite3.Connection, parcel: Parcel, became: Delivery) -> None:
        now = self._clock()
        wait = WAITS[min(parcel.attempt, len(WAITS)) - 1]
        state.execute(
            "UPDATE outbox SET state = ?, due = ?, sent = ?, lease_owner = '', lease_until = 0"
            " WHERE id = ? AND lease_owner = ? AND attempt = ?",
            (
                str(became),
                now.timestamp() + wait,
                write_moment(now) if became is Delivery.SENT else None,
                parcel.number,
                self._owner,
                parcel.attempt,
            ),
        )
