"""The inputs of commands: option groups, the workspace, the files that options name, and the turn they describe."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from foreword import turn as turns
from foreword.cli.output import pick, warn, warn_about_names
from foreword.config import structure
from foreword.errors import ConfigError, InputError, WorkspaceError, suggest_name
from foreword.types import Delivery, Mode
from foreword.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from argparse import _ActionsContainer
    from zoneinfo import ZoneInfo

    from foreword.agent.providers.model_discovery import ChosenModel
    from foreword.assembly import Assembly
    from foreword.config.schema import Config

CONFIG_FILE = "foreword.yaml"
ENV_FILE = ".env"
STDIN = "-"

T = TypeVar("T")


def add_options(target: "_ActionsContainer", options: Mapping[str, str], **settings: Any) -> None:
    """Add arguments, each with its help text: options such as `--limit N`, flags such as `--all`, and `file FILE`."""
    for option, about in options.items():
        name, _, metavar = option.partition(" ")
        if metavar or "choices" in settings:
            target.add_argument(name, metavar=metavar or None, help=about, **settings)
        else:
            target.add_argument(name, action="store_true", help=about)


def add_place_options(group: "_ActionsContainer") -> None:
    """Add the options for the agent, the person and the place."""
    add_options(group, {"--agent NAME": "the agent (default: the first one)"}, default="")
    add_options(group, {"--user NAME": "the person who speaks (default: the owner)"})
    add_options(group, {"--room NAME": "the room, where several people read the reply"}, default="")
    add_options(group, {"--situation NAME": "the situation (default: that of the room, else dm)"})


def add_mode_option(group: "_ActionsContainer") -> None:
    """Add the option for the prompt mode."""
    about = "how much of the blueprint to include (default: by the model)"
    add_options(group, {"--mode": about}, choices=[str(mode) for mode in Mode])


def add_turn_options(parser: ArgumentParser) -> None:
    """Add the options that describe a turn."""
    who = parser.add_argument_group("who and where")
    add_place_options(who)
    add_options(who, {"--channel NAME": "the channel (default: terminal)"}, default="terminal")
    add_options(who, {"--session ID": "the session of the turn"}, default="")
    what = parser.add_argument_group("what and when")
    add_options(what, {"--message TEXT": "the message of the person"}, default="")
    options = {
        "--history FILE": "the conversation so far: a JSON list of {role, text}",
        "--instructions FILE": "the person's standing instructions, as text",
        "--project DIR": "the folder of the open project",
        "--task FILE": "the task of the session: JSON or YAML with id, title, description, status, steps",
        "--state FILE": "the state of the session: JSON or YAML with workflow, tasks, communication {formality, "
        "length, topics}, bulletins [{text, trust}]",
        "--plan": "turn plan mode on",
    }
    add_options(what, options)
    background = {"--background": "a background turn; when to deliver its reply"}
    add_options(what, background, choices=[*map(str, Delivery)])
    add_options(what, {"--now TIME": "the time, such as 2026-11-15T08:30 (default: now)"})
    how = parser.add_argument_group("how")
    add_options(how, {"--blueprint NAME": "the blueprint (default: that of the agent)"}, default="")
    add_options(how, {"--model NAME": "the model as provider:name (default: the one that would answer)"}, default="")
    add_mode_option(how)
    files = {
        "--tools FILE": "additional tools: a JSON list of {name, description, parameters, …}",
        "--extensions FILE": "tool servers with their instructions: a JSON or YAML list of {name, instructions, trust}",
    }
    add_options(how, files)


def find_folder(args: Namespace) -> str | None:
    """Return the folder of the workspace, the named one or the nearest one upwards; None if there is none."""
    if args.workspace is not None:
        return str(args.workspace)
    if not (folder := get_working_directory()):
        raise WorkspaceError("the current folder no longer exists; change to another one")
    while not os.path.lexists(os.path.join(folder, CONFIG_FILE)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def open_named_workspace(args: Namespace) -> Workspace:
    """Open the workspace of a command, and print its notices."""
    folder = find_folder(args)
    if folder is None:
        raise WorkspaceError(
            f"no {CONFIG_FILE} here or in a parent folder;"
            " create a workspace with `foreword init`, or name one with -w DIR"
        )
    return open_folder(folder)


def open_folder(folder: str) -> Workspace:
    """Open the workspace in a folder, and print its notices."""
    try:
        workspace = open_workspace(folder)
    except ConfigError as error:
        raise relate_faults(error, folder) from None
    for notice in workspace.notices:
        warn(notice)
    return workspace


def relate_faults(error: ConfigError, folder: str) -> ConfigError:
    """Make the file names of faults relative to the current folder."""
    return ConfigError([replace(fault, file=show_path(folder, fault.file)) for fault in error.faults])


def show_path(folder: str, file: str) -> str:
    """Show a file of a workspace relative to the current folder, or absolute if that is shorter."""
    place = os.path.join(os.path.abspath(folder), file)
    return min(os.path.relpath(place), place, key=len)


def find_config(args: Namespace) -> "Config | None":
    """Return the configuration of the workspace, or None without a workspace."""
    if find_folder(args) is None:
        return None
    with open_named_workspace(args) as workspace:
        return workspace.config


def load_environ(workspace: Workspace) -> dict[str, str]:
    """Return the environment merged with the `.env` of the workspace; the environment takes precedence."""
    from foreword.config.env import Secrets

    path = os.path.join(workspace.files.root, ENV_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            secrets = Secrets.read(file.read(), os.environ, show_path(workspace.files.root, ENV_FILE))
    except FileNotFoundError:
        return dict(os.environ)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None
    return {**secrets.dotenv, **secrets.environ}


def read_text(path: str) -> str:
    """Read a text file, or stdin for `-`."""
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                raw = file.read()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if (at := raw.find(b"\0")) != -1:
        raise InputError(f"{path} is not a text file: NUL byte at offset {at:,}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None


def read_json(path: str) -> Any:
    """Read a JSON file, or stdin for `-`."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is nested too deeply or contains a number with too many digits") from None


def read_value(path: str, kind: type[T]) -> T:
    """Read a JSON or YAML file, chosen by its extension, as a value of this type."""
    if path.endswith((".yaml", ".yml")):
        return structure.parse_yaml(read_text(path), kind, path)
    return check_value(read_json(path), kind, path)


def read_tools(path: str) -> tuple[turns.Tool, ...]:
    """Read tools; their parameters are JSON Schema and pass through unchanged."""
    value = read_json(path)
    items: Sequence[Any] = value if isinstance(value, list) else []
    bare = [{k: v for k, v in item.items() if k != "parameters"} if isinstance(item, dict) else item for item in items]
    tools = check_value(bare if isinstance(value, list) else value, tuple[turns.Tool, ...], path)
    for at, item in enumerate(items):
        if not isinstance(item.get("parameters", {}), Mapping):
            raise InputError(f"{path}: [{at}].parameters must be a JSON object")
    given = zip(tools, items, strict=True)
    return tuple(replace(tool, parameters=item.get("parameters", tool.parameters)) for tool, item in given)


def check_value(value: Any, kind: type[T], file: str) -> T:
    """Check a JSON value against a dataclass, as YAML files are checked, and construct it."""
    try:
        return structure.raise_or_return(structure.convert_node(make_node(value), kind, file))
    except ConfigError as error:
        # The lines of the JSON file are unknown here, and a wrong line number would mislead.
        raise ConfigError([replace(fault, line=None) for fault in error.faults]) from None


def make_node(value: Any) -> structure.Node:
    """Convert a JSON value to the nodes that the type check reads."""
    if isinstance(value, dict):
        keys = (structure.ScalarNode(line=1, text=key, tag="str") for key in value)
        pairs = tuple(zip(keys, map(make_node, value.values()), strict=True))
        return structure.MappingNode(line=1, entries=pairs, size=1, height=1)
    if isinstance(value, list):
        return structure.SequenceNode(line=1, items=tuple(map(make_node, value)), size=1, height=1)
    if value is None:
        return structure.ScalarNode(line=1, text="null", tag="null")
    tag = type(value).__name__
    return structure.ScalarNode(line=1, text=str(value).lower() if tag == "bool" else str(value), tag=tag)


def assemble_turn(args: Namespace) -> "tuple[Workspace, Assembly]":
    """Assemble the turn of the arguments, and warn about unknown names and problems."""
    from foreword.assembly import list_file_hints, list_unusable_files

    workspace = open_named_workspace(args)
    try:
        chosen = choose_answering_model(args, workspace)
        assembly = workspace.assemble(make_turn(args, workspace, chosen.model))
    except ConfigError as error:
        raise relate_faults(error, workspace.files.root) from None
    workspace.close()
    if chosen.reason:
        warn(f"{chosen.reason}; for the prompt of another model, add --model NAME")
    warn_about_names(assembly.clearance.warnings, workspace.config, assembly.turn.user, assembly.turn.situation)
    problems = [*assembly.plan.warnings, *list_unusable_files(assembly), *list_file_hints(assembly)]
    problems += [assembly.meter.facts.assumed, describe_uncounted_servers(assembly, workspace.config)]
    for problem in filter(None, problems):
        warn(problem)
    if workspace.fault:
        warn(f"the changed configuration is not valid; the previous one is used:\n{workspace.fault}")
    return workspace, assembly


def choose_answering_model(args: Namespace, workspace: Workspace) -> "ChosenModel":
    """Choose the named model, or the one that would answer now, as chat does."""
    from foreword.agent.providers.model_discovery import ChosenModel, choose_model, find_served_window

    config, environ = workspace.config, load_environ(workspace)
    agent = config.agents.get(args.agent or next(iter(config.agents)))
    named = args.model or (agent.model if agent else "")
    try:
        chosen = ChosenModel(model=named) if args.model else choose_model(named, config, environ)
    except InputError as error:
        chosen = ChosenModel(model=named, reason=f"no model can answer here ({error}); this is the prompt for {named}")
    if window := find_served_window(chosen.model, config, environ):
        workspace.set_served_window(chosen.model, window)
    return chosen


def make_turn(args: Namespace, workspace: Workspace, model: str) -> turns.Turn:
    """Make the turn of the arguments, with the facts of this machine."""
    from foreword.host import describe_place, find_git

    config = workspace.config
    user = find_user(args, config)
    project, cwd = find_project(args.project), get_working_directory()
    host, sandbox = describe_place(config)
    warn_unlisted(args.room, config)
    return turns.Turn(
        **pick(args, "agent", "channel", "room", "session", "message", "plan", "blueprint"),
        user=user,
        situation=find_situation(args, config),
        history=read_value(args.history, tuple[turns.Message, ...]) if args.history else (),
        project=project,
        cwd=cwd,
        instructions=read_text(args.instructions) if args.instructions else "",
        task=read_value(args.task, turns.Task) if args.task else None,
        state=read_value(args.state, turns.State) if args.state else turns.State(),
        background=Delivery(args.background) if args.background else None,
        mode=Mode(args.mode) if args.mode else None,
        tools=find_offered_tools(args, workspace, user),
        extensions=read_value(args.extensions, tuple[turns.Extension, ...]) if args.extensions else (),
        host=host,
        sandbox=sandbox,
        git=find_git(project or cwd) if project or cwd else None,
        model=model,
        now=parse_time(args.now, find_user_zone(user, config)) if args.now is not None else None,
    )


def find_offered_tools(args: Namespace, workspace: Workspace, user: str) -> turns.Toolset:
    """Return the tools that the gateway would offer in a turn, found without calling anything, and those of --tools."""
    from foreword.agent.tools.registry import remove_tools
    from foreword.gateway.gateway_tools import find_gateway_tools, find_unusable_tools

    config = workspace.config
    agent = config.agents.get(args.agent or next(iter(config.agents)))
    reached = bool(find_notice_channels(args, workspace, user))
    unusable = find_unusable_tools(known=user in config.users, planned=args.background is not None, reached=reached)
    own = remove_tools(find_gateway_tools(agent.folders if agent else ()), unusable)
    return turns.Toolset([*own.tools, *read_tools(args.tools)]) if args.tools else own


def find_notice_channels(args: Namespace, workspace: Workspace, user: str) -> set[str]:
    """Return the channels of `serve`, other than the one of the reply, on which a notice reaches a person."""
    from foreword.storage.state_reader import StateReader

    config = workspace.config
    served = {"telegram"} if config.telegram else set()
    if user not in config.users or not served or (args.channel == "terminal" and args.background is None):
        return set()
    here = () if args.room else served if args.background in ("always", "as_needed") else (args.channel,)
    with closing(StateReader(workspace.state)) as reader:
        taken = {identity for name, other in config.users.items() if name != user for identity in other.identities}
        paired = [identity for identity in reader.list_paired(user) if identity not in taken]
    private = {identity.partition(":")[0] for identity in (*config.users[user].identities, *paired)}
    return (private & served).difference(here)


def describe_uncounted_servers(assembly: "Assembly", config: "Config") -> str:
    """Name the MCP servers whose tools the prompt lacks, because only a running turn lists them."""
    agent = config.agents[assembly.turn.agent]
    if not agent.mcp or not assembly.turn.tools:
        return ""
    from foreword.agent.mcp_tools import name_servers

    servers = zip(name_servers(agent.mcp), agent.mcp, strict=True)
    names = [name for name, server in servers if server.trust <= assembly.clearance.level]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    several = "" if len(names) == 1 else "s"
    note = f"tools of the MCP server{several} {listed} are not counted; servers list them only when a turn runs"
    return note if names else ""


def find_user(args: Namespace, config: "Config") -> str:
    """Return the named person, or the owner."""
    return config.owner if args.user is None else str(args.user)


def warn_unlisted(room: str, config: "Config") -> None:
    """Warn about a room that is not configured."""
    if room not in ("", *config.rooms):
        near = suggest_name(room, list(config.rooms))
        warn(f"room {room!r} is not listed under `rooms`, so it is treated as an unknown group{near}")


def find_situation(args: Namespace, config: "Config") -> str:
    """Return the named situation, that of the room, or `dm`."""
    if args.situation is not None:
        return str(args.situation)
    if args.room:
        room = config.rooms.get(args.room)
        return room.situation if room else "group"
    return "dm"


def find_project(path: str | None) -> str:
    """Return the absolute path of the project folder."""
    if path is None:
        return ""
    place = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(place):
        raise InputError(f"--project {path} is not a folder")
    return place


def get_working_directory() -> str:
    """Return the working directory, or an empty string if it was removed."""
    with suppress(OSError):
        return os.getcwd()
    return ""


def find_user_zone(user: str, config: "Config") -> "ZoneInfo":
    """Return the time zone of a person: their own, that of the server, or UTC."""
    from foreword.host import load_zone

    person = config.users.get(user)
    return load_zone((person.timezone if person else "") or config.host.timezone)[0]


def parse_time(text: str, zone: tzinfo) -> datetime:
    """Parse a time; without a UTC offset it is in the given zone."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        # Times at the ends of the calendar cannot be converted to other zones.
        _ = moment.astimezone(UTC) - timedelta(days=1), moment.astimezone(UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise InputError(
            f"--now {text!r} is not a time; write it as 2026-11-15T08:30 or 2026-11-15T08:30+01:00"
        ) from None
    return moment
