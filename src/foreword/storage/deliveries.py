"""Outbound messages in the state, and the leases and results of their delivery."""

import json
import sqlite3
from collections.abc import Collection
from datetime import datetime, timedelta

from foreword.storage.database import format_moment
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, insert_row, list_columns
from foreword.storage.writer import is_dead_owner
from foreword.types import TextEnum, frozen

OUTBOX_COLUMNS = "key, channel, address, text, turn_id"
CLAIM_DUE = f"""
UPDATE outbox SET state = 'sending', attempt = attempt + 1, lease_owner = ?, lease_until = ?
WHERE id IN (SELECT id FROM outbox AS mine WHERE state = 'pending' AND due <= ?
    AND channel IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM outbox AS other
        WHERE other.state IN ('pending', 'sending') AND other.channel = mine.channel
        AND other.address = mine.address AND other.id < mine.id) ORDER BY id LIMIT ?)
RETURNING id AS number, part, attempt, lease_owner AS owner, {OUTBOX_COLUMNS}"""
TAKE_OVER = f"""
UPDATE outbox SET state = iif(channel IN (SELECT value FROM json_each(?)), 'pending', 'uncertain'), lease_owner = ''
WHERE state = 'sending' AND lease_owner = ? AND (lease_until < ? OR ?)
RETURNING state, {OUTBOX_COLUMNS}"""
STORE_RESULT = """
UPDATE outbox SET state = ?, part = part + ?, attempt = iif(?, 0, attempt), due = ?, sent = ?,
    lease_owner = '', lease_until = 0 WHERE id = ? AND lease_owner = ? AND attempt = ?"""


class DeliveryStatus(TextEnum):
    """Delivery status of an outbound message."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"  # the send was interrupted and the channel has no idempotency keys: a person must check
    REFUSED = "refused"  # the channel rejects it permanently


@frozen(eq=True)
class OutboundMessage:
    """A text for an address on a channel. The key is unique: a message posted twice is delivered once."""

    key: str
    channel: str
    address: str
    text: str
    turn: str = ""  # the turn that it answers or comes from


@frozen
class DeliveryLease:
    """The claim of a process on one attempt at a part of an outbound message."""

    number: int
    message: OutboundMessage
    part: int  # number of parts delivered so far
    attempt: int
    owner: str


def post_message(state: sqlite3.Connection, message: OutboundMessage, now: datetime) -> None:
    """Add a message to the outbox, within the caller's transaction."""
    columns = list_columns(message) | {"turn_id": message.turn or None}
    insert_row(state, "outbox", "INSERT OR IGNORE", state="pending", due=now.timestamp(), **columns)


def is_posted(state: sqlite3.Connection, key: str) -> bool:
    """Return whether a message with this key was added to the outbox."""
    return fetch_cell(int, state, "SELECT 1 FROM outbox WHERE key = ?", key) is not None


def count_posted(state: sqlite3.Connection, prefix: str, since: datetime) -> int:
    """Count the messages since a time whose key begins with a prefix."""
    query = "SELECT count(*) FROM outbox WHERE key >= ? AND key < ? AND due > ?"
    return fetch_cell(int, state, query, prefix, f"{prefix}\x7f", since.timestamp()) or 0


def claim_deliveries(
    state: sqlite3.Connection, owner: str, channels: Collection[str], now: datetime, *, lease: timedelta, limit: int
) -> list[DeliveryLease]:
    """Claim the first due message of each address."""
    moments = (now + lease).timestamp(), now.timestamp()
    claimed = fetch_all(DeliveryLease, state, CLAIM_DUE, owner, *moments, json.dumps(list(channels)), limit)
    return sorted(claimed, key=lambda lease: lease.number)


def take_over_deliveries(
    state: sqlite3.Connection, owner: str, idempotent: Collection[str], now: datetime
) -> list[OutboundMessage]:
    """Take over the sends of dead processes on idempotent channels; mark the others as uncertain and return them."""
    query = "SELECT DISTINCT lease_owner FROM outbox WHERE state = 'sending' AND lease_owner != ?"
    uncertain: list[OutboundMessage] = []
    for other in fetch_column(state, query, owner):
        parameters = (json.dumps(list(idempotent)), other, now.timestamp(), is_dead_owner(other))
        for status, key, channel, address, text, turn in state.execute(TAKE_OVER, parameters).fetchall():
            if status == "uncertain":
                uncertain.append(OutboundMessage(key=key, channel=channel, address=address, text=text, turn=turn or ""))
    return uncertain


def store_result(
    state: sqlite3.Connection, lease: DeliveryLease, status: DeliveryStatus, now: datetime, wait: float = 0.0
) -> None:
    """Store the result of a part. A message that stays pending without a wait continues with its next part."""
    pending, sent = status is DeliveryStatus.PENDING and not wait, status is DeliveryStatus.SENT
    delivered, due, moment = int(sent or pending), now.timestamp() + wait, format_moment(now) if sent else None
    key = (lease.number, lease.owner, lease.attempt)
    state.execute(STORE_RESULT, (str(status), delivered, pending, due, moment, *key))
