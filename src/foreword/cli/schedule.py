"""`foreword schedule`: what agents are told later, and when."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from foreword.cli.command import Command, list_actions
from foreword.cli.output import print_json, warn
from foreword.cli.place import find_environ, open_here
from foreword.config.scheduling import Missed
from foreword.errors import InputError, UnknownName
from foreword.words import Delivery

if TYPE_CHECKING:
    import sqlite3

    from foreword.gateway.message import Reply
    from foreword.gateway.schedule.schedules import Schedule
    from foreword.workspace import Workspace

FIRED = "it runs while foreword serve runs, or an open foreword chat where no Telegram bot is configured"
ACTIONS = {
    "list": "what is planned, and when it is due next (--user)",
    "add": "plan something (--say, and one of --cron, --at and --heartbeat)",
    "cancel": "ID: end one that does not stand in foreword.yaml",
    "run": "ID: run one now, beside its own times, and print the reply",
}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, and what is planned."""
    listed = list_actions(ACTIONS)
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help=listed)
    parser.add_argument("which", metavar="ID", nargs="?", default="", help="the id or the name of a schedule")
    parser.add_argument("--user", metavar="NAME", help="as whom it acts; else the owner; with list: whose, else all")
    plan = parser.add_argument_group("what is planned")
    plan.add_argument("--say", metavar="TEXT", default="", help="what the agent is told")
    plan.add_argument("--cron", metavar="LINE", default="", help="minute, hour, day, month and weekday")
    plan.add_argument(
        "--at", metavar="TIME", default="", help="once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00"
    )
    plan.add_argument("--heartbeat", metavar="TIME", default="", help="go through HEARTBEAT.md this often, such as 30m")
    plan.add_argument("--name", metavar="NAME", default="", help="what it is known by")
    plan.add_argument("--agent", metavar="NAME", default="", help="who is told; else the first agent")
    plan.add_argument(
        "--zone", metavar="ZONE", default="", help="the zone of its times; else that of room, user or server"
    )
    plan.add_argument("--to", metavar="PLACE", default="", help="a room, or an address such as telegram:1001")
    plan.add_argument("--delivery", choices=[str(one) for one in Delivery], help="what happens with the reply")
    missed = [str(one) for one in Missed]
    plan.add_argument("--missed", choices=missed, default="once", help="what becomes of runs in a downtime")


def run(args: Namespace) -> int:
    """Do what the action says."""
    from foreword.store.state import use_state

    actions: Mapping[str, Callable[[Namespace, Workspace, sqlite3.Connection], None]] = {
        "list": show_all,
        "add": add,
        "cancel": end,
    }
    if not args.which and args.action in ("cancel", "run"):
        raise InputError(f"schedule {args.action} needs to know which\nsee: foreword schedule list")
    if args.which and args.action in ("list", "add"):
        raise InputError(
            f"schedule {args.action} takes nothing more, not {args.which!r}\nsee: foreword schedule --help"
        )
    with open_here(args) as workspace:
        if args.action == "run":
            return run_now(args, workspace)
        with use_state(workspace.state) as state:
            actions[args.action](args, workspace, state)
    return 0


def show_all(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """List what is planned."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.gateway.schedule.destination import show_destination
    from foreword.gateway.schedule.following import follow
    from foreword.gateway.schedule.schedules import find_all
    from foreword.gateway.schedule.showing import show_moment, show_note, show_said

    now = datetime.now(UTC)
    follow(state, workspace.config, now)
    found = find_all(state, args.user or "")
    if args.user is not None and args.user not in workspace.config.users and not found:
        raise UnknownName("user", args.user, workspace.config.users)
    if args.json:
        print_json([write(one) for one in found])
    elif found:
        table = make_table("id", "name", "user", "when", "next", "says", "to", "note")
        for one in found:
            due = show_moment(one.due, one.timing.zone) if one.due else "–"
            when = f"{one.timing.kind} {one.timing.moment}"
            where = show_destination(one.to) or "their last address"
            to = f"{one.delivery}, {where}"
            texts = (one.id, one.title, one.user, when, due, show_said(one), to, show_note(one, now))
            table.add_row(*map(cell, texts))
        draw(table, find_width())
    else:
        whose = f" for {args.user}" if args.user else ""
        print(f"nothing is planned{whose}; plan something with: foreword schedule add")


def add(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """Plan something."""
    from foreword.config.scheduling import Schedule as Written
    from foreword.gateway.schedule.destination import list_channels
    from foreword.gateway.schedule.ordering import order
    from foreword.gateway.schedule.showing import describe

    entry = Written(
        user=workspace.config.owner if args.user is None else args.user,
        agent=args.agent,
        cron=" ".join(args.cron.split()),
        at=args.at,
        heartbeat=args.heartbeat,
        say=args.say,
        name=args.name,
        zone=args.zone,
        delivery=Delivery(args.delivery) if args.delivery else None,
        to=args.to,
        missed=Missed(args.missed),
    )
    config = workspace.config
    ordered = order(state, entry, config, datetime.now(UTC), list_channels(config))
    for note in ordered.notes:
        warn(note)
    if args.json:
        print_json(write(ordered.schedule))
    else:
        print(f"planned: {describe(ordered.schedule)}\n{FIRED}")


def end(args: Namespace, _: "Workspace", state: "sqlite3.Connection") -> None:
    """Cancel one."""
    from foreword.gateway.schedule.schedules import cancel, find_named

    found = find_named(state, args.which)
    cancel(state, found)
    print_json(write(found)) if args.json else print(f"cancelled: {found.title}")


def run_now(args: Namespace, workspace: "Workspace") -> int:
    """Run one now, and print what came of it."""
    import asyncio

    try:
        from foreword.gateway.opening import open_gateway
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is needed to run it: pip install 'foreword[gateway]'") from None
    from foreword.gateway.message import State
    from foreword.store.state import in_words

    async def go() -> "Reply":
        async with open_gateway(workspace, find_environ(workspace)) as gateway:
            assert gateway.scheduler is not None
            accepted = await gateway.scheduler.run(args.which)
            return await gateway.wait(accepted.turn)

    with in_words(workspace.state):
        reply = asyncio.run(go())
    if args.json:
        print_json({"turn": reply.turn, "state": str(reply.state), "text": reply.text, "cost_usd": reply.cost_usd})
    else:
        print(reply.text or "it had nothing to say")
    return 0 if reply.state is State.ANSWERED else 1


def write(schedule: "Schedule") -> dict[str, Any]:
    """Write a schedule as JSON-ready values, under the names that the HTTP API and `foreword status` have for them."""
    from foreword.events.moment import stamp

    return {
        "schedule": schedule.id,
        "name": schedule.title,
        "origin": str(schedule.origin),
        "agent": schedule.agent,
        "user": schedule.user,
        "kind": str(schedule.timing.kind),
        "moment": schedule.timing.moment,
        "zone": schedule.timing.zone,
        "say": schedule.say,
        "delivery": str(schedule.delivery),
        "channel": schedule.to.channel,
        "address": schedule.to.address,
        "room": schedule.to.room,
        "clearance": str(schedule.clearance),
        "missed": str(schedule.missed),
        "state": str(schedule.state),
        "due": stamp(schedule.due) if schedule.due else None,
        "note": schedule.note,
    }


COMMAND = Command(
    name="schedule",
    arguments="ACTION [ID]",
    summary="plan, list, cancel and run what agents are told later",
    description="A schedule tells an agent something at its times, in the name of its user, and has the reply "
    "delivered to one of that user's own addresses or to a room. foreword serve fires what is due. Those that stand in "
    "foreword.yaml are listed too, and are changed there.",
    examples=(
        "foreword schedule list",
        'foreword schedule add --cron "0 8 * * 1-5" --say "What is on today?" --to telegram:1001',
        'foreword schedule add --at "tomorrow 8:00" --say "Remind me of the dentist."',
        'foreword schedule add --at 2026-12-24T18:00 --say "Wish everybody well." --to kitchen',
        "foreword schedule run brief",
        "foreword schedule cancel 3f9a2c1d",
    ),
    add_options=add_options,
    run=run,
)
