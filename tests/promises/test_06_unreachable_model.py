"""An unreachable model: the message names it, switching retries at once, /drop gives up, /why explains."""

import asyncio

import pytest
from chat_house import CONFIG, FILES, Messenger, make_shell, open_house

from foreword.cli.main import main
from foreword.gateway.messages import RoutedMessage
from foreword.storage.turns import TurnState
from foreword.testing import run_fake_provider, write_files
from waiting import PATIENCE

NOWHERE = "http://127.0.0.1:9"  # a port without a listener
TWO = {
    **FILES,
    "foreword.yaml": CONFIG.replace("reid: {", "ada: {model: 'openai:gpt-5'}, reid: {")
    + f"providers: {{anthropic: {{base_url: '{NOWHERE}'}}}}\n"
    + "telegram: {}\n",
}
PAIRED = {**TWO, "foreword.yaml": TWO["foreword.yaml"].replace("Europe/Paris", "UTC, identities: ['telegram:1001']")}


@pytest.fixture
def provider():
    """A provider that answers Yes."""
    with run_fake_provider() as one:
        yield one


def test_the_message_names_model_and_address(tmp_path):
    """A user with inner trust or more sees the unreachable model and its address; others see neither."""

    async def run():
        async with open_house(tmp_path, NOWHERE) as gateway:
            shown = {}
            for user in ("alice", "bob"):
                accepted = await gateway.accept(RoutedMessage(text="Hello?", user=user, agent="reid"))
                shown[user] = await gateway.wait(accepted.turn)
            return shown

    shown = asyncio.run(run())
    assert {reply.state for reply in shown.values()} == {TurnState.QUEUED}
    assert f"The model anthropic:claude-sonnet-5 at {NOWHERE} cannot be reached" in shown["alice"].text
    assert "127.0.0.1" not in shown["bob"].text
    assert "claude" not in shown["bob"].text


def test_an_address_that_is_none(tmp_path, monkeypatch, capsys):
    """`doctor` names a server whose address in the environment has an invalid port."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nagents: {reid: {model: 'ollama:llama3'}}\n"
    write_files(tmp_path, {"foreword.yaml": config})
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://localhost:114345/v1")
    main(["-w", str(tmp_path), "doctor"])
    assert "http://localhost:114345" in capsys.readouterr().out


def test_switching_the_model_of_a_session_retries(tmp_path, provider):
    """A waiting message is answered at once when its session is switched to another model."""

    async def run():
        async with open_house(tmp_path, provider.url, TWO) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="alice", agent="reid"))
            assert (await gateway.wait(accepted.turn)).state is TurnState.QUEUED
            assert await gateway.set_model(accepted.session, "openai:gpt-5") == 1
            return await wait_for_end(gateway, accepted.turn)

    assert asyncio.run(run()).state is TurnState.ANSWERED


def test_switching_the_model_in_the_configuration_retries(tmp_path, provider):
    """A waiting message is answered at once when the configuration names another model or address."""

    async def run():
        async with open_house(tmp_path, provider.url, TWO) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Hello?", user="alice", agent="reid"))
            assert (await gateway.wait(accepted.turn)).state is TurnState.QUEUED
            write_files(tmp_path, {"foreword.yaml": TWO["foreword.yaml"].replace(NOWHERE, provider.url)})
            return await wait_for_end(gateway, accepted.turn)

    assert asyncio.run(run()).state is TurnState.ANSWERED


async def wait_for_end(gateway, turn):
    """Wait until a turn has ended, even if it is queued repeatedly."""
    async with asyncio.timeout(PATIENCE):
        while not (reply := await gateway.wait(turn)).state.ended:  # noqa: ASYNC110 - a later try is another wait
            await asyncio.sleep(0.01)
        return reply


def test_drop_and_why_in_the_chat(tmp_path, capsys, monkeypatch):
    """/why explains the newest turn after a restart as well; /drop drops a waiting message or says that none waits."""
    write_files(tmp_path, FILES)
    shell = make_shell(capsys, monkeypatch, tmp_path, NOWHERE)
    asked = shell("chat", "What is on?")
    assert asked.code == 1
    assert "/drop cancels the message" in asked.err
    why = shell("chat", "/why")
    assert why.code == 0
    assert "this message is queued: The model anthropic:claude-sonnet-5 at" in why.out
    assert "4 errors" in why.out  # one call and three retries
    dropped = shell("chat", "/drop")
    assert "dropped: What is on?" in dropped.out
    assert "no message in this session waits" in shell("chat", "/drop").err


def test_drop_in_a_messenger(tmp_path, provider):
    """/drop in a messenger drops the newest waiting message, refuses arguments, and is not sent to the agent."""

    async def run():
        messenger = Messenger()
        files = {**PAIRED, "foreword.yaml": PAIRED["foreword.yaml"].replace("ada: {model: 'openai:gpt-5'}, ", "")}
        async with open_house(tmp_path, provider.url, files, channels={"telegram": messenger}) as gateway:
            await messenger.hand_in("Hello?")
            (session,) = await gateway.sessions.list("alice")

            async def is_queued():
                return [one.reply.state for one in await gateway.sessions.list_unfinished(session.id)]

            while await is_queued() != [TurnState.QUEUED]:  # noqa: ASYNC110 - the state is in a file
                await asyncio.sleep(0.01)
            refused, waiting = await messenger.write("/drop the ball"), await is_queued()
            dropped, none = await messenger.write("/drop"), await messenger.write("/drop")
            return refused, waiting, dropped, none, await is_queued()

    refused, waiting, *after = asyncio.run(run())
    assert (refused, waiting) == ("Write /drop for the newest unanswered message, or /drop all.", [TurnState.QUEUED])
    assert after == ["Dropped: Hello?", "You have no unanswered messages.", []]
    assert provider.requests == []
