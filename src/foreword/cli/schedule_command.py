"""`foreword schedule`: list, add, cancel and run scheduled messages to agents."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from foreword.cli.inputs import load_environ, open_named_workspace
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import print_json, warn
from foreword.config.schedule_settings import MissedRuns
from foreword.errors import InputError, UnknownName
from foreword.types import Delivery

if TYPE_CHECKING:
    import sqlite3

    from foreword.gateway.messages import TurnReply
    from foreword.storage.schedules import StoredSchedule
    from foreword.workspace import Workspace


MAX_TEXT_CHARS = 40  # characters of a schedule's text in the table
OVERDUE_AFTER = timedelta(minutes=1)  # a schedule due longer than this shows that no gateway is running
OVERDUE_NOTE = "overdue; start foreword serve to run it"
WHEN_SCHEDULES_RUN = (
    "schedules run while foreword serve runs, or while foreword chat is open if no Telegram bot is configured"
)
SCHEDULE_ACTIONS = {
    "list": "list the schedules and their next runs (--user)",
    "add": "add a schedule (--say, and one of --cron, --at and --heartbeat)",
    "cancel": "ID: cancel a schedule that is not in foreword.yaml",
    "run": "ID: run a schedule now, in addition to its own times, and print the reply",
}


def add_schedule_options(parser: ArgumentParser) -> None:
    """Add the action and the options of a schedule."""
    listed = list_actions(SCHEDULE_ACTIONS)
    parser.add_argument("action", metavar="ACTION", choices=SCHEDULE_ACTIONS, help=listed)
    parser.add_argument("which", metavar="ID", nargs="?", default="", help="the id or the name of a schedule")
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the user it acts for (default: the owner); with list: only this user's schedules",
    )
    plan = parser.add_argument_group("options of add")
    plan.add_argument("--say", metavar="TEXT", default="", help="the message to the agent")
    plan.add_argument(
        "--cron",
        metavar="LINE",
        default="",
        help='a cron expression: minute, hour, day, month and weekday, such as "0 8 * * 1-5"',
    )
    plan.add_argument(
        "--at", metavar="TIME", default="", help="run once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00"
    )
    plan.add_argument(
        "--heartbeat", metavar="TIME", default="", help="work through HEARTBEAT.md at this interval, such as 30m"
    )
    plan.add_argument("--name", metavar="NAME", default="", help="the name of the schedule")
    plan.add_argument("--agent", metavar="NAME", default="", help="the agent (default: the first one)")
    plan.add_argument(
        "--zone", metavar="ZONE", default="", help="the time zone (default: that of the room, the user or the server)"
    )
    plan.add_argument(
        "--to",
        metavar="PLACE",
        default="",
        help="where to deliver the reply: a room, or an address such as telegram:1001",
    )
    plan.add_argument("--delivery", choices=[str(one) for one in Delivery], help="when to deliver the reply")
    missed = [str(one) for one in MissedRuns]
    plan.add_argument(
        "--missed", choices=missed, default="once", help="what to do with runs missed during downtime (default: once)"
    )


def run_schedule(args: Namespace) -> int:
    """Run the action."""
    from foreword.storage.database import use_state

    actions: Mapping[str, Callable[[Namespace, Workspace, sqlite3.Connection], None]] = {
        "list": print_schedules,
        "add": add_schedule,
        "cancel": cancel_schedule,
    }
    if not args.which and args.action in ("cancel", "run"):
        raise InputError(f"schedule {args.action} needs the id of a schedule\nsee: foreword schedule list")
    if args.which and args.action in ("list", "add"):
        raise InputError(f"schedule {args.action} takes no id, got {args.which!r}\nsee: foreword schedule --help")
    with open_named_workspace(args) as workspace:
        if args.action == "run":
            return run_schedule_now(args, workspace)
        with use_state(workspace.state) as state:
            actions[args.action](args, workspace, state)
    return 0


def print_schedules(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """List the schedules."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.gateway.schedule.creation import format_time, sync_configured_schedules
    from foreword.storage.schedules import list_schedules

    now = datetime.now(UTC)
    sync_configured_schedules(state, workspace.config, now)
    found = list_schedules(state, args.user or "")
    if args.user is not None and args.user not in workspace.config.users and not found:
        raise UnknownName("user", args.user, workspace.config.users)
    if args.json:
        print_json([schedule_to_dict(one) for one in found])
    elif found:
        table = make_table("id", "name", "user", "when", "next", "says", "to", "note")
        for one in found:
            due = format_time(one.due, one.timing.zone) if one.due else "–"
            when = f"{one.timing.kind} {one.timing.moment}"
            where = str(one.to) or "last address used"
            to = f"{one.delivery}, {where}"
            texts = (one.id, one.title, one.user, when, due, format_text(one), to, format_status(one, now))
            table.add_row(*map(make_cell, texts))
        print_table(table, find_width())
    else:
        whose = f" for {args.user}" if args.user else ""
        print(f"no schedules{whose}; add one with: foreword schedule add")


def format_text(schedule: "StoredSchedule") -> str:
    """Return the beginning of a schedule's text."""
    words = " ".join(schedule.say.split())
    return words if len(words) <= MAX_TEXT_CHARS else f"{words[: MAX_TEXT_CHARS - 1].rstrip()}…"


def format_status(schedule: "StoredSchedule", now: datetime) -> str:
    """Return the status note: overdue, why the last run did not take place, or done."""
    waiting = str(schedule.state) == "waiting"
    late = waiting and schedule.due is not None and now - schedule.due > OVERDUE_AFTER
    notes = [OVERDUE_NOTE if late else "", schedule.note]
    return "; ".join(filter(None, notes)) or ("done" if schedule.ran and not waiting else "")


def add_schedule(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """Add a schedule."""
    from foreword.config.schedule_settings import ScheduleSettings as Written
    from foreword.gateway.schedule.creation import create_for_user, describe_schedule
    from foreword.gateway.schedule.destinations import list_delivery_channels

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
        missed=MissedRuns(args.missed),
    )
    config = workspace.config
    ordered = create_for_user(state, entry, config, datetime.now(UTC), list_delivery_channels(config))
    for note in ordered.notes:
        warn(note)
    if args.json:
        print_json(schedule_to_dict(ordered.schedule))
    else:
        print(f"scheduled: {describe_schedule(ordered.schedule)}\n{WHEN_SCHEDULES_RUN}")


def cancel_schedule(args: Namespace, _: "Workspace", state: "sqlite3.Connection") -> None:
    """Cancel a schedule."""
    from foreword.storage.schedules import cancel_schedule, find_schedule

    found = find_schedule(state, args.which)
    cancel_schedule(state, found)
    print_json(schedule_to_dict(found)) if args.json else print(f"cancelled: {found.title}")


def run_schedule_now(args: Namespace, workspace: "Workspace") -> int:
    """Run a schedule now, and print the reply."""
    import asyncio

    from foreword.gateway.messages import TurnState
    from foreword.gateway.startup import open_gateway
    from foreword.storage.database import explain_sqlite_errors

    async def go() -> "TurnReply":
        async with open_gateway(workspace, load_environ(workspace)) as gateway:
            assert gateway.scheduler is not None
            accepted = await gateway.scheduler.run(args.which)
            return await gateway.wait(accepted.turn)

    with explain_sqlite_errors(workspace.state):
        reply = asyncio.run(go())
    if args.json:
        print_json({"turn": reply.turn, "state": str(reply.state), "text": reply.text, "cost_usd": reply.cost_usd})
    else:
        print(reply.text or "(empty reply)")
    return 0 if reply.state is TurnState.ANSWERED else 1


def schedule_to_dict(schedule: "StoredSchedule") -> dict[str, Any]:
    """Return a schedule as JSON-ready values, with the names of the HTTP API and `foreword status`."""
    from foreword.events.period import format_timestamp

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
        "due": format_timestamp(schedule.due) if schedule.due else None,
        "note": schedule.note,
    }


SCHEDULE_COMMAND = CliCommand(
    name="schedule",
    arguments="ACTION [ID]",
    summary="list, add, cancel and run scheduled messages to agents",
    description="A schedule sends a message to an agent at set times on behalf of a user, and delivers the reply to "
    "one of that user's addresses or to a room. `foreword serve` runs due schedules. `list` includes the schedules in "
    "foreword.yaml, which can only be changed there.",
    examples=(
        "foreword schedule list",
        'foreword schedule add --cron "0 8 * * 1-5" --say "What is on today?" --to telegram:1001',
        'foreword schedule add --at "tomorrow 8:00" --say "Remind me of the dentist."',
        'foreword schedule add --at 2026-12-24T18:00 --say "Wish everybody well." --to kitchen',
        "foreword schedule run brief",
        "foreword schedule cancel 3f9a2c1d",
    ),
    add_options=add_schedule_options,
    run=run_schedule,
)
