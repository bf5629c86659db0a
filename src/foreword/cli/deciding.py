"""Decisions about single edits: when one reaches the sessions that go on, whatever holds for its file."""

import os
from argparse import Namespace
from datetime import datetime
from typing import TYPE_CHECKING

from foreword.cli.output import print_json, warn
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.gateway.editing import Edit, Fresh
    from foreword.gateway.pricing import Pricing
    from foreword.words import Policy
    from foreword.workspace import Workspace

MEANINGS = {
    "now": "sessions that go on are sent the prompt anew, with their next message",
    "append": "sessions that go on are told it behind their prompt, with their next message",
    "cold": "sessions that go on keep what they were told until their cache is cold, and have it then",
    "next-session": "sessions that go on keep what they were told; the next ones have it",
}


def decide(args: Namespace, workspace: "Workspace", edit: "Edit", now: datetime) -> None:
    """Decide about an edit, and say what happens where."""
    from foreword.cli.offers import explain, show_sessions
    from foreword.cli.price import ask
    from foreword.gateway.pricing import is_open
    from foreword.gateway.quoting import tell_pricing
    from foreword.store.ledgers import decide_edit, undo_edit
    from foreword.store.state import use_state
    from foreword.words import Policy

    pricing, fresh = ask(args, workspace, edit, now)
    if edit.text is None:
        raise InputError(f"{edit.path} is gone, and what is gone cannot wait; put it back to decide about an edit")
    if not pricing.prices and fresh is None and args.apply != "auto":
        raise InputError(f"{edit.path} is in no prompt, so there is nothing to decide")
    policy = Policy(args.apply)
    if policy is not Policy.AUTO and not is_open(pricing, edit, policy):
        leave(args, pricing, edit, fresh)
        return
    with use_state(workspace.state) as state:
        if policy is Policy.AUTO:
            undo_edit(state, edit.path)
        else:
            decide_edit(state, edit.path, edit.sha256, policy)
    pricing, fresh = ask(args, workspace, edit, now)
    for section in find_others(pricing, policy):
        warn(f"{section} is made of more than {edit.path}, so this does not hold for it")
    if args.json:
        print_json({"policy": str(policy), **tell_pricing(pricing, edit, fresh)})
        return
    print(describe(edit, policy))
    if pricing.prices:
        print()
        show_sessions(pricing)
    elif policy is not Policy.AUTO:
        for line in explain(pricing, edit):
            print(line)


def leave(args: Namespace, pricing: "Pricing", edit: "Edit", fresh: "Fresh | None") -> None:
    """Say that there is nothing to decide, and decide nothing."""
    from foreword.cli.offers import explain
    from foreword.gateway.quoting import tell_pricing

    if args.json:
        print_json({"policy": None, **tell_pricing(pricing, edit, fresh)})
        return
    print(f"nothing differs by {edit.path} for a session that goes on, so nothing is decided")
    for line in explain(pricing, edit):
        print(line)


def find_others(pricing: "Pricing", policy: "Policy") -> list[str]:
    """Find the sections that an edit changes and a decision about it does not reach."""
    decided = (one for price in pricing.prices for one in price.standing.decisions)
    return sorted({one.section for one in decided if policy is not one.policy and str(policy) != "auto"})


def describe(edit: "Edit", policy: "Policy") -> str:
    """Say what was decided."""
    if str(policy) == "auto":
        return f"nothing is decided about {edit.path} any more: what foreword.yaml says holds, else the price"
    when = "" if edit.saved else ", as soon as it is saved with this text"
    return f"decided about this edit of {edit.path}{when}: {MEANINGS[str(policy)]}"


def show_decided(args: Namespace, workspace: "Workspace") -> None:
    """List what was decided, and whether it is about the text that a file has now."""
    from hashlib import sha256

    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.cli.turns import find_zone
    from foreword.store.ledgers import list_edits
    from foreword.store.state import STATE_FILE, use_state

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
        print("nothing was decided about single edits")
    else:
        zone = find_zone(workspace.config.owner, workspace.config)
        table = make_table("file", "policy", "decided", "about")
        for row in shown:
            about = "the text that it has" if row["in_force"] else "another text than it has, so it does not count"
            when = f"{datetime.fromisoformat(str(row['decided'])).astimezone(zone):%Y-%m-%d %H:%M:%S}"
            table.add_row(cell(str(row["path"])), cell(str(row["policy"])), when, about)
        draw(table, find_width())
