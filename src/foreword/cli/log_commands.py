"""The commands about recorded events: `logs` searches them, `trace` shows a turn, and `cost` adds up spending."""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from foreword.cli import output
from foreword.cli.inputs import add_options, find_situation, open_named_workspace
from foreword.cli.output import pick, print_json, print_table, to_plain, warn
from foreword.config.schema import Config
from foreword.engine.trust import resolve_trust
from foreword.errors import InputError, quote_name, suggest_name
from foreword.events import lines, query, sent_prompts, status, totals
from foreword.events.event import GROUPINGS, Reader, find_reader, sees_all
from foreword.events.period import parse_last_moment
from foreword.events.record import Record
from foreword.host import load_zone
from foreword.turn import Turn
from foreword.types import Trust, frozen
from foreword.workspace import STATE_FOLDER, Workspace

T = TypeVar("T")

POLL_INTERVAL_S = 0.25  # seconds between two polls
MAX_BAR_CELLS = 20  # columns of the longest bar
LEVEL_STYLES = {"warn": "yellow", "error": "red"}
SESSION_HINT = "foreword status lists sessions of the last day, foreword cost --by session --since 30d older ones"
TURNS_HINT = "foreword logs lists turns"
PERIOD_OPTIONS = {
    "--since TIME": "start of the period: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30",
    "--until TIME": "end of the period, in the same forms; a day includes its end",
}
SECTION_COLUMNS = {"calls": "calls", "unpriced": "unpriced", "in": "tokens_in", "cached": "cache_read"}
COST_COLUMNS = {"turns": "turns", **SECTION_COLUMNS, "out": "tokens_out"}


@frozen
class EventQuery:
    """The context of a query about events: the log, the reader, and the time."""

    folder: str
    reader: Reader
    now: datetime
    zone: ZoneInfo

    def run(self, question: Callable[[Connection], T]) -> T:
        """Run a query on the log, and warn if the log had to be repaired."""
        answer, note = query.query_log(self.folder, question)
        if note:
            warn(note)
        return answer

    def has_recorded(self, column: str, value: str) -> bool:
        """Return whether a visible event with this value is recorded."""
        return self.run(lambda log: query.is_recorded(log, self.reader, column, value))

    def find_session(self, prefix: str) -> str:
        """Return the session whose id starts so; one the reader may not see is reported as unknown."""
        try:
            return self.run(lambda log: query.complete_session(log, self.reader, prefix)) if prefix else ""
        except query.NotRecorded as error:
            raise InputError(f"{error}; {SESSION_HINT}") from None

    def refuse_unrecorded_user(self, name: str, config: Config) -> None:
        """Refuse an unknown user; only for a reader who sees everything, so that others learn nothing about users."""
        users = [*dict.fromkeys(filter(None, (config.owner, *config.users)))]
        if sees_all(self.reader) and name not in ("", *users) and not self.has_recorded("user_id", name):
            raise InputError(f"unknown user {quote_name(name)}{suggest_name(name, users)}")


def add_reader_options(parser: ArgumentParser) -> None:
    """Add the options that choose the reader."""
    group = parser.add_argument_group("read as")
    add_options(group, {"--reader NAME": "read as this person (default: the owner, who sees every event)"})
    about = "ask in this room: the answer has only what everyone there may see"
    add_options(group, {"--room NAME": about}, default="")


def add_period_options(parser: ArgumentParser) -> None:
    """Add the options that choose the period."""
    add_options(parser.add_argument_group("period"), PERIOD_OPTIONS, default="")


def open_event_query(args: Namespace) -> tuple[Workspace, EventQuery]:
    """Open the workspace and resolve the reader. Refuse a room that is neither configured nor recorded."""
    workspace = open_named_workspace(args)
    config, room = workspace.config, args.room
    args.situation = None
    user = config.owner if args.reader is None else args.reader
    found = make_event_query(workspace, Turn(user=user, room=room, situation=find_situation(args, config)))
    if room not in ("", *config.rooms):
        owner = Reader(user=config.owner, clearance=Trust.FULL, room=room)  # the person at the shell
        if not (replace(found, reader=owner) if args.reader is None else found).has_recorded("room", room):
            raise InputError(f"unknown room {quote_name(room)}{suggest_name(room, list(config.rooms))}")
    return workspace, found


def make_event_query(workspace: Workspace, turn: Turn) -> EventQuery:
    """Return the query context of the user of a turn, and warn about unknown names."""
    clearance = resolve_trust(turn, workspace.config)
    output.warn_about_names(clearance.warnings, workspace.config, turn.user, turn.situation)
    reader = find_reader(turn, clearance.level, workspace.config)
    zone, note = load_zone(reader.timezone)
    if note:
        warn(note)
    folder = os.path.join(workspace.files.root, STATE_FOLDER)
    return EventQuery(folder=folder, reader=reader, now=datetime.now(UTC), zone=zone)


def print_records(records: Sequence[Record], zone: ZoneInfo) -> None:
    """Print events as a table, each with its details."""
    rows = [
        (
            lines.show_time(record.time, zone),
            (record.level, LEVEL_STYLES.get(record.level, "")),
            *(record.type, record.user, record.channel, record.trace[: lines.SHORT_ID_DIGITS]),
        )
        for record in records
    ]
    notes = ["what", *map(lines.show_details, records)]
    print_table(("time", "level", "event", "user", "channel", "turn"), rows, notes=notes)


def add_logs_options(parser: ArgumentParser) -> None:
    """Add the filters, the period and the reader."""
    group = parser.add_argument_group("filters")
    filters = {
        "--session ID": "only this session, by its id or the start of it",
        "--level LEVEL": "only this level and above: info, warn, error",
        "--event-type TYPE": "only this type, such as api_error",
        "--user NAME": "only this person",
        "--channel NAME": "only this channel",
    }
    add_options(group, filters, default="")
    add_options(group, {"--limit N": "print at most N, the newest ones (default: 50)"}, type=int)
    add_options(group, {"--follow": "print new events as they arrive, until interrupted"})
    add_period_options(parser)
    add_reader_options(parser)


def run_logs(args: Namespace) -> int:
    """Print the newest recorded events that match the filters, newest last, in the reader's time zone.

    Readers see their own events up to their clearance; full trust sees the events of all users. With --json each
    event has every column; with --follow each event is one line.

    Examples:
        foreword logs --level error --since 12h
        foreword logs --user alice --since yesterday --until yesterday
        foreword logs --channel telegram --follow
    """
    workspace, events = open_event_query(args)
    workspace.close()
    if not args.follow:  # --follow may wait for a user who is not known yet
        events.refuse_unrecorded_user(args.user, workspace.config)
    elif args.until:
        raise InputError("--follow runs until interrupted and takes no --until")
    names = ("level", "event_type", "user", "channel", "since", "until", "limit")
    values = {name: getattr(args, name) for name in names} | {"session_id": events.find_session(args.session)}
    wanted = query.parse_filter(values, events.reader, events.now)
    if args.follow:
        follow_events(args, events, wanted)
    found = events.run(lambda log: query.find_events(log, events.reader, wanted))
    records = found.records[::-1]

    def describe_outcomes(log: Connection) -> Sequence[str]:
        return status.describe_outcomes(log, events.reader, records, events.zone)

    if found.notice:
        warn(found.notice)
    if args.json:
        print_json([record.to_dict(events.reader) for record in records])
    elif records:
        print_records(records, events.zone)
        if status.selects_errors(wanted) and (outcomes := events.run(describe_outcomes)):
            print("\n outcome of these turns:", *outcomes, sep="\n ")
        if rest := found.find_next_page(len(records), wanted):
            print(f"\n older events match; to see them, use --until {rest} or a higher --limit")
    else:
        print("no recorded events match")
    return 0


def follow_events(args: Namespace, events: EventQuery, wanted: query.Filter) -> None:
    """Print the newest events, then each new one on a line, until interrupted."""

    def find_first(log: Connection) -> tuple[int, list[Record]]:
        return query.find_last_id(log), list(query.find_events(log, events.reader, wanted).records[::-1])

    def find_next(log: Connection) -> tuple[int, list[Record]]:
        newest = query.find_last_id(log)
        # A new log, after a damaged one was set aside, counts from 1 again.
        found = query.find_events_after(log, events.reader, wanted, last if last <= newest else 0)
        return found[-1].id if len(found) == query.MAX_EVENTS else newest, found

    last, records = events.run(find_first)
    while True:
        for record in records:
            line = f"{lines.show_time(record.time, events.zone)} {lines.show_line(record)}"
            print(json.dumps(record.to_dict(events.reader), ensure_ascii=False) if args.json else line, flush=True)
        time.sleep(POLL_INTERVAL_S)
        last, records = events.run(find_next)


def add_trace_options(parser: ArgumentParser) -> None:
    """Add the turn, the output and the reader."""
    turn = {"turn TURN": "the id of the turn, or at least its first 6 digits"}
    add_options(parser, turn, nargs="?", default="")
    at = {"--at TIME": "instead of TURN: the last turn sent by this time, such as 14:03, 12h or 2026-11-15T08:30"}
    add_options(parser, at, default="")
    shown = {
        "--prompt": "print the prompt exactly as sent",
        "--explain": "print the table of slots with their verdicts",
    }
    add_options(parser.add_argument_group("output", "instead of the tree"), shown)
    add_reader_options(parser)


def run_trace(args: Namespace) -> int:
    """Print the tree of a turn: trust, prompt, calls, tools and replies, with times, tokens, cost and errors.

    `foreword logs` lists the ids of turns. With --at it is the last turn sent by that time; a minute or a day includes
    its end. A turn that the reader may not see is reported as unknown. The prompt of a private turn is shown only to
    its own person: add --reader NAME.

    Examples:
        foreword trace 3f2a9c01
        foreword trace 3f2a9c01 --json
        foreword trace --at 14:03 --prompt
    """
    if bool(args.turn) == bool(args.at):
        raise InputError("give one turn: foreword trace TURN, or foreword trace --at TIME")
    workspace, events = open_event_query(args)
    workspace.close()
    moment = parse_last_moment(args.at, events.now, events.zone) if args.at else None
    if args.prompt or args.explain:
        print_prompts(args, events, moment)
        return 0

    def find(log: Connection) -> query.EventPage:
        turn = query.find_turn_at(log, events.reader, moment) if moment else args.turn
        return query.find_turn_events(log, events.reader, turn) if turn else query.NO_EVENTS

    found = events.run(find)
    if not found.records:
        raise InputError(f"no such turn; {TURNS_HINT}")
    if found.notice:
        warn(found.notice)
    if args.json:
        tree = query.lay_out_turn(found.records)
        print_json([{"depth": depth, **record.to_dict(events.reader)} for depth, record in tree])
    else:
        print_trace(found.records, events)
    return 0


def print_prompts(args: Namespace, events: EventQuery, moment: datetime | None) -> None:
    """Print each distinct prompt of a turn once, or the last prompt before a time."""

    def find(log: Connection) -> Sequence[sent_prompts.SentPrompt]:
        if moment is None:
            return sent_prompts.find_prompts(log, events.reader, args.turn)
        sent = sent_prompts.find_prompt_at(log, events.reader, moment)
        return [sent] if sent else []

    prompts = events.run(find)
    if not prompts:
        raise InputError(f"no recorded prompt for this turn; {TURNS_HINT}")
    if any(prompt.forgotten for prompt in prompts):
        warn("parts of the prompt have been erased; placeholders replace them")
    if args.json:
        print_json([prompt.to_dict() for prompt in prompts])
    else:
        output.print_text("\n\n".join(prompt.explain() if args.explain else prompt.text for prompt in prompts))


def print_trace(records: Sequence[Record], events: EventQuery) -> None:
    """Print the tree of a turn: time, duration, tokens and cost in columns, details as notes."""
    rows, notes = [], ["what"]
    for depth, record in query.lay_out_turn(records):
        rows.append(
            (
                f"+{(record.time - records[0].time).total_seconds():.3f}s",
                lines.show_duration(record.duration_ms),
                "" if record.tokens_in is None else f"{record.tokens_in:,}",
                "" if record.tokens_out is None else f"{record.tokens_out:,}",
                "" if record.cost_usd is None else lines.show_cost(record.cost_usd),
            )
        )
        notes.append("  " * depth + lines.show_label(record))
    heads = ("at", "took", "in", "out", "cost")
    print_table(heads, rows, right=heads, notes=notes)
    output.print_footer(lines.summarise_turn(records, events.zone))


def add_cost_options(parser: ArgumentParser) -> None:
    """Add the grouping, the period and the reader."""
    parser.add_argument("--by", choices=GROUPINGS, default="day", help="group totals by this (default: day)")
    add_period_options(parser)
    add_reader_options(parser)


def run_cost(args: Namespace) -> int:
    """Print the cost of model calls: the total, the average per turn, and the session with the most tokens.

    Then come totals by day, or by --by, with a bar chart. The default period is today. Calls of models without a known
    price are counted but not included in the cost.

    Examples:
        foreword cost
        foreword cost --since 7d
        foreword cost --by section --since 30d --json
    """
    workspace, events = open_event_query(args)
    workspace.close()
    values = {"by": args.by, "since": args.since, "until": args.until}
    spending = events.run(lambda log: totals.find_spending(log, events.reader, values, events.now))
    print_json(spending_to_dict(spending)) if args.json else print_spending(spending, events)
    return 0


def spending_to_dict(spending: totals.Spending) -> Any:
    """Return the totals as JSON-ready values."""
    period, whole = pick(spending.period, "since", "until"), pick(spending, "whole", "usd_per_turn")
    rest = {"most_tokens": spending.longest, **pick(spending, "totals", "left")}
    return to_plain({"by": spending.by, **period, **whole, **rest})


def print_spending(spending: totals.Spending, events: EventQuery) -> None:
    """Print the summary and the totals with their bars: the cost, or the tokens if rows are ordered by them."""
    for line in totals.show_spending_summary(spending, events.zone):
        print(line)
    if not spending.totals:
        return
    # A section is part of a call and produces no output, so it has neither turns nor output tokens.
    columns = SECTION_COLUMNS if spending.by == "section" else COST_COLUMNS
    by_tokens = spending.by == "session" or spending.whole.cost_usd is None
    weights = [
        total.tokens_in + total.tokens_out if by_tokens else round((total.cost_usd or 0) * 1_000_000)
        for total in spending.totals
    ]
    rows = []
    for total, weight in zip(spending.totals, weights, strict=True):
        figures = [f"{getattr(total, name):,}" for name in columns.values()]
        bar = output.draw_bar(weight, max(weights), MAX_BAR_CELLS)
        rows.append((total.name or "–", lines.show_cost(total.cost_usd), *figures, bar))
    print()
    print_table((spending.by, "cost", *columns, ""), rows, right=("cost", *columns))
    if spending.left:
        print(f"\n {spending.left:,} more, each smaller or earlier; shorten the period to see them")
