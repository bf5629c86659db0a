"""Whom the events of a message belong to."""

from foreword.events.event import Context, EventType
from foreword.events.trace import Step, Trace
from foreword.gateway.message import Incoming
from foreword.gateway.session import Session


def find_context(session: Session, incoming: Incoming) -> Context:
    """Find whom the events of a message belong to."""
    lane = session.lane
    return Context(
        trust=lane.clearance,
        session=session.id,
        agent=lane.agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        schedule=incoming.errand.schedule if incoming.errand else "",
    )


def begin(trace: Trace, incoming: Incoming) -> Step:
    """Begin the trace of a message that a person wrote or a schedule fired."""
    if (errand := incoming.errand) and not incoming.held:
        late = {"late": errand.late} if errand.late else {}
        return trace.step(EventType.SCHEDULE_FIRED, name=errand.schedule, **late)
    request = incoming.request
    told = {
        "request_id": request.id,
        "client_tools_ignored": request.client_tools,
        "caller_trace": trace.place.caller,
    }
    return trace.step(
        EventType.MESSAGE_RECEIVED,
        length=len(incoming.text),
        **{name: value for name, value in told.items() if value},
    )
