"""`/api/notifications`: messages that agents sent to the user's web session unprompted, such as scheduled replies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator, Field

from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.notifications import Notification
from foreword.http.error_responses import HttpError
from foreword.http.request_context import ContextDep, RequestContext
from foreword.http.schemas import ResponseModel, list_error_responses
from foreword.http.sse import KEEP_ALIVE_COMMENT, KEEP_ALIVE_S, SSE_MEDIA_TYPE, make_stream, write_event
from foreword.storage.api_tokens import ApiTokens

POLL_S = 0.5
NOTIFICATION_RESPONSE = {
    "description": "The notifications; a stream of events if the client accepts events.",
    "content": {SSE_MEDIA_TYPE: {"schema": {"type": "string"}}},
}

notification_router = APIRouter(prefix="/api/notifications", tags=["notifications"])


def reject_number(value: Any) -> Any:
    """Reject a plain number, which pydantic would read as seconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("expected a date and time with an offset, such as 2026-11-16T08:00:00Z")
    return value


SinceTimeQuery = Annotated[
    datetime | None,
    BeforeValidator(reject_number),
    Query(description="Only notifications sent after this time; the offset is required."),
]


class NotificationShape(ResponseModel):
    """A message that an agent sent unprompted."""

    session: str
    agent: str
    label: str = Field(description="The origin, such as the name of a schedule.")
    schedule: str | None = Field(description="The id of the schedule, if any.")
    text: str
    time: datetime | None


class NotificationList(ResponseModel):
    """Notifications, oldest first."""

    notifications: list[NotificationShape]


def describe_notification(one: Notification) -> NotificationShape:
    """Describe a notification."""
    return NotificationShape(
        session=one.session,
        agent=one.agent,
        label=one.label,
        schedule=one.schedule or None,
        text=one.text,
        time=one.moment,
    )


async def find_notifications(desk: RequestContext, after: int = 0) -> tuple[Sequence[Notification], int]:
    """Find the user's notifications at or below their current clearance; also return the next cursor."""
    return await desk.gateway.sessions.list_notifications_of(desk.user, WEB_CHANNEL, desk.find_clearance(), after)


@notification_router.get(
    "",
    operation_id="listNotifications",
    response_model=NotificationList,
    responses={200: NOTIFICATION_RESPONSE, **list_error_responses()},
)
async def list_notifications(desk: ContextDep, request: Request, since: SinceTimeQuery = None) -> Any:
    """List the messages that agents sent to your web session unprompted, or stream them as events.

    A stream starts with the notifications after `since`; without `since`, with the next new one.
    """
    if since and since.tzinfo is None:
        raise HttpError(422, "since needs an offset, such as 2026-11-16T08:00:00Z", param="since")
    streamed = SSE_MEDIA_TYPE in request.headers.get("accept", "")
    found, cursor = await find_notifications(desk)
    late = [one for one in found if since and one.moment and one.moment > since]
    if not streamed:
        return NotificationList(notifications=[describe_notification(one) for one in (late if since else found)])
    tokens: ApiTokens = request.app.state.tokens

    def is_open() -> bool:
        return not request.app.state.ending.is_set() and tokens.is_valid(desk.token, desk.config.users)

    return make_stream(stream_notifications(desk, late, cursor, is_open, request.app.state.ending), {})


async def stream_notifications(
    desk: RequestContext, late: Sequence[Notification], cursor: int, is_open: Callable[[], bool], ending: asyncio.Event
) -> AsyncIterator[str]:
    """Stream each notification once until the client disconnects, its token expires or the server shuts down."""
    yield KEEP_ALIVE_COMMENT
    quiet, found = 0.0, late
    while is_open():
        for one in found:
            quiet = 0.0
            yield write_event(describe_notification(one).model_dump(mode="json"), "notification")
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), POLL_S)
        quiet += POLL_S
        if quiet >= KEEP_ALIVE_S:
            quiet = 0.0
            yield KEEP_ALIVE_COMMENT
        found, cursor = await find_notifications(desk, cursor)
