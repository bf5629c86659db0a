"""Shared fixtures of the chat tests: a provider on loopback, and ways to start the program with it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from chat_terminal import Terminal, sit_down

from foreword.testing import FakeProvider, run_fake_provider

Answer = Any  # from tests/cli/conftest.py, which cannot be imported by name


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A provider that answers Yes until it is given a script."""
    with run_fake_provider() as stand_in:
        yield stand_in


@pytest.fixture
def environ(provider, tmp_path) -> dict[str, str]:
    """An environment with a key for that provider only."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**kept, "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": provider.url}


@pytest.fixture
def chat(folder, environ) -> Iterator[Callable[..., Terminal]]:
    """Start chats in terminals, which are closed when the test ends."""
    with ExitStack() as opened:

        def start(*words: str) -> Terminal:
            return opened.enter_context(sit_down(["chat", *words], environ, folder))

        yield start


@pytest.fixture
def once(start, environ, monkeypatch) -> Callable[..., Answer]:
    """Run a chat without a terminal."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "HOME"):
        monkeypatch.setenv(name, environ[name])

    return partial(start, "chat")
