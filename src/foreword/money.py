"""Amounts of money in words, and the prices of tokens."""

from foreword.frozen import frozen

LEAST = 0.00005  # what is smaller would be shown as nothing


@frozen(eq=True)
class Prices:
    """US dollars for one token; where a provider has no price for its cache, that of plain input stands."""

    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float | None = None
    """None where nobody knows it: then what a whole call costs is not known either."""


def show_usd(amount: float) -> str:
    """Show a small amount of money; what is saved has a minus, and what would round to nothing is named as such."""
    if 0 < abs(amount) < LEAST:
        return "under $0.0001" if amount > 0 else "under $0.0001 less"
    return f"{'-' if amount < 0 else ''}${abs(amount):,.4f}"
