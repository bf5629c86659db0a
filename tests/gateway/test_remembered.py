"""The session cache: it never returns anything that differs from the state."""

import asyncio
import gc
import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from types import CodeType, FunctionType, ModuleType

import pytest
from house import CONFIG, FILES, open_house, open_rows, say
from test_compaction import LONG, SMALL, answer

from foreword.agent.conversation import close_turn, dump_messages
from foreword.agent.conversation import make_user_message as utter
from foreword.gateway.session_state import LedgerEntry, SessionCache
from foreword.privacy.erasure import erase_person
from foreword.storage import ledgers
from foreword.storage.database import open_state
from foreword.storage.history import HistoryKind, HistoryPiece, append_piece, compact_history, copy_history
from foreword.testing import NOON, ManualClock, ScriptedReply, run_fake_provider, write_files


@pytest.fixture
def state(tmp_path):
    """A state with two sessions of three rows each."""
    with closing(open_state(str(tmp_path)).connection) as state:
        state.execute("PRAGMA foreign_keys=OFF")
        for session in ("one", "two"):
            for number in range(3):
                append_piece(state, session, make_piece(f"{session} {number} " + "x" * 1_000))
        yield state


def make_piece(text, kind=HistoryKind.TURN):
    """Make the history of a turn."""
    return HistoryPiece(kind=kind, messages=dump_messages(close_turn((utter(text),), "Yes.")), tokens=10)


def describe(rows):
    """Return the first words of each row."""
    return [row.segment.texts[0].text.split(" x")[0] for row in rows]


def test_the_very_rows(state):
    """Unchanged rows are returned from the cache, and new rows are added."""
    remembered = SessionCache()
    first = remembered.read(state, "one")
    append_piece(state, "one", make_piece("one 3"))
    again = remembered.read(state, "one")
    assert [one is other for one, other in zip(first, again, strict=False)] == [True] * 3
    assert describe(again) == ["one 0", "one 1", "one 2", "one 3"]


def rewrite(state):
    """Rewrite a row, as redaction does."""
    state.execute("UPDATE history SET messages = ? WHERE position = 2", (make_piece("another").messages,))


def remove(state):
    """Delete a row, as erasure does."""
    state.execute("DELETE FROM history WHERE position = 2")


def sum_up(state):
    """Compact rows."""
    compact_history(state, "one", 2, make_piece("in short", HistoryKind.SUMMARY))


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (rewrite, ["one 0", "another", "one 2"]),
        (remove, ["one 0", "one 2"]),
        (sum_up, ["in short", "one 2"]),
    ],
)
def test_changed_by_another(tmp_path, state, change, shown):
    """Changes by another process are visible at the next read, and other rows remain cached."""
    remembered = SessionCache()
    before = {row.position: row for row in remembered.read(state, "one")}
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as other:
        change(other)
    after = remembered.read(state, "one")
    assert describe(after) == shown
    assert after[-1] is before[3]


def test_a_fork_is_another(state):
    """A fork has its own rows, independent of its parent session."""
    remembered = SessionCache()
    remembered.read(state, "one")
    copy_history(state, "one", 2, "three")
    assert describe(remembered.read(state, "three")) == ["one 0", "one 1"]
    state.execute("UPDATE history SET messages = ? WHERE session_id = 'three'", (make_piece("other").messages,))
    assert describe(remembered.read(state, "three")) == ["other", "other"]
    assert describe(remembered.read(state, "one")) == ["one 0", "one 1", "one 2"]


def test_everything_goes_with_somebody(tmp_path, state):
    """After an erasure no session is cached, because the database file was vacuumed."""
    remembered = SessionCache()
    rows = {session: remembered.read(state, session) for session in ("one", "two")}
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as other:
        other.execute("DELETE FROM history WHERE session_id = 'one'")
        other.execute("VACUUM")
    assert remembered.read(state, "one") == []
    after = remembered.read(state, "two")
    assert describe(after) == describe(rows["two"])
    assert not any(one is other for one, other in zip(after, rows["two"], strict=True))


def test_never_more_than_that(state):
    """If the cache exceeds its size, the least recently read session is dropped."""
    size = sum(len(row.segment.stored) for row in SessionCache().read(state, "one"))
    remembered = SessionCache(max_bytes=size * 3 // 2)
    one, two = remembered.read(state, "one"), remembered.read(state, "two")
    assert remembered.read(state, "two")[0] is two[0]
    assert remembered.read(state, "one")[0] is not one[0]
    nothing = SessionCache(max_bytes=size - 1)
    assert nothing.read(state, "one")[0] is not nothing.read(state, "one")[0]


def make_files(config):
    """Return files whose users have too little trust for a session id in the prompt."""
    config = config.replace("bob: {trust: familiar}", "bob: {trust: familiar}, carol: {trust: familiar}")
    return {**FILES, "foreword.yaml": config}


class Twins:
    """Two workspaces with the same steps: one gateway stays open, the other is reopened for every turn."""

    def __init__(self, folder, files):
        self.folders = [folder / "one", folder / "two"]  # a prompt may contain its folder
        self.files = files
        self.clocks = [ManualClock(NOON), ManualClock(NOON)]
        self.bodies = [[], []]

    async def play(self, steps):
        """Run every step in both workspaces and record their requests."""
        for number, folder in enumerate(self.folders):
            with run_fake_provider(clock=self.clocks[number]) as stand_in:
                stand_in.choose = answer
                if number == 0:
                    async with self._open(number, stand_in) as gateway:
                        for step in steps:
                            await step(gateway, folder, self.clocks[0])
                else:
                    for step in steps:
                        async with self._open(number, stand_in) as gateway:
                            await step(gateway, folder, self.clocks[1])
                own = str(folder).encode()
                self.bodies[number] = [one.raw.replace(own, b"here") for one in stand_in.requests]

    def _open(self, number, stand_in):
        begun = self.folders[number].exists()  # keep edited files
        files = {"foreword.yaml": self.files["foreword.yaml"]} if begun else self.files
        return open_house(self.folders[number], stand_in, files, clock=self.clocks[number])


def speak(user, text, **fields):
    """Make a step in which a user sends a message."""

    async def step(gateway, _folder, clock):
        clock.move(60)
        reply = await say(gateway, text, user=user, **fields)
        assert reply.state.ended, reply

    return step


async def find_session(gateway, user):
    """Find the newest session of a user."""
    return (await gateway.sessions.list(user))[0]


async def begin_anew(gateway, _folder, clock):
    """Start a new session."""
    clock.move(1)
    session = await find_session(gateway, "carol")
    await gateway.sessions.begin(session.key, session.situation)


async def fork_it(gateway, _folder, clock):
    """Fork a session at its first turn."""
    clock.move(1)
    session = await find_session(gateway, "carol")
    turns = sum(row.kind is HistoryKind.TURN for row in await gateway.sessions.read(session.id))
    await gateway.sessions.fork(session.id, min(1, turns))


async def rewrite_beside(_gateway, folder, _clock):
    """Rewrite a row in another connection, with the same number of bytes."""
    with open_rows(folder) as rows:
        rows.execute("UPDATE history SET messages = CAST(replace(messages, 'plum', 'pear') AS BLOB) WHERE position = 1")


async def edit_soul(gateway, folder, _clock):
    """Edit a file that is part of the prompt."""
    write_files(folder, {"SOUL.md": "Calm, exact, and brief.\n"})
    gateway.workspace.refresh(now=True)


async def forget_bob(gateway, _folder, _clock):
    """Erase a user."""
    with open_rows(gateway.workspace.files.root) as rows:
        known = rows.execute("SELECT count(*) FROM turns WHERE user_id = 'bob'").fetchone()[0]
    if known:
        report = await asyncio.to_thread(erase_person, gateway.workspace, "bob")
        assert report.done, report


@pytest.mark.parametrize("seed", range(3))
def test_as_if_it_had_been_restarted(tmp_path, seed):
    """Whatever happens to sessions, a gateway with a cache sends the same bytes as a restarted one."""
    chance = random.Random(seed)
    others = (begin_anew, fork_it, rewrite_beside, edit_soul, forget_bob)
    steps = [speak("carol", "the plum tree 0"), speak("bob", "zebra 0")]
    for number in range(1, 10):
        if chance.random() < 0.4:
            steps.append(chance.choice(others))
        steps.append(speak(chance.choice(("carol", "carol", "bob")), f"the plum tree {number}"))
    twins = Twins(tmp_path, make_files(CONFIG))
    asyncio.run(twins.play(steps))
    stays, restarts = twins.bodies
    assert len(stays) > 8
    assert stays == restarts


def test_folded_as_if_it_had_been_restarted(tmp_path):
    """A repeatedly compacted conversation is sent as by a restarted gateway."""
    twins = Twins(tmp_path, make_files(SMALL))
    asyncio.run(twins.play([speak("carol", f"number {number}: {LONG}") for number in range(14)]))
    stays, restarts = twins.bodies
    assert sum(b"Summarise the conversation" in body for body in stays) >= 2
    assert stays == restarts


def test_forgotten_by_a_command(tmp_path, stand_in):
    """Data erased by another process is not in the next turn, also in a shared room."""
    config = CONFIG + "rooms: {kitchen: {situation: group}}\n"
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in, {**FILES, "foreword.yaml": config}) as gateway:
            for user, word in (("bob", "zebrabob"), ("alice", "zebraalice"), ("bob", "zebrabob again")):
                await say(gateway, f"I keep {word}", user=user, room="kitchen", situation="group")
            command = [sys.executable, "-m", "foreword", "-w", str(tmp_path), "forget", "bob", "--yes"]
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            await say(gateway, "Are you there?", user="alice", room="kitchen", situation="group")

    asyncio.run(run())
    assert b"zebrabob" in stand_in.requests[-2].raw
    assert b"zebrabob" not in stand_in.requests[-1].raw
    assert b"zebraalice" in stand_in.requests[-1].raw


def test_a_ledger_that_is_handed_on(tmp_path, stand_in):
    """A cached ledger is used while its row is unchanged, and otherwise read again."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            for number in range(3):
                reply = await say(gateway, f"number {number}")
            return reply.session

    session = asyncio.run(run())
    with open_rows(tmp_path) as rows:
        remembered = SessionCache()
        remembered.read(rows, session)
        row, ledger_state = ledgers.find_ledger(rows, session), ledgers.read_ledger(rows, session)
        remembered.store_ledger(rows, session, LedgerEntry(ledger_state=ledger_state, began_empty=True))
        assert remembered.read_ledger(rows, session) is ledger_state
        held = json.loads(row.frozen) | {"calls": 99}
        rows.execute("UPDATE ledgers SET frozen = ? WHERE session_id = ?", (json.dumps(held), session))
        assert remembered.read_ledger(rows, session).calls == 99
        ledgers.empty_ledger(rows, session)
        assert not remembered.read_ledger(rows, session).prefix.blocks
        ledgers.drop_ledger(rows, session)
        assert remembered.read_ledger(rows, session) is None


def test_what_is_kept_is_what_is_read(tmp_path, stand_in):
    """A ledger reads back exactly as written, so either can be cached."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return [(await say(gateway, f"number {number}")).session for number in range(3)]

    (session, *_) = asyncio.run(run())
    with open_rows(tmp_path) as rows:
        row, ledger_state = ledgers.find_ledger(rows, session), ledgers.read_ledger(rows, session)
    assert ledgers.build_ledger_row(ledger_state) == row
    assert ledgers.parse_ledger_row(ledgers.build_ledger_row(ledger_state)) == ledger_state


def find_texts(*roots):
    """Find every text reachable from objects, except through modules, classes and functions."""
    seen, found, rest = set(), [], list(roots)
    while rest:
        one = rest.pop()
        if id(one) in seen or isinstance(one, type | FunctionType | ModuleType | CodeType):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            found.append(one if isinstance(one, str) else one.decode("utf-8", "replace"))
        else:
            rest += gc.get_referents(one)
    return found


def test_nothing_is_left_in_memory(tmp_path, stand_in):
    """After an erasure and the next turn of another user the gateway's memory contains no word of the person."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            for number in range(3):
                await say(gateway, f"I keep zebrabob under stone {number}", user="bob")
            await say(gateway, "I keep zebraalice under the stone")
            before = find_texts(gateway)
            await asyncio.to_thread(erase_person, gateway.workspace, "bob")
            await say(gateway, "Are you there?")
            return before, find_texts(gateway)

    before, after = asyncio.run(run())
    assert any("zebrabob" in text for text in before)
    assert not any("zebrabob" in text for text in after)
    assert any("zebraalice" in text for text in after)
