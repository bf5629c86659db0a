"""`/api/schedules`: list, create and cancel the schedules of the user."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from foreword.agent.tools.gateway_tools import MAX_SAY_CHARS, SCHEDULE_TOOLS
from foreword.agent.tools.gateway_tools import MAX_SCHEDULE_NAME_CHARS as LONGEST_TITLE
from foreword.config.schedule_settings import MissedRuns
from foreword.config.schedule_settings import ScheduleSettings as Written
from foreword.http.error_responses import HttpError, make_not_found
from foreword.http.request_context import ContextDep, RequestContext
from foreword.http.schemas import FactField, NameField, RequestModel, ResponseModel, list_error_responses
from foreword.types import Delivery

if TYPE_CHECKING:
    from foreword.gateway.schedule.scheduler import Scheduler
    from foreword.storage.schedules import StoredSchedule


SchedulePath = Annotated[str, Path(max_length=64, description="The id of a schedule.")]

MIN_TRUST = SCHEDULE_TOOLS.tools[0].trust  # same as for the agent's schedule tool

schedule_router = APIRouter(prefix="/api/schedules", tags=["schedules"])


class ScheduleRequest(RequestModel):
    """A message to an agent at a later time. Runs act as the caller; replies go to the caller or one of their rooms."""

    say: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SAY_CHARS)] = Field(
        description="The message to the agent; the run has no other context."
    )
    cron: FactField = Field(
        "", description="Minute, hour, day, month and weekday, such as 0 8 * * 1-5; give either cron or at."
    )
    at: FactField = Field(
        "", description="Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00; give either cron or at."
    )
    zone: FactField = Field("", description="The time zone; default: that of the room, the user or the server.")
    name: Annotated[str, StringConstraints(max_length=LONGEST_TITLE)] = Field(
        "", description="A name for the schedule."
    )
    agent: NameField = Field("", description="The agent; default: the first one.")
    to: NameField = Field(
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


def convert_schedule(one: "StoredSchedule", notes: Sequence[str] = ()) -> ScheduleShape:
    """Describe a schedule."""
    return ScheduleShape(
        schedule=one.id,
        name=one.title,
        origin=str(one.origin),
        agent=one.agent,
        kind=str(one.timing.kind),
        moment=one.timing.moment,
        zone=one.timing.zone,
        say=one.say,
        to=str(one.to),
        delivery=str(one.delivery),
        missed=str(one.missed),
        due=one.due,
        note=one.note,
        notes=list(notes),
    )


def get_scheduler(desk: RequestContext) -> "Scheduler":
    """Return the scheduler of the gateway."""
    assert desk.gateway.scheduler is not None
    return desk.gateway.scheduler


def check_room_member(desk: RequestContext, to: str) -> None:
    """Raise a 422 for a room that does not list the caller as a member."""
    config = desk.config
    for name, room in config.rooms.items():
        if to in (name, *room.places) and desk.user != config.owner and desk.user not in (room.members or ()):
            raise HttpError(422, f"{desk.user} is not listed as a member of room {to}", param="to")


@schedule_router.get("", operation_id="listSchedules", responses=list_error_responses())
async def list_schedules(desk: ContextDep) -> ScheduleList:
    """List your schedules that were not created above your current clearance."""
    found = await get_scheduler(desk).list(desk.user, desk.find_clearance())
    return ScheduleList(schedules=[convert_schedule(one) for one in found])


@schedule_router.post("", operation_id="planSchedule", status_code=201, responses=list_error_responses())
async def create_schedule(asked: ScheduleRequest, desk: ContextDep) -> ScheduleShape:
    """Create a schedule. Runs have at most your current clearance and that of the destination."""
    if desk.find_clearance() < MIN_TRUST:
        raise HttpError(422, "schedules need at least familiar trust")
    check_room_member(desk, asked.to)
    entry = Written(
        user=desk.user,
        agent=asked.agent,
        cron=" ".join(asked.cron.split()),
        at=asked.at,
        say=asked.say,
        name=asked.name,
        zone=asked.zone,
        to=asked.to,
        delivery=Delivery(asked.delivery),
        missed=MissedRuns(asked.missed),
    )
    ordered = await get_scheduler(desk).create(entry, bounded=desk.user != desk.config.owner)
    return convert_schedule(ordered.schedule, ordered.notes)


@schedule_router.delete("/{schedule}", operation_id="cancelSchedule", status_code=204, responses=list_error_responses())
async def delete_schedule(schedule: SchedulePath, desk: ContextDep) -> None:
    """Cancel one of your schedules. Schedules of foreword.yaml must be removed there."""
    if not await get_scheduler(desk).cancel(schedule, desk.user, desk.find_clearance()):
        raise make_not_found("schedule")
