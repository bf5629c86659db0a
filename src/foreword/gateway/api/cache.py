"""The caches of providers: what was read from them, what breaks have cost and why, and what the ledger decided."""

import asyncio
from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from foreword.events.breaks import find_breaks, read_asked, tell_breaks
from foreword.events.event import Reader
from foreword.events.known import Unrecorded, complete_session
from foreword.events.visible import sees_all
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.log import Short, Since, Until
from foreword.gateway.api.sessions import find_own
from foreword.gateway.api.shapes import Told, answers
from foreword.ledger.telling import tell_calibration
from foreword.store.ledgers import find_calibrations

router = APIRouter(prefix="/api", tags=["log"])


class ReadShare(Told):
    """Tokens of input, and how many of them come from a cache."""

    tokens: int
    read: int
    share: float | None = Field(description="Null where there was no input.")


class MoreRead(Told):
    """Calls that read more than was predicted: another request wrote it, or the provider kept it longer."""

    calls: int
    tokens: int


class CauseSum(Told):
    """What the breaks of one cause have cost."""

    cause: str = Field(
        description="One of section, tools, model, expired, minimum, lookback, limit, history and provider."
    )
    breaks: int
    tokens: int = Field(description="What was billed again.")
    usd: float | None
    unpriced: int = Field(description="Breaks whose price nobody knows; they are not in the amount.")


class Lost(Told):
    """What all breaks have cost."""

    breaks: int
    tokens: int
    usd: float | None
    causes: list[CauseSum]


class BreakShape(Told):
    """A call that read less from the cache than its provider had, and the one cause of that."""

    time: datetime
    session: str
    user: str
    turn: str
    model: str
    cause: str
    reason: str
    where: str | None = Field(description="The section, the tool or the message that differs first, if one does.")
    byte: int | None
    tokens: int = Field(description="What was billed again.")
    usd: float | None
    confirmed: bool | None = Field(description="Whether the provider's own diagnostics say the same, if it has any.")


class DecisionShape(Told):
    """What was done about one section that differs from what the session was told."""

    section: str
    what: str = Field(description="changed, added or removed")
    deed: str
    reason: str
    policy: str
    tokens: int


class MoveShape(Told):
    """What the ledger did about a prompt that is not what its session knows."""

    time: datetime
    session: str
    user: str
    turn: str
    deed: str = Field(description="append, rebase or hold")
    reason: str
    ground: str | None = Field(description="Why the prompt was sent anew, if it was.")
    section: str | None
    byte: int | None
    tokens: int
    usd: float | None
    decisions: list[DecisionShape]


class CalibrationShape(Told):
    """What the calls of a model have taught about its tokens."""

    model: str
    calls: int
    ratio: float = Field(description="Tokens that are billed for one that is counted here.")
    raw: float = Field(description="How far counts were off on average, as a share.")
    error: float = Field(description="The same with the correction.")


class CacheUse(Told):
    """What became of the caches of providers in a time."""

    since: datetime | None
    until: datetime | None
    calls: int = Field(description="Calls that the ledger has followed.")
    reported: ReadShare
    predicted: ReadShare = Field(description="Of the same tokens, as many as were predicted.")
    error: float | None = Field(description="How far predicted counts of these calls were off, as a share.")
    surplus: MoreRead
    lost: Lost
    breaks: list[BreakShape] = Field(description="The newest, the newest first.")
    deeds: dict[str, int]
    moves: list[MoveShape] = Field(description="The newest, the newest first.")
    calibrations: list[CalibrationShape] = Field(description="For full trust alone: all people's calls are in them.")


@router.get("/cache", operation_id="showCache", response_model=CacheUse, responses=answers())
async def show_cache(
    desk: AtDesk, since: Since = "", until: Until = "", session: Short = "", user: Short = ""
) -> dict[str, Any]:
    """Show what was read from caches, and for each break its cause; today unless a time is named.

    It is about one's own calls, at full trust about all, and about none above one's clearance. A session may be named
    by the beginning of its id; one that one may not see is like one that does not exist.
    """
    reader = desk.make_reader()
    named = await find_session(desk, reader, session) if session else ""
    asked = {"since": since, "until": until, "session": named, "user": user}
    wanted = read_asked(asked, reader, desk.now)
    found = await desk.ask(lambda log: find_breaks(log, reader, wanted))
    learned = await asyncio.to_thread(find_calibrations, desk.folder) if sees_all(reader) else {}
    return {**tell_breaks(found), "calibrations": [tell_calibration(one) for one in learned.values()]}


async def find_session(desk: Desk, reader: Reader, named: str) -> str:
    """Find the session that is meant: one with events that this person may see, or one of their own without any yet."""
    try:
        return await desk.ask(lambda log: complete_session(log, reader, named))
    except Unrecorded:
        return (await find_own(desk, named)).id
