"""`/api/sessions`: list, create, change, fork and read the sessions of the user."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.equipment import MAX_PATH_CHARS
from foreword.gateway.history import list_plain_messages
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.session_lookup import resolve_session_key
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import ContextDep, RequestContext
from foreword.http.schemas import CountField, NameField, PathField, RequestModel, ResponseModel, list_error_responses
from foreword.storage.tasks import PlanState, SessionPlan

if TYPE_CHECKING:
    from foreword.storage.sessions import Session


SessionPath = Annotated[str, Path(max_length=64, description="The id of a session.")]

session_router = APIRouter(prefix="/api/sessions", tags=["sessions"])


class SessionRequest(RequestModel):
    """A new session."""

    agent: NameField | None = Field(None, description="The agent; default: the first one in foreword.yaml.")
    situation: NameField | None = Field(None, description="A situation with a lower clearance than a private chat.")
    plan: bool = Field(default=False, description="Whether plan mode is on.")
    project: PathField | None = Field(None, description="The project's directory, within the agent's directories.")


class SessionChange(RequestModel):
    """Changes of a session; omitted fields stay unchanged."""

    plan: bool | None = Field(None, description="Whether plan mode is on; switching it off discards an open plan.")
    project: Annotated[str, StringConstraints(max_length=MAX_PATH_CHARS)] | None = Field(
        None, description="The project's directory, within the agent's directories; empty closes the project."
    )


class ForkRequest(RequestModel):
    """Where to fork a session."""

    turns: CountField | None = Field(None, description="The number of turns to copy; default: all.")


class SessionShape(ResponseModel):
    """A session."""

    session: str
    agent: str
    channel: str
    situation: str
    clearance: Literal["public", "familiar", "inner", "full"]
    created: datetime
    used: datetime
    parent: str | None
    plan: bool
    model: str | None
    project: str | None


class PlanShape(ResponseModel):
    """The newest plan of a session, and whether plan mode is on."""

    on: bool
    plan: int | None = Field(description="The number of the newest plan; null if there is none.")
    state: str | None
    text: str | None


class SessionMessage(ResponseModel):
    """One message of a session, as text."""

    role: Literal["user", "assistant"]
    text: str


class SessionHistory(SessionShape):
    """A session with its messages."""

    messages: list[SessionMessage]


class SessionList(ResponseModel):
    """The user's sessions, newest first."""

    sessions: list[SessionShape]


def describe_session(session: "Session") -> dict[str, Any]:
    """Return the fields of `SessionShape` for a session."""
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


async def find_own_session(desk: RequestContext, identifier: str) -> "Session":
    """Find a session of the caller at or below their current clearance; raise a 404 otherwise."""
    session = await desk.gateway.sessions.find(identifier)
    if session is None or session.lane.user != desk.user or session.lane.clearance > desk.find_clearance():
        raise make_not_found("session")
    return session


@session_router.get("", operation_id="listSessions", responses=list_error_responses())
async def list_sessions(desk: ContextDep) -> SessionList:
    """List your sessions, newest first."""
    clearance = desk.find_clearance()
    found = await desk.gateway.sessions.list(desk.user)
    return SessionList(
        sessions=[SessionShape(**describe_session(one)) for one in found if one.lane.clearance <= clearance]
    )


@session_router.post("", operation_id="beginSession", status_code=201, responses=list_error_responses())
async def create_session(asked: SessionRequest, desk: ContextDep) -> SessionShape:
    """Create a session. Messages that name no session continue in it."""
    situation = desk.choose_situation(asked.situation)
    incoming = RoutedMessage(text="", user=desk.user, channel=WEB_CHANNEL, agent=asked.agent or "", situation=situation)
    lane = resolve_session_key(incoming, desk.config).lane
    project = desk.open_project(asked.project, asked.agent, asked.situation)
    session = await desk.gateway.sessions.begin(lane, situation)
    return await apply_session_change(desk, session, plan=asked.plan or None, project=project or None)


async def apply_session_change(
    desk: RequestContext, session: "Session", *, plan: bool | None, project: str | None
) -> SessionShape:
    """Change plan mode and project of a session; return the changed session."""
    sessions = desk.gateway.sessions
    if plan is not None:
        await sessions.set_plan(session.id, on=plan)
    if project is not None:
        await sessions.set_project(session.id, project)
    return SessionShape(**describe_session(await find_own_session(desk, session.id)))


@session_router.patch("/{session}", operation_id="changeSession", responses=list_error_responses())
async def patch_session(session: SessionPath, asked: SessionChange, desk: ContextDep) -> SessionShape:
    """Switch plan mode of one of your sessions, or open or close its project."""
    found = await find_own_session(desk, session)
    project = asked.project and desk.open_project(asked.project, found.lane.agent, found.situation)
    return await apply_session_change(desk, found, plan=asked.plan, project=project)


@session_router.get("/{session}/plan", operation_id="showPlan", responses=list_error_responses())
async def get_plan(session: SessionPath, desk: ContextDep) -> PlanShape:
    """Return whether plan mode is on in one of your sessions, and the newest plan."""
    found = await find_own_session(desk, session)
    return describe_plan(next(iter(await desk.gateway.sessions.list_plans(found.id)), None), on=found.plan)


@session_router.post("/{session}/plan/accept", operation_id="acceptPlan", responses=list_error_responses())
async def accept_plan(session: SessionPath, desk: ContextDep) -> PlanShape:
    """Accept the newest plan and end plan mode; the agent carries the plan out with the next message."""
    found = await find_own_session(desk, session)
    return describe_plan(await desk.gateway.sessions.settle_plan(found.id, PlanState.ACCEPTED), on=False)


def describe_plan(plan: SessionPlan | None, *, on: bool) -> PlanShape:
    """Describe a plan."""
    if plan is None:
        return PlanShape(on=on, plan=None, state=None, text=None)
    return PlanShape(on=on, plan=plan.id, state=str(plan.state), text=plan.text)


@session_router.get("/{session}", operation_id="showSession", responses=list_error_responses())
async def get_session_history(session: SessionPath, desk: ContextDep) -> SessionHistory:
    """Return one of your sessions with its messages."""
    found = await find_own_session(desk, session)
    messages = list_plain_messages(await desk.gateway.sessions.read(found.id))
    said = [SessionMessage(role=message.role, text=message.text) for message in messages]
    return SessionHistory(**describe_session(found), messages=said)


@session_router.post("/{session}/fork", operation_id="forkSession", status_code=201, responses=list_error_responses())
async def fork_session(session: SessionPath, asked: ForkRequest, desk: ContextDep) -> SessionShape:
    """Create a session that continues from some turns of another."""
    found = await find_own_session(desk, session)
    return SessionShape(**describe_session(await desk.gateway.sessions.fork(found.id, asked.turns)))
