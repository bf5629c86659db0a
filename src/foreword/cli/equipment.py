"""Examining what agents work with: the model that would answer, their directories, and their servers of tools."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foreword.cli.checks import Check, accept, doubt, refuse
from foreword.errors import InputError, UnknownName

if TYPE_CHECKING:
    from foreword.config.environment import Secrets
    from foreword.config.schema import Agent, Config
    from foreword.workspace import Workspace

SET = "in the environment or in .env"


def check_provider(subject: str, model: str, config: "Config", secrets: "Secrets") -> Iterator[Check]:
    """Check that the provider of a model is known and has a key, and say where that comes from, or who answers."""
    from foreword.runtime.providers import KNOWN, LOCAL

    prefix, colon, _ = model.partition(":")
    provider = KNOWN.get(prefix)
    if prefix == LOCAL or not model:
        return
    if not colon:
        yield doubt(subject, f"{model!r} names no provider", "write it as provider:name")
        return
    if provider is None:
        if prefix not in config.providers:
            message = str(UnknownName("provider", prefix, [*KNOWN, *config.providers, LOCAL]))
            yield doubt(subject, message, "or give its address under providers in foreword.yaml")
        return
    found = next((name for name in provider.keys if secrets.get(name)), None)
    if found:
        yield accept(subject, f"{found} is set ({secrets.origin(found)})")
    elif provider.needs_key:
        yield doubt(subject, f"there is no {' or '.join(provider.keys)}", advise(model, config, secrets))


def advise(model: str, config: "Config", secrets: "Secrets") -> str:
    """Advise where there is no key: somebody may answer all the same."""
    from foreword.runtime.choosing import choose_model

    try:
        chosen = choose_model(model, config, secrets)
    except InputError:
        return f"set it {SET} before it speaks, or use the embedded model: pip install 'foreword[local]'"
    if chosen.model != model:
        return f"until it is set, {SET}, the embedded {chosen.model} answers"
    return f"set it {SET} before it speaks"


def check_model_servers(config: "Config | None", secrets: "Secrets") -> Iterator[Check]:
    """Name the model servers that run on this machine, and what they offer."""
    from foreword.runtime.discovery import find_servers

    for server in find_servers(config, secrets):
        offered = ", ".join(f"{one.name} (window {one.window:,})" if one.window else one.name for one in server.models)
        use = "; name one as the model of an agent" if server.models else ""
        yield accept("model server", f"{server.title} at {server.url}: {offered or 'no model yet'}{use}")


def check_telegram(config: "Config", secrets: "Secrets") -> Iterator[Check]:
    """Check that the bot on Telegram, where there is to be one, has what it needs; nobody is asked."""
    from importlib.util import find_spec

    from foreword.config.telegram import find_token

    if config.telegram is None:
        return
    if find_spec("aiogram") is None:
        yield doubt("telegram", "aiogram is not installed", "pip install 'foreword[telegram]'")
    name = config.telegram.token.removeprefix("$")
    try:
        find_token(config.telegram, {name: secrets.get(name) or ""})
    except InputError as error:
        yield refuse("telegram", str(error))
    else:
        yield accept("telegram", f"{name} is set ({secrets.origin(name)})")


def check_directories(subject: str, agent: "Agent", workspace: "Workspace") -> Iterator[Check]:
    """Check that the directories of an agent are there."""
    for one in agent.folders:
        place = os.path.join(workspace.files.root, os.path.expanduser(one.path))
        if not os.path.isdir(place):
            wrong = "is no folder" if os.path.lexists(place) else "does not exist"
            yield doubt(subject, f"its directory {one.path} {wrong}", "make it, or take it out of foreword.yaml")


def check_servers(subject: str, agent: "Agent") -> Iterator[Check]:
    """Check that the programs of an agent's servers can be found; one with a PATH of its own is looked for there."""
    from shutil import which

    for server in agent.mcp:
        if server.command and "PATH" not in server.env and not which(server.command[0]):
            message = f"the program {server.command[0]} of its MCP server is not found"
            yield doubt(subject, message, "install it, or write its whole path")
