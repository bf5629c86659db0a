"""A workspace in which several people have data in every data location, marked with planted tokens."""

import asyncio
import atexit
import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from functools import cache

from foreword.agent.conversation import Answer, close_turn, make_user_message
from foreword.agent.model_call import TurnLedger
from foreword.agent.providers.model_clients import OpenModel
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.engine.trust import Audience
from foreword.events.event import Context, EventType, Usage
from foreword.events.sinks import open_event_stream
from foreword.events.tracer import Tracer
from foreword.gateway.compaction import make_summary_piece
from foreword.gateway.inbox import ClaimedTurn, Inbox, TurnResult
from foreword.gateway.messages import RoutedMessage, write_model_text
from foreword.gateway.rooms import catch_up
from foreword.gateway.session_manager import find_or_create_session, resolve_session_key
from foreword.gateway.session_state import LedgerEntry, TokenLesson, list_plain_messages, load_history, load_ledger
from foreword.gateway.transcripts import describe_archive, read_transcript, render_transcript, write_transcript_file
from foreword.memory.entry import Note
from foreword.storage.agents import replace_instructions
from foreword.storage.database import open_state
from foreword.storage.history import compact_history
from foreword.storage.sessions import add_plan, get_session, record_written, replace_tasks, reserve_path
from foreword.storage.turns import TurnState, TurnUsage
from foreword.storage.writer import Writer
from foreword.testing import NOON, ManualClock, make_workspace, write_files
from foreword.turn import Step, Task, Turn
from foreword.types import Trust

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
    """Put a token into a sentence that is long enough to count as a quotation."""
    return f"I keep the {token} under the old blue stone behind our garden shed"


class People:
    """A workspace with the data of several people."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.workspace = make_workspace(folder, {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"})
        self.clock = ManualClock(NOON)
        self.writer = Writer(open_state(self.state, 1.0).connection)
        self.inbox = Inbox(self.writer, self.clock)
        self.opened, self.is_open = ExitStack(), True
        self.listeners = self.opened.enter_context(open_event_stream(self.state, self.workspace.config, self.clock))

    @property
    def state(self):
        """The state folder."""
        return os.path.join(self.folder, ".foreword")

    @property
    def house(self):
        """The workspace as erasure sees it, with all recorded events flushed."""
        if self.is_open:
            self.listeners.recorder.flush()
        return self.workspace

    def close(self):
        """Close all open resources."""
        self.is_open = False
        self.opened.close()
        self.writer.close()
        self.workspace.close()

    def talk(self, user, text, reply="Noted.", **fields):
        """Run a turn and record its events, prompt and cost."""
        return asyncio.run(self._talk(RoutedMessage(text=text, user=user, **fields), reply))

    async def begin(self, incoming):
        """Accept a message and start its turn."""
        key = resolve_session_key(incoming, self.workspace.config).key
        admitted = await self.writer.write(lambda state: find_or_create_session(state, incoming, key, self.clock()))
        context = Context(
            trust=key.clearance,
            session=admitted.session.id,
            agent="reid",
            user=incoming.user,
            channel=incoming.channel,
            room=incoming.room,
        )
        trace = Tracer(self.listeners.recorder, context, self.clock)
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
            received.emit(EventType.PROMPT_BUILT, prompt_hash=key)
            with received.step(EventType.TURN_STARTED, attempt=1) as working:  # noqa: SIM117
                with working.step(EventType.API_CALL, model="anthropic:claude-sonnet-5") as call:
                    call.note(usage=Usage(tokens_in=100, tokens_out=10), cost_usd=0.25)
            received.emit_restricted(
                EventType.API_CALL, note=f"the daily budget of user {incoming.user} is used to 80 %"
            )
        arrival = ClaimedTurn(
            turn=trace.id,
            session=admitted.session,
            incoming=incoming,
            attempt=1,
            position=received.position,
            received=self.clock(),
        )
        claimed = await self.inbox.add(arrival, lambda _: None, lambda _: None)
        if incoming.room:
            await self.writer.write(lambda state: catch_up(state, admitted.session))
        return claimed, key

    async def _talk(self, incoming, reply):
        claimed, key = await self.begin(incoming)
        entry, texts = await self._send(claimed)
        messages = close_turn((make_user_message(*texts),), reply)
        ending = TurnResult(
            state=TurnState.ANSWERED,
            text=reply,
            messages=messages,
            spent=TurnUsage(),
            now=self.clock(),
            prompt_hash=key,
            tokens=10,
            entry=entry,
        )
        await self.inbox.finish(claimed, ending)
        self.clock.move(60)
        return claimed.session

    async def _send(self, claimed):
        """Write a request without sending it; return the ledger entry and the message texts of the request."""
        session, incoming = claimed.session, claimed.incoming
        past, books = await self.writer.write(
            lambda state: (load_history(state, session.id), load_ledger(state, session.id, NOON))
        )
        turn = Turn(
            agent="reid",
            user=incoming.user,
            room=incoming.room,
            situation=incoming.situation,
            session=session.id,
            message=write_model_text(incoming),
            history=list_plain_messages(past),
        )
        book = books.open(self.workspace, turn, self.clock(), compacted=False)
        assembly = self.workspace.assemble(turn, book)
        opened = OpenModel(provider=None, wire=WIRE_SHAPES["anthropic"], family="anthropic")
        accounting = TurnLedger(assembly, opened, books.ledger_state, claimed.turn)
        request = accounting.mark(assembly.envelope("anthropic").request, (), self.clock()).request
        settled = accounting.settle(AnswerDone(answer=Answer(), usage=Usage(tokens_in=100, tokens_out=10)), {})
        lesson = TokenLesson(model="anthropic:claude-sonnet-5", counted=90, reported=100)
        newest = request["messages"][-1]["content"]
        return LedgerEntry(ledger_state=settled.ledger_state, lessons=(lesson,)), [part["text"] for part in newest]

    def do(self, work):
        """Change the state."""
        return asyncio.run(self._do(work))

    async def _do(self, work):
        return await self.writer.write(work)

    def sum_up(self, session, text):
        """Compact the whole history of a session into a summary."""
        meter = self.workspace.context.measure("anthropic:claude-sonnet-5")

        def work(state):
            asked = "SELECT max(position) FROM history WHERE session_id = ?"
            (upto,) = state.execute(asked, (session.id,)).fetchone()
            compact_history(state, session.id, upto, make_summary_piece(text, meter))

        self.do(work)

    def archive(self, session):
        """Archive the transcript of a session and return its path."""
        config = self.workspace.config

        def work(state):
            transcript = read_transcript(state, get_session(state, session.id))
            archive = describe_archive(transcript, config)
            reserve_path(state, archive, archive.path)
            write_transcript_file(self.folder, archive.path, render_transcript(transcript, config))
            record_written(state, archive, "now")
            return archive.path

        return self.do(work)

    def remember(self, user, text, trust=Trust.FAMILIAR):
        """Save a memory of a user and index it."""
        memory = self.workspace.memory
        note = Note(text=text, author=user, clearance=trust, channel="web", session="s", time=self.clock())
        saved = memory.save(note, memory.find_store(Audience(clearance=trust)))
        memory.search(text, Audience(clearance=Trust.FULL))
        return saved.path

    def keep_own(self, user, text, trust=Trust.FAMILIAR):
        """Save an entry in a user's private memory and index it."""
        memory = self.workspace.memory
        note = Note(text=text, author=user, clearance=trust, channel="web", session="s", time=self.clock())
        saved = memory.save(note, "own")
        assert memory.search(text, Audience(clearance=Trust.FULL, person=user), store="own")
        return saved.path

    def settle_in(self, user, token):
        """Store data of one user in every place; each row contains the token."""
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
                state.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        self.do(work)
        write_files(self.folder, {f"users/{user}/USER.md": f"{token}26\n"})
        with open(os.path.join(self.state, "typed-familiar"), "a", encoding="utf-8") as file:
            file.write(f"\n# 2026-11-15 12:00:00\n+{sentence(f'{token}1')}\n")
        return session


@cache
def make_template(tokens):
    """Create the workspace of `make_people` once per process; return its folder and the time of its clock."""
    folder = tempfile.mkdtemp(prefix="people-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    people = People(os.path.join(folder, "ws"))
    people.talk("alice", "I am the owner OWNERTOKEN and this is mine", "Yes.")
    for user, token in tokens:
        people.settle_in(user, token)
        # The owner's session is older than this data, so its ledger holds updates about it.
        people.talk("alice", "What is new, OWNERTOKEN asks", "Much.")
    people.close()
    return people.folder, people.clock()


def make_people(folder, tokens):
    """Create a workspace with the owner and several users, each with a token."""
    template, now = make_template(tuple(tokens.items()))
    shutil.copytree(template, folder)
    people = People(folder)
    people.clock.now = now
    return people


def read_all(folder):
    """Read all files of a workspace except its configuration, as bytes."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name != "foreword.yaml":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def find_token(folder, token):
    """Find the files that contain a token."""
    return sorted(path for path, raw in read_all(folder).items() if token.lower().encode() in raw.lower())


def dump_rows(folder, leave=()):
    """Read all rows of the state, by table."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "state.sqlite"))) as state:
        tables = [name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: state.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in leave}
