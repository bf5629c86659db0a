"""The outbox: letters on their way to channels that deliver by themselves, such as a messenger.

A reply is in the outbox from the moment its turn ends. Where a channel takes a key, one that is sent
twice is shown once; for the others a send whose end nobody knows is recorded as uncertain and not repeated in silence.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.events.event import NOBODY, EventType, Level
from foreword.events.listening import Listeners
from foreword.events.trace import Timepiece, Trace, describe_error
from foreword.frozen import frozen
from foreword.gateway.belonging import find_context
from foreword.gateway.channel import Channel, NeverDelivered, NotDelivered
from foreword.gateway.inbox import Claimed
from foreword.gateway.letter import Letter
from foreword.gateway.moment import write_moment
from foreword.gateway.owner import is_dead, name_owner
from foreword.gateway.sqlite_inbox import get_claimed
from foreword.gateway.standing import may_have
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
GONE = "whoever is at this address now is not who it was written for, so it was not sent"
UNSPLIT = "its parts cannot be told"
MOST = 64  # deliveries at once
LETTER = "key, channel, address, text, turn_id"


class Fate(Word):
    """What became of a letter so far."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    """It was on its way when something broke, and the channel knows no key: a person has to look."""
    REFUSED = "refused"
    """The channel will never take it."""


Belonging = tuple[Letter, Claimed | None]
"""A letter, and the turn that it belongs to."""


@frozen
class Parcel:
    """A letter that this process delivers, and the turn that it belongs to."""

    number: int
    letter: Letter
    part: int
    """How many of its parts have arrived."""
    attempt: int
    claimed: Claimed | None
    allowed: bool
    """Whether whoever is at its address now may still have it."""


class Outbox:
    """Delivers replies in their order at each address, and writes down what became of them."""

    def __init__(
        self,
        writer: Writer,
        channels: Mapping[str, Channel],
        listeners: Listeners,
        clock: Callable[[], datetime],
        config: Callable[[], Config],
    ) -> None:
        self._writer = writer
        self._channels = channels
        self._listeners = listeners
        self._clock = clock
        self._config = config
        self._owner = name_owner()

    def find_channel(self, name: str) -> Channel | None:
        """Find a channel by its name."""
        return self._channels.get(name)

    async def deliver_all(self) -> None:
        """Deliver until nothing is due."""
        while await self.deliver():
            pass

    async def deliver(self) -> int:
        """Deliver the next part of what is due; return how many were tried."""
        config = self._config()
        faults: list[sqlite3.Error] = []
        parcels, lost = await self._writer.seal(lambda state: self._claim(state, config), unsealed=faults.append)
        for letter, claimed in lost:
            self._make_trace(letter, claimed).tell(EventType.CHANNEL_ERROR, level=Level.ERROR, error=LOST)
        if parcels and faults:  # they are ours, and nothing is sent before the disk knows that it may have been
            await self._insist(lambda _: None)
        await asyncio.gather(*(self._deliver(parcel) for parcel in parcels))
        return len(parcels)

    def _claim(self, state: sqlite3.Connection, config: Config) -> tuple[Sequence[Parcel], Sequence[Belonging]]:
        """Claim the first letter of each address that is due; return also those whose fate is uncertain now."""
        now = self._clock()
        lost = self._take_over(state, now)
        got = state.execute(
            "UPDATE outbox SET state = 'sending', attempt = attempt + 1, lease_owner = ?, lease_until = ?"
            " WHERE id IN (SELECT id FROM outbox AS mine WHERE state = 'pending' AND due <= ?"
            " AND channel IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM outbox AS other"
            " WHERE other.state IN ('pending', 'sending') AND other.channel = mine.channel"
            " AND other.address = mine.address AND other.id < mine.id) ORDER BY id LIMIT ?)"
            f" RETURNING id, part, attempt, {LETTER}",
            (self._owner, (now + LEASE).timestamp(), now.timestamp(), json.dumps(list(self._channels)), MOST),
        ).fetchall()
        parcels = []
        for number, part, attempt, *row in sorted(got):
            letter, claimed = read_letter(state, row)
            allowed = claimed is None or may_have(state, letter, claimed.incoming, config)
            parcels.append(
                Parcel(number=number, letter=letter, part=part, attempt=attempt, claimed=claimed, allowed=allowed)
            )
        return parcels, lost

    def _take_over(self, state: sqlite3.Connection, now: datetime) -> list[Belonging]:
        """Take up what a dead process was sending where a key makes that safe; the rest is uncertain."""
        keyed = json.dumps([name for name, channel in self._channels.items() if channel.takes_key])
        asked = "SELECT DISTINCT lease_owner FROM outbox WHERE state = 'sending' AND lease_owner != ?"
        lost: list[Belonging] = []
        for (owner,) in state.execute(asked, (self._owner,)).fetchall():
            became = state.execute(
                "UPDATE outbox SET state = iif(channel IN (SELECT value FROM json_each(?)), 'pending', 'uncertain'),"
                " lease_owner = '' WHERE state = 'sending' AND lease_owner = ? AND (lease_until < ? OR ?)"
                f" RETURNING state, {LETTER}",
                (keyed, owner, now.timestamp(), is_dead(owner)),
            ).fetchall()
            lost += [read_letter(state, row) for word, *row in became if word == Fate.UNCERTAIN.value]
        return lost

    def _make_trace(self, letter: Letter, claimed: Claimed | None) -> Trace:
        timepiece = Timepiece(now=self._clock)
        if claimed is None:
            return Trace(self._listeners.recorder, replace(NOBODY, channel=letter.channel), timepiece)
        context = find_context(claimed.session, claimed.incoming)
        return Trace(self._listeners.recorder, context, timepiece, goes_on=claimed.place)

    async def _deliver(self, parcel: Parcel) -> None:
        channel, wait = self._channels[parcel.letter.channel], 0.0
        try:
            last = await self._send(parcel, channel)
            state = Fate.SENT if last else Fate.PENDING
        except NotDelivered as error:
            wait = error.wait or WAITS[min(parcel.attempt, len(WAITS)) - 1]
            state = Fate.PENDING
        except NeverDelivered:
            state = Fate.REFUSED
        except Exception:  # noqa: BLE001 - whatever broke, nobody knows whether it arrived
            wait = WAITS[min(parcel.attempt, len(WAITS)) - 1]
            state = Fate.PENDING if channel.takes_key else Fate.UNCERTAIN
        # Until it is written, nothing else goes to this address.
        await self._insist(lambda connection: self._settle(connection, parcel, state, wait))

    async def _insist(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Write something however long the disk takes nothing."""
        while True:
            try:
                await self._writer.seal(work)
            except sqlite3.Error:
                await asyncio.sleep(DISK)
            else:
                return

    async def _send(self, parcel: Parcel, channel: Channel) -> bool:
        """Send the next part of a letter; return whether it was the last one."""
        letter = parcel.letter
        trace = self._make_trace(letter, parcel.claimed)
        try:
            parts = channel.split(letter.text)
            text = parts[parcel.part]
        except Exception as error:  # however often it is tried, the same text is split in the same way
            trace.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))
            raise NeverDelivered(UNSPLIT) from error
        said = {"part": f"{parcel.part + 1} of {len(parts)}"} if len(parts) > 1 else {}
        with trace.step(EventType.MESSAGE_SENT, length=len(text), attempt=parcel.attempt, **said):
            if not parcel.allowed:
                raise NeverDelivered(GONE)
            async with asyncio.timeout(LONGEST):
                await channel.deliver(letter.address, text, f"{letter.key}.{parcel.part}")
        return parcel.part + 1 == len(parts)

    def _settle(self, state: sqlite3.Connection, parcel: Parcel, became: Fate, wait: float) -> None:
        """Write down what became of a part; a letter that is pending without a wait goes on with its next one."""
        now = self._clock()
        arrived = became is Fate.SENT or (became is Fate.PENDING and not wait)
        state.execute(
            "UPDATE outbox SET state = ?, part = part + ?, attempt = iif(?, 0, attempt), due = ?, sent = ?,"
            " lease_owner = '', lease_until = 0 WHERE id = ? AND lease_owner = ? AND attempt = ?",
            (
                str(became),
                int(arrived),
                arrived and became is Fate.PENDING,
                now.timestamp() + wait,
                write_moment(now) if became is Fate.SENT else None,
                parcel.number,
                self._owner,
                parcel.attempt,
            ),
        )


def read_letter(state: sqlite3.Connection, row: Sequence[str]) -> Belonging:
    """Read a row, and the turn that its letter belongs to."""
    key, channel, address, text, turn = row
    letter = Letter(key=key, channel=channel, address=address, text=text, turn=turn or "")
    return letter, get_claimed(state, turn) if turn else None
