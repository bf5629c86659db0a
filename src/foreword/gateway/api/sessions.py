"""Sessions: one's own, what was said in them, and new ones."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path

from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import (
    ForkRequest,
    PlanShape,
    Said,
    SessionChange,
    SessionHistory,
    SessionRequest,
    Sessions,
    SessionShape,
    answers,
)
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.lane import find_lane
from foreword.gateway.message import Incoming
from foreword.gateway.past import tell_past
from foreword.store.plans import Plan, PlanState

if TYPE_CHECKING:
    from foreword.gateway.session import Session

Named = Annotated[str, Path(max_length=64, description="The id of a session.")]

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


def describe(session: "Session") -> dict[str, Any]:
    """Describe a session by the names of its shape."""
    return {
        "session": session.id,
        "agent": session.lane.agent,
        "channel": session.lane.channel,
        "situation": session.situation,
        "clearance": str(session.lane.clearance),
        "created": session.created,
        "used": session.used,
        "parent": session.parent or None,
        "plan": session.plan,
        "model": session.model or None,
        "project": session.project or None,
    }


async def find_own(desk: Desk, identifier: str) -> "Session":
    """Find a session of this person that was not held above what they may see now."""
    session = await desk.gateway.sessions.find(identifier)
    if session is None or session.lane.user != desk.user or session.lane.clearance > desk.find_clearance():
        raise missing("session")
    return session


@router.get("", operation_id="listSessions", responses=answers())
async def show_all(desk: AtDesk) -> Sessions:
    """List one's own sessions, the newest first."""
    clearance = desk.find_clearance()
    found = await desk.gateway.sessions.list(desk.user)
    return Sessions(sessions=[SessionShape(**describe(one)) for one in found if one.lane.clearance <= clearance])


@router.post("", operation_id="beginSession", status_code=201, responses=answers())
async def begin(asked: SessionRequest, desk: AtDesk) -> SessionShape:
    """Begin a session; messages that name none go on in it."""
    situation = desk.choose_situation(asked.situation)
    incoming = Incoming(text="", user=desk.user, channel=CHANNEL, agent=asked.agent or "", situation=situation)
    lane = find_lane(incoming, desk.config).lane
    project = desk.open_project(asked.project, asked.agent, asked.situation)
    session = await desk.gateway.sessions.begin(lane, situation)
    return await change_session(desk, session, plan=asked.plan or None, project=project or None)


async def change_session(desk: Desk, session: "Session", *, plan: bool | None, project: str | None) -> SessionShape:
    """Change plan mode and project of a session, and describe it as it is then."""
    sessions = desk.gateway.sessions
    if plan is not None:
        await sessions.set_plan(session.id, on=plan)
    if project is not None:
        await sessions.set_project(session.id, project)
    return SessionShape(**describe(await find_own(desk, session.id)))


@router.patch("/{session}", operation_id="changeSession", responses=answers())
async def change(session: Named, asked: SessionChange, desk: AtDesk) -> SessionShape:
    """Switch plan mode of one of one's own sessions, or open and close its project."""
    found = await find_own(desk, session)
    project = asked.project and desk.open_project(asked.project, found.lane.agent, found.situation)
    return await change_session(desk, found, plan=asked.plan, project=project)


@router.get("/{session}/plan", operation_id="showPlan", responses=answers())
async def show_plan(session: Named, desk: AtDesk) -> PlanShape:
    """Show whether plan mode is on in one of one's own sessions, and its newest plan."""
    found = await find_own(desk, session)
    return describe_plan(next(iter(await desk.gateway.sessions.list_plans(found.id)), None), on=found.plan)


@router.post("/{session}/plan/accept", operation_id="acceptPlan", responses=answers())
async def accept_plan(session: Named, desk: AtDesk) -> PlanShape:
    """Accept the newest plan, which ends plan mode; the next message has the agent carry it out."""
    found = await find_own(desk, session)
    return describe_plan(await desk.gateway.sessions.settle_plan(found.id, PlanState.ACCEPTED), on=False)


def describe_plan(plan: Plan | None, *, on: bool) -> PlanShape:
    """Describe a plan."""
    if plan is None:
        return PlanShape(on=on, plan=None, state=None, text=None)
    return PlanShape(on=on, plan=plan.id, state=str(plan.state), text=plan.text)


@router.get("/{session}", operation_id="showSession", responses=answers())
async def show(session: Named, desk: AtDesk) -> SessionHistory:
    """Show one of one's own sessions with what was said in it, as it was sent."""
    found = await find_own(desk, session)
    messages = tell_past(await desk.gateway.sessions.read(found.id))
    said = [Said(role=message.role, text=message.text) for message in messages]
    return SessionHistory(**describe(found), messages=said)


@router.post("/{session}/fork", operation_id="forkSession", status_code=201, responses=answers())
async def fork(session: Named, asked: ForkRequest, desk: AtDesk) -> SessionShape:
    """Begin a session that goes on from some turns of another."""
    found = await find_own(desk, session)
    return SessionShape(**describe(await desk.gateway.sessions.fork(found.id, asked.turns)))
