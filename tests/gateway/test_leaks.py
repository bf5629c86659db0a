"""The claim that nobody meets a fact above the clearance of its place, over talk of many people (laws 11 to 13)."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from house import open_house, say
from leaks import FACT, SENDERS, World
from messenger import Messenger

import foreword.assemble
import foreword.gateway.admission
import foreword.gateway.lane
import foreword.gateway.room
from foreword.gateway.archiving import Archiving
from foreword.gateway.channel import Chat
from foreword.store.archives import COLUMNS, read_archive
from foreword.testing import Heard, MovedClock
from foreword.trust import resolve

TALKS = 100 if os.environ.get("FOREWORD_SOAK") else 3
MESSAGES, AT_ONCE = 28, 4


async def write(gateway, post, world):
    """Let somebody write something; return whether a reply will arrive by messenger."""
    text, fact, asked = world.make_message()
    place = asked.place
    if place.channel == "web":
        reply = await say(gateway, text, user=asked.person, channel="web", situation=place.situation)
        world.hear(asked, fact, reply.text)
        return False
    called = not place.room or world.dice.random() < 0.7
    chat = Chat.GROUP if place.room else Chat.PRIVATE
    await post.write(text, SENDERS[asked.person], chat=chat, place=place.id, called=called, title="home", name="alice")
    return called


def talk(folder, stand_in, seed):
    """Let people talk, some of them at once; return what came of it."""
    world = World(seed)
    stand_in.choose = world.answer

    async def run():
        post, expected = Messenger(), 0
        async with open_house(folder, stand_in, world.files, channels={"telegram": post}) as gateway:
            for _ in range(MESSAGES // AT_ONCE):
                expected += sum(await asyncio.gather(*(write(gateway, post, world) for _ in range(AT_ONCE))))
                await post.until(expected)
            later = MovedClock(datetime.now(UTC) + timedelta(days=2))
            await Archiving(gateway.workspace, gateway._writer, Heard(), later).archive()
            rows = await gateway._writer.look(lambda state: state.execute(f"SELECT {COLUMNS} FROM archives").fetchall())
        for archive in map(read_archive, rows):
            world.open(archive, (folder / archive.path).read_text())
        for address, text in post.arrived:
            world.receive(address, text)

    asyncio.run(run())
    return world


def read_events(folder):
    """Read every text of the log."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "events.sqlite"))) as log:
        return [str(row) for row in log.execute("SELECT * FROM events")]


@pytest.mark.parametrize("seed", range(TALKS))
def test_nobody_meets_more(tmp_path, stand_in, seed):
    """However people talk and whatever a model tries, no prompt, reply, event or transcript holds what it may not."""
    world = talk(tmp_path, stand_in, seed)
    assert world.leaks == []
    assert world.met > 3 * MESSAGES  # else it was found by looking away
    assert world.kept > MESSAGES
    assert not [event for event in read_events(tmp_path) if FACT.search(event)]


def forget_ceilings(patch):
    """Let a person see in a room what they see alone."""
    for module in (foreword.assemble, foreword.gateway.lane):
        patch.setattr(module, "resolve", lambda turn, config: resolve(replace(turn, situation="dm", room=""), config))


def forget_company(patch):
    """Show what is one person's own where others read."""
    for module in ("blueprint.select", "sources.read", "workspace"):
        patch.setattr(sys.modules[f"foreword.{module}"], "has_company", lambda _: False)


def forget_trust(patch):
    """Take everybody whom the owner has named for the owner's equal."""

    def believe(turn, config):
        clearance = resolve(turn, config)
        return replace(clearance, level=clearance.ceiling) if turn.user in config.users else clearance

    for module in (foreword.assemble, foreword.gateway.lane):
        patch.setattr(module, "resolve", believe)


def forget_rooms(patch):
    """Tell a room what was said in others."""
    beside = foreword.gateway.room.BESIDE
    patch.setattr(foreword.gateway.room, "BESIDE", beside.replace("sessions.room = ?", "sessions.room IS NOT ?"))


def forget_strangers(patch):
    """Take all strangers for one."""
    patch.setattr(foreword.gateway.admission, "is_named", lambda _: True)


@pytest.mark.parametrize("forget", [forget_ceilings, forget_company, forget_trust, forget_rooms, forget_strangers])
def test_each_rule_counts(tmp_path, stand_in, monkeypatch, forget):
    """Without any one of the rules somebody meets what is not for them, so the claim above can fail."""
    forget(monkeypatch)
    assert any(talk(tmp_path / str(seed), stand_in, seed).leaks for seed in range(8))
