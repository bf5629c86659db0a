"""Chat commands: /memory with every model, /plan, rooms, and past conversations."""

import asyncio
import json

import pytest
from chat_house import CONFIG, FILES, make_shell, open_house

from foreword.gateway.messages import RoutedMessage
from foreword.testing import ScriptedReply, run_fake_provider, write_files


@pytest.fixture
def provider():
    """A provider that answers Yes until it is given a script."""
    with run_fake_provider() as one:
        yield one


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch, provider):
    """A shell in a workspace."""
    write_files(tmp_path, FILES)
    return make_shell(capsys, monkeypatch, tmp_path, provider.url)


@pytest.mark.parametrize("model", ["local:smollm2-135m", "anthropic:claude-sonnet-5"])
def test_memory_with_every_model(tmp_path, shell, model):
    """/memory and `foreword memory` list and search, even if the model supports no tools."""
    write_files(tmp_path, {"foreword.yaml": CONFIG.replace("anthropic:claude-sonnet-5", model)})
    assert "garden.md" in shell("chat", "/memory").out
    assert "The plum is from 2019." in shell("chat", "/memory plum").out
    assert "garden.md" in shell("memory", "list").out


def test_bare_plan_shows(shell):
    """/plan shows whether plan mode is on and changes nothing; /plan on and /plan off switch it."""
    assert "plan mode is off; /plan on switches it on" in shell("chat", "/plan").out
    assert "plan mode is off" in shell("chat", "/plan").out
    assert "plan mode is on" in shell("chat", "/plan on").out
    assert "plan mode is on" in shell("chat", "/plan").out
    assert "plan mode is off" in shell("chat", "/plan off").out


def test_chat_in_a_room(tmp_path, shell, provider):
    """`chat --room` speaks in a room, with its clearance and a separate session."""
    write_files(tmp_path, {"memory/private/garden.md": "A secret.\n"})
    assert shell("chat", "--room", "kitchen", "Hello everybody").code == 0
    assert "alice: Hello everybody" in provider.requests[-1].raw.decode()
    (one,) = json.loads(shell("sessions", "--json").out)
    assert (one["room"], one["clearance"], one["people"]) == ("kitchen", "familiar", ["alice"])
    assert "'kitchn' is not listed under `rooms`" in shell("chat", "--room", "kitchn", "/tasks").err


def test_sessions_are_listed_and_shown(shell, provider):
    """`foreword sessions` lists conversations with their first words, and shows one as a transcript."""
    provider.follow(ScriptedReply(text="At noon.\n\n# Not a heading"), ScriptedReply(text="Yes."))
    assert shell("chat", "When is lunch?").code == 0
    assert shell("chat", "And dinner?").code == 0
    (one,) = json.loads(shell("sessions", "--json").out)
    assert (one["agent"], one["people"], one["title"], one["messages"]) == ("reid", ["alice"], "When is lunch?", 4)
    listed = shell("sessions")
    assert "When is lunch?" in listed.out
    assert one["session"][:8] in listed.out
    shown = shell("sessions", "show", one["session"][:8])
    words = [line for line in shown.out.splitlines() if line.startswith("  ")]
    assert words == ["  When is lunch?", "  At noon.", "  # Not a heading", "  And dinner?", "  Yes."]
    transcript = json.loads(shell("sessions", "show", one["session"], "--json").out)["transcript"]
    assert [entry["role"] for entry in transcript] == ["user", "assistant"] * 2
    assert shell("sessions", "show", "ffffffff").code == 2


def test_sessions_are_for_a_reader(tmp_path, shell, provider):
    """A private conversation is for its user only; for others, including the owner, it does not exist."""

    async def run():
        async with open_house(tmp_path, provider.url) as gateway:
            for user, text in (("alice", "My secret."), ("bob", "Bob's own.")):
                await gateway.wait((await gateway.accept(RoutedMessage(text=text, user=user))).turn)

    asyncio.run(run())
    sessions = {}
    for reader, options, title in (("alice", (), "My secret."), ("bob", ("--reader", "bob"), "Bob's own.")):
        (own,) = json.loads(shell("sessions", *options, "--json").out)
        assert own["title"] == title
        sessions[reader] = own["session"]
    for reader, other in (("bob", "alice"), ("alice", "bob")):
        refused = shell("sessions", "show", sessions[other], "--reader", reader)
        unknown = shell("sessions", "show", "f" * len(sessions[other]), "--reader", reader)
        said = refused.err.replace(sessions[other], "X")
        assert (refused.code, said) == (2, unknown.err.replace("f" * len(sessions[other]), "X"))
    assert json.loads(shell("sessions", "--reader", "stranger", "--json").out) == []
