"""A state without a gateway: messages are admitted, accepted, claimed and ended by hand."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from foreword.config import load
from foreword.events.event import Place
from foreword.gateway.admission import admit, summarise_before
from foreword.gateway.inbox import Arrival, Ending, Spent
from foreword.gateway.lane import find_lane
from foreword.gateway.message import Accepted, Incoming, State
from foreword.gateway.past import read_past
from foreword.gateway.sessions import Sessions
from foreword.gateway.sqlite_inbox import SqliteInbox
from foreword.gateway.writer import Writer
from foreword.runtime.history import close, say
from foreword.store.state import open_state
from foreword.testing import NOON, MovedClock

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full}, bob: {trust: familiar}, eve: {trust: familiar}, carol: {trust: full}}
rooms: {kitchen: {situation: group}}
"""


class Desk:
    """The state of one process, with a clock that is moved by hand."""

    def __init__(self, writer, clock, lease):
        self.writer, self.clock = writer, clock
        self.inbox = SqliteInbox(writer, clock, lease)
        self.sessions = Sessions(writer, clock)
        self.config = load(CONFIG, "foreword.yaml")
        self.count = 0
        self.begun = []
        self.unsealed = []

    def find_lane(self, **fields):
        """Find the lane of a message."""
        return find_lane(Incoming(text="x", **fields), self.config).lane

    async def admit(self, text="hello", user="alice", **fields):
        """Find the session of a message."""
        incoming = Incoming(text=text, user=user, **fields)
        lane = find_lane(incoming, self.config).lane
        return await self.writer.do(lambda state: admit(state, incoming, lane, self.clock()))

    async def accept(self, text="hello", user="alice", **fields):
        """Accept a message, as the gateway does."""
        admitted = await self.admit(text, user, **fields)
        if admitted.turn:
            return Accepted(turn=admitted.turn, session=admitted.session.id, repeated=True)
        return await self.add(admitted.session, text, user, **fields)

    async def add(self, belongs, text="hello", user="alice", **fields):
        """Add a message to the inbox."""
        self.count += 1
        turn = f"{id(self):x}-{self.count}"
        incoming = Incoming(text=text, user=user, **fields)
        incoming = replace(incoming, before=None, beginning=summarise_before(incoming.before))
        place = Place(trace=turn, span="s")
        arrival = Arrival(turn=turn, session=belongs, incoming=incoming, place=place, now=self.clock())
        return await self.inbox.add(arrival, self.begun.append, self.unsealed.append)

    def make_ending(self, claimed, reply="Yes.", state=State.ANSWERED, **fields):
        """Make what came of a turn."""
        messages = close((say(claimed.incoming.text),), reply)
        known = {"messages": messages, "spent": Spent(), "now": self.clock(), "tokens": 10}
        return Ending(state=state, text=reply, **known | fields)

    async def finish(self, claimed, reply="Yes."):
        """End a turn with a reply."""
        await self.inbox.finish(claimed, self.make_ending(claimed, reply))
        return claimed

    async def talk(self, text, reply, user="alice", **fields):
        """Say something and get a reply; return the session."""
        claimed = await self.accept(text, user, **fields)
        await self.finish(claimed, reply)
        return claimed.session

    async def read(self, session):
        """Read what was said in a session, as texts."""
        rows = await self.writer.do(lambda state: read_past(state, session))
        return [message.text for row in rows for message in row.stretch.told]


@contextmanager
def open_desk(folder, clock=None, lease=timedelta(seconds=30)):
    """Open a state in a folder."""
    writer = Writer(open_state(str(folder), 0.1).connection)
    try:
        yield Desk(writer, clock or MovedClock(NOON), lease)
    finally:
        writer.close()
