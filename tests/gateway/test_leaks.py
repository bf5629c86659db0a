"""No user is shown a fact above the clearance of the place, over conversations of many people (laws 11 to 13)."""

import asyncio
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from house import open_house, say
from leaks import FACT, SENDERS, World
from messenger import Messenger

from foreword import assemble, workspace
from foreword.engine import selection
from foreword.engine.sources import fill
from foreword.engine.trust import resolve_trust
from foreword.gateway import session_manager
from foreword.gateway.channel import ChatKind
from foreword.gateway.transcripts import Archiver
from foreword.storage import history
from foreword.storage.rows import fetch_all
from foreword.storage.sessions import Archive
from foreword.testing import FakeRecorder, ManualClock

TALKS = 100 if os.environ.get("FOREWORD_SOAK") else 1
MESSAGES, AT_ONCE = 28, 4


async def write(gateway, post, world):
    """Send a random message; return whether a reply will arrive by messenger."""
    text, fact, asked = world.make_message()
    place = asked.place
    if place.channel == "web":
        reply = await say(gateway, text, user=asked.person, channel="web", situation=place.situation)
        world.hear(asked, fact, reply.text)
        return False
    called = not place.room or world.dice.random() < 0.7
    chat = ChatKind.GROUP if place.room else ChatKind.PRIVATE
    await post.write(text, SENDERS[asked.person], chat=chat, place=place.id, called=called, title="home", name="alice")
    return called


def talk(folder, stand_in, seed):
    """Run a conversation with concurrent messages; return the world with its leaks."""
    world = World(seed)
    stand_in.choose = world.answer

    async def run():
        post, expected = Messenger(), 0
        async with open_house(folder, stand_in, world.files, channels={"telegram": post}) as gateway:
            for _ in range(MESSAGES // AT_ONCE):
                expected += sum(await asyncio.gather(*(write(gateway, post, world) for _ in range(AT_ONCE))))
                await post.until(expected)
            later = ManualClock(datetime.now(UTC) + timedelta(days=2))
            await Archiver(replace(gateway.context, recorder=FakeRecorder(), clock=later)).archive()
            query = "SELECT * FROM archives"
            archives = await gateway.writer.read(lambda state: fetch_all(Archive, state, query))
        for archive in archives:
            world.open(archive, (folder / archive.path).read_text())
        for address, text in post.arrived:
            world.receive(address, text)

    asyncio.run(run())
    return world


def read_events(folder):
    """Read all rows of the log as text."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "events.sqlite"))) as log:
        return [str(row) for row in log.execute("SELECT * FROM events")]


@pytest.mark.parametrize("seed", range(TALKS))
def test_nobody_meets_more(tmp_path, stand_in, seed):
    """Whatever people write and a model tries, no prompt, reply, event or transcript contains a forbidden fact."""
    world = talk(tmp_path, stand_in, seed)
    assert world.leaks == []
    assert world.met > 3 * MESSAGES  # otherwise the test would show nothing
    assert world.kept > MESSAGES
    assert not [event for event in read_events(tmp_path) if FACT.search(event)]


def forget_ceilings(patch):
    """Disable ceilings: a user has the same clearance in a room as in private."""
    for module in (assemble, session_manager):
        patch.setattr(
            module, "resolve_trust", lambda turn, config: resolve_trust(replace(turn, situation="dm", room=""), config)
        )


def forget_company(patch):
    """Disable the group rule: private data is shown in groups."""
    for module in (selection, fill, workspace):
        patch.setattr(module, "has_other_readers", lambda _: False)


def forget_trust(patch):
    """Disable user trust: every configured user is trusted up to the ceiling."""

    def believe(turn, config):
        clearance = resolve_trust(turn, config)
        return replace(clearance, level=clearance.ceiling) if turn.user in config.users else clearance

    for module in (assemble, session_manager):
        patch.setattr(module, "resolve_trust", believe)


def forget_rooms(patch):
    """Disable the separation of rooms."""
    query = history.SELECT_ANSWERED
    patch.setattr(history, "SELECT_ANSWERED", query.replace("sessions.room = ?", "sessions.room IS NOT ?"))


def forget_strangers(patch):
    """Disable the separation of strangers."""
    patch.setattr(session_manager, "is_identifiable", lambda _: True)


@pytest.mark.parametrize("forget", [forget_ceilings, forget_company, forget_trust, forget_rooms, forget_strangers])
def test_each_rule_counts(tmp_path, stand_in, monkeypatch, forget):
    """Without any one of the rules a fact leaks, so the test above can fail."""
    forget(monkeypatch)
    assert any(talk(tmp_path / str(seed), stand_in, seed).leaks for seed in range(8))
