"""`foreword pair`: a code by which somebody on a channel becomes a user, and who became one."""

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import print_json
from foreword.cli.place import open_here
from foreword.errors import InputError

if TYPE_CHECKING:
    import sqlite3

    from foreword.gateway.pairing import Paired
    from foreword.workspace import Workspace


def add_options(parser: ArgumentParser) -> None:
    """Add whom it is about."""
    parser.add_argument("what", metavar="USER", help="the person who gets a code; or: list, or revoke")
    parser.add_argument(
        "which", metavar="WHO", nargs="?", default="", help="with revoke: an identity, or a person with all of theirs"
    )
    parser.add_argument("--minutes", metavar="N", type=int, default=10, help="how long the code is good; else 10")


def run(args: Namespace) -> int:
    """Make a code, list who was paired, or take it back."""
    from foreword.store.state import in_words, open_state

    if args.what == "revoke" and not args.which:
        raise InputError("pair revoke needs to know whom: an identity such as telegram:1001, or a user")
    if args.what != "revoke" and args.which:
        raise InputError(f"pair {args.what} takes nothing more, not {args.which!r}")
    with (
        open_here(args) as workspace,
        in_words(workspace.state),
        closing(open_state(workspace.state).connection) as state,
    ):
        if args.what == "list":
            show_all(args, workspace, state)
        elif args.what == "revoke":
            take_back(args, state)
        else:
            offer(args, workspace, state)
    return 0


def offer(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """Make a code and print it, this once."""
    import sys
    from datetime import UTC, datetime

    from foreword.gateway import pairing

    code = pairing.offer(state, args.what, workspace.config.users, datetime.now(UTC), args.minutes)
    if args.json:
        print_json({"user": args.what, "code": code, "minutes": args.minutes})
        return
    print(code)
    note = f"{args.what} sends this to the agent in a private chat within {args.minutes} minutes: /pair {code}"
    print(note, file=sys.stderr)


def show_all(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """List who is who: those of the configuration, and those who were paired."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.gateway.pairing import list_paired

    users = workspace.config.users
    rows = [
        *(
            {"identity": one, "user": name, "name": "", "paired": None}
            for name in users
            for one in users[name].identities
        ),
        *map(write, list_paired(state)),
    ]
    if args.json:
        print_json(rows)
    elif rows:
        table = make_table("identity", "user", "calls themselves", "since")
        for row in rows:
            user = row["user"] if row["user"] in users else f"{row['user']} (not a user any more, so a stranger)"
            since = str(row["paired"])[:10] if row["paired"] else "foreword.yaml"
            table.add_row(cell(str(row["identity"])), cell(str(user)), cell(str(row["name"])), since)
        draw(table, find_width())
    else:
        print("nobody is known on any channel; make a code with: foreword pair USER")


def take_back(args: Namespace, state: "sqlite3.Connection") -> None:
    """Make strangers of whoever was paired; what was said stays where it is."""
    from foreword.gateway.pairing import revoke

    gone = revoke(state, args.which)
    if args.json:
        print_json([write(one) for one in gone])
    elif gone:
        print("\n".join(f"revoked: {one.identity} of {one.user}" for one in gone))
    else:
        print(f"revoked: the code of {args.which}")


def write(one: "Paired") -> dict[str, str | None]:
    """Write what is known about a pairing as JSON-ready values."""
    from foreword.events.moment import stamp

    return {"identity": one.identity, "user": one.user, "name": one.name, "paired": stamp(one.since)}


COMMAND = Command(
    name="pair",
    arguments="USER",
    summary="have somebody on a channel become a user, by a code",
    description="Print a short code for a person of foreword.yaml. Sent to the agent in a private chat, such as on "
    "Telegram, it makes the sender that user from then on. It is good once and for a few minutes, and no more once it "
    "was shown in a group. list shows who is who on the channels, and revoke takes a pairing back.",
    examples=(
        "foreword pair bob",
        "foreword pair bob --minutes 60",
        "foreword pair list",
        "foreword pair revoke telegram:1002",
        "foreword pair revoke bob",
    ),
    add_options=add_options,
    run=run,
)
