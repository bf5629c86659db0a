"""`foreword logs`: the recorded events, as many filters as one likes, and those that come while one watches."""

import json
import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_period_options, add_reader_options, draw_records, refuse_stranger, sit_down
from foreword.cli.output import print_json, warn
from foreword.errors import InputError

if TYPE_CHECKING:
    import sqlite3

    from foreword.events.filter import Filter
    from foreword.events.record import Record

PAUSE = 0.25  # seconds between two looks


def add_options(parser: ArgumentParser) -> None:
    """Add the filters, and whose eyes they are used with."""
    which = parser.add_argument_group("which")
    which.add_argument("--session", metavar="ID", default="", help="one session only, by its id or how that begins")
    which.add_argument("--level", metavar="LEVEL", default="", help="this level and above: info, warn, error")
    which.add_argument("--event-type", metavar="TYPE", default="", help="one type only, such as api_error")
    which.add_argument("--user", metavar="NAME", default="", help="one person only")
    which.add_argument("--channel", metavar="NAME", default="", help="one channel only")
    which.add_argument("--limit", metavar="N", type=int, help="how many, the newest of all; else 50")
    which.add_argument("--follow", action="store_true", help="go on with what comes, until interrupted")
    add_period_options(parser)
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print the newest events that fit, the newest last."""
    from foreword.events.outcomes import asks_for_errors, find_outcomes, show_outcomes
    from foreword.events.question import find_events

    workspace, desk = sit_down(args)
    workspace.close()
    if not args.follow:  # who follows may wait for somebody
        refuse_stranger(desk, args.user, workspace.config)
    args.session = desk.find_session(args.session)
    wanted = read_options(args, desk)
    if args.follow:
        follow(args, desk, wanted)
    found = desk.ask(lambda log: find_events(log, desk.reader, wanted))
    records = found.records[::-1]
    outcomes = desk.ask(lambda log: find_outcomes(log, desk.reader, records)) if asks_for_errors(wanted) else []
    if found.notice:
        warn(found.notice)
    if args.json:
        print_json([record.to_dict(desk.reader) for record in records])
    elif records:
        draw_records(records, desk.zone)
        if outcomes:
            print("\n what became of these turns:")
        for line in show_outcomes(outcomes, desk.zone):
            print(f" {line}")
        if rest := found.find_rest(len(records), wanted):
            print(f"\n older ones fit, too: --until {rest}, or a higher --limit")
    else:
        print("no recorded event fits")
    return 0


def read_options(args: Namespace, desk: Desk) -> "Filter":
    """Read the filter that was typed."""
    from foreword.events.filter import read_filter

    asked = {
        "session_id": args.session,
        "level": args.level,
        "event_type": args.event_type,
        "user": args.user,
        "channel": args.channel,
        "since": args.since,
        "until": args.until,
        "limit": args.limit,
    }
    if args.follow and args.until:
        raise InputError("--follow goes on until it is interrupted, so it takes no --until")
    return read_filter(asked, desk.reader, desk.now)


def follow(args: Namespace, desk: Desk, wanted: "Filter") -> None:
    """Print the newest events, then every one that is written, each on a line; ends when it is interrupted."""
    from foreword.events.question import MOST, find_events, find_last_id, find_later

    def begin(log: "sqlite3.Connection") -> "tuple[int, list[Record]]":
        return find_last_id(log), list(find_events(log, desk.reader, wanted).records[::-1])

    def go_on(log: "sqlite3.Connection") -> "tuple[int, list[Record]]":
        newest = find_last_id(log)
        # A log that was put aside is followed by one that counts anew.
        found = find_later(log, desk.reader, wanted, last if last <= newest else 0)
        return found[-1].id if len(found) == MOST else newest, found

    last, records = desk.ask(begin)
    while True:
        for record in records:
            print(write_line(record, desk, as_json=args.json), flush=True)
        time.sleep(PAUSE)
        last, records = desk.ask(go_on)


def write_line(record: "Record", desk: Desk, *, as_json: bool) -> str:
    """Write a record on one line."""
    from foreword.events.line import show_line, show_time

    if as_json:
        return json.dumps(record.to_dict(desk.reader), ensure_ascii=False)
    return f"{show_time(record.time, desk.zone)} {show_line(record)}"


COMMAND = Command(
    name="logs",
    summary="find recorded events, or watch them come",
    description="Print the newest recorded events that fit, the newest last, in the zone of who asks. A person sees "
    "their own events, full trust sees all, and nobody any above their clearance. With --json each has every column; "
    "with --follow one stands on a line.",
    examples=(
        "foreword logs --level error --since 12h",
        "foreword logs --user alice --since yesterday --until yesterday",
        "foreword logs --event-type api_error --limit 5 --json",
        "foreword logs --channel telegram --follow",
    ),
    add_options=add_options,
    run=run,
)
