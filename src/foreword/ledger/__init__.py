"""The ledger: what a session has already sent, and so must not move."""

from foreword.ledger.advance import advance
from foreword.ledger.book import NOTHING_FROZEN, Book, Ledger
from foreword.ledger.choice import Moment
from foreword.ledger.compare import compare
from foreword.ledger.line import Base, Line, Update, replay
from foreword.ledger.standing import Decision, Deed, Ground, Rebase, Standing
from foreword.ledger.state import Frozen, Identity, Piece, Sent, capture, predict
from foreword.ledger.wanted import Draft, Wanted, want

__all__ = [
    "NOTHING_FROZEN", "Base", "Book", "Decision", "Deed", "Draft", "Frozen", "Ground", "Identity", "Ledger", "Line",
    "Moment", "Piece", "Rebase", "Sent", "Standing", "Update", "Wanted", "advance", "capture", "compare", "predict",
    "replay", "want",
]  # fmt: skip
