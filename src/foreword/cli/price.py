"""`foreword price`: what an edit of a file costs each session that goes on, before it is made."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import print_json
from foreword.cli.place import open_here
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.gateway.editing import Edit, Fresh
    from foreword.gateway.pricing import Known, Pricing
    from foreword.workspace import Workspace

# The words of foreword.words, written out: importing it for a help text would cost every start.
POLICIES = ("now", "append", "cold", "next-session", "auto")


def add_options(parser: ArgumentParser) -> None:
    """Add the file, the text that it would have, and what is decided."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="a file of the workspace")
    parser.add_argument(
        "--with", metavar="NEW", dest="new", help="a file with the text that it would have; - for stdin"
    )
    parser.add_argument("--session", metavar="ID", default="", help="one session only, by the beginning of its id")
    parser.add_argument("--apply", choices=POLICIES, help="decide when this edit reaches the sessions that go on")
    parser.add_argument("--decided", action="store_true", help="list what was decided about single edits")
    parser.add_argument("--now", metavar="TIME", help="the time of the next message; else the clock")


def run(args: Namespace) -> int:
    """Price an edit, decide about it, or list what was decided."""
    from foreword.cli.deciding import decide, show_decided

    if bool(args.file) == args.decided:
        raise InputError("which file? Write: foreword price FILE; what was decided has: foreword price --decided")
    if args.apply and args.session:
        raise InputError("a decision is about the edit, in all sessions; write --apply without --session")
    with open_here(args) as workspace:
        if args.decided:
            show_decided(args, workspace)
            return 0
        now, edit = find_now(args, workspace), find_edit(args, workspace)
        if args.apply:
            decide(args, workspace, edit, now)
        else:
            show_price(args, workspace, edit, now)
    return 0


def find_now(args: Namespace, workspace: "Workspace") -> datetime:
    """Find when the next message comes."""
    from foreword.cli.turns import find_zone, parse_time

    config = workspace.config
    return parse_time(args.now, find_zone(config.owner, config)) if args.now is not None else datetime.now(UTC)


def find_edit(args: Namespace, workspace: "Workspace") -> "Edit":
    """Find the edit that is meant: a file by its path in the workspace or from here, as it is or would be."""
    from foreword.cli.files import read_text
    from foreword.gateway.editing import find_edit

    text = None if args.new is None else read_text(args.new)
    root = workspace.files.root
    place = os.path.realpath(args.file)
    path = os.path.normpath(args.file).replace(os.sep, "/")
    if path == "." or place == os.path.realpath(root):
        raise InputError(f"{args.file} is the folder of the workspace; name a file in it")
    if not os.path.lexists(os.path.join(root, path)) and place.startswith(workspace.files.below):
        path = os.path.relpath(place, root).replace(os.sep, "/")
    elif os.path.isabs(args.file):
        raise InputError(f"{args.file} is not in the workspace {root}")
    return find_edit(workspace, path, workspace.config.owner, text)


def read_state(args: Namespace, workspace: "Workspace", now: datetime) -> "Known":
    """Read what the state knows; where there is none, none is made."""
    from foreword.gateway.pricing import Known, read_known
    from foreword.store.state import STATE_FILE, use_state

    if not os.path.exists(os.path.join(workspace.state, STATE_FILE)):
        known = Known()
    else:
        with use_state(workspace.state) as state:
            known = read_known(state, now, args.session)
    if args.session and not known.going:
        raise InputError(
            f"no session that has sent anything begins with {args.session!r}; see: foreword cost --by session"
        )
    return known


def ask(args: Namespace, workspace: "Workspace", edit: "Edit", now: datetime) -> "tuple[Pricing, Fresh | None]":
    """Ask what an edit costs those who go on and those who begin; what nobody was ever told has no price."""
    from foreword.gateway.editing import find_place, foresee
    from foreword.gateway.pricing import price

    known = read_state(args, workspace, now)
    pricing = price(workspace, known, edit, now)
    if edit.text is None and not pricing.prices:
        raise InputError(
            f"there is no {edit.path} in {workspace.files.root}; for a text that it would have: --with NEW"
        )
    place = find_place(edit.path, workspace.config)
    return pricing, foresee(workspace, edit, place, known.calibrations, now)


def show_price(args: Namespace, workspace: "Workspace", edit: "Edit", now: datetime) -> None:
    """Show what an edit costs."""
    from foreword.cli.offers import show
    from foreword.gateway.quoting import tell_pricing

    pricing, fresh = ask(args, workspace, edit, now)
    if args.json:
        print_json(tell_pricing(pricing, edit, fresh))
    else:
        show(pricing, edit, fresh)


COMMAND = Command(
    name="price",
    arguments="FILE",
    summary="show what an edit of a file costs each session, before it is made",
    description="Price an edit: what a file as it is on the disk, or as --with would have it, costs each session of "
    "the last day that was told something else: at once, said behind the prompt, once the cache is cold, or in the "
    "next session. Nothing is written. --apply decides about this one edit, and wins over prompt.files in "
    "foreword.yaml; auto takes that back.",
    examples=(
        "foreword price SOUL.md",
        "foreword price SOUL.md --with draft.md",
        "foreword price SOUL.md --apply cold",
        "foreword price --decided",
    ),
    add_options=add_options,
    run=run,
)
