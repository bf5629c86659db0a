"""Build and assemble the turn that the options describe. By default the owner speaks in a private chat.

The tools that the gateway would offer in a turn, found without starting, calling or writing anything.
"""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from foreword.cli.inputs import open_named_workspace, relate_faults
from foreword.cli.output import warn, warn_about_names
from foreword.errors import ConfigError, InputError, suggest_name
from foreword.types import Delivery, Mode

if TYPE_CHECKING:
    from argparse import _ArgumentGroup
    from zoneinfo import ZoneInfo

    from foreword.agent.providers.model_discovery import ChosenModel
    from foreword.assembly import Assembly
    from foreword.config.schema import Config
    from foreword.turn import Tool, Toolset, Turn
    from foreword.workspace import Workspace


def find_offered_tools(
    args: Namespace, workspace: "Workspace", user: str, further: "tuple[Tool, ...]" = ()
) -> "Toolset":
    """Return the tools of a turn: the agent's tools that are usable in it, and further ones."""
    from foreword.agent.tools.registry import find_gateway_tools, find_unusable_tools, remove_tools
    from foreword.turn import Toolset

    config = workspace.config
    agent = config.agents.get(args.agent or next(iter(config.agents)))
    reached = bool(find_notice_channels(args, workspace, user))
    useless = find_unusable_tools(known=user in config.users, planned=args.background is not None, reached=reached)
    own = remove_tools(find_gateway_tools(agent.folders if agent else ()), useless)
    return Toolset([*own.tools, *further]) if further else own


def find_notice_channels(args: Namespace, workspace: "Workspace", user: str) -> set[str]:
    """Return the channels of `serve`, other than the one of the reply, on which a notice reaches a person."""
    config = workspace.config
    served = {"telegram"} if config.telegram else set()
    if not served or (args.channel == "terminal" and args.background is None):
        return set()
    here = () if args.room else served if args.background in ("always", "as_needed") else (args.channel,)
    return (find_private_channels(workspace, user) & served).difference(here)


def find_private_channels(workspace: "Workspace", user: str) -> set[str]:
    """Return the channels on which a person has a private address, configured or paired."""
    from foreword.storage.state_reader import StateReader

    config = workspace.config
    if user not in config.users:
        return set()
    reader = StateReader(workspace.state)
    try:
        taken = {identity for name, one in config.users.items() if name != user for identity in one.identities}
        paired = [identity for identity in reader.list_paired(user) if identity not in taken]
    finally:
        reader.close()
    return {identity.partition(":")[0] for identity in (*config.users[user].identities, *paired)}


def describe_uncounted_servers(assembly: "Assembly", config: "Config") -> str:
    """Name the MCP servers whose tools the prompt lacks, because only a running turn lists them."""
    agent = config.agents[assembly.turn.agent]
    if not agent.mcp or not assembly.turn.tools:
        return ""
    from foreword.agent.mcp_tools import name_servers

    servers = zip(name_servers(agent.mcp), agent.mcp, strict=True)
    names = [name for name, server in servers if server.trust <= assembly.clearance.level]
    if not names:
        return ""
    several = "" if len(names) == 1 else "s"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"tools of the MCP server{several} {listed} are not counted; servers list them only when a turn runs"


def add_place_options(group: "_ArgumentGroup") -> None:
    """Add the options for the agent, the person and the place."""
    group.add_argument("--agent", metavar="NAME", default="", help="the agent (default: the first one)")
    group.add_argument("--user", metavar="NAME", help="the person who speaks (default: the owner)")
    group.add_argument("--room", metavar="NAME", default="", help="the room, where several people read the reply")
    group.add_argument("--situation", metavar="NAME", help="the situation (default: that of the room, else dm)")


def add_mode_option(group: "_ArgumentGroup") -> None:
    """Add the option for the prompt mode."""
    modes = [str(mode) for mode in Mode]
    group.add_argument("--mode", choices=modes, help="how much of the blueprint to include (default: by the model)")


def add_turn_options(parser: ArgumentParser) -> None:
    """Add the options that describe a turn."""
    who = parser.add_argument_group("who and where")
    add_place_options(who)
    who.add_argument("--channel", metavar="NAME", default="terminal", help="the channel (default: terminal)")
    who.add_argument("--session", metavar="ID", default="", help="the session of the turn")
    what = parser.add_argument_group("what and when")
    what.add_argument("--message", metavar="TEXT", default="", help="the message of the person")
    what.add_argument("--history", metavar="FILE", help="the conversation so far: a JSON list of {role, text}")
    what.add_argument("--instructions", metavar="FILE", help="the person's standing instructions, as text")
    what.add_argument("--project", metavar="DIR", help="the folder of the open project")
    what.add_argument(
        "--task",
        metavar="FILE",
        help="the task of the session: JSON or YAML with id, title, description, status, steps",
    )
    what.add_argument(
        "--state",
        metavar="FILE",
        help="the state of the session: JSON or YAML with workflow, tasks, communication {formality, length, topics}, "
        "bulletins [{text, trust}]",
    )
    what.add_argument("--plan", action="store_true", help="turn plan mode on")
    deliveries = [str(delivery) for delivery in Delivery]
    what.add_argument("--background", choices=deliveries, help="a background turn; when to deliver its reply")
    what.add_argument("--now", metavar="TIME", help="the time, such as 2026-11-15T08:30 (default: now)")
    how = parser.add_argument_group("how")
    how.add_argument("--blueprint", metavar="NAME", default="", help="the blueprint (default: that of the agent)")
    how.add_argument(
        "--model", metavar="NAME", default="", help="the model as provider:name (default: the one that would answer)"
    )
    add_mode_option(how)
    how.add_argument(
        "--tools",
        metavar="FILE",
        help="additional tools: a JSON list of {name, description, parameters, …}",
    )
    how.add_argument(
        "--extensions",
        metavar="FILE",
        help="tool servers with their instructions: a JSON or YAML list of {name, instructions, trust}",
    )


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
    for warning in assembly.plan.warnings:
        warn(warning)
    for reason in (*list_unusable_files(assembly), *list_file_hints(assembly)):
        warn(reason)
    if assumed := assembly.terms.meter.facts.assumed:
        warn(assumed)
    if uncounted := describe_uncounted_servers(assembly, workspace.config):
        warn(uncounted)
    if workspace.fault:
        warn(f"the changed configuration is not valid; the previous one is used:\n{workspace.fault}")
    return workspace, assembly


def choose_answering_model(args: Namespace, workspace: "Workspace") -> "ChosenModel":
    """Choose the named model, or the one that would answer now, as chat does."""
    from foreword.agent.providers.model_discovery import ChosenModel, choose_model, find_served_window
    from foreword.cli.inputs import load_environ

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


def make_turn(args: Namespace, workspace: "Workspace", model: str) -> "Turn":
    """Make the turn of the arguments, with the facts of this machine."""
    from foreword.cli import inputs
    from foreword.host import describe_place, find_git
    from foreword.turn import Extension, Message, State, Task, Turn

    config = workspace.config
    user = config.owner if args.user is None else args.user
    project = find_project(args.project)
    host, sandbox = describe_place(config)
    warn_unlisted(args.room, config)
    return Turn(
        agent=args.agent,
        user=user,
        channel=args.channel,
        room=args.room,
        situation=find_situation(args, config),
        session=args.session,
        message=args.message,
        history=inputs.read_value(args.history, tuple[Message, ...]) if args.history else (),
        project=project,
        cwd=get_working_directory(),
        instructions=inputs.read_text(args.instructions) if args.instructions else "",
        task=inputs.read_value(args.task, Task) if args.task else None,
        state=inputs.read_value(args.state, State) if args.state else State(),
        plan=args.plan,
        background=Delivery(args.background) if args.background else None,
        mode=Mode(args.mode) if args.mode else None,
        tools=find_offered_tools(args, workspace, user, inputs.read_tools(args.tools) if args.tools else ()),
        extensions=inputs.read_value(args.extensions, tuple[Extension, ...]) if args.extensions else (),
        host=host,
        sandbox=sandbox,
        git=find_git(place) if (place := project or get_working_directory()) else None,
        blueprint=args.blueprint,
        model=model,
        now=parse_time(args.now, find_user_zone(user, config)) if args.now is not None else None,
    )


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
    try:
        return os.getcwd()
    except OSError:
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
