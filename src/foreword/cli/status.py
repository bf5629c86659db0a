"""`foreword status`: channels, sessions, memory and the newest errors."""

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_reader_options, draw_records, sit_down
from foreword.cli.output import count, make_plain, print_json, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.events.event import Reader
    from foreword.events.status import Status
    from foreword.memory import Stock
    from foreword.store.reader import Planned
    from foreword.workspace import Workspace

NEXT = 5  # runs that are shown


def add_options(parser: ArgumentParser) -> None:
    """Add whose eyes it is seen with."""
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print how things are."""
    from foreword.events.moment import stamp
    from foreword.events.status import find_status
    from foreword.trust import Audience

    workspace, desk = sit_down(args)
    with workspace:
        status = desk.ask(lambda log: find_status(log, desk.reader, desk.now))
        person = "" if desk.reader.room else desk.reader.user
        stock = workspace.memory.take_stock(Audience(clearance=desk.reader.clearance, person=person))
        if workspace.memory.notice:
            warn(workspace.memory.notice)
        planned = find_planned(workspace, desk)
    if args.json:
        runs = [{"schedule": one.id, "name": one.title, "user": one.user, "due": stamp(one.due)} for one in planned]
        print_json({**write(status, stock, desk.reader), "next_runs": runs})
    else:
        show(status, stock, desk)
        show_planned(planned, desk)
    return 0


def find_planned(workspace: "Workspace", desk: Desk) -> "Sequence[Planned]":
    """Find the next runs that the reader may know of: their own, or everybody's at full trust; nothing is written."""
    from foreword.store.reader import StateReader
    from foreword.words import Trust

    reader = desk.reader
    with closing(StateReader(workspace.state)) as state:
        found = state.list_planned()
    everybody = reader.clearance is Trust.FULL and not reader.room
    seen = (one for one in found if one.clearance <= reader.clearance and (everybody or one.user == reader.user))
    return [one for one in seen if not reader.room or one.room == reader.room][:NEXT]


def show_planned(planned: "Sequence[Planned]", desk: Desk) -> None:
    """Show what runs next."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.events.line import show_time

    if not planned:
        return
    print()
    table = make_table("next run", "schedule", "user")
    for one in planned:
        table.add_row(show_time(one.due, desk.zone), cell(one.title), cell(one.user))
    draw(table, find_width())


def write(status: "Status", stock: "Sequence[Stock]", reader: "Reader") -> dict[str, object]:
    """Write the status as JSON-ready values."""
    from foreword.events.moment import stamp

    return {
        "since": stamp(status.since),
        "channels": [
            {**make_plain(one), "last_message": one.last_message and stamp(one.last_message)} for one in status.channels
        ],
        "sessions": status.sessions,
        "latest": [{**make_plain(one), "last": stamp(one.last)} for one in status.latest],
        "memory": make_plain(list(stock)),
        "errors": [record.to_dict(reader) for record in status.errors],
    }


def show(status: "Status", stock: "Sequence[Stock]", desk: Desk) -> None:
    """Show the status as tables; those that would be empty are a sentence."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.events.line import show_time
    from foreword.events.status import show_left_out

    width = find_width()
    counted = f"{count(status.sessions, 'session')}{show_left_out(status)}"
    print(f"since {show_time(status.since, desk.zone)} ({desk.zone.key}): {counted}\n")
    channels = make_table("channel", "last message", "errors", right=("errors",))
    for channel in status.channels:
        last = show_time(channel.last_message, desk.zone) if channel.last_message else "–"
        channels.add_row(cell(channel.name), last, f"{channel.errors:,}")
    sessions = make_table("session", "agent", "channel", "last activity")
    for session in status.latest:
        sessions.add_row(
            cell(session.id), cell(session.agent), cell(session.channel), show_time(session.last, desk.zone)
        )
    stores = make_table("memory", "documents", "indexed", "unreviewed", right=("documents", "indexed", "unreviewed"))
    for store in stock:
        stores.add_row(cell(store.store), f"{store.documents:,}", f"{store.indexed:,}", f"{store.unreviewed:,}")
    for table, empty in ((channels, "no message in any channel"), (sessions, "no session yet"), (stores, "no memory")):
        if table.row_count:
            draw(table, width)
            print()
        else:
            print(f" {empty}\n")
    if status.errors:
        print(f"last {count(len(status.errors), 'error')}:")
        draw_records(status.errors[::-1], desk.zone)
    else:
        print("no error is recorded")


COMMAND = Command(
    name="status",
    summary="show channels, sessions, memory and the newest errors",
    description="Print how things are: each channel with its last message and its errors of the last day, the sessions "
    "of the last day, what is in memory and how much of it is indexed as it is, the last ten errors, "
    "and what is planned next.",
    examples=("foreword status", "foreword status --reader bob --json"),
    add_options=add_options,
    run=run,
)
