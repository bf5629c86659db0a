"""The command `price`: show what an edit costs each running session, and decide when the edit reaches them."""

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from foreword.cli.inputs import add_options, find_user_zone, open_named_workspace, parse_time, read_text
from foreword.cli.output import Cell, count, pick, print_json, print_table, warn
from foreword.errors import InputError
from foreword.events.lines import SHORT_ID_DIGITS
from foreword.gateway import edit_price
from foreword.gateway.edit_price import EditCosts, FileEdit, NewSessionCost, NoCostReason
from foreword.promptcache.ledger import Action
from foreword.promptcache.price import EditQuote
from foreword.storage import database, ledgers
from foreword.tokens.models import format_usd
from foreword.types import EditPolicy
from foreword.workspace import Workspace

OFFER_COLUMNS = ("billed again", "once", "each call", "calls", "in all")
DECIDED = "decided for this edit of {path}{saved}: running sessions "
POLICY_EFFECTS = {
    EditPolicy.NOW: f"{DECIDED}get a rebuilt prompt with their next message",
    EditPolicy.APPEND: f"{DECIDED}get the change appended after their prompt with their next message",
    EditPolicy.COLD: f"{DECIDED}keep the old text until their cache is cold",
    EditPolicy.NEXT_SESSION: f"{DECIDED}keep the old text; new sessions get the new one",
    EditPolicy.AUTO: "decision about {path} removed: foreword.yaml decides, else the price",
}
ACTION_EFFECTS = {
    Action.APPEND: "gets it appended to its next message",
    Action.REBASE: "gets a rebuilt prompt with its next message",
    Action.HOLD: "keeps the old text",
    Action.REUSE: "is unchanged",
}
UNPRICED_REASONS = {
    NoCostReason.SAME: "already with this text",
    NoCostReason.APART: "no access to {}",
    NoCostReason.PASSING: "{} is sent with every message and never cached",
    NoCostReason.OVER: "replaced with the next message, because the clearance changed",
}


def add_price_options(parser: ArgumentParser) -> None:
    """Add the file, its new text, and the decision."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="a file of the workspace")
    new = "a file with the new text; - reads stdin (default: FILE as saved)"
    parser.add_argument("--with", metavar="NEW", dest="new", help=new)
    parser.add_argument("--session", metavar="ID", default="", help="only this session, by its id or the start of it")
    policies = [str(policy) for policy in EditPolicy]
    parser.add_argument("--apply", choices=policies, help="decide when this edit reaches running sessions")
    add_options(parser, {"--decided": "list the decisions about single edits"})
    add_options(parser, {"--now TIME": "the time of the next message (default: now)"})


def run_price(args: Namespace) -> int:
    """Price an edit of a file, as saved or with the text of --with, for each session whose prompt has another text.

    Covers the sessions of the last day. Each policy has its price: rebuild the prompt now, append the change, wait
    until the cache is cold, or wait for the next session. Without --apply nothing is written. --apply decides for this
    one edit and takes precedence over prompt.files in foreword.yaml; --apply auto removes the decision.

    Examples:
        foreword price SOUL.md
        foreword price SOUL.md --with draft.md
        foreword price --decided
    """
    if bool(args.file) == args.decided:
        raise InputError("give either FILE or --decided: foreword price FILE, or foreword price --decided")
    if args.apply and args.session:
        raise InputError("--apply decides for all sessions and takes no --session")
    with open_named_workspace(args) as workspace:
        if args.decided:
            print_decisions(args, workspace)
            return 0
        zone = find_user_zone(workspace.config.owner, workspace.config)
        now = datetime.now(UTC) if args.now is None else parse_time(args.now, zone)
        edit = find_file_edit(args, workspace)
        if args.apply:
            apply_policy(args, workspace, edit, now)
            return 0
        costs, fresh = price_edit(args, workspace, edit, now)
        if args.json:
            print_json(edit_price.describe_prices(costs, edit, fresh))
        else:
            print_costs(costs, edit, fresh)
    return 0


def find_file_edit(args: Namespace, workspace: Workspace) -> FileEdit:
    """Return the edit: a path relative to the workspace or the current folder, with its current or its new text."""
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
    return edit_price.find_edit(workspace, path, workspace.config.owner, text)


def has_state(workspace: Workspace) -> bool:
    """Return whether the workspace has a state database; pricing creates none."""
    return os.path.exists(os.path.join(workspace.state, database.STATE_FILE))


def price_edit(
    args: Namespace, workspace: Workspace, edit: FileEdit, now: datetime
) -> tuple[EditCosts, NewSessionCost | None]:
    """Price an edit for running sessions and for a new one."""
    inputs = edit_price.PricingInputs()
    if has_state(workspace):
        with database.use_state(workspace.state) as state:
            inputs = edit_price.read_pricing_inputs(state, now, args.session)
    if args.session and not inputs.sessions:
        raise InputError(
            f"no session with calls has an id that starts with {args.session!r}; foreword cost --by session lists them"
        )
    costs = edit_price.price_edit(workspace, inputs, edit, now)
    if edit.text is None and not costs.prices:
        raise InputError(f"no {edit.path} in {workspace.files.root}; to price a new file, give its text: --with NEW")
    place = edit_price.find_typical_turn(edit.path, workspace.config)
    return costs, edit_price.estimate_new_session(workspace, edit, place, inputs.calibrations, now)


def apply_policy(args: Namespace, workspace: Workspace, edit: FileEdit, now: datetime) -> None:
    """Store the decision about an edit, and print its effect."""
    costs, fresh = price_edit(args, workspace, edit, now)
    policy = EditPolicy(args.apply)
    if edit.text is None:
        raise InputError(
            f"{edit.path} is deleted, and a deletion cannot be deferred; restore the file to decide about an edit"
        )
    if not costs.prices and fresh is None and policy is not EditPolicy.AUTO:
        raise InputError(f"no prompt contains {edit.path}, so there is nothing to decide")
    decided = policy is EditPolicy.AUTO or edit_price.needs_decision(costs, edit, policy)
    if decided:
        with database.use_state(workspace.state) as state:
            if policy is EditPolicy.AUTO:
                ledgers.delete_edit_decision(state, edit.path)
            else:
                ledgers.decide_edit(state, edit.path, edit.sha256, policy)
        costs, fresh = price_edit(args, workspace, edit, now)
        found = [one for price in costs.prices for one in price.decision.decisions if policy is not EditPolicy.AUTO]
        for section in sorted({one.section for one in found if one.policy is not policy}):
            warn(f"the decision does not apply to {section}, which contains more than {edit.path}")
    if args.json:
        print_json({"policy": args.apply if decided else None, **edit_price.describe_prices(costs, edit, fresh)})
        return
    saved = "" if edit.saved else ", once it is saved with this text"
    effect = POLICY_EFFECTS[policy].format(path=edit.path, saved=saved)
    print(effect if decided else f"{edit.path} changes no running session, so nothing was decided")
    if decided and costs.prices:
        print()
        print_session_costs(costs)
    elif policy is not EditPolicy.AUTO:
        print_unpriced(costs, edit)


def print_decisions(args: Namespace, workspace: Workspace) -> None:
    """List the decisions, and whether each matches the current text of its file."""
    found: Sequence[ledgers.EditDecision] = []
    if has_state(workspace):
        with database.use_state(workspace.state) as state:
            found = ledgers.list_edits(state)
    texts = {one.path: workspace.files.read_text(one.path) for one in found}
    hashes = {path: sha256(text.encode()).hexdigest() for path, text in texts.items() if isinstance(text, str)}
    in_force = [hashes.get(one.path) == one.sha256 for one in found]
    if args.json:
        plain = [pick(one, "path", "policy", "decided", "sha256") for one in found]
        print_json([{**row, "in_force": active} for row, active in zip(plain, in_force, strict=True)])
    elif not found:
        print("there are no decisions about single edits")
    else:
        zone = find_user_zone(workspace.config.owner, workspace.config)
        rows = []
        for one, active in zip(found, in_force, strict=True):
            when = f"{datetime.fromisoformat(one.decided).astimezone(zone):%Y-%m-%d %H:%M:%S}"
            about = "the current text" if active else "a different text; not in force"
            rows.append((one.path, str(one.policy), when, about))
        print_table(("file", "policy", "decided", "about"), rows)


def print_costs(costs: EditCosts, edit: FileEdit, fresh: NewSessionCost | None) -> None:
    """Print the cost of an edit for running sessions and for a new one."""
    if costs.prices:
        print_session_costs(costs)
    elif not costs.spared:
        idle = f" ({count(costs.idle, 'session')} idle for more than a day)" if costs.idle else ""
        print(f"no running session{idle}, so this edit breaks no cache")
    print_unpriced(costs, edit)
    if fresh:
        print(describe_new_session(fresh, edit))
    elif not costs.prices and not {NoCostReason.SAME, NoCostReason.PASSING} & set(costs.spared):
        print(f"no prompt of a running or new session contains {edit.path}")


def print_session_costs(costs: EditCosts) -> None:
    """Print the cost for each session under each policy, the totals, and the effect on each session's next message."""
    rows: list[Sequence[Cell]] = []
    for price in costs.prices:
        key = price.session.key
        who = price.user or "–"
        where = f"{who} in {key.room}" if key.room else who
        cache = f"warm, {price.warm:,}" if price.warm else "cold"
        rows += list_offers((price.session.id[:SHORT_ID_DIGITS], key.agent, key.channel, where, cache), price.quote)
    whole = edit_price.sum_up_quotes(costs)
    if len(costs.prices) > 1 and whole.offers:
        rows += list_offers((f"all {len(costs.prices)}", "", "", "", ""), whole)
    print_table(("session", "agent", "channel", "who", "cache", "edit", *OFFER_COLUMNS), rows, right=OFFER_COLUMNS)
    print()
    if whole.best:
        best = next(one for one in whole.offers if one.policy is whole.best)
        print(f"cheapest allowed policy: {whole.best}, {format_usd(best.total)}")
    for price in costs.prices:
        effect, reason = ACTION_EFFECTS[price.decision.action], edit_price.describe_price(price)["reason"]
        print(f"{price.session.id[:SHORT_ID_DIGITS]} {effect}: {reason}")


def list_offers(about: Sequence[str], quote: EditQuote) -> Iterator[Sequence[Cell]]:
    """Yield a row for each policy; only the first shows the session. Without a price, costs are in input tokens."""
    for number, offer in enumerate(quote.offers):
        mark = " ←" if offer.policy is quote.best else "" if offer.allowed else " (not allowed)"
        once, each, total = (
            format_usd(amount) if offer.usd else f"{round(amount):,} tok"
            for amount in (offer.once, offer.each, offer.total)
        )
        shown = [""] * len(about) if number else about
        yield (*shown, f"{offer.policy}{mark}", f"{offer.again:,}", once, each, f"{offer.calls:,}", total)


def print_unpriced(costs: EditCosts, edit: FileEdit) -> None:
    """Print why the other sessions have no price."""
    spared = Counter(costs.spared)
    for why, text in UNPRICED_REASONS.items():
        if number := spared.get(why, 0):
            print(f"{count(number, 'session')}: {text.format(edit.path)}")
    if costs.idle and (costs.prices or costs.spared):
        print(f"{count(costs.idle, 'session')}: idle for more than a day, nothing cached")


def describe_new_session(fresh: NewSessionCost, edit: FileEdit) -> str:
    """Show the cost of a session that starts now. A short file may replace a longer built-in text."""
    who = f"{fresh.agent} with {fresh.user}" if fresh.user else fresh.agent
    if fresh.own > 0:
        share = f"{fresh.own:,} of them for {edit.path}"
    else:
        share = f"{-fresh.own:,} fewer than without {edit.path}" if fresh.own else f"as many as without {edit.path}"
    begun = f"a session that starts now ({who}) sends {fresh.tokens:,} tokens, {share}"
    if fresh.cold_usd is None or fresh.warm_usd is None:
        return f"{begun}; the price of {fresh.model} is unknown"
    return f"{begun}: {format_usd(fresh.cold_usd)} for the first call, {format_usd(fresh.warm_usd)} for each later one"
