"""`foreword price`: show the cost of an edit for each running session before it takes effect.

Decisions about single edits: when an edit reaches running sessions, regardless of the policy of its file.
"""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from foreword.cli.inputs import open_named_workspace
from foreword.cli.main import CliCommand
from foreword.cli.output import print_json, warn
from foreword.errors import InputError
from foreword.types import EditPolicy

if TYPE_CHECKING:
    from foreword.gateway.edit_price import EditCosts, FileEdit, NewSessionCost, PricingInputs
    from foreword.workspace import Workspace


POLICY_EFFECTS = {
    "now": "running sessions get a rebuilt prompt with their next message",
    "append": "running sessions get the change appended after their prompt with their next message",
    "cold": "running sessions keep the old text until their cache is cold",
    "next-session": "running sessions keep the old text; new sessions get the new one",
}


def apply_decision(args: Namespace, workspace: "Workspace", edit: "FileEdit", now: datetime) -> None:
    """Store the decision about an edit, and print its effect."""
    from foreword.cli.price_table import explain_unpriced, print_session_offers
    from foreword.gateway.edit_price import describe_prices, needs_decision
    from foreword.storage.database import use_state
    from foreword.storage.ledgers import decide_edit, delete_edit_decision

    pricing, fresh = price_edit(args, workspace, edit, now)
    if edit.text is None:
        raise InputError(
            f"{edit.path} is deleted, and a deletion cannot be deferred; restore the file to decide about an edit"
        )
    if not pricing.prices and fresh is None and args.apply != "auto":
        raise InputError(f"no prompt contains {edit.path}, so there is nothing to decide")
    policy = EditPolicy(args.apply)
    if policy is not EditPolicy.AUTO and not needs_decision(pricing, edit, policy):
        report_no_decision(args, pricing, edit, fresh)
        return
    with use_state(workspace.state) as state:
        if policy is EditPolicy.AUTO:
            delete_edit_decision(state, edit.path)
        else:
            decide_edit(state, edit.path, edit.sha256, policy)
    pricing, fresh = price_edit(args, workspace, edit, now)
    for section in find_uncovered_sections(pricing, policy):
        warn(f"the decision does not apply to {section}, which contains more than {edit.path}")
    if args.json:
        print_json({"policy": str(policy), **describe_prices(pricing, edit, fresh)})
        return
    print(describe_decision(edit, policy))
    if pricing.prices:
        print()
        print_session_offers(pricing)
    elif policy is not EditPolicy.AUTO:
        for line in explain_unpriced(pricing, edit):
            print(line)


def report_no_decision(args: Namespace, pricing: "EditCosts", edit: "FileEdit", fresh: "NewSessionCost | None") -> None:
    """Report that there is nothing to decide; store nothing."""
    from foreword.cli.price_table import explain_unpriced
    from foreword.gateway.edit_price import describe_prices

    if args.json:
        print_json({"policy": None, **describe_prices(pricing, edit, fresh)})
        return
    print(f"{edit.path} changes no running session, so nothing was decided")
    for line in explain_unpriced(pricing, edit):
        print(line)


def find_uncovered_sections(pricing: "EditCosts", policy: "EditPolicy") -> list[str]:
    """Return the sections that the edit changes but the decision does not cover."""
    decided = (one for price in pricing.prices for one in price.standing.decisions)
    return sorted({one.section for one in decided if policy is not one.policy and str(policy) != "auto"})


def describe_decision(edit: "FileEdit", policy: "EditPolicy") -> str:
    """Describe the decision."""
    if str(policy) == "auto":
        return f"decision about {edit.path} removed: foreword.yaml decides, else the price"
    when = "" if edit.saved else ", once it is saved with this text"
    return f"decided for this edit of {edit.path}{when}: {POLICY_EFFECTS[str(policy)]}"


def print_decisions(args: Namespace, workspace: "Workspace") -> None:
    """List the decisions, and whether each matches the current text of its file."""
    from hashlib import sha256

    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.cli.turn_options import find_user_zone
    from foreword.storage.database import STATE_FILE, use_state
    from foreword.storage.ledgers import list_edits

    found = []
    if os.path.exists(os.path.join(workspace.state, STATE_FILE)):
        with use_state(workspace.state) as state:
            found = list_edits(state)
    texts = {one.path: workspace.files.read_text(one.path) for one in found}
    hashes = {path: sha256(text.encode()).hexdigest() for path, text in texts.items() if isinstance(text, str)}
    shown = [
        {
            "path": one.path,
            "policy": str(one.policy),
            "decided": one.decided,
            "sha256": one.sha256,
            "in_force": hashes.get(one.path) == one.sha256,
        }
        for one in found
    ]
    if args.json:
        print_json(shown)
    elif not shown:
        print("there are no decisions about single edits")
    else:
        zone = find_user_zone(workspace.config.owner, workspace.config)
        table = make_table("file", "policy", "decided", "about")
        for row in shown:
            about = "the current text" if row["in_force"] else "a different text; not in force"
            when = f"{datetime.fromisoformat(str(row['decided'])).astimezone(zone):%Y-%m-%d %H:%M:%S}"
            table.add_row(make_cell(str(row["path"])), make_cell(str(row["policy"])), when, about)
        print_table(table, find_width())


def add_price_options(parser: ArgumentParser) -> None:
    """Add the file, its new text, and the decision."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="a file of the workspace")
    parser.add_argument(
        "--with", metavar="NEW", dest="new", help="a file with the new text; - reads stdin (default: FILE as saved)"
    )
    parser.add_argument("--session", metavar="ID", default="", help="only this session, by its id or the start of it")
    policies = [str(policy) for policy in EditPolicy]
    parser.add_argument("--apply", choices=policies, help="decide when this edit reaches running sessions")
    parser.add_argument("--decided", action="store_true", help="list the decisions about single edits")
    parser.add_argument("--now", metavar="TIME", help="the time of the next message (default: now)")


def run_price(args: Namespace) -> int:
    """Price an edit, decide about it, or list the decisions."""
    if bool(args.file) == args.decided:
        raise InputError("give either FILE or --decided: foreword price FILE, or foreword price --decided")
    if args.apply and args.session:
        raise InputError("--apply decides for all sessions and takes no --session")
    with open_named_workspace(args) as workspace:
        if args.decided:
            print_decisions(args, workspace)
            return 0
        now, edit = find_message_time(args, workspace), find_file_edit(args, workspace)
        if args.apply:
            apply_decision(args, workspace, edit, now)
        else:
            print_price(args, workspace, edit, now)
    return 0


def find_message_time(args: Namespace, workspace: "Workspace") -> datetime:
    """Return the time of the next message."""
    from foreword.cli.turn_options import find_user_zone, parse_time

    config = workspace.config
    return parse_time(args.now, find_user_zone(config.owner, config)) if args.now is not None else datetime.now(UTC)


def find_file_edit(args: Namespace, workspace: "Workspace") -> "FileEdit":
    """Return the edit: a path relative to the workspace or the current folder, with its current or its new text."""
    from foreword.cli.inputs import read_text
    from foreword.gateway.edit_price import find_edit

    text = None if args.new is None else read_text(args.new)
    root = workspace.files.root
    place = os.path.realpath(args.file)
    path = os.path.normpath(args.file).replace(os.sep, "/")
    if path == "." or place == os.path.realpath(root):
        raise InputError(f"{args.file} is the workspace folder; name a file in it")
    if not os.path.lexists(os.path.join(root, path)) and place.startswith(workspace.files.below):
        path = os.path.relpath(place, root).replace(os.sep, "/")
    elif os.path.isabs(args.file):
        raise InputError(f"{args.file} is not in the workspace {root}")
    return find_edit(workspace, path, workspace.config.owner, text)


def read_known_sessions(args: Namespace, workspace: "Workspace", now: datetime) -> "PricingInputs":
    """Read the known sessions from the state; creates no database."""
    from foreword.gateway.edit_price import PricingInputs, read_pricing_inputs
    from foreword.storage.database import STATE_FILE, use_state

    if not os.path.exists(os.path.join(workspace.state, STATE_FILE)):
        known = PricingInputs()
    else:
        with use_state(workspace.state) as state:
            known = read_pricing_inputs(state, now, args.session)
    if args.session and not known.sessions:
        raise InputError(
            f"no session with calls has an id that starts with {args.session!r}; foreword cost --by session lists them"
        )
    return known


def price_edit(
    args: Namespace, workspace: "Workspace", edit: "FileEdit", now: datetime
) -> "tuple[EditCosts, NewSessionCost | None]":
    """Price an edit for running sessions and for a new one."""
    from foreword.gateway.edit_price import estimate_new_session, find_typical_turn, price_edit

    known = read_known_sessions(args, workspace, now)
    pricing = price_edit(workspace, known, edit, now)
    if edit.text is None and not pricing.prices:
        raise InputError(f"no {edit.path} in {workspace.files.root}; to price a new file, give its text: --with NEW")
    place = find_typical_turn(edit.path, workspace.config)
    return pricing, estimate_new_session(workspace, edit, place, known.calibrations, now)


def print_price(args: Namespace, workspace: "Workspace", edit: "FileEdit", now: datetime) -> None:
    """Print the price of an edit."""
    from foreword.cli.price_table import print_offers
    from foreword.gateway.edit_price import describe_prices

    pricing, fresh = price_edit(args, workspace, edit, now)
    if args.json:
        print_json(describe_prices(pricing, edit, fresh))
    else:
        print_offers(pricing, edit, fresh)


PRICE_COMMAND = CliCommand(
    name="price",
    arguments="FILE",
    summary="show what an edit of a file costs each session, before it takes effect",
    description="Price an edit of a file, as saved or with the text of --with, for each session of the last day whose "
    "prompt has a different text. Each policy has its price: rebuild the prompt now, append the change, wait until the "
    "cache is cold, or wait for the next session. Without --apply nothing is written. --apply decides for this one "
    "edit and takes precedence over prompt.files in foreword.yaml; --apply auto removes the decision.",
    examples=(
        "foreword price SOUL.md",
        "foreword price SOUL.md --with draft.md",
        "foreword price SOUL.md --apply cold",
        "foreword price --decided",
    ),
    add_options=add_price_options,
    run=run_price,
)
