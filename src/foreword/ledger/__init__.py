"""The ledger: what a session has already sent, and so must not move."""

from foreword.ledger.standing import NOTHING_FROZEN, Ledger, Standing

__all__ = ["NOTHING_FROZEN", "Ledger", "Standing"]
