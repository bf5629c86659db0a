"""`foreword sessions`: list past conversations, and show one.

`foreword status`: show channels, sessions, memory, recent errors and next runs.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from foreword.cli.log_commands import EventQuery, add_reader_options, open_event_query, print_records
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import count, print_json, to_plain, warn
from foreword.errors import InputError, quote_name

if TYPE_CHECKING:
    from foreword.events.event import Reader
    from foreword.events.status import Status
    from foreword.gateway.messages import TurnState
    from foreword.gateway.transcripts import Conversation, TranscriptEntry
    from foreword.memory.upkeep import Stock
    from foreword.storage.state_reader import PendingSchedule
    from foreword.workspace import Workspace


SESSIONS_ACTIONS = {"list": "list conversations, most recently used first", "show": "SESSION: print one conversation"}
DEFAULT_SESSIONS_LIMIT = 20


def add_sessions_options(parser: ArgumentParser) -> None:
    """Add the action, the session and the reader."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        choices=SESSIONS_ACTIONS,
        default="list",
        help=list_actions(SESSIONS_ACTIONS),
    )
    parser.add_argument(
        "session", metavar="SESSION", nargs="?", default="", help="with show: the id or the start of it"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=DEFAULT_SESSIONS_LIMIT,
        help=f"list at most N (default: {DEFAULT_SESSIONS_LIMIT})",
    )
    add_reader_options(parser)


def run_sessions(args: Namespace) -> int:
    """List conversations, or show one."""
    from foreword.gateway import transcripts
    from foreword.storage.database import use_state

    if args.limit < 1:
        raise InputError(f"--limit must be 1 or more, not {args.limit}")
    if bool(args.session) is not (args.action == "show"):
        raise InputError("use foreword sessions list, or foreword sessions show SESSION")
    workspace, desk = open_event_query(args)
    with workspace, use_state(workspace.state) as state:
        if args.action == "list":
            print_conversations(transcripts.list_conversations(state, desk.reader, args.limit), desk, json=args.json)
            return 0
        if len(args.session) < transcripts.MIN_ID_CHARS:
            raise InputError(f"give the id of a session, or at least its first {transcripts.MIN_ID_CHARS} digits")
        found = transcripts.find_conversations(state, desk.reader, args.session)
    if not found:
        raise InputError(f"unknown session {quote_name(args.session)}; foreword sessions lists them")
    if len(found) > 1:
        raise InputError(f"several session ids start with {quote_name(args.session)}; give more digits")
    print_conversation(found[0], desk, json=args.json)
    return 0


def print_conversations(found: "Sequence[Conversation]", desk: EventQuery, *, json: bool) -> None:
    """Print the list of conversations."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.events.lines import SHORT_ID_DIGITS, show_time

    if json:
        print_json([conversation_to_dict(one) for one in found])
        return
    if not found:
        print("no conversations yet")
        return
    table = make_table("session", "agent", "with", "channel", "last used", "messages", "begins", right=("messages",))
    for one in found:
        lane = one.session.lane
        table.add_row(
            one.session.id[:SHORT_ID_DIGITS],
            make_cell(lane.agent),
            make_cell(name_participants(one)),
            make_cell(lane.channel.partition(":")[0]),
            show_time(one.session.used, desk.zone),
            f"{one.messages:,}",
            make_cell(one.title),
        )
    print_table(table, find_width())


def name_participants(one: "Conversation") -> str:
    """Return the room of a conversation, or its people."""
    return one.session.lane.room or ", ".join(one.people)


def print_conversation(one: "Conversation", desk: EventQuery, *, json: bool) -> None:
    """Print a conversation; message text is always indented."""
    from foreword.cli.output import clean_line, clean_text
    from foreword.events.lines import show_time

    if json:
        print_json(
            {
                **conversation_to_dict(one),
                "transcript": [entry for said in one.remarks for entry in remark_to_dicts(one, *said)],
            }
        )
        return
    lane = one.session.lane
    about = (
        f"session {one.session.id}",
        lane.agent,
        name_participants(one),
        lane.channel,
        f"clearance {lane.clearance}",
    )
    print(" · ".join((*map(clean_line, about), count(one.messages, "message"))))
    for state, remark in one.remarks:
        for entry in list_remark_messages(one, state, remark):
            print(f"\n{clean_line(entry['from'])}, {show_time(entry['moment'], desk.zone)}{entry['note']}")
            for line in clean_text(entry["text"]).splitlines():
                print(f"  {line}".rstrip())


def list_remark_messages(
    one: "Conversation", state: "TurnState", remark: "TranscriptEntry"
) -> Iterator[dict[str, Any]]:
    """Yield a message, then its reply or the state of its turn."""
    agent = one.session.lane.agent
    if not remark.told:
        note = "" if remark.reply else f" ({state})"
        yield {"role": "user", "from": remark.user, "moment": remark.received, "text": remark.text, "note": note}
    if remark.reply:
        note = " (by itself)" if remark.told else ""
        yield {"role": "assistant", "from": agent, "moment": remark.finished, "text": remark.reply, "note": note}


def remark_to_dicts(one: "Conversation", state: "TurnState", remark: "TranscriptEntry") -> Iterator[dict[str, Any]]:
    """Return a message and its reply as JSON-ready values."""
    from foreword.events.period import format_timestamp

    for entry in list_remark_messages(one, state, remark):
        yield {
            "role": entry["role"],
            "from": entry["from"],
            "time": format_timestamp(entry["moment"]),
            "text": entry["text"],
            "state": str(state),
            "by_itself": remark.told,
        }


def conversation_to_dict(one: "Conversation") -> dict[str, Any]:
    """Return a conversation as JSON-ready values."""
    from foreword.events.period import format_timestamp

    session, lane = one.session, one.session.lane
    return {
        "session": session.id,
        "agent": lane.agent,
        "people": list(filter(None, one.people)),
        "room": lane.room,
        "channel": lane.channel,
        "situation": session.situation,
        "clearance": str(lane.clearance),
        "title": one.title,
        "created": format_timestamp(session.created),
        "used": format_timestamp(session.used),
        "messages": one.messages,
    }


SESSIONS_COMMAND = CliCommand(
    name="sessions",
    arguments="[ACTION] [SESSION]",
    summary="list past conversations, and show one",
    description="List past conversations with their first words, or print one. By default the owner reads: all rooms "
    "and the owner's private conversations. With --reader, that person reads: their own messages and the replies to "
    "them, in sessions up to their current clearance. A private conversation is shown only to its own person.",
    examples=(
        "foreword sessions",
        "foreword sessions show 5fa0da3c",
        "foreword sessions --reader bob",
        "foreword sessions show 5fa0da3c --json",
    ),
    add_options=add_sessions_options,
    run=run_sessions,
)


MAX_NEXT_RUNS = 5  # next runs to show


def run_status(args: Namespace) -> int:
    """Print the status."""
    from foreword.engine.trust import Audience
    from foreword.events.period import format_timestamp
    from foreword.events.status import find_status

    workspace, desk = open_event_query(args)
    with workspace:
        status = desk.ask(lambda log: find_status(log, desk.reader, desk.now))
        person = "" if desk.reader.room else desk.reader.user
        stock = workspace.memory.take_stock(Audience(clearance=desk.reader.clearance, person=person))
        if workspace.memory.notice:
            warn(workspace.memory.notice)
        planned = list_next_runs(workspace, desk)
    if args.json:
        runs = [
            {"schedule": one.id, "name": one.title, "user": one.user, "due": format_timestamp(one.due)}
            for one in planned
        ]
        print_json({**status_to_dict(status, stock, desk.reader), "next_runs": runs})
    else:
        print_status(status, stock, desk)
        print_next_runs(planned, desk)
    return 0


def list_next_runs(workspace: "Workspace", desk: EventQuery) -> "Sequence[PendingSchedule]":
    """Return the next runs that the reader may see: their own, or all at full trust; writes nothing."""
    from foreword.storage.state_reader import StateReader
    from foreword.types import Trust

    reader = desk.reader
    with closing(StateReader(workspace.state)) as state:
        found = state.list_planned()
    everybody = reader.clearance is Trust.FULL and not reader.room
    seen = (one for one in found if one.clearance <= reader.clearance and (everybody or one.user == reader.user))
    return [one for one in seen if not reader.room or one.room == reader.room][:MAX_NEXT_RUNS]


def print_next_runs(planned: "Sequence[PendingSchedule]", desk: EventQuery) -> None:
    """Print the next runs."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.events.lines import show_time

    if not planned:
        return
    print()
    table = make_table("next run", "schedule", "user")
    for one in planned:
        table.add_row(show_time(one.due, desk.zone), make_cell(one.title), make_cell(one.user))
    print_table(table, find_width())


def status_to_dict(status: "Status", stock: "Sequence[Stock]", reader: "Reader") -> dict[str, object]:
    """Return the status as JSON-ready values."""
    from foreword.events.period import format_timestamp

    return {
        "since": format_timestamp(status.since),
        "channels": [
            {**to_plain(one), "last_message": one.last_message and format_timestamp(one.last_message)}
            for one in status.channels
        ],
        "sessions": status.sessions,
        "latest": [{**to_plain(one), "last": format_timestamp(one.last)} for one in status.latest],
        "memory": to_plain(list(stock)),
        "errors": [record.to_dict(reader) for record in status.errors],
    }


def print_status(status: "Status", stock: "Sequence[Stock]", desk: EventQuery) -> None:
    """Print the status as tables, with a sentence for each empty one."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.events.lines import show_time
    from foreword.events.status import show_left_out

    width = find_width()
    counted = f"{count(status.sessions, 'session')}{show_left_out(status)}"
    print(f"since {show_time(status.since, desk.zone)} ({desk.zone.key}): {counted}\n")
    channels = make_table("channel", "last message", "errors", right=("errors",))
    for channel in status.channels:
        last = show_time(channel.last_message, desk.zone) if channel.last_message else "–"
        channels.add_row(make_cell(channel.name), last, f"{channel.errors:,}")
    sessions = make_table("session", "agent", "channel", "last activity")
    for session in status.latest:
        sessions.add_row(
            make_cell(session.id),
            make_cell(session.agent),
            make_cell(session.channel),
            show_time(session.last, desk.zone),
        )
    stores = make_table("memory", "documents", "indexed", "unreviewed", right=("documents", "indexed", "unreviewed"))
    for store in stock:
        stores.add_row(make_cell(store.store), f"{store.documents:,}", f"{store.indexed:,}", f"{store.unreviewed:,}")
    for table, empty in (
        (channels, "no messages on any channel"),
        (sessions, "no sessions yet"),
        (stores, "no memory"),
    ):
        if table.row_count:
            print_table(table, width)
            print()
        else:
            print(f" {empty}\n")
    if status.errors:
        print(f"last {count(len(status.errors), 'error')}:")
        print_records(status.errors[::-1], desk.zone)
    else:
        print("no errors recorded")


STATUS_COMMAND = CliCommand(
    name="status",
    summary="show channels, sessions, memory, recent errors and next runs",
    description="Print each channel with its last message and its errors of the last day, the sessions of the last "
    "day, the number of memories and how many of them are indexed up to date, the last ten errors, and the next "
    "scheduled runs.",
    examples=("foreword status", "foreword status --reader bob --json"),
    add_options=add_reader_options,
    run=run_status,
)
