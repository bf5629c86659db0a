"""The line that a person types: with a history, names of commands to complete, and room for several lines."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

MARK = "> "
NEXT = "  "


class Typed(FileHistory):
    """What was typed before, in a file that nobody else on the machine reads; a full disk keeps no one from typing."""

    def store_string(self, string: str) -> None:
        """Keep a text."""
        with suppress(OSError):
            super().store_string(string)


class Names(Completer):
    """Completes the name of a command."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        """Offer the commands that begin with what was typed, as long as nothing else was."""
        typed = document.text
        if not typed.startswith("/") or typed.startswith("//") or any(sign.isspace() for sign in typed):
            return
        for name, about in self._names.items():
            if f"/{name}".startswith(typed.lower()):
                yield Completion(f"/{name}", start_position=-len(typed), display_meta=about)


def open_history(path: str) -> History:
    """Open the history, or one that is forgotten where no file can be written."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        # A link would make a file elsewhere readable, or fill it.
        opened = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(opened, 0o600)
        os.close(opened)
    except OSError:
        return InMemoryHistory()
    return Typed(path)


def make_bindings() -> KeyBindings:
    """Make the keys: Enter sends, Alt-Enter begins a new line."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("enter", filter=completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @bindings.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return bindings


def make_line(path: str, names: Mapping[str, str]) -> "PromptSession[str]":
    """Make the line, with the history of a file and the names of commands; what is piped away is not drawn on."""
    import sys

    session: PromptSession[str] = PromptSession(
        message=MARK,
        multiline=True,
        prompt_continuation=NEXT,
        history=open_history(path),
        completer=Names(names),
        complete_while_typing=True,
        reserve_space_for_menu=5,
        key_bindings=make_bindings(),
        output=create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr),
    )
    return session
