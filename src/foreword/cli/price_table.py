"""Tables of the price of an edit: the cost for each session under each policy, and the totals."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from foreword.cli.output import count
from foreword.cli.table import NARROW_COLUMNS, find_width, make_cell, make_table, print_table
from foreword.events.lines import SHORT_ID_DIGITS
from foreword.gateway.edit_price import EditCosts, FileEdit, NewSessionCost, NoCostReason, describe_price, sum_up_quotes
from foreword.promptcache.ledger import Action
from foreword.promptcache.price import EditQuote, PolicyCost
from foreword.tokens.prices import format_usd

OFFER_COLUMNS = ("billed again", "once", "each call", "calls", "in all")


def print_offers(pricing: EditCosts, edit: FileEdit, fresh: NewSessionCost | None) -> None:
    """Print the cost of an edit for running sessions and for a new one."""
    if pricing.prices:
        print_session_offers(pricing)
    elif not pricing.spared:
        idle = f" ({count(pricing.idle, 'session')} idle for more than a day)" if pricing.idle else ""
        print(f"no running session{idle}, so this edit breaks no cache")
    for line in explain_unpriced(pricing, edit):
        print(line)
    if fresh:
        print(describe_new_session(fresh, edit))
    elif not pricing.prices and NoCostReason.SAME not in pricing.spared and NoCostReason.PASSING not in pricing.spared:
        print(f"no prompt of a running or new session contains {edit.path}")


def print_session_offers(pricing: EditCosts) -> None:
    """Print the table, and the effect on each session's next message."""
    width = find_width()
    heads = ("session", "agent", "channel", "who", "cache", "edit", *OFFER_COLUMNS)
    table = make_table(*heads, right=OFFER_COLUMNS, narrow=width < NARROW_COLUMNS)
    for price in pricing.prices:
        lane = price.session.lane
        who = price.user or "–"
        where = f"{who} in {lane.room}" if lane.room else who
        cache = f"warm, {price.warm:,}" if price.warm else "cold"
        add_offer_rows(table, (price.session.id[:SHORT_ID_DIGITS], lane.agent, lane.channel, where, cache), price.quote)
    whole = sum_up_quotes(pricing)
    if len(pricing.prices) > 1 and whole.offers:
        add_offer_rows(table, (f"all {len(pricing.prices)}", "", "", "", ""), whole)
    print_table(table, width)
    print()
    if whole.best:
        best = next(one for one in whole.offers if one.policy is whole.best)
        print(f"cheapest allowed policy: {whole.best}, {format_amount(best.total, usd=True)}")
    for price in pricing.prices:
        print(
            f"{price.session.id[:SHORT_ID_DIGITS]} {ACTION_EFFECTS[price.standing.deed]}:"
            f" {describe_price(price)['reason']}"
        )


def add_offer_rows(table: Table, about: Sequence[str], quote: EditQuote) -> None:
    """Add a row for each policy; only the first shows the session."""
    for number, offer in enumerate(quote.offers):
        shown = about if number == 0 else ("",) * len(about)
        mark = " ←" if offer.policy is quote.best else "" if offer.allowed else " (not allowed)"
        table.add_row(*map(make_cell, shown), f"{offer.policy}{mark}", *format_offer(offer))


def format_offer(offer: PolicyCost) -> Iterator[str]:
    """Show the figures of an offer."""
    yield f"{offer.again:,}"
    yield format_amount(offer.once, usd=offer.usd)
    yield format_amount(offer.each, usd=offer.usd)
    yield f"{offer.calls:,}"
    yield format_amount(offer.total, usd=offer.usd)


def format_amount(amount: float, *, usd: bool) -> str:
    """Show an amount of money, or of input tokens if no price is known; savings are negative."""
    return format_usd(amount) if usd else f"{round(amount):,} tok"


def explain_unpriced(pricing: EditCosts, edit: FileEdit) -> Iterator[str]:
    """Explain why the other sessions have no price."""
    spared = Counter(pricing.spared)
    for why, text in UNPRICED_REASONS.items():
        if number := spared.get(why, 0):
            yield f"{count(number, 'session')}: {text.format(edit.path)}"
    if pricing.idle and (pricing.prices or pricing.spared):
        yield f"{count(pricing.idle, 'session')}: idle for more than a day, nothing cached"


def describe_new_session(fresh: NewSessionCost, edit: FileEdit) -> str:
    """Show the cost of a session that starts now."""
    who = f"{fresh.agent} with {fresh.user}" if fresh.user else fresh.agent
    begun = (
        f"a session that starts now ({who}) sends {fresh.tokens:,} tokens, {describe_file_tokens(fresh.own, edit.path)}"
    )
    if fresh.cold_usd is None or fresh.warm_usd is None:
        return f"{begun}; the price of {fresh.model} is unknown"
    return f"{begun}: {format_usd(fresh.cold_usd)} for the first call, {format_usd(fresh.warm_usd)} for each later one"


def describe_file_tokens(own: int, path: str) -> str:
    """Show how many tokens of a prompt a file adds; a short file may replace a longer built-in text."""
    if own > 0:
        return f"{own:,} of them for {path}"
    return f"{-own:,} fewer than without {path}" if own else f"as many as without {path}"


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
