"""Notifications: messages that agents sent to a person's web conversation without being asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator, Field

from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import Fault
from foreword.gateway.api.shapes import Told, answers
from foreword.gateway.api.stream import ALIVE, QUIET, stream, write_event
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.notifications import Notification
from foreword.gateway.tokens import Tokens

POLL_S = 0.5
SSE = "text/event-stream"
STREAMED = {
    "description": "The notifications; a stream of events if the client accepts events.",
    "content": {SSE: {"schema": {"type": "string"}}},
}

router = APIRouter(prefix="/api/notifications", tags=["notifications"])


def refuse_number(value: Any) -> Any:
    """Refuse a plain number, which pydantic would read as seconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("a date and a time with an offset is expected, such as 2026-11-16T08:00:00Z")
    return value


Since = Annotated[
    datetime | None,
    BeforeValidator(refuse_number),
    Query(description="Only notifications sent after this time; it needs an offset."),
]


class NotificationShape(Told):
    """A message that an agent sent without being asked."""

    session: str
    agent: str
    label: str = Field(description="Where it comes from, such as the name of a schedule.")
    schedule: str | None = Field(description="The id of its schedule; null without one.")
    text: str
    time: datetime | None


class NotificationList(Told):
    """Notifications, the oldest first."""

    notifications: list[NotificationShape]


def describe(one: Notification) -> NotificationShape:
    """Describe a notification."""
    return NotificationShape(
        session=one.session,
        agent=one.agent,
        label=one.label,
        schedule=one.schedule or None,
        text=one.text,
        time=one.moment,
    )


async def find(desk: Desk, after: int = 0) -> tuple[Sequence[Notification], int]:
    """Find the notifications of this person at or below their current clearance; also return the next cursor."""
    return await desk.gateway.sessions.list_notifications_of(desk.user, CHANNEL, desk.find_clearance(), after)


@router.get(
    "", operation_id="listNotifications", response_model=NotificationList, responses={200: STREAMED, **answers()}
)
async def show(desk: AtDesk, request: Request, since: Since = None) -> Any:
    """List the messages that agents sent to one's web conversation without being asked, or stream them as events.

    A stream begins with the notifications after `since`; without it, with the next one.
    """
    if since and since.tzinfo is None:
        raise Fault(422, "since needs an offset, such as 2026-11-16T08:00:00Z", param="since")
    streamed = SSE in request.headers.get("accept", "")
    found, cursor = await find(desk)
    late = [one for one in found if since and one.moment and one.moment > since]
    if not streamed:
        return NotificationList(notifications=[describe(one) for one in (late if since else found)])
    tokens: Tokens = request.app.state.tokens

    def is_open() -> bool:
        return not request.app.state.ending.is_set() and tokens.is_valid(desk.token, desk.config.users)

    return stream(stream_events(desk, late, cursor, is_open, request.app.state.ending), {})


async def stream_events(
    desk: Desk, late: Sequence[Notification], cursor: int, is_open: Callable[[], bool], ending: asyncio.Event
) -> AsyncIterator[str]:
    """Send each notification once until the client leaves, its token ends or the server shuts down."""
    yield ALIVE
    quiet, found = 0.0, late
    while is_open():
        for one in found:
            quiet = 0.0
            yield write_event(describe(one).model_dump(mode="json"), "notification")
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), POLL_S)
        quiet += POLL_S
        if quiet >= QUIET:
            quiet = 0.0
            yield ALIVE
        found, cursor = await find(desk, cursor)
