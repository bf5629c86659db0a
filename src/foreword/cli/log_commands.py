"""Shared parts of the commands about events: the reader, the log of the workspace, and tables of rows.

`foreword cost`: show spending by day, session, person and more, with a bar chart. `foreword logs`: search recorded
events, or follow them. `foreword trace`: show everything that a turn did, as a tree.
"""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from foreword.cli.inputs import open_named_workspace
from foreword.cli.main import CliCommand
from foreword.cli.output import print_footer, print_json, print_text, to_plain, warn, warn_about_names
from foreword.cli.turn_options import find_situation
from foreword.errors import InputError, quote_name, suggest_name
from foreword.events.event import GROUPINGS
from foreword.types import frozen

if TYPE_CHECKING:
    import sqlite3

    from foreword.config.schema import Config
    from foreword.events.event import Reader
    from foreword.events.query import EventPage, Filter, TreeEntry
    from foreword.events.record import Record
    from foreword.events.sent_prompts import SentPrompt
    from foreword.events.totals import Spending, Total
    from foreword.turn import Turn
    from foreword.workspace import Workspace


T = TypeVar("T")

SINCE_HELP = "start of the period: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30"
LEVEL_STYLES = {"warn": "yellow", "error": "red"}
SESSION_HINT = "foreword status lists sessions of the last day, foreword cost --by session --since 30d older ones"
UNTIL_HELP = "end of the period, in the same forms; a day includes its end"


@frozen
class EventQuery:
    """The context of a query about events: the log, the reader, and the time."""

    folder: str
    reader: "Reader"
    now: datetime
    zone: ZoneInfo

    def ask(self, question: "Callable[[sqlite3.Connection], T]") -> T:
        """Run a query on the log, and warn if the log had to be repaired."""
        from foreword.events.query import query_log

        answer, note = query_log(self.folder, question)
        if note:
            warn(note)
        return answer

    def has_recorded(self, column: str, value: str) -> bool:
        """Return whether a visible event with this value is recorded."""
        from foreword.events.query import is_recorded

        return self.ask(lambda log: is_recorded(log, self.reader, column, value))

    def find_session(self, named: str) -> str:
        """Return the session whose id starts so; one the reader may not see is reported as unknown."""
        from foreword.events.query import NotRecorded, complete_session

        try:
            return self.ask(lambda log: complete_session(log, self.reader, named)) if named else ""
        except NotRecorded as error:
            raise InputError(f"{error}; {SESSION_HINT}") from None


def add_reader_options(parser: ArgumentParser) -> None:
    """Add the options that choose the reader."""
    group = parser.add_argument_group("read as")
    group.add_argument(
        "--reader", metavar="NAME", help="read as this person (default: the owner, who sees every event)"
    )
    group.add_argument(
        "--room",
        metavar="NAME",
        default="",
        help="ask in this room: the answer has only what everyone there may see",
    )


def add_period_options(parser: ArgumentParser) -> None:
    """Add the options that choose the period."""
    group = parser.add_argument_group("period")
    group.add_argument("--since", metavar="TIME", default="", help=SINCE_HELP)
    group.add_argument("--until", metavar="TIME", default="", help=UNTIL_HELP)


def open_event_query(args: Namespace) -> "tuple[Workspace, EventQuery]":
    """Open the workspace and resolve the reader."""
    from foreword.turn import Turn

    workspace = open_named_workspace(args)
    config = workspace.config
    args.situation = None
    turn = Turn(
        user=config.owner if args.reader is None else args.reader,
        room=args.room,
        situation=find_situation(args, config),
    )
    desk = make_event_query(workspace, turn)
    refuse_unknown_room(desk, args, config)
    return workspace, desk


def refuse_unknown_room(desk: EventQuery, args: Namespace, config: "Config") -> None:
    """Refuse a room that is neither configured nor recorded, as far as the person at the shell may know."""
    from foreword.events.event import Reader
    from foreword.types import Trust

    if args.room in ("", *config.rooms):
        return
    owner = Reader(user=config.owner, clearance=Trust.FULL, room=args.room)
    typing = replace(desk, reader=owner) if args.reader is None else desk
    if not typing.has_recorded("room", args.room):
        raise InputError(f"unknown room {quote_name(args.room)}{suggest_name(args.room, list(config.rooms))}")


def refuse_unrecorded_user(desk: EventQuery, name: str, config: "Config") -> None:
    """Refuse an unknown user; only for a reader who sees everything, so that others learn nothing about users."""
    from foreword.events.event import sees_all

    known = [*dict.fromkeys(filter(None, (config.owner, *config.users)))]
    if sees_all(desk.reader) and name not in ("", *known) and not desk.has_recorded("user_id", name):
        raise InputError(f"unknown user {quote_name(name)}{suggest_name(name, known)}")


def make_event_query(workspace: "Workspace", turn: "Turn") -> EventQuery:
    """Return the query context of the user of a turn, and warn about unknown names."""
    from foreword.engine.trust import resolve_trust
    from foreword.events.query import find_reader
    from foreword.host import load_zone
    from foreword.workspace import STATE_FOLDER

    clearance = resolve_trust(turn, workspace.config)
    warn_about_names(clearance.warnings, workspace.config, turn.user, turn.situation)
    reader = find_reader(turn, clearance.level, workspace.config)
    zone, note = load_zone(reader.timezone)
    if note:
        warn(note)
    folder = os.path.join(workspace.files.root, STATE_FOLDER)
    return EventQuery(folder=folder, reader=reader, now=datetime.now(UTC), zone=zone)


def print_records(records: "Sequence[Record]", zone: ZoneInfo) -> None:
    """Draw events as a table, each with its details."""
    from foreword.cli.table import NARROW_COLUMNS, find_width, make_cell, make_table, print_table_with_notes
    from foreword.events.lines import SHORT_ID_DIGITS, show_details, show_time

    width = find_width()
    table = make_table("time", "level", "event", "user", "channel", "turn", narrow=width < NARROW_COLUMNS)
    for record in records:
        table.add_row(
            show_time(record.time, zone),
            make_cell(record.level, LEVEL_STYLES.get(record.level, "")),
            make_cell(record.type),
            make_cell(record.user),
            make_cell(record.channel),
            make_cell(record.trace[:SHORT_ID_DIGITS]),
        )
    print_table_with_notes(table, ["what", *(show_details(record) for record in records)], width)


MAX_BAR_CELLS = 20  # columns of the longest bar
COST_COLUMNS = {
    "turns": "turns",
    "calls": "calls",
    "unpriced": "unpriced",
    "in": "tokens_in",
    "cached": "cache_read",
    "out": "tokens_out",
}
SECTION_COLUMNS = ("calls", "unpriced", "in", "cached")


def add_cost_options(parser: ArgumentParser) -> None:
    """Add the grouping, the period and the reader."""
    parser.add_argument("--by", choices=GROUPINGS, default="day", help="group totals by this (default: day)")
    add_period_options(parser)
    add_reader_options(parser)


def run_cost(args: Namespace) -> int:
    """Print the spending."""
    from foreword.events.totals import find_spending

    workspace, desk = open_event_query(args)
    workspace.close()
    asked = {"by": args.by, "since": args.since, "until": args.until}
    spending = desk.ask(lambda log: find_spending(log, desk.reader, asked, desk.now))
    if args.json:
        print_json(spending_to_dict(spending))
    else:
        print_spending(spending, desk)
    return 0


def spending_to_dict(spending: "Spending") -> dict[str, object]:
    """Return the totals as JSON-ready values."""
    from foreword.events.period import format_timestamp

    since, until = spending.period.since, spending.period.until
    return {
        "by": spending.by,
        "since": since and format_timestamp(since),
        "until": until and format_timestamp(until),
        "whole": to_plain(spending.whole),
        "usd_per_turn": spending.usd_per_turn,
        "most_tokens": spending.longest and to_plain(spending.longest),
        "totals": to_plain(spending.totals),
        "left": spending.left,
    }


def print_spending(spending: "Spending", desk: EventQuery) -> None:
    """Print the summary and the totals with their bars."""
    from foreword.cli.table import NARROW_COLUMNS, draw_bar, find_width, make_cell, make_table, print_table
    from foreword.events.lines import show_cost
    from foreword.events.totals import show_spending_summary

    for line in show_spending_summary(spending, desk.zone):
        print(line)
    if not spending.totals:
        return
    width = find_width()
    # A section is part of a call and produces no output, so it has neither turns nor output tokens.
    columns = {head: name for head, name in COST_COLUMNS.items() if spending.by != "section" or head in SECTION_COLUMNS}
    table = make_table(spending.by, "cost", *columns, "", right=("cost", *columns), narrow=width < NARROW_COLUMNS)
    weights = [get_bar_weight(total, spending) for total in spending.totals]
    for total, weight in zip(spending.totals, weights, strict=True):
        figures = [f"{getattr(total, name):,}" for name in columns.values()]
        bar = draw_bar(weight, max(weights), MAX_BAR_CELLS)
        table.add_row(make_cell(total.name or "–"), show_cost(total.cost_usd), *figures, bar)
    print()
    print_table(table, width)
    if spending.left:
        print(f"\n {spending.left:,} more, each smaller or earlier; shorten the period to see them")


def get_bar_weight(total: "Total", spending: "Spending") -> int:
    """Return the length of a bar: the cost, or the tokens if rows are ordered by them or have no price."""
    if spending.by == "session" or spending.whole.cost_usd is None:
        return total.tokens_in + total.tokens_out
    return round((total.cost_usd or 0) * 1_000_000)


COST_COMMAND = CliCommand(
    name="cost",
    summary="show spending by day, session, person and more",
    description="Print the cost of model calls: the total, the average per turn, and the session with the most "
    "tokens; then totals by day, or by --by, with a bar chart. The default period is today. Calls of models without "
    "a known price are counted but not included in the cost.",
    examples=(
        "foreword cost",
        "foreword cost --since 7d",
        "foreword cost --by session --since today",
        "foreword cost --by section --since 30d --json",
    ),
    add_options=add_cost_options,
    run=run_cost,
)


POLL_INTERVAL_S = 0.25  # seconds between two polls


def add_logs_options(parser: ArgumentParser) -> None:
    """Add the filters, the period and the reader."""
    which = parser.add_argument_group("filters")
    which.add_argument("--session", metavar="ID", default="", help="only this session, by its id or the start of it")
    which.add_argument("--level", metavar="LEVEL", default="", help="only this level and above: info, warn, error")
    which.add_argument("--event-type", metavar="TYPE", default="", help="only this type, such as api_error")
    which.add_argument("--user", metavar="NAME", default="", help="only this person")
    which.add_argument("--channel", metavar="NAME", default="", help="only this channel")
    which.add_argument("--limit", metavar="N", type=int, help="print at most N, the newest ones (default: 50)")
    which.add_argument("--follow", action="store_true", help="print new events as they arrive, until interrupted")
    add_period_options(parser)
    add_reader_options(parser)


def run_logs(args: Namespace) -> int:
    """Print the newest matching events, newest last."""
    from foreword.events.query import find_events
    from foreword.events.status import find_outcomes, selects_errors, show_outcomes

    workspace, desk = open_event_query(args)
    workspace.close()
    if not args.follow:  # --follow may wait for a user who is not known yet
        refuse_unrecorded_user(desk, args.user, workspace.config)
    args.session = desk.find_session(args.session)
    wanted = read_log_filter(args, desk)
    if args.follow:
        follow_events(args, desk, wanted)
    found = desk.ask(lambda log: find_events(log, desk.reader, wanted))
    records = found.records[::-1]
    outcomes = desk.ask(lambda log: find_outcomes(log, desk.reader, records)) if selects_errors(wanted) else []
    if found.notice:
        warn(found.notice)
    if args.json:
        print_json([record.to_dict(desk.reader) for record in records])
    elif records:
        print_records(records, desk.zone)
        if outcomes:
            print("\n outcome of these turns:")
        for line in show_outcomes(outcomes, desk.zone):
            print(f" {line}")
        if rest := found.find_next_page(len(records), wanted):
            print(f"\n older events match; to see them, use --until {rest} or a higher --limit")
    else:
        print("no recorded events match")
    return 0


def read_log_filter(args: Namespace, desk: EventQuery) -> "Filter":
    """Build the filter from the options."""
    from foreword.events.query import parse_filter

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
        raise InputError("--follow runs until interrupted and takes no --until")
    return parse_filter(asked, desk.reader, desk.now)


def follow_events(args: Namespace, desk: EventQuery, wanted: "Filter") -> None:
    """Print the newest events, then each new one on a line, until interrupted."""
    from foreword.events.query import MAX_EVENTS, find_events, find_events_after, find_last_id

    def begin(log: "sqlite3.Connection") -> "tuple[int, list[Record]]":
        return find_last_id(log), list(find_events(log, desk.reader, wanted).records[::-1])

    def go_on(log: "sqlite3.Connection") -> "tuple[int, list[Record]]":
        newest = find_last_id(log)
        # A new log, after a damaged one was set aside, counts from 1 again.
        found = find_events_after(log, desk.reader, wanted, last if last <= newest else 0)
        return found[-1].id if len(found) == MAX_EVENTS else newest, found

    last, records = desk.ask(begin)
    while True:
        for record in records:
            print(format_record(record, desk, as_json=args.json), flush=True)
        time.sleep(POLL_INTERVAL_S)
        last, records = desk.ask(go_on)


def format_record(record: "Record", desk: EventQuery, *, as_json: bool) -> str:
    """Format a record on one line."""
    from foreword.events.lines import show_line, show_time

    if as_json:
        return json.dumps(record.to_dict(desk.reader), ensure_ascii=False)
    return f"{show_time(record.time, desk.zone)} {show_line(record)}"


LOGS_COMMAND = CliCommand(
    name="logs",
    summary="search recorded events, or follow them",
    description="Print the newest recorded events that match the filters, newest last, in the reader's time zone. "
    "Readers see their own events up to their clearance; full trust sees the events of all users. With --json each "
    "event has every column; with --follow each event is one line.",
    examples=(
        "foreword logs --level error --since 12h",
        "foreword logs --user alice --since yesterday --until yesterday",
        "foreword logs --event-type api_error --limit 5 --json",
        "foreword logs --channel telegram --follow",
    ),
    add_options=add_logs_options,
    run=run_logs,
)


NO_SUCH_TURN, NO_SUCH_PROMPT = "no such turn", "no recorded prompt for this turn"
TURNS_HINT = "foreword logs lists turns"


def add_trace_options(parser: ArgumentParser) -> None:
    """Add the turn, the output and the reader."""
    parser.add_argument(
        "turn", metavar="TURN", nargs="?", default="", help="the id of the turn, or at least its first 6 digits"
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        default="",
        help="instead of TURN: the last turn sent by this time, such as 14:03, 12h or 2026-11-15T08:30",
    )
    what = parser.add_argument_group("output", "instead of the tree")
    what.add_argument("--prompt", action="store_true", help="print the prompt exactly as sent")
    what.add_argument("--explain", action="store_true", help="print the table of slots with their verdicts")
    add_reader_options(parser)


def run_trace(args: Namespace) -> int:
    """Print the tree of a turn."""
    from foreword.events.query import NO_EVENTS, find_turn_at, find_turn_events, lay_out_turn

    if bool(args.turn) == bool(args.at):
        raise InputError("give one turn: foreword trace TURN, or foreword trace --at TIME")
    workspace, desk = open_event_query(args)
    workspace.close()
    if args.prompt or args.explain:
        return print_prompts(args, desk)

    def find(log: "sqlite3.Connection") -> "EventPage":
        turn = find_turn_at(log, desk.reader, parse_at_option(args, desk)) if args.at else args.turn
        return find_turn_events(log, desk.reader, turn) if turn else NO_EVENTS

    found = desk.ask(find)
    if not found.records:
        raise InputError(f"{NO_SUCH_TURN}; {TURNS_HINT}")
    if found.notice:
        warn(found.notice)
    branches = list(lay_out_turn(found.records))
    if args.json:
        print_json([{"depth": branch.depth, **branch.record.to_dict(desk.reader)} for branch in branches])
    else:
        print_trace(branches, found.records, desk)
    return 0


def parse_at_option(args: Namespace, desk: EventQuery) -> "datetime":
    """Parse the time of --at; a minute or a day includes its end."""
    from foreword.events.period import parse_last_moment

    return parse_last_moment(args.at, desk.now, desk.zone)


def print_prompts(args: Namespace, desk: EventQuery) -> int:
    """Print each distinct prompt of a turn once, or the last prompt before a time."""
    from foreword.events.sent_prompts import find_prompt_at, find_prompts

    def find(log: "sqlite3.Connection") -> "Sequence[SentPrompt]":
        if not args.at:
            return find_prompts(log, desk.reader, args.turn)
        sent = find_prompt_at(log, desk.reader, parse_at_option(args, desk))
        return [sent] if sent else []

    prompts = desk.ask(find)
    if not prompts:
        raise InputError(f"{NO_SUCH_PROMPT}; {TURNS_HINT}")
    if any(prompt.forgotten for prompt in prompts):
        warn("parts of the prompt have been erased; placeholders replace them")
    if args.json:
        print_json([prompt.to_dict() for prompt in prompts])
    else:
        print_text("\n\n".join(prompt.explain() if args.explain else prompt.text for prompt in prompts))
    return 0


def print_trace(branches: "Sequence[TreeEntry]", records: "Sequence[Record]", desk: EventQuery) -> None:
    """Print the tree: time, duration, tokens and cost in columns, details as notes."""
    from foreword.cli.table import find_width, make_table, print_table_with_notes
    from foreword.events.lines import show_cost, show_duration, show_label, summarise_turn

    start = records[0].time
    table = make_table("at", "took", "in", "out", "cost", right=("at", "took", "in", "out", "cost"), narrow=True)
    for branch in branches:
        one = branch.record
        table.add_row(
            f"+{(one.time - start).total_seconds():.3f}s",
            show_duration(one.duration_ms),
            "" if one.tokens_in is None else f"{one.tokens_in:,}",
            "" if one.tokens_out is None else f"{one.tokens_out:,}",
            "" if one.cost_usd is None else show_cost(one.cost_usd),
        )
    width = find_width()
    print_table_with_notes(
        table, ["what", *("  " * branch.depth + show_label(branch.record) for branch in branches)], width
    )
    print_footer(summarise_turn(records, desk.zone), width)


TRACE_COMMAND = CliCommand(
    name="trace",
    arguments="[TURN]",
    summary="show everything that one turn did",
    description="Print the tree of a turn: trust, prompt, calls, tools and replies, with times, tokens, cost and "
    "errors. `foreword logs` lists the ids of turns. With --at it is the last turn sent by that time; a minute or a "
    "day includes its end. A turn that the reader may not see is reported as unknown. The prompt of a private turn is "
    "shown only to its own person: add --reader NAME.",
    examples=(
        "foreword trace 3f2a9c01",
        "foreword trace 3f2a9c01 --json",
        "foreword trace 3f2a9c01 --prompt",
        "foreword trace --at 14:03 --prompt",
    ),
    add_options=add_trace_options,
    run=run_trace,
)
