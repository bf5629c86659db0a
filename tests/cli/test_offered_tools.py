"""What the shell shows of a turn's tools is what a gateway sends: the same schemas, for each person and place."""

import asyncio
import json
import os
import re
from datetime import UTC, datetime

import pytest

from foreword.gateway.channels.fetched import Fetched
from foreword.gateway.message import Errand, Incoming
from foreword.gateway.opening import Options, open_gateway
from foreword.gateway.pairing import Paired, offer, redeem
from foreword.store.state import use_state
from foreword.testing import Says, listen, write_files
from foreword.words import Delivery, Trust
from foreword.workspace import STATE, open_workspace


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """A key, so that the model of the configuration is the one that would answer."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-tests")


CONFIG = """\
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5", directories: [{path: notes, trust: inner}]}
  ada: {model: "anthropic:claude-sonnet-5"}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar}
  carol: {trust: inner}
rooms: {family: {situation: group}}
telegram: {token: $BOT}
"""
RUN = Errand(schedule="brief", delivery=Delivery.NEVER, ceiling=Trust.FULL)


def ask_gateway(folder, incoming, channels):
    """Say something to a gateway; return the request that its provider got."""
    with listen(Says(text="Yes.")) as provider:

        async def run():
            environ = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider.url}
            options = Options(channels={name: Fetched() for name in channels})
            async with open_gateway(open_workspace(str(folder)), environ, options) as gateway:
                await gateway.wait((await gateway.accept(incoming)).turn)

        asyncio.run(run())
        return provider.body


def unmark(parts):
    """Leave out the marks of the cache, which a ledger sets by what it knows of a session."""
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]


@pytest.fixture
def place(folder):
    """A workspace in which everything is that decides about tools; carol's chat was paired."""
    write_files(folder, {"foreword.yaml": CONFIG, "notes/a.md": "A note.\n", "skills/tea/SKILL.md": "Boil water.\n"})
    with use_state(str(folder / STATE)) as state:
        now = datetime(2026, 11, 16, tzinfo=UTC)
        redeem(
            state,
            offer(state, "carol", {"carol"}, now),
            Paired(identity="telegram:7", user="", name="", since=now),
            {"carol"},
        )
    return folder


@pytest.mark.parametrize(
    ("words", "fields", "channels"),
    [
        ([], {"channel": "terminal"}, ()),
        (["--agent", "ada"], {"channel": "terminal", "agent": "ada"}, ()),
        (["--user", "bob"], {"channel": "terminal", "user": "bob"}, ()),
        (["--user", "stranger"], {"channel": "terminal", "user": "stranger"}, ()),
        (["--channel", "web"], {"channel": "web"}, ["telegram"]),
        (["--channel", "web", "--user", "carol"], {"channel": "web", "user": "carol"}, ["telegram"]),
        (["--channel", "web", "--user", "bob"], {"channel": "web", "user": "bob"}, ["telegram"]),
        (["--channel", "telegram"], {"channel": "telegram", "address": "1001"}, ["telegram"]),
        (
            ["--channel", "telegram", "--room", "family"],
            {"channel": "telegram", "room": "family", "situation": "group", "address": "-5"},
            ["telegram"],
        ),
        (
            ["--channel", "scheduled", "--situation", "system", "--background", "never"],
            {"channel": "scheduled", "situation": "system", "errand": RUN},
            ["telegram"],
        ),
        (
            ["--channel", "scheduled", "--situation", "system", "--background", "always"],
            {
                "channel": "scheduled",
                "situation": "system",
                "errand": Errand(schedule="brief", delivery=Delivery.ALWAYS, ceiling=Trust.FULL),
                "through": "telegram",
                "address": "1001",
            },
            ["telegram"],
        ),
    ],
)
def test_same_tools(say, place, words, fields, channels):
    """The tools of `build` are those that a gateway sends for this person in this place, word for word."""
    shown = say("build", "--format", "anthropic", "--message", "Hello.", *words).json
    sent = ask_gateway(place, Incoming(**{"text": "Hello.", "user": "alice"} | fields), channels)
    assert [tool["name"] for tool in shown["tools"]] == [tool["name"] for tool in sent["tools"]]
    assert json.dumps(unmark(shown["tools"])) == json.dumps(unmark(sent["tools"]))


def test_same_prompt(say, place):
    """The prompt is that of a first turn, too, but for the id of its session."""
    shown = say("build", "--format", "anthropic", "--message", "Hello.").json
    sent = ask_gateway(place, Incoming(text="Hello.", user="alice", channel="terminal"), ())
    told = re.sub(r"session=\w+ \| ", "", json.dumps(unmark(sent["system"])))
    assert told == json.dumps(unmark(shown["system"]))


def test_servers_are_named(say, folder):
    """A server is not started to show a prompt; that its tools are not counted is said to who may use them."""
    server = "mcp: [{name: shop, command: [no-such-program]}, {name: inn, url: 'https://inn.example', trust: familiar}]"
    write_files(folder, {"foreword.yaml": CONFIG.replace("reid: {", f"reid: {{{server}, ")})
    answer = say("build")
    assert answer.code == 0
    assert "the tools of the MCP servers shop and inn are not counted" in answer.err
    assert "the tools of the MCP server inn are not counted" in say("explain", "--user", "bob").err
    assert "MCP" not in say("explain", "--user", "stranger").err


def test_nothing_is_made(say, folder):
    """Nothing is written for it: where there is no state, none is made."""
    write_files(folder, {"foreword.yaml": CONFIG})
    assert say("build", "--channel", "web", "--user", "bob").code == 0
    assert not (folder / STATE / "state.sqlite").exists()
