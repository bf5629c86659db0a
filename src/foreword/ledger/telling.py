"""The ledger's decisions and accounts as JSON-ready values, for events, the API and whoever asks why."""

from typing import Any

from foreword.caching.cache import Counted
from foreword.ledger.blame import Account
from foreword.ledger.calibration import Calibration
from foreword.ledger.price import Quote
from foreword.ledger.standing import Ground, Standing


def tell_standing(standing: Standing) -> dict[str, Any]:
    """Tell what was decided; of what may not be seen any more only that the prompt was sent anew."""
    rebase = standing.rebase
    hidden = rebase is not None and rebase.ground is Ground.PRIVATE
    return {
        "deed": str(standing.deed),
        "reason": standing.reason,
        "rebase": None
        if rebase is None
        else {
            "ground": str(rebase.ground),
            "reason": rebase.reason,
            "section": None if hidden else rebase.section or None,
            "byte": None if hidden else rebase.byte,
            "tokens": rebase.tokens,
            "usd": rebase.usd,
        },
        "decisions": [
            {
                "section": one.section,
                "what": one.what,
                "deed": str(one.deed),
                "reason": one.reason,
                "policy": str(one.policy),
                "tokens": one.tokens,
            }
            for one in standing.decisions
            if not (hidden and one.what == "removed")
        ],
    }


def tell_account(account: Account) -> dict[str, Any]:
    """Tell what was predicted of a call, what was read beyond it, and what is to blame for a miss.

    What was reported is its usage.
    """
    blame, more = account.blame, account.surplus
    return {
        "predicted": tell_counted(account.predicted),
        "factor": account.factor,
        "surplus": {"tokens": more.tokens, "reason": more.reason} if more else None,
        "blame": None
        if blame is None
        else {
            "cause": str(blame.cause),
            "reason": blame.reason,
            "where": blame.where or None,
            "byte": blame.byte,
            "tokens": blame.tokens,
            "usd": blame.usd,
            "confirmed": blame.confirmed,
        },
    }


def tell_counted(counted: Counted) -> dict[str, int]:
    """Tell the tokens of a call."""
    return {"read": counted.read, "write": counted.write, "hour": counted.hour, "fresh": counted.fresh}


def tell_calibration(known: Calibration) -> dict[str, Any]:
    """Tell what the calls of a model have taught about its tokens."""
    return {
        "model": known.model,
        "calls": known.calls,
        "ratio": known.ratio,
        "raw": known.raw,
        "error": known.error,
    }


def tell_quote(quote: Quote) -> dict[str, Any]:
    """Tell what an edit costs."""
    return {
        "sections": list(quote.sections),
        "best": str(quote.best) if quote.best else None,
        "offers": [
            {
                "policy": str(one.policy),
                "again": one.again,
                "more": one.more,
                "once": one.once,
                "each": one.each,
                "calls": one.calls,
                "total": one.total,
                "unit": "usd" if one.usd else "tokens",
                "allowed": one.allowed,
            }
            for one in quote.offers
        ],
    }
