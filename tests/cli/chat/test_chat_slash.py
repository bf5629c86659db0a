"""Parsing of slash commands."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cli.chat.slash_commands import SLASH_COMMANDS, TypedCommand, find_slash_command, parse_input
from foreword.errors import InputError

ASKED_FOR = ("context", "why", "cost", "reload", "plan", "new", "memory", "tasks", "model", "help", "quit")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("hello", "hello"),
        ("/cost", TypedCommand(name="cost")),
        ("  /COST  ", TypedCommand(name="cost")),
        ("/memory  Carol's birthday ", TypedCommand(name="memory", rest="Carol's birthday")),
        ("/why files:USER.md", TypedCommand(name="why", rest="files:USER.md")),
        ("/etc/hosts is what?", "/etc/hosts is what?"),
        ("//cost", "/cost"),
        ("/", TypedCommand(name="")),
        ("/?", TypedCommand(name="?")),
        ("a /cost", "a /cost"),
        ("1/2", "1/2"),
    ],
)
def test_read(text, read):
    """A slash and a name are a command, a path is not, and two slashes start a message with one."""
    assert parse_input(text) == read


@given(st.text())
def test_any_text(text):
    """Any input is a message or a command, and a message without a slash is unchanged."""
    read = parse_input(text)
    assert isinstance(read, TypedCommand) or read == (text if not text.strip().startswith("//") else text.strip()[1:])


def test_every_command_is_there():
    """Every specified command exists under its name and has a description."""
    assert set(ASKED_FOR) <= set(SLASH_COMMANDS)
    assert all(one.about for one in SLASH_COMMANDS.values())


def test_every_command_is_documented():
    """The documentation page of the chat names every command with its arguments."""
    page = (Path(__file__).parents[3] / "docs" / "chat.md").read_text(encoding="utf-8")
    typed = [f"`/{name} {one.arguments}".rstrip() + "`" for name, one in SLASH_COMMANDS.items()]
    assert [each for each in typed if each not in page.replace("\\|", "|")] == []


@pytest.mark.parametrize(("name", "near"), [("contxt", "/context"), ("mod", "/model"), ("hlep", "/help")])
def test_mistyped(name, near):
    """An unknown command name is answered with the nearest one."""
    with pytest.raises(InputError, match=rf"unknown command /{name}; did you mean {near}\? /help lists the commands"):
        find_slash_command(TypedCommand(name=name))


@pytest.mark.parametrize("name", ["", "?", "help"])
def test_help(name):
    """A bare slash lists the commands."""
    assert find_slash_command(TypedCommand(name=name)) is SLASH_COMMANDS["help"]
