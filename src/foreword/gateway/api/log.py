"""The log: what happened and what it cost, as far as who asks may know."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from foreword.events.filter import USUAL, read_filter
from foreword.events.question import MOST, find_events, find_trace
from foreword.events.spending import find_spending
from foreword.events.totals import Total
from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import LONGEST_NAME, Told, answers

Short = Annotated[str, Query(max_length=LONGEST_NAME)]
Since = Annotated[
    str, Query(max_length=LONGEST_NAME, description="1h, 7d, today, yesterday, 2026-11-15 or with a time.")
]
Until = Annotated[str, Query(max_length=LONGEST_NAME, description="Written as `since`; a day is meant whole.")]
Turn = Annotated[str, Path(pattern="^[0-9a-f]{6,32}$", description="The id of a turn, or how it begins.")]

router = APIRouter(prefix="/api", tags=["log"])


class Events(Told):
    """Events, the newest first; those of one turn in their order."""

    events: list[dict[str, Any]]
    until: str | None
    """What to ask for as `until` to see older ones."""
    notice: str | None


class Sum(Told):
    """What was used under one name."""

    name: str
    turns: int
    calls: int
    unpriced: int
    tokens_in: int
    tokens_out: int
    cache_read: int
    cache_write: int
    cost_usd: float | None


class Cost(Told):
    """What was spent in a time."""

    by: str
    since: datetime | None
    until: datetime | None
    whole: Sum
    usd_per_turn: float | None
    most_tokens: Sum | None
    totals: list[Sum]
    left: int


@router.get("/events", operation_id="listEvents", responses=answers())
async def show_events(
    desk: AtDesk,
    *,
    session: Short = "",
    level: Annotated[Literal["info", "warn", "error"], Query(description="This level and above.")] = "info",
    type: Short = "",  # noqa: A002 - the name of the parameter
    user: Short = "",
    channel: Short = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
) -> Events:
    """Find recorded events: one's own, at full trust all, and none above one's clearance."""
    reader = desk.make_reader()
    asked = {
        "session_id": session,
        "level": level,
        "event_type": type,
        "user": user,
        "channel": channel,
        "since": since,
        "until": until,
        "limit": limit,
    }
    wanted = read_filter(asked, reader, desk.now)
    found = await desk.ask(lambda log: find_events(log, reader, wanted))
    rest = found.find_rest(len(found.records), wanted)
    return Events(
        events=[record.to_dict(reader) for record in found.records], until=rest or None, notice=found.notice or None
    )


@router.get("/events/{turn}", operation_id="traceTurn", responses=answers())
async def trace(turn: Turn, desk: AtDesk) -> Events:
    """Show everything that one turn did, in its order; another's turn is like one that does not exist."""
    reader = desk.make_reader()
    found = await desk.ask(lambda log: find_trace(log, reader, turn))
    if not found.records:
        raise missing("turn")
    return Events(events=[record.to_dict(reader) for record in found.records], until=None, notice=found.notice or None)


@router.get("/cost", operation_id="sumCost", responses=answers())
async def sum_cost(
    desk: AtDesk,
    by: Literal["day", "session", "user", "agent", "channel", "section", "model"] = "day",
    since: Since = "",
    until: Until = "",
) -> Cost:
    """Sum up what was spent, today unless a time is named."""
    reader = desk.make_reader()
    asked = {"by": by, "since": since, "until": until}
    spending = await desk.ask(lambda log: find_spending(log, reader, asked, desk.now))
    return Cost(
        by=spending.by,
        since=spending.period.since,
        until=spending.period.until,
        whole=show_sum(spending.whole),
        usd_per_turn=spending.usd_per_turn,
        most_tokens=show_sum(spending.longest) if spending.longest else None,
        totals=[show_sum(total) for total in spending.totals],
        left=spending.left,
    )


def show_sum(total: Total) -> Sum:
    """Show one sum."""
    return Sum(**asdict(total))
