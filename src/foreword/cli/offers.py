"""Offers as a table: what an edit costs each session under each policy, and all of them together."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from foreword.cli.output import count
from foreword.cli.table import NARROW, cell, draw, find_width, make_table
from foreword.gateway.editing import Edit, Fresh
from foreword.gateway.pricing import Pricing, Spared
from foreword.gateway.quoting import sum_up, tell_price
from foreword.ledger import Deed
from foreword.ledger.price import Offer, Quote
from foreword.money import show_usd

SHORT = 8  # signs of an id
FIGURES = ("billed again", "once", "each call", "calls", "in all")


def show(pricing: Pricing, edit: Edit, fresh: Fresh | None) -> None:
    """Show what an edit costs those who go on, and one who begins."""
    if pricing.prices:
        show_sessions(pricing)
    elif not pricing.spared:
        idle = f"; {count(pricing.idle, 'session')} had none for a day" if pricing.idle else ""
        print(f"no session is going on{idle}, so this edit moves nothing")
    for line in explain(pricing, edit):
        print(line)
    if fresh:
        print(show_fresh(fresh, edit))
    elif not pricing.prices and Spared.SAME not in pricing.spared and Spared.PASSING not in pricing.spared:
        print(f"{edit.path} is in no prompt of a session that goes on, nor in one that would begin now")


def show_sessions(pricing: Pricing) -> None:
    """Show the table, and what the next message of each session does."""
    width = find_width()
    heads = ("session", "agent", "channel", "who", "cache", "edit", *FIGURES)
    table = make_table(*heads, right=FIGURES, narrow=width < NARROW)
    for price in pricing.prices:
        lane = price.session.lane
        who = price.user or "–"
        where = f"{who} in {lane.room}" if lane.room else who
        cache = f"warm, {price.warm:,}" if price.warm else "cold"
        add_rows(table, (price.session.id[:SHORT], lane.agent, lane.channel, where, cache), price.quote)
    whole = sum_up(pricing)
    if len(pricing.prices) > 1 and whole.offers:
        add_rows(table, (f"all {len(pricing.prices)}", "", "", "", ""), whole)
    draw(table, width)
    print()
    if whole.best:
        best = next(one for one in whole.offers if one.policy is whole.best)
        print(f"the cheapest that takes effect is {whole.best}: {show_amount(best.total, usd=True)}")
    for price in pricing.prices:
        print(f"{price.session.id[:SHORT]} {DEEDS[price.standing.deed]}: {tell_price(price)['reason']}")


def add_rows(table: Table, about: Sequence[str], quote: Quote) -> None:
    """Add a row for each policy; the first says whom it is about."""
    for number, offer in enumerate(quote.offers):
        shown = about if number == 0 else ("",) * len(about)
        mark = " ←" if offer.policy is quote.best else "" if offer.allowed else " (not allowed)"
        table.add_row(*map(cell, shown), f"{offer.policy}{mark}", *show_figures(offer))


def show_figures(offer: Offer) -> Iterator[str]:
    """Show the figures of an offer."""
    yield f"{offer.again:,}"
    yield show_amount(offer.once, usd=offer.usd)
    yield show_amount(offer.each, usd=offer.usd)
    yield f"{offer.calls:,}"
    yield show_amount(offer.total, usd=offer.usd)


def show_amount(amount: float, *, usd: bool) -> str:
    """Show an amount of money, or of tokens of input where no price is known; what is saved has a minus."""
    return show_usd(amount) if usd else f"{round(amount):,} tok"


def explain(pricing: Pricing, edit: Edit) -> Iterator[str]:
    """Say of the others why they have no price."""
    spared = Counter(pricing.spared)
    for why, text in WHY.items():
        if number := spared.get(why, 0):
            yield f"{count(number, 'session')} {text.format(edit.path)}"
    if pricing.idle and (pricing.prices or pricing.spared):
        yield f"{count(pricing.idle, 'session')} had no message for a day; nothing of theirs is in a cache"


def show_fresh(fresh: Fresh, edit: Edit) -> str:
    """Show what a session costs that begins now."""
    who = f"{fresh.agent} with {fresh.user}" if fresh.user else fresh.agent
    begun = f"a session that begins now ({who}) is sent {fresh.tokens:,} tokens, {show_own(fresh.own, edit.path)}"
    if fresh.cold_usd is None or fresh.warm_usd is None:
        return f"{begun}; the price of {fresh.model} is not known"
    return f"{begun}: {show_usd(fresh.cold_usd)} with its first call, {show_usd(fresh.warm_usd)} with each further one"


def show_own(own: int, path: str) -> str:
    """Show how much of a prompt is due to a file; a short one may stand for a longer text that is built in."""
    if own > 0:
        return f"{own:,} because of {path}"
    return f"{-own:,} fewer than without {path}" if own else f"as many as without {path}"


DEEDS = {
    Deed.APPEND: "is told with its next message",
    Deed.REBASE: "is sent the prompt anew with its next message",
    Deed.HOLD: "goes on with what it was told",
    Deed.REUSE: "goes on as it is",
}
WHY = {
    Spared.SAME: "had this text already",
    Spared.APART: "cannot see {}",
    Spared.PASSING: "are sent {} anew with every message, so nothing of it is cached",
    Spared.OVER: "cannot go on as they were, since what may be seen there has changed",
}
