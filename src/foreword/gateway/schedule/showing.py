"""Schedules in words."""

from datetime import datetime

from foreword.gateway.schedule.destination import show_destination
from foreword.gateway.schedule.schedules import Schedule, Standing
from foreword.sources.clock import find_zone

LONGEST = 200  # characters of what a schedule says


def describe(schedule: Schedule) -> str:
    """Describe a schedule on one line."""
    timing = schedule.timing
    title = f" ({' '.join(schedule.name.split())})" if schedule.name and schedule.name != schedule.id else ""
    due = f"next {show_moment(schedule.due, timing.zone)}" if schedule.due else "over"
    where = show_destination(schedule.to) or "the last private address"
    words = " ".join(schedule.say.split())
    said = f": {words[:LONGEST]}" if words else ""
    state = "" if schedule.state is Standing.WAITING else ", runs no more"
    return f"{schedule.id}{title}, {timing.kind} {timing.moment}, {due}{state}, {schedule.delivery} to {where}{said}"


def show_moment(moment: datetime, zone: str) -> str:
    """Show a moment in a zone."""
    found, _ = find_zone(zone)
    return f"{moment.astimezone(found):%Y-%m-%d %H:%M} ({found.key})"
