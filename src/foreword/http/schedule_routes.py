"""`/api/schedules`: list, create and cancel the schedules of the user.

`/api/notifications`: messages that agents sent to the user's web session unprompted, such as scheduled replies.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BeforeValidator, Field, StringConstraints

from foreword.config.schedule_settings import MissedRuns, ScheduleSettings
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.gateway_tools import MAX_SAY_CHARS, MAX_SCHEDULE_NAME_CHARS, SCHEDULE_TOOLS
from foreword.gateway.notifications import Notification
from foreword.http import request_context as shared
from foreword.http import sse
from foreword.http.error_responses import HttpError, make_not_found
from foreword.http.request_context import ContextDep, RequestContext, RequestModel, ResponseModel
from foreword.storage.schedules import StoredSchedule
from foreword.types import Delivery

POLL_S = 0.5
MIN_TRUST = SCHEDULE_TOOLS.tools[0].trust  # same as for the agent's schedule tool
NOTIFICATION_RESPONSE = {
    "description": "The notifications; a stream of events if the client accepts events.",
    "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}}},
}
SchedulePath = Annotated[str, Path(max_length=64, description="The id of a schedule.")]

schedule_router = APIRouter(prefix="/api/schedules", tags=["schedules"])
notification_router = APIRouter(prefix="/api/notifications", tags=["notifications"])


class ScheduleRequest(RequestModel):
    """A message to an agent at a later time. Runs act as the caller; replies go to the caller or one of their rooms."""

    say: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SAY_CHARS)] = Field(
        description="The message to the agent; the run has no other context."
    )
    cron: shared.FactField = Field(
        "", description="Minute, hour, day, month and weekday, such as 0 8 * * 1-5; give either cron or at."
    )
    at: shared.FactField = Field(
        "", description="Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00; give either cron or at."
    )
    zone: shared.FactField = Field("", description="The time zone; default: that of the room, the user or the server.")
    name: Annotated[str, StringConstraints(max_length=MAX_SCHEDULE_NAME_CHARS)] = Field(
        "", description="A name for the schedule."
    )
    agent: shared.NameField = Field("", description="The agent; default: the first one.")
    to: shared.NameField = Field(
        "", description="One of your addresses, such as telegram:1001, or a room; default: your last address."
    )
    delivery: Literal["always", "as_needed", "never"] = Field("always", description="When the reply is delivered.")
    missed: Literal["once", "skip"] = Field(
        "once", description="Whether runs missed in a downtime are made up for once or skipped."
    )


class ScheduleShape(ResponseModel):
    """A schedule."""

    schedule: str = Field(description="The id.")
    name: str
    origin: str = Field(description="config, person or agent; schedules of config are changed in foreword.yaml.")
    agent: str
    kind: str
    moment: str = Field(description="The time as written.")
    zone: str
    say: str
    to: str = Field(description="The destination of replies; empty for the user's last address.")
    delivery: str
    missed: str
    due: datetime | None = Field(description="The next run; null if there is none.")
    note: str = Field(description="Why the last run did not take place.")
    notes: list[str] = Field(
        [], description="On creation: how the time was read, and whether replies cannot be delivered."
    )


class ScheduleList(ResponseModel):
    """Schedules, in order of the next run."""

    schedules: list[ScheduleShape]


def describe_schedule(schedule: StoredSchedule, notes: Sequence[str] = ()) -> ScheduleShape:
    """Describe a schedule."""
    timing = schedule.timing
    fields: dict[str, Any] = {name: getattr(schedule, name) for name in ("agent", "say", "due", "note")}
    fields |= {name: str(getattr(schedule, name)) for name in ("origin", "to", "delivery", "missed")}
    fields |= {"kind": str(timing.kind), "moment": timing.moment, "zone": timing.zone, "notes": list(notes)}
    return ScheduleShape(schedule=schedule.id, name=schedule.title, **fields)


def check_room_member(context: RequestContext, to: str) -> None:
    """Raise a 422 for a room that does not list the caller as a member."""
    config, user = context.config, context.user
    for name, room in config.rooms.items():
        if to in (name, *room.places) and user != config.owner and user not in (room.members or ()):
            raise HttpError(422, f"{user} is not listed as a member of room {to}", param="to")


@schedule_router.get("", operation_id="listSchedules")
async def list_schedules(context: ContextDep) -> ScheduleList:
    """List your schedules that were not created above your current clearance."""
    schedules = await context.gateway.scheduler.list(context.user, context.find_clearance())
    return ScheduleList(schedules=[describe_schedule(schedule) for schedule in schedules])


@schedule_router.post("", operation_id="planSchedule", status_code=201)
async def create_schedule(body: ScheduleRequest, context: ContextDep) -> ScheduleShape:
    """Create a schedule. Runs have at most your current clearance and that of the destination."""
    if context.find_clearance() < MIN_TRUST:
        raise HttpError(422, "schedules need at least familiar trust")
    check_room_member(context, body.to)
    settings = ScheduleSettings(
        **body.model_dump(exclude={"cron", "delivery", "missed"}),
        user=context.user,
        cron=" ".join(body.cron.split()),
        delivery=Delivery(body.delivery),
        missed=MissedRuns(body.missed),
    )
    created = await context.gateway.scheduler.create(settings, bounded=context.user != context.config.owner)
    return describe_schedule(created.schedule, created.notes)


@schedule_router.delete("/{schedule}", operation_id="cancelSchedule", status_code=204)
async def delete_schedule(schedule: SchedulePath, context: ContextDep) -> None:
    """Cancel one of your schedules. Schedules of foreword.yaml must be removed there."""
    if not await context.gateway.scheduler.cancel(schedule, context.user, context.find_clearance()):
        raise make_not_found("schedule")


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


def describe_notification(notification: Notification) -> NotificationShape:
    """Describe a notification."""
    same = {name: getattr(notification, name) for name in ("session", "agent", "label", "text")}
    return NotificationShape(**same, schedule=notification.schedule or None, time=notification.moment)


async def find_notifications(context: RequestContext, after: int = 0) -> tuple[Sequence[Notification], int]:
    """Find the user's notifications at or below their current clearance; also return the next cursor."""
    sessions, clearance = context.gateway.sessions, context.find_clearance()
    return await sessions.list_notifications_of(context.user, WEB_CHANNEL, clearance, after)


@notification_router.get(
    "", operation_id="listNotifications", response_model=NotificationList, responses={200: NOTIFICATION_RESPONSE}
)
async def list_notifications(context: ContextDep, since: SinceTimeQuery = None) -> Any:
    """List the messages that agents sent to your web session unprompted, or stream them as events.

    A stream starts with the notifications after `since`; without `since`, with the next new one.
    """
    if since and since.tzinfo is None:
        raise HttpError(422, "since needs an offset, such as 2026-11-16T08:00:00Z", param="since")
    found, cursor = await find_notifications(context)
    missed = [message for message in found if since and message.moment and message.moment > since]
    if sse.accepts_events(context.request):
        return sse.EventResponse(stream_notifications(context, missed, cursor), {})
    return NotificationList(notifications=[describe_notification(message) for message in (missed if since else found)])


async def stream_notifications(
    context: RequestContext, found: Sequence[Notification], cursor: int
) -> AsyncIterator[str]:
    """Stream each notification once until the client disconnects, its token expires or the server shuts down."""
    state, quiet_s = context.request.app.state, sse.KEEP_ALIVE_S  # the stream begins with a comment
    while not state.shutdown.is_set() and state.tokens.is_valid(context.token, context.config.users):
        if quiet_s >= sse.KEEP_ALIVE_S:
            quiet_s = 0.0
            yield sse.KEEP_ALIVE_COMMENT
        for message in found:
            quiet_s = 0.0
            yield sse.write_event(describe_notification(message).model_dump(mode="json"), "notification")
        with suppress(TimeoutError):
            await asyncio.wait_for(state.shutdown.wait(), POLL_S)
        quiet_s += POLL_S
        found, cursor = await find_notifications(context, cursor)
