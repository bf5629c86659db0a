"""What the commands about events share: whose eyes they look with, the log of the workspace, and how rows are shown."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from foreword.cli.output import warn, warn_of_names
from foreword.cli.place import open_here
from foreword.cli.turns import find_situation
from foreword.errors import InputError, show_name, suggest
from foreword.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from foreword.config import Config
    from foreword.events.event import Reader
    from foreword.events.record import Record
    from foreword.turn import Turn
    from foreword.workspace import Workspace

T = TypeVar("T")

SINCE = "from when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30"
LEVELS = {"warn": "yellow", "error": "red"}
WHERE = "foreword status lists those of the last day, and foreword cost --by session --since 30d older ones"
UNTIL = "up to when, written as --since; a day is meant whole"


@frozen
class Desk:
    """Where a question about events is asked: the log, who asks, and when."""

    folder: str
    reader: "Reader"
    now: datetime
    zone: ZoneInfo

    def ask(self, question: "Callable[[sqlite3.Connection], T]") -> T:
        """Ask the log, and warn if it had to be mended."""
        from foreword.events.asking import ask

        answer, note = ask(self.folder, question)
        if note:
            warn(note)
        return answer

    def has_recorded(self, column: str, value: str) -> bool:
        """Tell whether an event with this value is recorded that who asks may see."""
        from foreword.events.known import is_recorded

        return self.ask(lambda log: is_recorded(log, self.reader, column, value))

    def find_session(self, named: str) -> str:
        """Find the session whose id begins so; another's is like one that does not exist."""
        from foreword.events.known import Unrecorded, complete_session

        try:
            return self.ask(lambda log: complete_session(log, self.reader, named)) if named else ""
        except Unrecorded as error:
            raise InputError(f"{error}; {WHERE}") from None


def add_reader_options(parser: ArgumentParser) -> None:
    """Add the options that say whose eyes a command looks with."""
    group = parser.add_argument_group("whose eyes")
    group.add_argument("--reader", metavar="NAME", help="the person who asks; else the owner, who sees every event")
    group.add_argument("--room", metavar="NAME", default="", help="ask in this room, where everybody reads the answer")


def add_period_options(parser: ArgumentParser) -> None:
    """Add the options that say which time is asked about."""
    group = parser.add_argument_group("when")
    group.add_argument("--since", metavar="TIME", default="", help=SINCE)
    group.add_argument("--until", metavar="TIME", default="", help=UNTIL)


def sit_down(args: Namespace) -> "tuple[Workspace, Desk]":
    """Open the workspace and find out who asks there."""
    from foreword.turn import Turn

    workspace = open_here(args)
    config = workspace.config
    args.situation = None
    turn = Turn(
        user=config.owner if args.reader is None else args.reader,
        room=args.room,
        situation=find_situation(args, config),
    )
    desk = find_desk(workspace, turn)
    refuse_no_room(desk, args, config)
    return workspace, desk


def refuse_no_room(desk: Desk, args: Namespace, config: "Config") -> None:
    """Refuse a room that is neither configured nor recorded; whether it is recorded is asked as who types may know."""
    from foreword.events.event import Reader
    from foreword.words import Trust

    if args.room in ("", *config.rooms):
        return
    owner = Reader(user=config.owner, clearance=Trust.FULL, room=args.room)
    typing = replace(desk, reader=owner) if args.reader is None else desk
    if not typing.has_recorded("room", args.room):
        raise InputError(f"there is no room {show_name(args.room)}{suggest(args.room, list(config.rooms))}")


def refuse_stranger(desk: Desk, name: str, config: "Config") -> None:
    """Refuse to look for somebody who is not known; who does not see everything is told nothing about anybody else."""
    from foreword.events.visible import sees_all

    known = [*dict.fromkeys(filter(None, (config.owner, *config.users)))]
    if sees_all(desk.reader) and name not in ("", *known) and not desk.has_recorded("user_id", name):
        raise InputError(f"there is no user {show_name(name)}{suggest(name, known)}")


def find_desk(workspace: "Workspace", turn: "Turn") -> Desk:
    """Find the desk of who speaks in a turn, and warn about what is unknown of them."""
    from foreword.events.reader import find_reader
    from foreword.sources.clock import find_zone
    from foreword.trust.clearance import resolve
    from foreword.workspace import STATE

    clearance = resolve(turn, workspace.config)
    warn_of_names(clearance.warnings, workspace.config, turn.user, turn.situation)
    reader = find_reader(turn, clearance.level, workspace.config)
    zone, note = find_zone(reader.timezone)
    if note:
        warn(note)
    folder = os.path.join(workspace.files.root, STATE)
    return Desk(folder=folder, reader=reader, now=datetime.now(UTC), zone=zone)


def draw_records(records: "Sequence[Record]", zone: ZoneInfo) -> None:
    """Draw events as a table, with what else is known about each behind it."""
    from foreword.cli.table import NARROW, cell, draw_with_notes, find_width, make_table
    from foreword.events.line import SHORT, show_rest, show_time

    width = find_width()
    table = make_table("time", "level", "event", "user", "channel", "turn", narrow=width < NARROW)
    for record in records:
        table.add_row(
            show_time(record.time, zone),
            cell(record.level, LEVELS.get(record.level, "")),
            cell(record.type),
            cell(record.user),
            cell(record.channel),
            cell(record.trace[:SHORT]),
        )
    draw_with_notes(table, ["what", *(show_rest(record) for record in records)], width)
