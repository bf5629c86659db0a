"""Blame: what a provider was expected to read from its cache, what it read, and for a miss the one cause of it."""

from dataclasses import replace

from foreword.caching.cache import Counted, look_back
from foreword.frozen import frozen
from foreword.ledger.calibration import PLAIN, Calibration
from foreword.ledger.choice import HIDDEN
from foreword.ledger.cost import find_difference, find_rates
from foreword.ledger.line import Base
from foreword.ledger.state import ANEW, Frozen, Sent, count_equal, find_idle, is_lost, predict
from foreword.ledger.surplus import TOLERANCE, Surplus, find_surplus
from foreword.money import Prices
from foreword.tokens.caches import CacheFacts
from foreword.words import Word


class Cause(Word):
    """Why a provider did not read what it had been sent before."""

    SECTION = "section"
    TOOLS = "tools"
    MODEL = "model"
    EXPIRED = "expired"
    MINIMUM = "minimum"
    LOOKBACK = "lookback"
    LIMIT = "limit"
    HISTORY = "history"
    PROVIDER = "provider"


THEIRS = {
    "model_changed": Cause.MODEL,
    "system_changed": Cause.SECTION,
    "tools_changed": Cause.TOOLS,
    "messages_changed": Cause.HISTORY,
    "context_compacted": Cause.HISTORY,
}
"""What a provider's own diagnostics call a cause."""
INPUT = {"input_changed": (Cause.SECTION, Cause.HISTORY)}
"""What is one word for two of them: OpenAI tells instructions and messages not apart."""


@frozen(eq=True)
class Blame:
    """The one cause of a miss."""

    cause: Cause
    reason: str
    where: str = ""
    """The section, the tool or the message that differs first, if one does."""
    byte: int | None = None
    """For a section, the first byte of the system part that differs; else where in the tools or the messages the block
    begins that does, since of those only hashes are kept."""
    tokens: int = 0
    """What was billed again."""
    usd: float | None = None
    confirmed: bool | None = None
    """Whether the provider's own diagnostics say the same; None where there are none."""


@frozen(eq=True)
class Account:
    """What was predicted of a call and what was reported, and why it was less, if it was, or more."""

    predicted: Counted
    reported: Counted
    blame: Blame | None = None
    factor: float = 1.0
    """By what our counts were corrected to predict it."""
    surplus: Surplus | None = None
    """What was read though nobody expected it."""


@frozen(eq=True)
class Finding:
    """A cause, and where it is."""

    cause: Cause
    reason: str
    where: str = ""
    byte: int | None = None


@frozen(eq=True)
class Answered:
    """A request, the stable part that it was sent with, and what its provider reports."""

    base: Base
    sent: Sent
    reported: Counted


def account(
    frozen: Frozen | None,
    answered: Answered,
    facts: CacheFacts,
    prices: Prices | None = None,
    known: Calibration = PLAIN,
) -> Account:
    """Account for a call; `frozen` is what was sent before it, and `known` what was learned of the model's tokens."""
    sent, reported = answered.sent, answered.reported
    expected = predict(frozen, sent, facts)
    made = Account(
        predicted=known.correct_all(expected),
        reported=reported,
        factor=known.factor,
        surplus=find_surplus(frozen, sent, expected, reported, facts),
    )
    if frozen is None:
        return made
    had = find_had(frozen, facts)
    scale = reported.total / sent.tokens if sent.tokens and reported.total else 1.0
    lost = min(round(had * scale), reported.total) - reported.read
    noise = max(facts.step, TOLERANCE * had * scale)
    # What we know to be lost counts from the first block; what we only see in the figures must stand out of them.
    if lost <= 0 or (lost <= noise and had - expected.read <= facts.step):
        return made
    found = find_cause(frozen, answered.base, sent, facts)
    rates = find_rates(facts, prices)
    paid = rates.input if not (facts.marked and sent.marks) else rates.long if reported.hour else rates.write
    blame = Blame(
        cause=found.cause,
        reason=found.reason,
        where=found.where,
        byte=found.byte,
        tokens=lost,
        usd=lost * (paid - rates.read) if rates.usd else None,
    )
    return replace(made, blame=blame)


def find_had(frozen: Frozen, facts: CacheFacts) -> int:
    """Find how much of the last request the provider could have had; all of it where it was too short to be kept."""
    ends = frozen.last.ends
    if frozen.alive:
        return ends[max(one.at for one in frozen.alive)]
    return frozen.last.tokens if frozen.last.tokens < facts.minimum else 0


def find_cause(frozen: Frozen, base: Base, sent: Sent, facts: CacheFacts) -> Finding:
    """Find the cause of a miss; the first that applies is the one."""
    last, newest = frozen.last, max(frozen.alive, key=lambda one: one.at, default=None)
    if last.model != sent.model:
        return Finding(cause=Cause.MODEL, reason=f"{sent.model} has a cache of its own, apart from {last.model}'s")
    if newest is None or last.ends[newest.at] < facts.minimum:
        reason = f"{last.tokens:,} tokens are fewer than the {facts.minimum:,} from which on there is a cache"
        return Finding(cause=Cause.MINIMUM, reason=reason)
    if is_lost(frozen):
        return Finding(cause=Cause.EXPIRED, reason=ANEW)
    if newest.until <= sent.at:
        minutes = find_idle(frozen, sent.at).total_seconds() / 60
        reason = f"nothing was sent for {minutes:,.0f} min, and the cache lives {newest.seconds / 60:,.0f} min"
        return Finding(cause=Cause.EXPIRED, reason=reason)
    at = count_equal(last.pieces, sent.pieces)
    if at <= newest.at:
        return find_differing(frozen, base, sent, at)
    return find_unread(newest.at, sent, facts)


def find_differing(frozen: Frozen, base: Base, sent: Sent, at: int) -> Finding:
    """Find what differs at a piece of the request."""
    was, now = frozen.last.pieces[at], sent.pieces[at] if at < len(sent.pieces) else None
    piece = now if now and now.part == was.part else was
    moved = find_difference(frozen.base, base)
    byte = sum(one.size for one in frozen.last.pieces[:at] if one.part == was.part)
    if was.part == "system" and moved:
        return Finding(cause=Cause.SECTION, reason=f"{moved[0]} is not what it was", where=moved[0], byte=moved[1])
    if was.part == "tools":
        reason = f"{piece.name} is not what it was, and tools stand before all else"
        return Finding(cause=Cause.TOOLS, reason=reason, where=piece.name.removeprefix("tool "), byte=byte)
    if was.part == "system":
        reason = "something behind the stable sections has changed, and stands before what was said"
        return Finding(cause=Cause.SECTION, reason=reason, where=piece.name, byte=byte)
    reason = f"message {was.name} is not what was sent"
    return Finding(cause=Cause.HISTORY, reason=reason, where=was.name, byte=byte)


def find_unread(newest: int, sent: Sent, facts: CacheFacts) -> Finding:
    """Find why an equal beginning was not read: no mark saw it, or the provider had it no longer."""
    if facts.marked and not facts.newest:
        marks, ends = sent.marks, sent.ends
        able = [at for at in marks if ends[at] >= facts.minimum]
        if newest not in set(look_back(able, facts.lookback)):
            behind = min((at - newest for at in able if at >= newest), default=0)
            reason = f"the nearest mark is {behind} blocks behind it, and {facts.lookback} are looked at"
            if len(marks) >= facts.marks:
                return Finding(cause=Cause.LIMIT, reason=f"{reason}; all {facts.marks} marks stand elsewhere")
            return Finding(cause=Cause.LOOKBACK, reason=reason)
    return Finding(cause=Cause.PROVIDER, reason="the same was sent in time; the provider had it no longer")


def confirm(blame: Blame, theirs: str) -> Blame:
    """Set a provider's own diagnosis beside ours."""
    known = INPUT.get(theirs) or ((THEIRS[theirs],) if theirs in THEIRS else ())
    return replace(blame, confirmed=blame.cause in known) if known else blame


def conceal(made: Account) -> Account:
    """Keep what a break is about to oneself, where it came with text that may not be seen any more."""
    blame = made.blame
    if blame is None or blame.cause not in (Cause.SECTION, Cause.HISTORY):
        return made
    return replace(made, blame=replace(blame, reason=HIDDEN, where="", byte=None))
