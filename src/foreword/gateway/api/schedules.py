"""Schedules: one's own, made and cancelled with the authority of whoever asks."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from foreword.config.scheduling import Missed
from foreword.config.scheduling import Schedule as Written
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import Fault, missing
from foreword.gateway.api.shapes import Asked, Fact, Name, Told, answers
from foreword.gateway.schedule.destination import show_destination
from foreword.tools.scheduling import LONGEST_NAME as LONGEST_TITLE
from foreword.tools.scheduling import LONGEST_SAY, SCHEDULING
from foreword.words import Delivery

if TYPE_CHECKING:
    from foreword.gateway.schedule.scheduler import Scheduler
    from foreword.gateway.schedule.schedules import Schedule

Named = Annotated[str, Path(max_length=64, description="The id of a schedule.")]

LEAST = SCHEDULING.tools[0].trust  # as it is for who asks the agent to plan something

router = APIRouter(prefix="/api/schedules", tags=["schedules"])


class ScheduleRequest(Asked):
    """What an agent is to be told later; it acts as whoever asks, and its replies go to them or to a room of theirs."""

    say: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SAY)] = Field(
        description="What the agent is told; it knows nothing else of who asks for it."
    )
    cron: Fact = Field("", description="Minute, hour, day, month and weekday, such as 0 8 * * 1-5; either this or at.")
    at: Fact = Field(
        "", description="Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00; either this or cron."
    )
    zone: Fact = Field("", description="The time zone of its times; else that of the room, the person or the server.")
    name: Annotated[str, StringConstraints(max_length=LONGEST_TITLE)] = Field("", description="What it is known by.")
    agent: Name = Field("", description="Who is told; else the first agent.")
    to: Name = Field("", description="One's own address, such as telegram:1001, or a room; else one's last address.")
    delivery: Literal["always", "as_needed", "never"] = Field("always", description="What happens with the reply.")
    missed: Literal["once", "skip"] = Field("once", description="What becomes of runs in a downtime.")


class ScheduleShape(Told):
    """A schedule."""

    schedule: str = Field(description="Its id.")
    name: str
    origin: str = Field(description="Who made it: config, person or agent. One of config is changed in foreword.yaml.")
    agent: str
    kind: str
    moment: str = Field(description="When, as it was written.")
    zone: str
    say: str
    to: str = Field(description="Where its replies go; empty where that is the person's last address.")
    delivery: str
    missed: str
    due: datetime | None = Field(description="The next run; null where there is none any more.")
    note: str = Field(description="Why the newest run did not come about.")
    notes: list[str] = Field([], description="When it is made: how its time was read, and that nobody is reached.")


class ScheduleList(Told):
    """Schedules, those that are due first first."""

    schedules: list[ScheduleShape]


def describe(one: "Schedule", notes: Sequence[str] = ()) -> ScheduleShape:
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
        to=show_destination(one.to),
        delivery=str(one.delivery),
        missed=str(one.missed),
        due=one.due,
        note=one.note,
        notes=list(notes),
    )


def find_scheduler(desk: Desk) -> "Scheduler":
    """Find who keeps the schedules of this gateway."""
    assert desk.gateway.scheduler is not None
    return desk.gateway.scheduler


def check_room(desk: Desk, to: str) -> None:
    """Refuse a room whose member one is not: everybody in it would be spoken to."""
    config = desk.config
    for name, room in config.rooms.items():
        if to in (name, *room.places) and desk.user != config.owner and desk.user not in (room.members or ()):
            raise Fault(422, f"{to} is no room that lists {desk.user} as a member", param="to")


@router.get("", operation_id="listSchedules", responses=answers())
async def show_all(desk: AtDesk) -> ScheduleList:
    """List one's own schedules, but none that was made above what one may see now."""
    found = await find_scheduler(desk).list(desk.user, desk.find_clearance())
    return ScheduleList(schedules=[describe(one) for one in found])


@router.post("", operation_id="planSchedule", status_code=201, responses=answers())
async def plan(asked: ScheduleRequest, desk: AtDesk) -> ScheduleShape:
    """Plan something for oneself; no run has more than one may see now, nor more than may be seen where it goes."""
    if desk.find_clearance() < LEAST:
        raise Fault(422, "schedules need at least familiar trust")
    check_room(desk, asked.to)
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
        missed=Missed(asked.missed),
    )
    ordered = await find_scheduler(desk).order(entry, bounded=desk.user != desk.config.owner)
    return describe(ordered.schedule, ordered.notes)


@router.delete("/{schedule}", operation_id="cancelSchedule", status_code=204, responses=answers())
async def cancel(schedule: Named, desk: AtDesk) -> None:
    """Cancel one of one's own schedules; one of foreword.yaml is taken out there."""
    if not await find_scheduler(desk).cancel(schedule, desk.user, desk.find_clearance()):
        raise missing("schedule")
