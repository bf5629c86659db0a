"""`/api/events`, `/api/cost` and `/api/cache`: recorded events, spending and cache use that the caller may see."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from foreword.events import query as event_query
from foreword.events.cache_breaks import find_breaks, parse_cache_filter, report_to_json
from foreword.events.event import Reader, sees_all
from foreword.events.totals import find_spending
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import MAX_NAME_CHARS, ContextDep, ResponseModel
from foreword.http.session_routes import find_own_session
from foreword.promptcache.ledger_json import to_json
from foreword.storage.ledgers import find_calibrations

FilterQuery = Annotated[str, Query(max_length=MAX_NAME_CHARS)]
SinceQuery = Annotated[
    str, Query(max_length=MAX_NAME_CHARS, description="1h, 7d, today, yesterday, 2026-11-15 or with a time.")
]
UntilQuery = Annotated[
    str, Query(max_length=MAX_NAME_CHARS, description="Same format as `since`; a date includes the whole day.")
]
TurnPrefixPath = Annotated[str, Path(pattern="^[0-9a-f]{6,32}$", description="The id of a turn, or its beginning.")]

log_router = APIRouter(prefix="/api", tags=["log"])


class EventList(ResponseModel):
    """Events, newest first; events of one turn in order."""

    events: list[dict[str, Any]]
    until: str | None
    """The value of `until` for the next page of older events."""
    notice: str | None


class UsageTotal(ResponseModel):
    """Usage and cost of one group."""

    name: str
    turns: int
    calls: int
    unpriced: int
    tokens_in: int
    tokens_out: int
    cache_read: int
    cache_write: int
    cost_usd: float | None


class CostReport(ResponseModel):
    """Usage and cost in a period."""

    by: str
    since: datetime | None
    until: datetime | None
    whole: UsageTotal
    usd_per_turn: float | None
    most_tokens: UsageTotal | None
    totals: list[UsageTotal]
    left: int


class ReadShare(ResponseModel):
    """Input tokens, and how many of them were read from the cache."""

    tokens: int
    read: int
    share: float | None = Field(description="Null if there was no input.")


class CacheSurplus(ResponseModel):
    """Calls that read more than predicted: another request wrote the prefix, or the provider cached it longer."""

    calls: int
    tokens: int


class BreakCause(ResponseModel):
    """The cost of all cache breaks with one cause."""

    cause: str = Field(
        description="One of section, tools, model, expired, minimum, lookback, limit, history and provider."
    )
    breaks: int
    tokens: int = Field(description="Tokens billed again.")
    usd: float | None
    unpriced: int = Field(description="Breaks with an unknown price; `usd` does not include them.")


class BreakCost(ResponseModel):
    """The cost of all cache breaks."""

    breaks: int
    tokens: int
    usd: float | None
    causes: list[BreakCause]


class BreakShape(ResponseModel):
    """A call that read less than the provider had cached, and the cause."""

    time: datetime
    session: str
    user: str
    turn: str
    model: str
    cause: str
    reason: str
    where: str | None = Field(description="The first section, tool or message that differs, if any.")
    byte: int | None
    tokens: int = Field(description="Tokens billed again.")
    usd: float | None
    confirmed: bool | None = Field(
        description="Whether the provider's diagnostics confirm the cause; null without diagnostics."
    )


class DecisionAnswer(ResponseModel):
    """The decision about one section that differs from the cached prefix."""

    section: str
    what: str = Field(description="changed, added or removed")
    deed: str
    reason: str
    policy: str
    tokens: int


class LedgerAction(ResponseModel):
    """The action of the ledger for a prompt that differs from the cached prefix."""

    time: datetime
    session: str
    user: str
    turn: str
    deed: str = Field(description="append, rebase or hold")
    reason: str
    ground: str | None = Field(description="Why the prompt was rebased; null otherwise.")
    section: str | None
    byte: int | None
    tokens: int
    usd: float | None
    decisions: list[DecisionAnswer]


class CalibrationShape(ResponseModel):
    """The correction of token counts learned from the calls of a model."""

    model: str
    calls: int
    ratio: float = Field(description="Billed tokens per counted token.")
    raw: float = Field(description="Mean relative error of the counts without the correction.")
    error: float = Field(description="Mean relative error with the correction.")


class CacheUse(ResponseModel):
    """Cache use in a period."""

    since: datetime | None
    until: datetime | None
    calls: int = Field(description="Calls with a ledger.")
    reported: ReadShare
    predicted: ReadShare = Field(description="The prediction for the same tokens.")
    error: float | None = Field(description="Relative error of the predicted counts.")
    surplus: CacheSurplus
    lost: BreakCost
    breaks: list[BreakShape] = Field(description="Recent breaks, newest first.")
    deeds: dict[str, int]
    moves: list[LedgerAction] = Field(description="Recent decisions, newest first.")
    calibrations: list[CalibrationShape] = Field(
        description="Only at full trust, because they include the calls of all users."
    )


@log_router.get("/events", operation_id="listEvents")
async def list_events(
    context: ContextDep,
    *,
    session: FilterQuery = "",
    level: Annotated[Literal["info", "warn", "error"], Query(description="This level and above.")] = "info",
    type: FilterQuery = "",  # noqa: A002 - the name of the parameter
    user: FilterQuery = "",
    channel: FilterQuery = "",
    since: SinceQuery = "",
    until: UntilQuery = "",
    limit: Annotated[int, Query(ge=1, le=event_query.MAX_EVENTS)] = event_query.DEFAULT_EVENTS,
) -> EventList:
    """Find recorded events: your own, or all at full trust, but none above your clearance."""
    reader = context.make_reader()
    filters = {"session_id": session, "level": level, "event_type": type, "user": user, "channel": channel}
    period = {"since": since, "until": until, "limit": limit}
    event_filter = event_query.parse_filter(filters | period, reader, context.now)
    found = await context.use_log(lambda log: event_query.find_events(log, reader, event_filter))
    next_page = found.find_next_page(len(found.records), event_filter)
    return make_event_list(found, reader, next_page)


@log_router.get("/events/{turn}", operation_id="traceTurn")
async def trace_turn(turn: TurnPrefixPath, context: ContextDep) -> EventList:
    """Return all events of one turn in order; a turn of another user is treated as unknown."""
    reader = context.make_reader()
    found = await context.use_log(lambda log: event_query.find_turn_events(log, reader, turn))
    if not found.records:
        raise make_not_found("turn")
    return make_event_list(found, reader)


def make_event_list(found: event_query.EventPage, reader: Reader, next_page: str = "") -> EventList:
    """Return found events as the reader may see them."""
    events = [record.to_dict(reader) for record in found.records]
    return EventList(events=events, until=next_page or None, notice=found.notice or None)


@log_router.get("/cost", operation_id="sumCost", response_model=CostReport)
async def sum_cost(
    context: ContextDep,
    by: Literal["day", "session", "user", "agent", "channel", "section", "model"] = "day",
    since: SinceQuery = "",
    until: UntilQuery = "",
) -> Any:
    """Sum usage and cost. The default period is today."""
    reader, grouping = context.make_reader(), {"by": by, "since": since, "until": until}
    found = await context.use_log(lambda log: find_spending(log, reader, grouping, context.now))
    same = {name: getattr(found, name) for name in ("by", "whole", "usd_per_turn", "totals", "left")}
    return {**same, "since": found.period.since, "until": found.period.until, "most_tokens": found.longest}


@log_router.get("/cache", operation_id="showCache", response_model=CacheUse)
async def get_cache_use(
    context: ContextDep,
    since: SinceQuery = "",
    until: UntilQuery = "",
    session: FilterQuery = "",
    user: FilterQuery = "",
) -> dict[str, Any]:
    """Return cache reads and the cause of each cache break. The default period is today.

    Covers your own calls, or all calls at full trust, but none above your clearance. `session` accepts an id or its
    beginning; a session that you may not see is treated as unknown.
    """
    reader, complete = context.make_reader(), ""
    try:
        if session:
            complete = await context.use_log(lambda log: event_query.complete_session(log, reader, session))
    except event_query.NotRecorded:  # one of the caller's own sessions may have no events yet
        complete = (await find_own_session(context, session)).id
    filters = {"since": since, "until": until, "session": complete, "user": user}
    cache_filter = parse_cache_filter(filters, reader, context.now)
    report = await context.use_log(lambda log: find_breaks(log, reader, cache_filter))
    learned = await asyncio.to_thread(find_calibrations, context.folder) if sees_all(reader) else {}
    return {**report_to_json(report), "calibrations": [to_json(one) for one in learned.values()]}
