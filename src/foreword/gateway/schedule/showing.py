"""Schedules in words."""

from datetime import datetime, timedelta

from foreword.gateway.schedule.destination import show_destination
from foreword.gateway.schedule.due import Kind
from foreword.gateway.schedule.schedules import Schedule, Standing
from foreword.sources.clock import find_zone
from foreword.words import Delivery

LONGEST = 200  # characters of what a schedule says
BRIEF = 40  # the same, in a table
LATE = timedelta(minutes=1)  # a running gateway fires sooner than that
WAITS = "overdue; it waits for foreword serve"


def describe(schedule: Schedule) -> str:
    """Describe a schedule on one line."""
    timing = schedule.timing
    title = f" ({' '.join(schedule.title.split())})" if schedule.title != schedule.id else ""
    due = show_moment(schedule.due, timing.zone) if schedule.due else ""
    when = f"{timing.kind} {timing.moment}, {f'next {due}' if due else 'over'}"
    if timing.kind is Kind.AT and due:
        when = f"once on {due}"
    words = " ".join(schedule.say.split())
    said = f": {words[:LONGEST]}" if words else ""
    state = "" if schedule.state is Standing.WAITING else ", runs no more"
    return f"{schedule.id}{title}, {when}{state}; {describe_delivery(schedule)}{said}"


def describe_delivery(schedule: Schedule) -> str:
    """Say where the replies of a schedule go, and when."""
    where = show_destination(schedule.to) or f"the private address that {schedule.user} used last"
    if schedule.delivery is Delivery.NEVER:
        return "replies are not sent"
    needed = " if there is something to say" if schedule.delivery is Delivery.AS_NEEDED else ""
    return f"replies go to {where}{needed}"


def show_said(schedule: Schedule) -> str:
    """Show how what a schedule says begins."""
    words = " ".join(schedule.say.split())
    return words if len(words) <= BRIEF else f"{words[: BRIEF - 1].rstrip()}…"


def show_note(schedule: Schedule, now: datetime) -> str:
    """Say why the newest run did not come about, that a run has been due for a while, or that the last one is done."""
    late = schedule.state is Standing.WAITING and schedule.due is not None and now - schedule.due > LATE
    done = schedule.state is Standing.OVER and schedule.ran is not None
    return "; ".join(note for note in (WAITS if late else "", schedule.note) if note) or ("done" if done else "")


def show_moment(moment: datetime, zone: str) -> str:
    """Show a moment in a zone."""
    found, _ = find_zone(zone)
    return f"{moment.astimezone(found):%Y-%m-%d %H:%M} ({found.key})"
