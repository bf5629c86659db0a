"""`/api/sessions`: list, create, change, fork and read the sessions of the user."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.session_manager import resolve_session_key
from foreword.gateway.session_state import list_plain_messages
from foreword.http import request_context as shared
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import ContextDep, RequestContext, RequestModel, ResponseModel
from foreword.storage.sessions import PlanState, Session, SessionPlan

SessionPath = Annotated[str, Path(max_length=64, description="The id of a session.")]

session_router = APIRouter(prefix="/api/sessions", tags=["sessions"])


class SessionRequest(RequestModel):
    """A new session."""

    agent: shared.AgentField = None
    situation: shared.SituationField = None
    plan: bool = Field(default=False, description="Whether plan mode is on.")
    project: shared.ProjectField = None


class SessionChange(RequestModel):
    """Changes of a session; omitted fields stay unchanged."""

    plan: bool | None = Field(None, description="Whether plan mode is on; switching it off discards an open plan.")
    project: Annotated[str, StringConstraints(max_length=shared.MAX_PATH_CHARS)] | None = Field(
        None, description="The project's directory, within the agent's directories; empty closes the project."
    )


class ForkRequest(RequestModel):
    """Where to fork a session."""

    turns: shared.CountField | None = Field(None, description="The number of turns to copy; default: all.")


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


def describe_session(session: Session) -> dict[str, Any]:
    """Return the fields of `SessionShape` for a session."""
    key, same = session.key, ("situation", "created", "used", "plan")
    return {
        **{name: getattr(session, name) for name in same},
        **{name: getattr(session, name) or None for name in ("parent", "model", "project")},
        "session": session.id,
        "agent": key.agent,
        "channel": key.channel,
        "clearance": str(key.clearance),
    }


async def find_own_session(context: RequestContext, identifier: str) -> Session:
    """Find a session of the caller at or below their current clearance; raise a 404 otherwise."""
    session = await context.gateway.sessions.find(identifier)
    if session is None or session.key.user != context.user or session.key.clearance > context.find_clearance():
        raise make_not_found("session")
    return session


@session_router.get("", operation_id="listSessions", response_model=SessionList)
async def list_sessions(context: ContextDep) -> Any:
    """List your sessions, newest first."""
    clearance = context.find_clearance()
    sessions = await context.gateway.sessions.list(context.user)
    return {"sessions": [describe_session(session) for session in sessions if session.key.clearance <= clearance]}


@session_router.post("", operation_id="beginSession", status_code=201, response_model=SessionShape)
async def create_session(body: SessionRequest, context: ContextDep) -> Any:
    """Create a session. Messages that name no session continue in it."""
    agent, situation = body.agent or "", context.choose_situation(body.situation)
    message = RoutedMessage(text="", user=context.user, channel=WEB_CHANNEL, agent=agent, situation=situation)
    project = context.open_project(body.project, body.agent, body.situation)
    session = await context.gateway.sessions.begin(resolve_session_key(message, context.config).key, situation)
    return await change_session(context, session.id, plan=body.plan or None, project=project or None)


async def change_session(
    context: RequestContext, identifier: str, *, plan: bool | None, project: str | None
) -> dict[str, Any]:
    """Change plan mode and project of a session; return the changed session."""
    sessions = context.gateway.sessions
    if plan is not None:
        await sessions.set_plan(identifier, on=plan)
    if project is not None:
        await sessions.set_project(identifier, project)
    return describe_session(await find_own_session(context, identifier))


@session_router.patch("/{session}", operation_id="changeSession", response_model=SessionShape)
async def patch_session(session: SessionPath, body: SessionChange, context: ContextDep) -> Any:
    """Switch plan mode of one of your sessions, or open or close its project."""
    found = await find_own_session(context, session)
    project = body.project and context.open_project(body.project, found.key.agent, found.situation)
    return await change_session(context, found.id, plan=body.plan, project=project)


@session_router.get("/{session}/plan", operation_id="showPlan")
async def get_plan(session: SessionPath, context: ContextDep) -> PlanShape:
    """Return whether plan mode is on in one of your sessions, and the newest plan."""
    found = await find_own_session(context, session)
    return describe_plan(next(iter(await context.gateway.sessions.list_plans(found.id)), None), on=found.plan)


@session_router.post("/{session}/plan/accept", operation_id="acceptPlan")
async def accept_plan(session: SessionPath, context: ContextDep) -> PlanShape:
    """Accept the newest plan and end plan mode; the agent carries the plan out with the next message."""
    found = await find_own_session(context, session)
    return describe_plan(await context.gateway.sessions.settle_plan(found.id, PlanState.ACCEPTED), on=False)


def describe_plan(plan: SessionPlan | None, *, on: bool) -> PlanShape:
    """Describe a plan."""
    if plan is None:
        return PlanShape(on=on, plan=None, state=None, text=None)
    return PlanShape(on=on, plan=plan.id, state=str(plan.state), text=plan.text)


@session_router.get("/{session}", operation_id="showSession", response_model=SessionHistory)
async def get_session_history(session: SessionPath, context: ContextDep) -> Any:
    """Return one of your sessions with its messages."""
    found = await find_own_session(context, session)
    messages = list_plain_messages(await context.gateway.sessions.read(found.id))
    return {**describe_session(found), "messages": [SessionMessage(role=one.role, text=one.text) for one in messages]}


@session_router.post("/{session}/fork", operation_id="forkSession", status_code=201, response_model=SessionShape)
async def fork_session(session: SessionPath, body: ForkRequest, context: ContextDep) -> Any:
    """Create a session that continues from some turns of another."""
    found = await find_own_session(context, session)
    return describe_session(await context.gateway.sessions.fork(found.id, body.turns))
