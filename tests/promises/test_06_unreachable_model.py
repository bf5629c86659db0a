"""An unreachable model: the message names it, switching retries at once, /drop gives up, /why explains."""

import asyncio

import pytest
from chat_house import CONFIG, FILES, Messenger, make_shell, open_house

from foreword.cli import main
from foreword.gateway.message import Incoming, State
from foreword.testing import listen, write_files
from waiting import PATIENCE

NOWHERE = "http://127.0.0.1:9"  # nothing listens there
TWO = {
    **FILES,
    "foreword.yaml": CONFIG.replace("reid: {", "ada: {model: 'openai:gpt-5'}, reid: {")
    + f"providers: {{anthropic: {{base_url: '{NOWHERE}'}}}}\n"
    + "telegram: {}\n",
}
PAIRED = {**TWO, "foreword.yaml": TWO["foreword.yaml"].replace("Europe/Paris", "UTC, identities: ['telegram:1001']")}


@pytest.fixture
def provider():
    """A provider that says Yes."""
    with listen() as one:
        yield one


def test_the_message_names_model_and_address(tmp_path):
    """A person with inner trust or more is told which model cannot be reached and where; others are told neither."""

    async def run():
        async with open_house(tmp_path, NOWHERE) as gateway:
            told = {}
            for user in ("alice", "bob"):
                accepted = await gateway.accept(Incoming(text="Hello?", user=user, agent="reid"))
                told[user] = await gateway.wait(accepted.turn)
            return told

    told = asyncio.run(run())
    assert {reply.state for reply in told.values()} == {State.QUEUED}
    assert f"The model anthropic:claude-sonnet-5 at {NOWHERE} cannot be reached" in told["alice"].text
    assert "127.0.0.1" not in told["bob"].text
    assert "claude" not in told["bob"].text


def test_an_address_that_is_none(tmp_path, monkeypatch, capsys):
    """`doctor` names a server whose address in the environment has an impossible port."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nagents: {reid: {model: 'ollama:llama3'}}\n"
    write_files(tmp_path, {"foreword.yaml": config})
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://localhost:114345/v1")
    main(["-w", str(tmp_path), "doctor"])
    assert "http://localhost:114345" in capsys.readouterr().out


def test_switching_the_model_of_a_session_retries(tmp_path, provider):
    """A waiting message is answered at once when another model is chosen for its session."""

    async def run():
        async with open_house(tmp_path, provider.url, TWO) as gateway:
            accepted = await gateway.accept(Incoming(text="Hello?", user="alice", agent="reid"))
            assert (await gateway.wait(accepted.turn)).state is State.QUEUED
            assert await gateway.set_model(accepted.session, "openai:gpt-5") == 1
            return await wait_for_end(gateway, accepted.turn)

    assert asyncio.run(run()).state is State.ANSWERED


def test_switching_the_model_in_the_configuration_retries(tmp_path, provider):
    """A waiting message is answered at once when the configuration names another model or address."""

    async def run():
        async with open_house(tmp_path, provider.url, TWO) as gateway:
            accepted = await gateway.accept(Incoming(text="Hello?", user="alice", agent="reid"))
            assert (await gateway.wait(accepted.turn)).state is State.QUEUED
            write_files(tmp_path, {"foreword.yaml": TWO["foreword.yaml"].replace(NOWHERE, provider.url)})
            return await wait_for_end(gateway, accepted.turn)

    assert asyncio.run(run()).state is State.ANSWERED


async def wait_for_end(gateway, turn):
    """Wait until nothing more comes of a turn, however often it is queued."""
    async with asyncio.timeout(PATIENCE):
        while not (reply := await gateway.wait(turn)).state.ended:  # noqa: ASYNC110 - a later try is another wait
            await asyncio.sleep(0.01)
        return reply


def test_drop_and_why_in_the_chat(tmp_path, capsys, monkeypatch):
    """/why explains the newest turn also after a restart, /drop gives a waiting message up, and says if none waits."""
    write_files(tmp_path, FILES)
    shell = make_shell(capsys, monkeypatch, tmp_path, NOWHERE)
    asked = shell("chat", "What is on?")
    assert asked.code == 1
    assert "/drop cancels the message" in asked.err
    why = shell("chat", "/why")
    assert why.code == 0
    assert "this message is queued: The model anthropic:claude-sonnet-5 at" in why.out
    assert "4 errors" in why.out  # one call and three more tries
    dropped = shell("chat", "/drop")
    assert "dropped: What is on?" in dropped.out
    assert "no message of this session waits" in shell("chat", "/drop").err


def test_drop_in_a_messenger(tmp_path, provider):
    """/drop in a messenger drops the newest waiting message, refuses other words, and never reaches the agent."""

    async def run():
        messenger = Messenger()
        files = {**PAIRED, "foreword.yaml": PAIRED["foreword.yaml"].replace("ada: {model: 'openai:gpt-5'}, ", "")}
        async with open_house(tmp_path, provider.url, files, channels={"telegram": messenger}) as gateway:
            await messenger.hand_in("Hello?")
            (session,) = await gateway.sessions.list("alice")

            async def is_queued():
                return [one.reply.state for one in await gateway.sessions.list_unfinished(session.id)]

            while await is_queued() != [State.QUEUED]:  # noqa: ASYNC110 - the state is in a file
                await asyncio.sleep(0.01)
            refused, waiting = await messenger.write("/drop the ball"), await is_queued()
            dropped, none = await messenger.write("/drop"), await messenger.write("/drop")
            return refused, waiting, dropped, none, await is_queued()

    refused, waiting, *after = asyncio.run(run())
    assert (refused, waiting) == ("Write /drop for the newest unanswered message, or /drop all.", [State.QUEUED])
    assert after == ["Dropped: Hello?", "You have no unanswered messages.", []]
    assert provider.requests == []
