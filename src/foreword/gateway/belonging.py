"""Whom the events of a message belong to."""

from foreword.events.event import Context
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
    )
