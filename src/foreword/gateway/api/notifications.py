"""Notifications: what agents send to one's web conversation by themselves, as a list or as it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.shapes import Told, answers
from foreword.gateway.api.stream import ALIVE, QUIET, stream, write_event
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.notifications import Notification

POLL_S = 0.5
SSE = "text/event-stream"
STREAMED = {
    "description": "The notifications so far; as events while they come, where the client accepts them.",
    "content": {SSE: {"schema": {"type": "string"}}},
}

router = APIRouter(prefix="/api/notifications", tags=["notifications"])
Since = Annotated[datetime | None, Query(description="Only what was sent after this time; it needs an offset.")]


class NotificationShape(Told):
    """A message that an agent sent by itself."""

    session: str
    agent: str
    label: str = Field(description="Where it comes from, such as the name of a schedule.")
    schedule: str | None = Field(description="The id of the schedule that it comes from; null where it is none.")
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


async def find(desk: Desk) -> list[Notification]:
    """Find what was sent to this person's web conversations, at no more than their clearance of now."""
    return list(await desk.gateway.sessions.list_notifications_of(desk.user, CHANNEL, desk.find_clearance()))


@router.get(
    "", operation_id="listNotifications", response_model=NotificationList, responses={200: STREAMED, **answers()}
)
async def show(desk: AtDesk, request: Request, since: Since = None) -> Any:
    """List what agents sent to one's web conversation by themselves, or stream it as events as it comes.

    A stream begins with what was sent after `since`, and without it with what is sent from now on.
    """
    streamed = SSE in request.headers.get("accept", "")
    found = await find(desk)
    late = [one for one in found if since and since.tzinfo and one.moment and one.moment > since]
    if not streamed:
        return NotificationList(notifications=[describe(one) for one in (late if since else found)])
    known = {one.key for one in found} - {one.key for one in late}
    return stream(tell(desk, known, request.app.state.ending), {})


async def tell(desk: Desk, known: set[str], ending: asyncio.Event) -> AsyncIterator[str]:
    """Tell each notification once, as an event, until the client goes away or the server ends."""
    yield ALIVE
    quiet = 0.0
    while not ending.is_set():
        for one in await find(desk):
            if one.key not in known:
                known.add(one.key)
                quiet = 0.0
                yield write_event(describe(one).model_dump(mode="json"), "notification")
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), POLL_S)
        quiet += POLL_S
        if quiet >= QUIET:
            quiet = 0.0
            yield ALIVE
