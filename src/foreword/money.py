"""Amounts of money in words."""


def show_usd(amount: float) -> str:
    """Show a small amount of money; one that would round to nothing is named as such."""
    return f"${amount:,.4f}" if amount == 0 or amount >= 0.00005 else "under $0.0001"
