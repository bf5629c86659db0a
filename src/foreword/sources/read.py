"""Reading: every source sees a view of its slot's pace, and every answer stands in its slot."""

from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from foreword.blueprint import Plan, Planned, Run
from foreword.config.schema import Config
from foreword.sources.ground import Ground
from foreword.sources.registry import SOURCES
from foreword.sources.section import Filled, Item, Missing
from foreword.sources.view import SessionView, StaticView, TurnView
from foreword.turn import Toolset, Turn
from foreword.words import Pace, Verdict

NO_TOOLS = Toolset()
UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def read(plan: Plan, turn: Turn, ground: Ground, conversation: int) -> tuple[Filled, ...]:
    """Fill the runs of a plan; static and session runs are read once for as long as nothing changes."""
    views = observe(plan, turn, ground, conversation)
    once = ground.memo.once
    return tuple(
        fill(run, views[run.pace]) if run.pace is Pace.TURN else once(fill, run, views[run.pace]) for run in plan.runs
    )


def fill(run: Run, view: StaticView) -> Filled:
    """Ask the source of every open entry of a run."""
    items: list[Item] = []
    for entry in run.entries:
        if entry.verdict is not None:
            items.append(refused(entry))
            continue
        try:
            answer = SOURCES[entry.slot.source].fill(view, entry)
        except Exception as error:  # noqa: BLE001 - a source of a user's own may raise anything; the turn goes on
            reason = f"source {entry.slot.source!r} failed: {type(error).__name__}: {error}"
            answer = Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)
        if isinstance(answer, tuple):
            items.extend(answer)
        else:
            items.append(answer)
    return Filled(pace=run.pace, placement=run.placement, items=tuple(items))


@lru_cache(maxsize=4_096)
def refused(entry: Planned) -> Missing:
    """Pass on what the plan refused."""
    return Missing(entry=entry, reason=entry.reason, verdict=entry.verdict or Verdict.ABSENT)


def observe(plan: Plan, turn: Turn, ground: Ground, conversation: int) -> tuple[StaticView, SessionView, TurnView]:
    """Make the three views of a turn; the slower two are the same objects until something in them changes."""
    level = plan.clearance.level
    tools = turn.tools.allowed(level) if turn.tools else NO_TOOLS
    base = (turn.agent, turn.model, level, tools, plan.blueprint, ground.files.generation)
    static = ground.memo.recall(base, lambda: StaticView(**see_static(plan, turn, ground, tools)))
    place = (turn.user, turn.channel, turn.room, turn.situation, turn.session, turn.project, turn.directories)
    known = (turn.instructions, turn.client, turn.host, turn.sandbox)
    seen = ground.memo.recall((static, place, known), lambda: see_session(static, turn, ground.config))
    session = ground.memo.recall((static, place, known, "view"), lambda: SessionView(**seen))
    left = static.beyond - plan.blueprint.budget.turn
    return static, session, TurnView(**seen, **see_turn(turn, left - conversation))


def see_static(plan: Plan, turn: Turn, ground: Ground, tools: Toolset) -> dict[str, Any]:
    """Collect what a static source may know."""
    meter = ground.measure(turn.model)
    budget = plan.blueprint.budget
    return {
        "agent": turn.agent,
        "settings": ground.config.agents[turn.agent],
        "clearance": plan.clearance.level,
        "tools": tools,
        "files": ground.files,
        "stores": ground.config.stores,
        "meter": meter,
        "beyond": meter.facts.window - budget.reserve - budget.limit(meter.facts.window),
    }


def see_session(static: StaticView, turn: Turn, config: Config) -> dict[str, Any]:
    """Collect what a session source may know."""
    person, room = config.users.get(turn.user), config.rooms.get(turn.room)
    own = turn.client.zone or (person.timezone if person else "")
    return {
        **{field.name: getattr(static, field.name) for field in fields(static)},
        "user": turn.user,
        "channel": turn.channel,
        "room": turn.room,
        "situation": turn.situation,
        "session": turn.session,
        "zone": (room.timezone if room else "") if turn.room else own,
        "project": turn.project,
        "directories": turn.directories,
        "instructions": turn.instructions,
        "client": turn.client,
        "host": turn.host,
        "sandbox": turn.sandbox,
    }


def see_turn(turn: Turn, remaining: int) -> dict[str, Any]:
    """Collect what only a turn source may know."""
    return {
        "now": turn.now or UNKNOWN_TIME,
        "message": turn.message,
        "task": turn.task,
        "plan": turn.plan,
        "background": turn.background,
        "git": turn.git,
        "remaining": remaining,
    }
