"""The CLI shows the tools that a gateway sends: the same schemas, for each user and place."""

import asyncio
import json
import os
import re
from datetime import UTC, datetime

import pytest

from foreword.gateway.channels.pull_channel import PullChannel
from foreword.gateway.messages import RoutedMessage, ScheduledRun
from foreword.gateway.pairing import create_code, redeem_code
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.storage.database import use_state
from foreword.storage.pairings import PairedIdentity
from foreword.testing import ScriptedReply, run_fake_provider, write_files
from foreword.types import Delivery, Trust
from foreword.workspace import STATE_FOLDER, open_workspace


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """A key, so that the configured model is used."""
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
RUN = ScheduledRun(schedule="brief", delivery=Delivery.NEVER, ceiling=Trust.FULL)


def ask_gateway(folder, incoming, channels):
    """Send a message to a gateway; return the request that its provider received."""
    with run_fake_provider(ScriptedReply(text="Yes.")) as provider:

        async def run():
            environ = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider.url}
            options = GatewayOptions(channels={name: PullChannel() for name in channels})
            async with open_gateway(open_workspace(str(folder)), environ, options) as gateway:
                await gateway.wait((await gateway.accept(incoming)).turn)

        asyncio.run(run())
        return provider.body


def unmark(parts):
    """Remove the cache breakpoints, which depend on the session's ledger."""
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]


@pytest.fixture
def place(folder):
    """A workspace with every input that affects tools; carol's chat is paired."""
    write_files(folder, {"foreword.yaml": CONFIG, "notes/a.md": "A note.\n", "skills/tea/SKILL.md": "Boil water.\n"})
    with use_state(str(folder / STATE_FOLDER)) as state:
        now = datetime(2026, 11, 16, tzinfo=UTC)
        redeem_code(
            state,
            create_code(state, "carol", {"carol"}, now),
            PairedIdentity(identity="telegram:7", user="", name="", since=now),
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
            {"channel": "scheduled", "situation": "system", "scheduled_run": RUN},
            ["telegram"],
        ),
        (
            ["--channel", "scheduled", "--situation", "system", "--background", "always"],
            {
                "channel": "scheduled",
                "situation": "system",
                "scheduled_run": ScheduledRun(schedule="brief", delivery=Delivery.ALWAYS, ceiling=Trust.FULL),
                "through": "telegram",
                "address": "1001",
            },
            ["telegram"],
        ),
    ],
)
def test_same_tools(say, place, words, fields, channels):
    """The tools of `build` equal those that a gateway sends for this user in this place."""
    shown = say("build", "--format", "anthropic", "--message", "Hello.", *words).json
    sent = ask_gateway(place, RoutedMessage(**{"text": "Hello.", "user": "alice"} | fields), channels)
    assert [tool["name"] for tool in shown["tools"]] == [tool["name"] for tool in sent["tools"]]
    assert json.dumps(unmark(shown["tools"])) == json.dumps(unmark(sent["tools"]))


def test_same_prompt(say, place):
    """The prompt of `build` equals that of a first turn, except for the session id."""
    shown = say("build", "--format", "anthropic", "--message", "Hello.").json
    sent = ask_gateway(place, RoutedMessage(text="Hello.", user="alice", channel="terminal"), ())
    output = re.sub(r"session=\w+ \| ", "", json.dumps(unmark(sent["system"])))
    assert output == json.dumps(unmark(shown["system"]))


def test_servers_are_named(say, folder):
    """Building a prompt starts no MCP server; users who may use its tools are warned that they are not counted."""
    server = "mcp: [{name: shop, command: [no-such-program]}, {name: inn, url: 'https://inn.example', trust: familiar}]"
    write_files(folder, {"foreword.yaml": CONFIG.replace("reid: {", f"reid: {{{server}, ")})
    answer = say("build")
    assert answer.code == 0
    assert "tools of the MCP servers shop and inn are not counted" in answer.err
    assert "tools of the MCP server inn are not counted" in say("explain", "--user", "bob").err
    assert "MCP" not in say("explain", "--user", "stranger").err


def test_nothing_is_made(say, folder):
    """Building a prompt creates no state."""
    write_files(folder, {"foreword.yaml": CONFIG})
    assert say("build", "--channel", "web", "--user", "bob").code == 0
    assert not (folder / STATE_FOLDER / "state.sqlite").exists()
