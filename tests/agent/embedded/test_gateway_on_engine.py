"""The gateway's ledger on the real engine, by the recorded calls."""

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from embedded import CONFIG, goes_on

from foreword.agent.loop import TurnLimits
from foreword.agent.providers import embedded_process
from foreword.engine.sources.files import REFRESH_INTERVAL_S
from foreword.events.event import Usage
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.promptcache.ledger import ENGINE_RESTARTED
from foreword.promptcache.simulation import SimulatedClock
from foreword.testing import make_workspace
from waiting import wait

# The embedded model has the brief prompt: of the files, the person's profile and the manner of the agent.
PROFILE = "Likes short sentences, gardens, boats and long walks.\n"
EDITED = PROFILE.replace("short", "very short")
EDITS = {2: ("USER.md", EDITED), 3: ("IDENTITY.md", "---\nvibe: calm and dry\n---\nA gardener.\n")}
SHORT = TurnLimits(max_tokens=8)
SAID = (
    "Hello. I have eggs and leeks, half a loaf of bread and some cheese. What shall I cook tonight?",
    "And what would you cook for two children, who like neither leeks nor anything that is green?",
    "My neighbour brought apples from the garden, more than we can eat. What can be made of them?",
    "It rains, and the boat is wet. Would you rather stay at home today, or walk along the river?",
    "Thank you. Then I shall begin with the bread, and afterwards write a letter to my old aunt.",
)


def kill_engine():
    """Kill the engine from outside, as a machine does that runs out of memory."""
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [int(one) for each in lists for one in each.read_text().split()]
    (engine,) = (one for one in children if embedded_process.__file__ in Path(f"/proc/{one}/cmdline").read_text())
    os.kill(engine, signal.SIGKILL)
    wait(lambda: "State:\tZ" in Path(f"/proc/{engine}/status").read_text())


async def say(gateway, text, channel="terminal"):
    """Say something as alice, and return the reply."""
    accepted = await gateway.accept(RoutedMessage(text=text, user="alice", channel=channel))
    reply = await gateway.wait(accepted.turn)
    assert reply.text
    return reply.text


def read_log(folder, kind, *columns):
    """Read the recorded data of each event of a kind."""
    query = f"SELECT {', '.join(columns)} FROM events WHERE event_type = ? ORDER BY id"
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "events.sqlite"))) as log:
        return log.execute(query, (kind,)).fetchall()


def test_a_session_of_the_gateway(tmp_path, environ):
    """Edits of files and clock ticks cause no repeated evaluation of earlier text."""
    clock = SimulatedClock(datetime(2026, 11, 16, 9, 58, tzinfo=UTC))
    workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, "USER.md": PROFILE})

    async def talk():
        async with open_gateway(workspace, environ, GatewayOptions(clock=clock, bounds=SHORT)) as gateway:
            for number, text in enumerate(SAID):
                clock.now += timedelta(minutes=7)
                if number in EDITS:
                    name, edited = EDITS[number]
                    (tmp_path / name).write_text(edited)
                    await asyncio.sleep(2 * REFRESH_INTERVAL_S)
                replies.append(await say(gateway, text))

    replies = []
    asyncio.run(talk())
    rows = read_log(tmp_path, "api_call", "tokens_in", "tokens_out", "cache_read")
    calls = [Usage(tokens_in=sent, tokens_out=said, cache_read=read) for sent, said, read in rows]
    assert len(calls) == len(SAID)
    for reply, (before, after) in zip(replies, pairwise(calls), strict=False):
        assert goes_on(reply, before, after), calls
    shown = [json.loads(facts).get("ledger") for (facts,) in read_log(tmp_path, "prompt_built", "metadata")]
    assert [ledger and ledger["deed"] for ledger in shown] == [None, None, "append", "append", None]


def test_an_engine_that_was_started_anew(tmp_path, environ):
    """After an engine restart an edit moves the prefix for free, and the restart is recorded as the cause."""
    clock = SimulatedClock(datetime(2026, 11, 16, 9, 58, tzinfo=UTC))
    for text in (PROFILE, EDITED):
        workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, "USER.md": text})

        async def talk(workspace=workspace):
            clock.now += timedelta(minutes=7)
            async with open_gateway(workspace, environ, GatewayOptions(clock=clock, bounds=SHORT)) as gateway:
                clock.now += timedelta(seconds=5)
                await say(gateway, "Hello.")

        asyncio.run(talk())
    _, shown = (json.loads(facts).get("ledger") for (facts,) in read_log(tmp_path, "prompt_built", "metadata"))
    assert (shown["deed"], shown["rebase"]["ground"], shown["rebase"]["tokens"]) == ("rebase", "cold", 0)
    _, call = (json.loads(facts)["cache"] for (facts,) in read_log(tmp_path, "api_call", "metadata"))
    assert (call["predicted"]["read"], call["blame"]["cause"], call["blame"]["reason"]) == (
        0,
        "expired",
        ENGINE_RESTARTED,
    )


def test_an_engine_that_dies_alone(tmp_path, environ):
    """When the engine dies, the cache of every session is lost; the next calls record it."""
    clock = SimulatedClock(datetime(2026, 11, 16, 9, 58, tzinfo=UTC))
    workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, "USER.md": PROFILE})

    async def talk():
        async with open_gateway(workspace, environ, GatewayOptions(clock=clock, bounds=SHORT)) as gateway:
            for channel in ("a", "b", None, "a", "b", "a"):
                clock.now += timedelta(seconds=5)
                if channel is None:
                    kill_engine()
                else:
                    await say(gateway, "Hello.", channel)

    asyncio.run(talk())
    calls = [json.loads(facts)["cache"] for (facts,) in read_log(tmp_path, "api_call", "metadata")]
    assert [call["predicted"]["read"] > 0 for call in calls] == [False, False, False, False, True]
    assert [call["blame"] and (call["blame"]["cause"], call["blame"]["reason"]) for call in calls] == [
        None, None, ("expired", ENGINE_RESTARTED), ("expired", ENGINE_RESTARTED), None,
    ]  # fmt: skip
