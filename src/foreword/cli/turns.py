"""The turn that a command line asks for: at the shell one acts as the owner, in a private chat."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from foreword.cli.output import warn, warn_of_names
from foreword.cli.place import open_here, see_from_here
from foreword.errors import ConfigError, InputError, suggest
from foreword.words import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.assembly import Assembly
    from foreword.config import Config
    from foreword.runtime.choosing import Chosen
    from foreword.turn import Turn
    from foreword.workspace import Workspace

# The words of foreword.words, written out: importing it for a help text would cost every start.
DELIVERIES = ("always", "as_needed", "never")
MODES = ("full", "minimal", "brief", "none")


def add_turn_options(parser: ArgumentParser) -> None:
    """Add the options that describe a turn."""
    who = parser.add_argument_group("who and where")
    who.add_argument("--agent", metavar="NAME", default="", help="the agent; else the first one of the configuration")
    who.add_argument("--user", metavar="NAME", help="the person who speaks; else the owner of the workspace")
    who.add_argument("--channel", metavar="NAME", default="terminal", help="the channel; else terminal")
    who.add_argument("--room", metavar="NAME", default="", help="the room, where several people read the reply")
    who.add_argument("--situation", metavar="NAME", help="the situation; else that of the room, else dm")
    who.add_argument("--session", metavar="ID", default="", help="the session that the turn belongs to")
    what = parser.add_argument_group("what and when")
    what.add_argument("--message", metavar="TEXT", default="", help="what the person says")
    what.add_argument("--history", metavar="FILE", help="the conversation so far: a JSON list of {role, text}")
    what.add_argument("--instructions", metavar="FILE", help="the person's standing instructions, as a text")
    what.add_argument("--project", metavar="DIR", help="the folder of the project that is open")
    what.add_argument(
        "--task",
        metavar="FILE",
        help="the task of the session: JSON or YAML with id, title, description, status, steps",
    )
    what.add_argument(
        "--state",
        metavar="FILE",
        help="what goes on: JSON or YAML with workflow, tasks, communication {formality, length, topics}, "
        "bulletins [{text, trust}]",
    )
    what.add_argument("--plan", action="store_true", help="plan mode is on")
    what.add_argument("--background", choices=DELIVERIES, help="nobody is waiting; when the reply is delivered")
    what.add_argument("--now", metavar="TIME", help="the time, such as 2026-11-15T08:30; else the clock")
    how = parser.add_argument_group("how")
    how.add_argument("--blueprint", metavar="NAME", default="", help="the blueprint; else that of the agent")
    how.add_argument(
        "--model", metavar="NAME", default="", help="the model as provider:name; else the one that would answer"
    )
    how.add_argument("--mode", choices=MODES, help="how much of the blueprint; else by the model")
    how.add_argument(
        "--tools",
        metavar="FILE",
        help="tools beside the agent's own: JSON list of {name, description, parameters, …}",
    )
    how.add_argument(
        "--extensions",
        metavar="FILE",
        help="servers of tools and their own words: JSON or YAML list of {name, instructions, trust}",
    )


def assemble(args: Namespace) -> "tuple[Workspace, Assembly]":
    """Assemble the turn that the arguments ask for, and warn about what is unknown in it."""
    from foreword.cli.offered import name_uncounted

    workspace = open_here(args)
    try:
        chosen = choose_answering(args, workspace)
        assembly = workspace.assemble(make_turn(args, workspace, chosen.model))
    except ConfigError as error:
        raise see_from_here(error, workspace.files.root) from None
    workspace.close()
    if chosen.reason:
        warn(f"{chosen.reason}; --model NAME shows the prompt of another")
    warn_of_names(assembly.clearance.warnings, workspace.config, assembly.turn.user, assembly.turn.situation)
    for warning in assembly.plan.warnings:
        warn(warning)
    for reason in (*find_losses(assembly), *find_hints(assembly)):
        warn(reason)
    if assumed := assembly.terms.meter.facts.assumed:
        warn(assumed)
    if uncounted := name_uncounted(assembly, workspace.config):
        warn(uncounted)
    if workspace.fault:
        warn(f"the configuration was changed and is not valid, so the old one is used:\n{workspace.fault}")
    return workspace, assembly


def find_losses(assembly: "Assembly") -> "Iterator[str]":
    """Find the files that are there and cannot be used, as far as the turn may see them."""
    from foreword.sources import Section
    from foreword.sources.texts import STANDS_IN

    items = (getattr(one, "item", one) for run in assembly.fit.runs for one in run.items)
    sections = (item for item in items if isinstance(item, Section))
    for one in sections:
        if one.note and (one.lost or one.broken or one.note.endswith(STANDS_IN)):
            yield f"{one.origin}: {one.note}" if one.note.startswith("its ") else one.note


def find_hints(assembly: "Assembly") -> "list[str]":
    """Find what a prompt's own files suggest to its owner, each hint once."""
    from foreword.sources import Section

    items = (getattr(one, "item", one) for run in assembly.fit.runs for one in run.items)
    hinted = [item.slot.hint for item in items if isinstance(item, Section) and item.slot.hint in item.note]
    return [*dict.fromkeys(filter(None, hinted))] if assembly.clearance.level is Trust.FULL else []


def choose_answering(args: Namespace, workspace: "Workspace") -> "Chosen":
    """Choose the model that is named, or the one that would answer here and now, as a chat does."""
    from foreword.cli.place import find_environ
    from foreword.runtime.choosing import Chosen, choose_model
    from foreword.runtime.discovery import find_window

    config, environ = workspace.config, find_environ(workspace)
    agent = config.agents.get(args.agent or next(iter(config.agents)))
    named = args.model or (agent.model if agent else "")
    try:
        chosen = Chosen(model=named) if args.model else choose_model(named, config, environ)
    except InputError as error:
        chosen = Chosen(model=named, reason=f"no model would answer here ({error}); this is the prompt for {named}")
    if window := find_window(chosen.model, config, environ):
        workspace.learn_window(chosen.model, window)
    return chosen


def make_turn(args: Namespace, workspace: "Workspace", model: str) -> "Turn":
    """Make the turn that the arguments describe, with the facts of this machine."""
    from foreword.cli import files
    from foreword.cli.offered import find_offered
    from foreword.facts import describe_place, find_git
    from foreword.turn import State, Turn
    from foreword.words import Delivery, Mode

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
        history=files.read_history(args.history) if args.history else (),
        project=project,
        cwd=find_cwd(),
        instructions=files.read_text(args.instructions) if args.instructions else "",
        task=files.read_task(args.task) if args.task else None,
        state=files.read_state(args.state) if args.state else State(),
        plan=args.plan,
        background=Delivery(args.background) if args.background else None,
        mode=Mode(args.mode) if args.mode else None,
        tools=find_offered(args, workspace, user, files.read_tools(args.tools) if args.tools else ()),
        extensions=files.read_extensions(args.extensions) if args.extensions else (),
        host=host,
        sandbox=sandbox,
        git=find_git(place) if (place := project or find_cwd()) else None,
        blueprint=args.blueprint,
        model=model,
        now=parse_time(args.now, find_zone(user, config)) if args.now is not None else None,
    )


def warn_unlisted(room: str, config: "Config") -> None:
    """Warn about a room that the configuration does not list."""
    if room not in ("", *config.rooms):
        near = suggest(room, list(config.rooms))
        warn(f"room {room!r} is not listed under rooms, and is taken for any group{near}")


def find_situation(args: Namespace, config: "Config") -> str:
    """Find the situation: the one that was named, that of the room, or a private chat."""
    if args.situation is not None:
        return str(args.situation)
    if args.room:
        room = config.rooms.get(args.room)
        return room.situation if room else "group"
    return "dm"


def find_project(path: str | None) -> str:
    """Find the project's folder by its whole path."""
    if path is None:
        return ""
    place = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(place):
        raise InputError(f"--project {path} is no folder")
    return place


def find_cwd() -> str:
    """Find the working directory; a command whose directory was removed has none."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def find_zone(user: str, config: "Config") -> tzinfo:
    """Find the zone in which a person's times are meant."""
    person = config.users.get(user)
    try:
        return ZoneInfo((person.timezone if person else "") or config.host.timezone or "UTC")
    except (KeyError, ValueError, OSError):
        return UTC


def parse_time(text: str, zone: tzinfo) -> datetime:
    """Parse a time; one without a zone is meant in the given one."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        # At the ends of the calendar there is no other zone to show the moment in.
        _ = moment.astimezone(UTC) - timedelta(days=1), moment.astimezone(UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise InputError(f"--now {text!r} is no time; write it as 2026-11-15T08:30 or 2026-11-15T08:30+01:00") from None
    return moment
