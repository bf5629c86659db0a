"""A house in which several people left traces in every place that keeps some, each with words that are planted."""

import asyncio
import json
import os
import sqlite3
from contextlib import ExitStack, closing

from foreword.erasure.house import find_house
from foreword.events.event import Context, EventType, Usage
from foreword.events.listening import listen
from foreword.events.trace import Timepiece, Trace
from foreword.gateway.admission import admit
from foreword.gateway.archive import describe_archive, show, write_file
from foreword.gateway.bookkeeping import Entry, Lesson, read_books
from foreword.gateway.compaction import write_summary
from foreword.gateway.inbox import Arrival, Ending, Spent
from foreword.gateway.lane import find_lane
from foreword.gateway.message import Incoming, State
from foreword.gateway.past import fold, read_past, tell_past
from foreword.gateway.room import catch_up, find_words
from foreword.gateway.session import get_session
from foreword.gateway.sqlite_inbox import SqliteInbox
from foreword.gateway.transcript import read_transcript
from foreword.gateway.writer import Writer, ignore
from foreword.memory import Note
from foreword.runtime.accounting import Accounting
from foreword.runtime.history import close, say
from foreword.store.archives import reserve, settle
from foreword.store.instructions import replace_instructions
from foreword.store.plans import add_plan
from foreword.store.state import open_state
from foreword.store.tasks import replace_tasks
from foreword.testing import NOON, MovedClock, make_workspace, write_files
from foreword.trust import Audience
from foreword.turn import Step, Task, Turn
from foreword.words import Trust

CONFIG = """\
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5"}
users:
  alice: {trust: full}
  bob: {trust: familiar}
  carol: {trust: inner}
  dave: {trust: familiar}
rooms:
  kitchen: {situation: group}
budgets:
  users:
    bob: {daily_usd: 5}
    carol: {daily_usd: 5}
"""
PEOPLE = ("bob", "carol", "dave")


def sentence(token):
    """Say a token among words, so many that whoever repeats them quotes."""
    return f"I keep the {token} under the old blue stone behind our garden shed"


class People:
    """Lays traces of people."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.workspace = make_workspace(folder, {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"})
        self.clock = MovedClock(NOON)
        self.writer = Writer(open_state(self.state, 1.0).connection)
        self.inbox = SqliteInbox(self.writer, self.clock)
        self.opened, self.is_open = ExitStack(), True
        self.listeners = self.opened.enter_context(listen(self.state, self.workspace.config, self.clock))

    @property
    def state(self):
        """The folder of the state."""
        return os.path.join(self.folder, ".foreword")

    @property
    def house(self):
        """The workspace as erasure sees it, with everything written that was told."""
        if self.is_open:
            self.listeners.recorder.flush()
            self.listeners.prompts.flush()
        return find_house(self.workspace)

    def close(self):
        """Close what is open."""
        self.is_open = False
        self.opened.close()
        self.writer.close()
        self.workspace.close()

    def talk(self, user, text, reply="Noted.", **fields):
        """Have a turn, and tell the log of it with its prompt and its cost."""
        return asyncio.run(self._talk(Incoming(text=text, user=user, **fields), reply))

    async def begin(self, incoming):
        """Accept a message, and begin to work on it."""
        lane = find_lane(incoming, self.workspace.config).lane
        admitted = await self.writer.do(lambda state: admit(state, incoming, lane, self.clock()))
        context = Context(
            trust=lane.clearance,
            session=admitted.session.id,
            agent="reid",
            user=incoming.user,
            channel=incoming.channel,
            room=incoming.room,
        )
        trace = Trace(self.listeners.recorder, context, Timepiece(now=self.clock))
        turn = Turn(
            user=incoming.user,
            room=incoming.room,
            situation=incoming.situation,
            session=admitted.session.id,
            message=incoming.text,
        )
        assembly = self.workspace.assemble(turn)
        key = self.listeners.prompts.keep(assembly)
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(incoming.text)) as received:
            received.tell(EventType.PROMPT_BUILT, prompt_hash=key)
            with received.step(EventType.TURN_STARTED, attempt=1) as working:  # noqa: SIM117
                with working.step(EventType.API_CALL, model="anthropic:claude-sonnet-5") as call:
                    call.note(usage=Usage(tokens_in=100, tokens_out=10), cost_usd=0.25)
            received.confide(EventType.API_CALL, note=f"the daily budget of user {incoming.user} is used to 80 %")
        arrival = Arrival(
            turn=trace.id, session=admitted.session, incoming=incoming, place=received.place, now=self.clock()
        )
        claimed = await self.inbox.add(arrival, ignore, ignore)
        if incoming.room:
            await self.writer.do(lambda state: catch_up(state, admitted.session))
        return claimed, key

    async def _talk(self, incoming, reply):
        claimed, key = await self.begin(incoming)
        entry, texts = await self._send(claimed)
        messages = close((say(*texts),), reply)
        ending = Ending(
            state=State.ANSWERED,
            text=reply,
            messages=messages,
            spent=Spent(),
            now=self.clock(),
            prompt_hash=key,
            tokens=10,
            entry=entry,
        )
        await self.inbox.finish(claimed, ending)
        self.clock.move(60)
        return claimed.session

    async def _send(self, claimed):
        """Send a request to nobody; say what its session has sent by then, and the message as it was sent."""
        session, incoming = claimed.session, claimed.incoming
        past, books = await self.writer.do(
            lambda state: (read_past(state, session.id), read_books(state, session.id, NOON))
        )
        turn = Turn(
            agent="reid",
            user=incoming.user,
            room=incoming.room,
            situation=incoming.situation,
            session=session.id,
            message=find_words(incoming),
            history=tell_past(past),
        )
        book = books.open(self.workspace, turn, self.clock(), folded=False)
        assembly = self.workspace.assemble(turn, book)
        accounting = Accounting(assembly, "anthropic", books.frozen, claimed.turn)
        request = json.loads(accounting.write(assembly.envelope("anthropic").request, (), self.clock()))
        settled = accounting.settle(Usage(tokens_in=100, tokens_out=10), {})
        lesson = Lesson(model="anthropic:claude-sonnet-5", counted=90, reported=100)
        newest = request["messages"][-1]["content"]
        return Entry(frozen=settled.frozen, lessons=(lesson,)), [part["text"] for part in newest]

    def do(self, work):
        """Change the state."""
        return asyncio.run(self._do(work))

    async def _do(self, work):
        return await self.writer.do(work)

    def sum_up(self, session, text):
        """Fold the whole past of a session into a summary."""
        meter = self.workspace.ground.measure("anthropic:claude-sonnet-5")

        def work(state):
            asked = "SELECT max(position) FROM history WHERE session_id = ?"
            (upto,) = state.execute(asked, (session.id,)).fetchone()
            fold(state, session.id, upto, write_summary(text, meter, self.clock()))

        self.do(work)

    def archive(self, session):
        """Keep the transcript of a session, and return its path."""
        config = self.workspace.config

        def work(state):
            transcript = read_transcript(state, get_session(state, session.id))
            archive = describe_archive(transcript, config)
            reserve(state, archive, archive.path)
            write_file(self.folder, archive.path, show(transcript, config))
            settle(state, archive, "now")
            return archive.path

        return self.do(work)

    def remember(self, user, text, trust=Trust.FAMILIAR):
        """Save a memory of somebody, and have it indexed."""
        memory = self.workspace.memory
        note = Note(text=text, author=user, clearance=trust, channel="web", session="s", time=self.clock())
        saved = memory.save(note, memory.find_store(Audience(clearance=trust)))
        memory.search(text, Audience(clearance=Trust.FULL))
        return saved.path

    def keep_own(self, user, text, trust=Trust.FAMILIAR):
        """Save something in a person's own memory, and have it indexed."""
        memory = self.workspace.memory
        note = Note(text=text, author=user, clearance=trust, channel="web", session="s", time=self.clock())
        saved = memory.save(note, "own")
        assert memory.search(text, Audience(clearance=Trust.FULL, person=user), store="own")
        return saved.path

    def settle_in(self, user, token):
        """Leave traces of one person in every place that keeps some; each holds the token."""
        session = self.talk(user, sentence(f"{token}1"), f"Noted: {token}2.")
        self.talk(
            user, sentence(f"{token}3"), f"Noted: {token}4.", room="kitchen", situation="group", channel="telegram"
        )
        self.remember(user, f"{token}5 is what they like best of all things")
        self.keep_own(user, f"{token}33 is what they wish for and tell nobody")
        write_files(self.folder, {f"users/{user}/memory/{token}34.md": f"{token}35\n"})
        name, now = f"{token}6", "2026-11-15T12:00:00.000000Z"
        task = Task(
            id="t", title=f"{token}7", description=f"{token}8", status="active", steps=(Step(text=f"{token}9"),)
        )

        def work(state):
            replace_instructions(state, user, "reid", f"Call me {token}10.")
            add_plan(state, session.id, f"Plan {token}11")
            replace_tasks(state, session.id, [task])
            for table, row in {
                "workflows": (session.id, f"{token}12", now),
                "tokens": (f"{token}13", user, f"{token}14", name, now, None, None),
                "identities": (f"telegram:{token}15", user, name, now),
                "pairings": (f"{token}16", user, now, now),
                "profiles": (user, 1, json.dumps({"topics": [f"{token}17"]}), 3, now),
                "responsibilities": ("reid", f"{token}18", f"{token}19", user, now),
                "overheard": (None, "telegram", "kitchen", user, name, f"{token}20", now, f"{token}21"),
                "schedules (id, name, origin, agent, user_id, kind, moment, say, delivery, channel, address, situation,"
                " clearance, missed, created, note, state)": (
                    f"{token}22", f"{token}31", "agent", "reid", user, "cron", "0 8 * * *", f"{token}23", "always",
                    "telegram", f"{token}15", "dm", 1, "skip", now, f"{token}32", "waiting",
                ),
                "outbox (key, channel, address, text, state)": (
                    f"{token}24", "telegram", f"{token}15", f"{token}25", "sent",
                ),
            }.items():  # fmt: skip
                state.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        self.do(work)
        write_files(self.folder, {f"users/{user}/USER.md": f"{token}26\n"})
        with open(os.path.join(self.state, "typed-familiar"), "a", encoding="utf-8") as file:
            file.write(f"\n# 2026-11-15 12:00:00\n+{sentence(f'{token}1')}\n")
        return session


def make_people(folder, tokens):
    """Make a house with the owner and some people, each with a token."""
    people = People(folder)
    people.talk("alice", "I am the owner OWNERTOKEN and this is mine", "Yes.")
    for user, token in tokens.items():
        people.settle_in(user, token)
        # The owner's session has begun before, and is told of what it did not know then.
        people.talk("alice", "What is new, OWNERTOKEN asks", "Much.")
    assert people.house  # everything is written
    return people


def read_all(folder):
    """Read every byte that lies in a workspace beside its configuration."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name != "foreword.yaml":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def find_token(folder, token):
    """Find the files in which a token lies, as bytes."""
    return sorted(path for path, raw in read_all(folder).items() if token.lower().encode() in raw.lower())


def dump_rows(folder, leave=()):
    """Dump every row of the state, table by table."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "state.sqlite"))) as state:
        tables = [name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: state.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in leave}
