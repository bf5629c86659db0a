"""Notifications: messages that an agent adds to a conversation on its own, and notices to the owner.

The reply of a scheduled run is added to the conversation at its destination. The notice tool sends the person of a
turn a private message.
"""

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.agent.conversation import convert_to_texts, dump_messages, load_messages, make_answer, make_user_message
from foreword.assembly import Assembly
from foreword.engine.sources.documents import read_prompt
from foreword.errors import Forbidden, InputError
from foreword.events.event import Notice
from foreword.events.tracer import make_id
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.schedule.destinations import find_address, resolve_destination_clearance
from foreword.storage.deliveries import OutboundMessage, count_posted, post_message
from foreword.storage.history import HistoryKind, HistoryPiece, NotificationRow, append_piece
from foreword.storage.schedules import Destination, shorten_title
from foreword.storage.sessions import SessionKey, add_session, find_current_session, list_current_ids
from foreword.types import Trust, frozen

CHARS_PER_TOKEN = 3  # estimate for text without a tokenizer
MAX_NOTICES_PER_HOUR = 10  # per person
PRIVATE_SITUATION = "dm"


@frozen(eq=True)
class Notification:
    """One message that an agent sent without being asked."""

    number: int
    """The number of its row; newer rows have higher numbers."""
    session: str
    position: int
    agent: str
    text: str
    schedule: str = ""
    """The id of its schedule, if any."""
    title: str = ""
    """The name of that schedule, or its first words."""
    moment: datetime | None = None
    """The time at which it was sent."""

    @property
    def key(self) -> str:
        """Unique key."""
        return f"{self.session} {self.position}"

    @property
    def label(self) -> str:
        """Where it comes from."""
        return f"scheduled: {self.title or self.schedule}" if self.schedule else "sent by the agent"


def make_notification(row: NotificationRow) -> Notification:
    """Make a notification from its row."""
    messages = convert_to_texts(load_messages(row.messages))
    return Notification(
        number=row.number,
        session=row.session,
        position=row.position,
        agent=row.agent,
        text=messages[-1].text if messages else "",
        schedule=row.schedule,
        title=row.name or shorten_title(row.say),
        moment=row.moment,
    )


def make_note(
    question: str,
    answer: str,
    turn: str | None = None,
    beginning: str | None = None,
    kind: HistoryKind = HistoryKind.ROOM,
) -> HistoryPiece:
    """Make a history piece from a text that was not written in the session and the answer to it."""
    messages = dump_messages([make_user_message(question), make_answer(answer)])
    tokens = (len(question) + len(answer)) // CHARS_PER_TOKEN
    return HistoryPiece(kind=kind, messages=messages, tokens=tokens, turn=turn, beginning=beginning)


def add_to_private_conversation(
    state: sqlite3.Connection, place: SessionKey, turn: str, text: str, now: datetime, *, home: Trust | None = None
) -> None:
    """Add a sent message to the private conversation of a person, and create the conversation if there is none.

    A new conversation gets the person's own clearance, because their chat does not show conversations below it.
    """
    own = replace(place, clearance=max(place.clearance, home or place.clearance))
    if find_current_session(state, own) is None:
        add_session(state, own, PRIVATE_SITUATION, now)
    add_to_current_conversations(state, place, turn, text)


def add_to_current_conversations(state: sqlite3.Connection, place: SessionKey, turn: str, text: str) -> None:
    """Add a sent message to the current conversations at a place; in a room, everyone has read it."""
    piece = make_note(read_prompt("gateway/planned"), text, turn=turn or None)
    for session in list_current_ids(state, place):
        append_piece(state, session, piece)


def post_notice(state: sqlite3.Connection, context: GatewayContext, assembly: Assembly, text: str, turn: str) -> str:
    """Post a notice to the person of a turn; return the answer for the agent."""
    user, config, now = assembly.turn.user, context.workspace.config, context.clock()
    found = find_address(state, config, user, context.channels)
    if found is None:
        raise InputError("there is no address at which this person can be reached")
    channel, address = found
    clearance, destination = assembly.clearance.level, Destination(channel=channel, address=address)
    if resolve_destination_clearance(user, destination, config) < clearance:
        raise Forbidden("what is known here may not be told in this person's private chat")
    prefix = f"notice\x00{user}\x00"
    if count_posted(state, prefix, now - timedelta(hours=1)) >= MAX_NOTICES_PER_HOUR:
        raise Forbidden(f"{MAX_NOTICES_PER_HOUR} notices an hour are the most; put the rest into the reply")
    message = OutboundMessage(key=prefix + make_id(128), channel=channel, address=address, text=text, turn=turn)
    post_message(state, message, now)
    place = SessionKey(agent=assembly.turn.agent, channel=channel, room="", clearance=clearance, user=user)
    add_to_current_conversations(state, place, turn, text)
    return f"The notice is on its way to {user} on {channel}."


class OutboxNotices:
    """Notifies the owner in private, at their last address on a channel that delivers."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, notice: Notice) -> None:
        """Start sending a notice. Its unique key makes it one message, even after retries."""
        task = asyncio.create_task(self._post(notice, f"fault\x00{make_id(128)}"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, notice: Notice, key: str) -> None:
        def work(state: sqlite3.Connection) -> None:
            config = self._context.workspace.config
            found = find_address(state, config, config.owner, self._context.channels)
            if found is None:
                return
            destination = Destination(channel=found[0], address=found[1])
            # The text names files and settings, so the address must have full trust.
            if resolve_destination_clearance(config.owner, destination, config) is Trust.FULL:
                message = OutboundMessage(key=key, channel=found[0], address=found[1], text=notice.text)
                post_message(state, message, self._context.clock())

        with suppress(sqlite3.Error):  # the log also has it
            await self._context.writer.write(work)
