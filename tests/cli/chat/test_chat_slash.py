"""Claims about what is typed after a slash."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cli.chat.commands import COMMANDS
from foreword.cli.chat.slash import Typed, choose, read_typed
from foreword.errors import InputError

ASKED_FOR = ("context", "why", "cost", "reload", "plan", "new", "memory", "tasks", "model", "help", "quit")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("hello", "hello"),
        ("/cost", Typed(name="cost")),
        ("  /COST  ", Typed(name="cost")),
        ("/memory  Carol's birthday ", Typed(name="memory", rest="Carol's birthday")),
        ("/why files:USER.md", Typed(name="why", rest="files:USER.md")),
        ("/etc/hosts is what?", "/etc/hosts is what?"),
        ("//cost", "/cost"),
        ("/", Typed(name="")),
        ("/?", Typed(name="?")),
        ("a /cost", "a /cost"),
        ("1/2", "1/2"),
    ],
)
def test_read(text, read):
    """A slash and a name are a command, a path is none, and two slashes begin a message with one."""
    assert read_typed(text) == read


@given(st.text())
def test_any_text(text):
    """Whatever is typed is a message or a command, and a message without a slash is left as it is."""
    read = read_typed(text)
    assert isinstance(read, Typed) or read == (text if not text.strip().startswith("//") else text.strip()[1:])


def test_every_command_is_there():
    """Every command that was promised is there, under its own name, and says what it does."""
    assert set(ASKED_FOR) <= set(COMMANDS)
    assert all(name == one.name and one.about for name, one in COMMANDS.items())


def test_every_command_is_documented():
    """The page about the chat names every command with its arguments."""
    page = (Path(__file__).parents[3] / "docs" / "chat.md").read_text(encoding="utf-8")
    typed = [f"`/{one.name} {one.arguments}".rstrip() + "`" for one in COMMANDS.values()]
    assert [each for each in typed if each not in page.replace("\\|", "|")] == []


@pytest.mark.parametrize(("name", "near"), [("contxt", "/context"), ("mod", "/model"), ("hlep", "/help")])
def test_mistyped(name, near):
    """A name that does not exist is answered with the nearest one."""
    with pytest.raises(InputError, match=rf"no command /{name}; did you mean {near}\? /help lists them"):
        choose(Typed(name=name), COMMANDS)


@pytest.mark.parametrize("name", ["", "?", "help"])
def test_help(name):
    """A bare slash asks for the list."""
    assert choose(Typed(name=name), COMMANDS) is COMMANDS["help"]
