"""The ledger: what a session has already sent, and so must not move."""

from foreword.ledger.advance import advance
from foreword.ledger.choice import Moment
from foreword.ledger.compare import compare
from foreword.ledger.line import Base, Line, Update, replay
from foreword.ledger.standing import Decision, Deed, Ground, Rebase, Standing
from foreword.ledger.state import Frozen, Identity, Piece, Sent, capture, predict
from foreword.ledger.wanted import Rules, Wanted, want

__all__ = [
    "Base", "Decision", "Deed", "Frozen", "Ground", "Identity", "Line", "Moment", "Piece", "Rebase", "Rules", "Sent",
    "Standing", "Update", "Wanted", "advance", "capture", "compare", "predict", "replay", "want",
]  # fmt: skip
