"""A state without a gateway: messages are admitted, accepted, claimed and finished by hand."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from foreword.agent.conversation import close_turn, make_user_message
from foreword.config.load import load_config
from foreword.events.event import TracePosition
from foreword.gateway.inbox import ClaimedTurn, Inbox, TurnResult
from foreword.gateway.messages import AcceptedTurn, RoutedMessage
from foreword.gateway.session_manager import SessionManager, find_or_create_session, hash_history, resolve_session_key
from foreword.gateway.session_state import load_history
from foreword.storage.database import open_state
from foreword.storage.turns import TurnState, TurnUsage
from foreword.storage.writer import Writer
from foreword.testing import NOON, ManualClock

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full}, bob: {trust: familiar}, eve: {trust: familiar}, carol: {trust: full}}
rooms: {kitchen: {situation: group}}
"""


class Desk:
    """The state of one process, with a manual clock."""

    def __init__(self, writer, clock, lease):
        self.writer, self.clock = writer, clock
        self.inbox = Inbox(writer, clock, lease)
        self.sessions = SessionManager(writer, clock)
        self.config = load_config(CONFIG, "foreword.yaml")
        self.count = 0
        self.begun = []
        self.unsealed = []

    def find_key(self, **fields):
        """Find the session key of a message."""
        return resolve_session_key(RoutedMessage(text="x", **fields), self.config).key

    async def admit(self, text="hello", user="alice", **fields):
        """Find the session of a message."""
        incoming = RoutedMessage(text=text, user=user, **fields)
        key = resolve_session_key(incoming, self.config).key
        return await self.writer.write(lambda state: find_or_create_session(state, incoming, key, self.clock()))

    async def accept(self, text="hello", user="alice", **fields):
        """Accept a message, as the gateway does."""
        admitted = await self.admit(text, user, **fields)
        if admitted.turn:
            return AcceptedTurn(turn=admitted.turn, session=admitted.session.id, repeated=True)
        return await self.add(admitted.session, text, user, **fields)

    async def add(self, belongs, text="hello", user="alice", **fields):
        """Add a message to the inbox."""
        self.count += 1
        turn = f"{id(self):x}-{self.count}"
        incoming = RoutedMessage(text=text, user=user, **fields)
        incoming = replace(incoming, before=None, beginning=hash_history(incoming.before))
        position = TracePosition(trace=turn, span="s")
        new = ClaimedTurn(
            turn=turn, session=belongs, incoming=incoming, attempt=1, position=position, received=self.clock()
        )
        return await self.inbox.add(new, self.begun.append, self.unsealed.append)

    def make_ending(self, claimed, reply="Yes.", state=TurnState.ANSWERED, **fields):
        """Make the result of a turn."""
        messages = close_turn((make_user_message(claimed.incoming.text),), reply)
        known = {"messages": messages, "spent": TurnUsage(), "now": self.clock(), "tokens": 10}
        return TurnResult(state=state, text=reply, **known | fields)

    async def finish(self, claimed, reply="Yes."):
        """Finish a turn with a reply."""
        await self.inbox.finish(claimed, self.make_ending(claimed, reply))
        return claimed

    async def talk(self, text, reply, user="alice", **fields):
        """Run a turn with a reply; return the session."""
        claimed = await self.accept(text, user, **fields)
        await self.finish(claimed, reply)
        return claimed.session

    async def read(self, session):
        """Read the texts of a session."""
        rows = await self.writer.write(lambda state: load_history(state, session))
        return [message.text for row in rows for message in row.segment.texts]


@contextmanager
def open_desk(folder, clock=None, lease=timedelta(seconds=30)):
    """Open a state in a folder."""
    writer = Writer(open_state(str(folder), 0.1).connection)
    try:
        yield Desk(writer, clock or ManualClock(NOON), lease)
    finally:
        writer.close()
