"""Ledgers as JSON: stored states, whose prefixes are stored by hash because sessions share them, and reports.

Reports are the JSON-ready decisions, accounts and quotes of events and the API.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from hashlib import sha256
from itertools import chain
from math import isfinite
from typing import Any

from foreword.errors import InputError
from foreword.promptcache.cache_usage import CacheAccount
from foreword.promptcache.ledger import (
    CacheIdentity,
    HistoryHash,
    LedgerState,
    LivePrefix,
    Prefix,
    PrefixDecision,
    Reason,
    RemovalKind,
    SectionSnapshot,
    SentBlock,
    SentRequest,
    Update,
    UpdateChannel,
    UpdateKind,
)
from foreword.promptcache.price import EditQuote
from foreword.promptcache.rules import serialize_json
from foreword.types import EditPolicy, Pace, Trust


def decision_to_json(decision: PrefixDecision) -> dict[str, Any]:
    """Convert a prefix decision; for withheld content, show only that the prompt was sent again."""
    rebase = decision.rebase
    hidden = rebase is not None and rebase.code is Reason.PRIVATE
    return {
        "deed": str(decision.action),
        "reason": decision.reason,
        "rebase": None
        if rebase is None
        else {
            "ground": str(rebase.code),
            "reason": rebase.reason,
            "section": None if hidden else rebase.section or None,
            "byte": None if hidden else rebase.byte,
            "tokens": rebase.tokens,
            "usd": rebase.usd,
        },
        "decisions": [
            {"deed" if name == "action" else name: value for name, value in to_json(one).items()}
            for one in decision.decisions
            if not (hidden and one.what == "removed")
        ],
    }


def to_json(value: Any) -> Any:
    """Convert a frozen value to a JSON-ready mapping of its fields, with enums as text."""
    if is_dataclass(value):
        return {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
    return str(value) if isinstance(value, Enum) else value


def account_to_json(account: CacheAccount) -> dict[str, Any]:
    """Convert the prediction, surplus and blame of a call. Its usage event holds the reported tokens."""
    blame = account.blame
    return {
        "predicted": to_json(account.predicted),
        "factor": account.factor,
        "surplus": to_json(account.surplus),
        "blame": blame and {**to_json(blame), "where": blame.where or None},
    }


def quote_to_json(quote: EditQuote) -> dict[str, Any]:
    """Convert the quote for an edit."""
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


VERSION = 1
TEXT_TYPES = frozenset({str})
NUMBER_TYPES = frozenset({int})
BLOCK_FIELD_TYPES = [str, int, int, str, str, str]  # of a block, in order
PARSE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


def hash_prefix(prefix: Prefix) -> str:
    """Return the hash of a prefix."""
    return hash_prefix_text(dump_prefix(prefix))


def hash_prefix_text(text: str) -> str:
    """Return the hash of a serialized prefix."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def dump_prefix(prefix: Prefix) -> str:
    """Serialize a prefix."""
    return serialize_json([[snapshot_to_json(line) for line in block] for block in prefix.blocks])


def parse_stored_prefix(text: str, name: str) -> Prefix:
    """Parse the prefix with this hash; raise InputError if it is damaged."""
    with refuse_damage():
        if hash_prefix_text(text) != name:
            raise ValueError("the prefix does not match its hash")
        return Prefix(blocks=tuple(tuple(map(snapshot_from_json, block)) for block in json.loads(text)))


def dump_ledger(state: LedgerState) -> str:
    """Serialize the state of a session, without its prefix."""
    last, identity = state.last, state.identity
    sent = {name: getattr(last, name) for name in ("model", "turn", "answer", "pieces")}  # tuples serialize as arrays
    stored = {
        "version": VERSION,
        "clearance": str(identity.clearance),
        "model": identity.model,
        "tools": identity.tools,
        "updates": [update_to_json(update) for update in state.updates],
        "settled": [update_to_json(update) for update in state.settled],
        "heard": [state.history.count, state.history.sha],
        "last": {**sent, "at": last.at.isoformat()},
        "alive": [[one.at, one.until.isoformat(), one.seconds] for one in state.alive],
        "gaps": list(state.gaps),
        "calls": state.calls,
        "turns": state.turns,
    }
    return serialize_json(stored)


def parse_ledger(text: str, prefix: Prefix) -> LedgerState:
    """Parse the state of a session with this prefix; raise InputError if it is damaged."""
    with refuse_damage():
        return build_ledger(json.loads(text), prefix)


@contextmanager
def refuse_damage() -> Iterator[None]:
    """Convert the exceptions that parsing damaged JSON may raise to InputError."""
    try:
        yield
    except PARSE_ERRORS as error:
        raise InputError(f"the ledger of this session is damaged: {type(error).__name__}: {error}") from None


def build_ledger(held: Mapping[str, Any], prefix: Prefix) -> LedgerState:
    """Build the state of a session from JSON."""
    if held.get("version") != VERSION:
        raise InputError(f"the ledger of this session has version {held.get('version')}; this release reads {VERSION}")
    last, (count, sha), gaps = held["last"], held["heard"], tuple(held["gaps"])
    check_types(TEXT_TYPES, held["model"], held["tools"], sha, last["model"], last["turn"], last["answer"])
    check_types(NUMBER_TYPES, count, held["calls"], held["turns"])
    if not all(map(isfinite, gaps)):
        raise ValueError("a gap between calls is not finite")
    pieces = build_blocks(last["pieces"])
    return LedgerState(
        identity=CacheIdentity(clearance=Trust[held["clearance"].upper()], model=held["model"], tools=held["tools"]),
        prefix=prefix,
        updates=tuple(map(update_from_json, held["updates"])),
        settled=tuple(map(update_from_json, held["settled"])),
        history=HistoryHash(count=count, sha=sha),
        last=SentRequest(
            model=last["model"], at=parse_time(last["at"]), turn=last["turn"], answer=last["answer"], pieces=pieces
        ),
        alive=tuple(build_live_prefix(one, len(pieces)) for one in held["alive"]),
        gaps=gaps,
        calls=held["calls"],
        turns=held["turns"],
    )


def check_types(kinds: frozenset[type], *values: object) -> None:
    """Check the types of values."""
    if others := set(map(type, values)) - kinds:
        raise TypeError(f"unexpected type {', '.join(sorted(kind.__name__ for kind in others))}")


def parse_time(written: str) -> datetime:
    """Parse a time; one without a zone cannot be compared."""
    made = datetime.fromisoformat(written)
    if made.tzinfo is None:
        raise ValueError(f"{written} has no time zone")
    return made


def build_live_prefix(written: Sequence[Any], pieces: int) -> LivePrefix:
    """Build a cached prefix of a request with this many blocks."""
    at, until, seconds = written
    check_types(NUMBER_TYPES, at, seconds)
    if not 0 <= at < pieces:
        raise IndexError(f"there is no block {at}")
    return LivePrefix(at=at, until=parse_time(until), seconds=seconds)


def build_blocks(written: Sequence[Sequence[Any]]) -> tuple[SentBlock, ...]:
    """Build blocks; check all at once because there may be thousands."""
    if any(length != len(BLOCK_FIELD_TYPES) for length in set(map(len, written))) or set(map(type, written)) - {list}:
        raise ValueError("a block has unexpected fields")
    if list(map(type, chain.from_iterable(written))) != BLOCK_FIELD_TYPES * len(written):
        raise TypeError("a field of a block has an unexpected type")
    return tuple(map(partial(tuple.__new__, SentBlock), written))


def snapshot_to_json(line: SectionSnapshot) -> dict[str, Any]:
    """Convert a snapshot; omit a rendered text that equals its own text."""
    shown: dict[str, Any] = to_json(line)
    if line.piece == line.text:
        del shown["piece"]
    return shown


def snapshot_from_json(shown: Mapping[str, Any]) -> SectionSnapshot:
    """Build a snapshot from JSON."""
    check_types(TEXT_TYPES, shown["id"], shown["title"], shown["text"], shown.get("piece", ""))
    check_types(NUMBER_TYPES, shown["tokens"])
    enums = {
        "pace": Pace[shown["pace"].upper()],
        "policy": EditPolicy(shown["policy"]),
        "gated": RemovalKind(shown["gated"]),
    }
    return SectionSnapshot(**{"piece": shown["text"], **shown, **enums, "governs": bool(shown["governs"])})


def update_to_json(update: Update) -> dict[str, Any]:
    """Convert an update."""
    return {**to_json(update), "line": snapshot_to_json(update.line) if update.line else None}


def update_from_json(shown: Mapping[str, Any]) -> Update:
    """Build an update from JSON."""
    check_types(TEXT_TYPES, shown["id"], shown["title"], shown["said"])
    check_types(NUMBER_TYPES, shown["tokens"])
    line = snapshot_from_json(shown["line"]) if shown["line"] else None
    enums = {"kind": UpdateKind(shown["kind"]), "channel": UpdateChannel(shown["channel"])}
    return Update(**{**shown, **enums, "line": line})
