"""The outbox: delivers outbound messages to channels that push, such as a messenger.

The transaction that ends a turn also adds its reply to the outbox. If a channel supports idempotency keys, a message
sent twice is shown once. On other channels, an interrupted send is recorded as uncertain and is not repeated.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.events.event import NO_CONTEXT, EventType, Level
from foreword.events.sinks import EventStream
from foreword.events.tracer import Clocks, Tracer, describe_error
from foreword.gateway.channel import Channel, NeverDelivered, NotDelivered
from foreword.gateway.inbox import ClaimedTurn, get_claimed
from foreword.gateway.router import may_receive
from foreword.gateway.session_lookup import make_event_context
from foreword.storage.database import format_moment
from foreword.storage.sessions import OutboundMessage
from foreword.storage.writer import Writer, is_dead_owner, make_lease_owner, write_until_stored
from foreword.types import TextEnum, frozen

DELIVERY_LEASE = timedelta(seconds=60)
RETRY_DELAYS_S = (
    1.0,
    2.0,
    4.0,
    30.0,
    120.0,
    600.0,
)  # seconds before a failed delivery is retried; the last value repeats
DELIVERY_TIMEOUT_S = 30.0  # seconds that one delivery may take
STATE_RETRY_S = 1.0  # seconds before a failed write to the state is retried
UNCERTAIN_TEXT = "the process ended while it sent the reply; delivery is uncertain, and the reply is not sent again"
RECIPIENT_CHANGED_TEXT = "not sent: the address no longer belongs to the person or room that the reply was written for"
UNSPLIT_TEXT = "the message cannot be split into parts"
MAX_DELIVERIES = 64  # concurrent deliveries
OUTBOX_COLUMNS = "key, channel, address, text, turn_id"


class DeliveryStatus(TextEnum):
    """Delivery status of an outbound message."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    """The send was interrupted and the channel has no idempotency keys: a person must check."""
    REFUSED = "refused"
    """The channel rejects it permanently."""


MessageAndTurn = tuple[OutboundMessage, ClaimedTurn | None]
"""An outbound message and its turn."""


@frozen
class ClaimedDelivery:
    """An outbound message claimed for delivery by this process, and its turn."""

    number: int
    letter: OutboundMessage
    part: int
    """Number of parts delivered so far."""
    attempt: int
    claimed: ClaimedTurn | None
    allowed: bool
    """Whether the current owner of the address may read it."""


class Outbox:
    """Delivers messages in order for each address, and records the result."""

    def __init__(
        self,
        writer: Writer,
        channels: Mapping[str, Channel],
        listeners: EventStream,
        clock: Callable[[], datetime],
        config: Callable[[], Config],
    ) -> None:
        self._writer = writer
        self.channels = channels
        self._listeners = listeners
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
        faults: list[sqlite3.Error] = []
        parcels, lost = await self._writer.write_durable(
            lambda state: self._claim(state, config), unsealed=faults.append
        )
        for letter, claimed in lost:
            self._make_trace(letter, claimed).tell(EventType.CHANNEL_ERROR, level=Level.ERROR, error=UNCERTAIN_TEXT)
        if parcels and faults:  # the claims must be on disk before anything is sent
            await self._insist(lambda _: None)
        await asyncio.gather(*(self._deliver(parcel) for parcel in parcels))
        return len(parcels)

    def _claim(
        self, state: sqlite3.Connection, config: Config
    ) -> tuple[Sequence[ClaimedDelivery], Sequence[MessageAndTurn]]:
        """Claim the first due message of each address; also return the messages whose delivery became uncertain."""
        now = self._clock()
        lost = self._take_over(state, now)
        got = state.execute(
            "UPDATE outbox SET state = 'sending', attempt = attempt + 1, lease_owner = ?, lease_until = ?"
            " WHERE id IN (SELECT id FROM outbox AS mine WHERE state = 'pending' AND due <= ?"
            " AND channel IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM outbox AS other"
            " WHERE other.state IN ('pending', 'sending') AND other.channel = mine.channel"
            " AND other.address = mine.address AND other.id < mine.id) ORDER BY id LIMIT ?)"
            f" RETURNING id, part, attempt, {OUTBOX_COLUMNS}",
            (
                self._owner,
                (now + DELIVERY_LEASE).timestamp(),
                now.timestamp(),
                json.dumps(list(self.channels)),
                MAX_DELIVERIES,
            ),
        ).fetchall()
        parcels = []
        for number, part, attempt, *row in sorted(got):
            letter, claimed = read_outbound(state, row)
            allowed = claimed is None or may_receive(state, letter, claimed.incoming, config)
            parcels.append(
                ClaimedDelivery(
                    number=number, letter=letter, part=part, attempt=attempt, claimed=claimed, allowed=allowed
                )
            )
        return parcels, lost

    def _take_over(self, state: sqlite3.Connection, now: datetime) -> list[MessageAndTurn]:
        """Take over the sends of a dead process if the channel has idempotency keys; mark the others as uncertain."""
        keyed = json.dumps([name for name, channel in self.channels.items() if channel.takes_key])
        asked = "SELECT DISTINCT lease_owner FROM outbox WHERE state = 'sending' AND lease_owner != ?"
        lost: list[MessageAndTurn] = []
        for (owner,) in state.execute(asked, (self._owner,)).fetchall():
            became = state.execute(
                "UPDATE outbox SET state = iif(channel IN (SELECT value FROM json_each(?)), 'pending', 'uncertain'),"
                " lease_owner = '' WHERE state = 'sending' AND lease_owner = ? AND (lease_until < ? OR ?)"
                f" RETURNING state, {OUTBOX_COLUMNS}",
                (keyed, owner, now.timestamp(), is_dead_owner(owner)),
            ).fetchall()
            lost += [read_outbound(state, row) for word, *row in became if word == DeliveryStatus.UNCERTAIN.value]
        return lost

    def _make_trace(self, letter: OutboundMessage, claimed: ClaimedTurn | None) -> Tracer:
        timepiece = Clocks(now=self._clock)
        if claimed is None:
            return Tracer(self._listeners.recorder, replace(NO_CONTEXT, channel=letter.channel), timepiece)
        context = make_event_context(claimed.session, claimed.incoming)
        return Tracer(self._listeners.recorder, context, timepiece, goes_on=claimed.place)

    async def _deliver(self, parcel: ClaimedDelivery) -> None:
        channel, wait = self.channels[parcel.letter.channel], 0.0
        try:
            last = await self._send(parcel, channel)
            state = DeliveryStatus.SENT if last else DeliveryStatus.PENDING
        except NotDelivered as error:
            wait = error.wait or RETRY_DELAYS_S[min(parcel.attempt, len(RETRY_DELAYS_S)) - 1]
            state = DeliveryStatus.PENDING
        except NeverDelivered:
            state = DeliveryStatus.REFUSED
        except Exception:  # noqa: BLE001 - after any other error the delivery is uncertain
            wait = RETRY_DELAYS_S[min(parcel.attempt, len(RETRY_DELAYS_S)) - 1]
            state = DeliveryStatus.PENDING if channel.takes_key else DeliveryStatus.UNCERTAIN
        # Nothing else is sent to this address before this is stored.
        await self._insist(lambda connection: self._settle(connection, parcel, state, wait))

    async def _insist(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Write to the state, and retry until the disk accepts it."""
        await write_until_stored(lambda: self._writer.write_durable(work), (STATE_RETRY_S,))

    async def _send(self, parcel: ClaimedDelivery, channel: Channel) -> bool:
        """Send the next part of a message; return whether it was the last one."""
        letter = parcel.letter
        trace = self._make_trace(letter, parcel.claimed)
        try:
            parts = channel.split(letter.text)
            text = parts[parcel.part]
        except Exception as error:  # a retry would split the same text in the same way
            trace.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))
            raise NeverDelivered(UNSPLIT_TEXT) from error
        said = {"part": f"{parcel.part + 1} of {len(parts)}"} if len(parts) > 1 else {}
        with trace.step(EventType.MESSAGE_SENT, length=len(text), attempt=parcel.attempt, **said):
            if not parcel.allowed:
                raise NeverDelivered(RECIPIENT_CHANGED_TEXT)
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                await channel.deliver(letter.address, text, f"{letter.key}.{parcel.part}")
        return parcel.part + 1 == len(parts)

    def _settle(self, state: sqlite3.Connection, parcel: ClaimedDelivery, became: DeliveryStatus, wait: float) -> None:
        """Store the result of a part. A message that stays pending without a wait continues with its next part."""
        now = self._clock()
        arrived = became is DeliveryStatus.SENT or (became is DeliveryStatus.PENDING and not wait)
        state.execute(
            "UPDATE outbox SET state = ?, part = part + ?, attempt = iif(?, 0, attempt), due = ?, sent = ?,"
            " lease_owner = '', lease_until = 0 WHERE id = ? AND lease_owner = ? AND attempt = ?",
            (
                str(became),
                int(arrived),
                arrived and became is DeliveryStatus.PENDING,
                now.timestamp() + wait,
                format_moment(now) if became is DeliveryStatus.SENT else None,
                parcel.number,
                self._owner,
                parcel.attempt,
            ),
        )


def read_outbound(state: sqlite3.Connection, row: Sequence[str]) -> MessageAndTurn:
    """Read an outbound message and its turn from a row."""
    key, channel, address, text, turn = row
    letter = OutboundMessage(key=key, channel=channel, address=address, text=text, turn=turn or "")
    return letter, get_claimed(state, turn) if turn else None
