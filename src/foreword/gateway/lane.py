"""The lane of a message: the sessions that it may belong to."""

from foreword.config.schema import Config
from foreword.errors import UnknownName
from foreword.frozen import frozen
from foreword.gateway.message import Incoming
from foreword.trust import Clearance, has_company, resolve
from foreword.turn import Turn
from foreword.words import Trust


@frozen(eq=True)
class Lane:
    """Agent, place and clearance, and in private the person; another clearance is another session."""

    agent: str
    channel: str
    room: str
    clearance: Trust
    user: str
    """Nobody in a room: there everybody of one clearance shares a session."""

    @property
    def person(self) -> str:
        """The person of a private conversation; nothing where others read the reply."""
        return "" if self.room else self.user

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """The lane as a row has it."""
        return (self.agent, self.channel, self.room, int(self.clearance), self.user)


@frozen
class Found:
    """Where a message belongs, and why its clearance is what it is."""

    lane: Lane
    clearance: Clearance


def find_lane(incoming: Incoming, config: Config) -> Found:
    """Find the lane of a message under the configuration of now."""
    agent = incoming.agent or next(iter(config.agents))
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    turn = Turn(
        agent=agent,
        user=incoming.user,
        channel=incoming.channel,
        room=incoming.room,
        situation=incoming.situation,
        ceiling=incoming.errand.ceiling if incoming.errand else None,
    )
    clearance = resolve(turn, config)
    return Found(
        lane=Lane(
            agent=agent,
            # Each schedule has a session of its own.
            channel=f"{incoming.channel}:{incoming.errand.schedule}" if incoming.errand else incoming.channel,
            # Company that nobody has named is not known again: it is one person's, and never their private chat.
            room=incoming.room or (f"({incoming.situation})" if has_company(turn) else ""),
            clearance=clearance.level,
            user="" if incoming.room else incoming.user,
        ),
        clearance=clearance,
    )
