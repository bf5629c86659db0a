"""The outbox: delivers outbound messages to channels that push, such as a messenger.

The transaction that ends a turn also adds its reply to the outbox. If a channel supports idempotency keys, a message
sent twice is shown once. On other channels, an interrupted send is recorded as uncertain and is not repeated.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.events.event import NO_CONTEXT, EventType, Level, Recorder
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.channel import Channel, NeverDelivered, NotDelivered
from foreword.gateway.inbox import ClaimedTurn, get_claimed
from foreword.gateway.router import may_receive
from foreword.gateway.session_manager import make_event_context
from foreword.storage import deliveries
from foreword.storage.deliveries import DeliveryLease, DeliveryStatus, OutboundMessage
from foreword.storage.writer import Writer, make_lease_owner, write_until_stored
from foreword.types import frozen

DELIVERY_LEASE = timedelta(seconds=60)
RETRY_DELAYS_S = (1.0, 2.0, 4.0, 30.0, 120.0, 600.0)  # the last value repeats
DELIVERY_TIMEOUT_S = 30.0
STATE_RETRY_S = 1.0  # before a failed write to the state is retried
MAX_DELIVERIES = 64  # concurrent deliveries
UNCERTAIN_TEXT = "the process ended while it sent the reply; delivery is uncertain, and the reply is not sent again"
RECIPIENT_CHANGED_TEXT = "not sent: the address no longer belongs to the person or room that the reply was written for"
UNSPLIT_TEXT = "the message cannot be split into parts"


@frozen
class ClaimedDelivery:
    """An outbound message claimed for delivery by this process, and its turn."""

    lease: DeliveryLease
    claimed: ClaimedTurn | None
    allowed: bool
    """Whether the current owner of the address may read it."""


class Outbox:
    """Delivers messages in order for each address, and records the result."""

    def __init__(
        self,
        writer: Writer,
        channels: Mapping[str, Channel],
        recorder: Recorder,
        clock: Callable[[], datetime],
        config: Callable[[], Config],
    ) -> None:
        self._writer = writer
        self.channels = channels
        self._recorder = recorder
        self._clock = clock
        self._config = config
        self._owner = make_lease_owner()

    async def deliver_all(self) -> None:
        """Deliver until nothing is due."""
        while await self.deliver():
            pass

    async def deliver(self) -> int:
        """Deliver the next part of each due message; return the number of attempts."""
        config = self._config()
        errors: list[sqlite3.Error] = []
        claims, uncertain = await self._writer.write_durable(
            lambda state: self._claim(state, config), on_sync_error=errors.append
        )
        for message, claimed in uncertain:
            self._make_trace(message, claimed).emit(EventType.CHANNEL_ERROR, level=Level.ERROR, error=UNCERTAIN_TEXT)
        if claims and errors:  # the claims must be on disk before anything is sent
            await self._write(lambda _: None)
        await asyncio.gather(*map(self._deliver, claims))
        return len(claims)

    def _claim(
        self, state: sqlite3.Connection, config: Config
    ) -> tuple[list[ClaimedDelivery], list[tuple[OutboundMessage, ClaimedTurn | None]]]:
        """Claim the first due message of each address; also return the messages whose delivery became uncertain."""
        now = self._clock()
        keyed = [name for name, channel in self.channels.items() if channel.takes_key]
        lost = deliveries.take_over_deliveries(state, self._owner, keyed, now)
        leases = deliveries.claim_deliveries(
            state, self._owner, self.channels, now, lease=DELIVERY_LEASE, limit=MAX_DELIVERIES
        )
        claims = []
        for lease in leases:
            claimed = find_turn(state, lease.message)
            allowed = claimed is None or may_receive(state, lease.message, claimed.incoming, config)
            claims.append(ClaimedDelivery(lease=lease, claimed=claimed, allowed=allowed))
        return claims, [(message, find_turn(state, message)) for message in lost]

    def _make_trace(self, message: OutboundMessage, claimed: ClaimedTurn | None) -> Tracer:
        if claimed is None:
            return Tracer(self._recorder, replace(NO_CONTEXT, channel=message.channel), self._clock)
        context = make_event_context(claimed.session, claimed.incoming)
        return Tracer(self._recorder, context, self._clock, parent=claimed.position)

    async def _deliver(self, delivery: ClaimedDelivery) -> None:
        lease = delivery.lease
        channel, wait = self.channels[lease.message.channel], 0.0
        retry_delay = RETRY_DELAYS_S[min(lease.attempt, len(RETRY_DELAYS_S)) - 1]
        try:
            last = await self._send(delivery, channel)
            status = DeliveryStatus.SENT if last else DeliveryStatus.PENDING
        except NotDelivered as error:
            status, wait = DeliveryStatus.PENDING, error.wait or retry_delay
        except NeverDelivered:
            status = DeliveryStatus.REFUSED
        except Exception:  # noqa: BLE001 - after any other error the delivery is uncertain
            status = DeliveryStatus.PENDING if channel.takes_key else DeliveryStatus.UNCERTAIN
            wait = retry_delay
        # Nothing else is sent to this address before this is stored.
        await self._write(lambda state: deliveries.store_result(state, lease, status, self._clock(), wait))

    async def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Write to the state, and retry until the disk accepts it."""
        await write_until_stored(lambda: self._writer.write_durable(work), (STATE_RETRY_S,))

    async def _send(self, delivery: ClaimedDelivery, channel: Channel) -> bool:
        """Send the next part of a message; return whether it was the last one."""
        lease, message = delivery.lease, delivery.lease.message
        trace = self._make_trace(message, delivery.claimed)
        try:
            parts = channel.split(message.text)
            text = parts[lease.part]
        except Exception as error:  # a retry would split the same text in the same way
            trace.emit(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))
            raise NeverDelivered(UNSPLIT_TEXT) from error
        part = {"part": f"{lease.part + 1} of {len(parts)}"} if len(parts) > 1 else {}
        with trace.step(EventType.MESSAGE_SENT, length=len(text), attempt=lease.attempt, **part):
            if not delivery.allowed:
                raise NeverDelivered(RECIPIENT_CHANGED_TEXT)
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                await channel.deliver(message.address, text, f"{message.key}.{lease.part}")
        return lease.part + 1 == len(parts)


def find_turn(state: sqlite3.Connection, message: OutboundMessage) -> ClaimedTurn | None:
    """Find the turn of an outbound message."""
    return get_claimed(state, message.turn) if message.turn else None
