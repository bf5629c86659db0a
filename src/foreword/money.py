"""Amounts of money in words, and the prices of tokens."""

from foreword.frozen import frozen


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
    """Show a small amount of money; one that would round to nothing is named as such."""
    return f"${amount:,.4f}" if amount == 0 or amount >= 0.00005 else "under $0.0001"
