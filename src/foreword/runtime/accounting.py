"""The ledger of one turn as it runs: each request is marked for the provider's cache, and each answer accounted for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.assembly import Assembly
from foreword.caching.cache import Counted
from foreword.config.schema import ModelOverride
from foreword.events.event import Usage
from foreword.frozen import frozen
from foreword.ledger import Frozen, Sent, advance
from foreword.ledger.blame import Account, Answered, account, conceal, confirm
from foreword.ledger.calibration import PLAIN, Calibration
from foreword.ledger.line import lead
from foreword.ledger.standing import Ground
from foreword.ledger.state import lose
from foreword.prices import Request, find_prices
from foreword.runtime.diagnosing import ask
from foreword.wire import Addressed, Marked, Segment, address, write_request

HOUR = "1h"
DIAGNOSING = ("anthropic", "responses")  # the shapes in which a provider can be asked


@frozen
class Settled:
    """What a call was, as the ledger has it: what was expected and reported, and what the session has sent by now."""

    account: Account | None
    """Nothing where the provider did not say what the call used."""
    frozen: Frozen
    counted: int
    """What the request weighs by our own count."""


class Accounting:
    """Keeps the ledger of one turn, call by call."""

    def __init__(
        self,
        assembly: Assembly,
        shape: str,
        frozen: Frozen | None,
        turn: str,
        *,
        diagnosed: bool = False,
        known: Calibration = PLAIN,
        remembers: Callable[[datetime], datetime] | None = None,
    ) -> None:
        self._assembly = assembly
        self._known = known
        self._remembers = remembers
        self._shape = shape
        self.diagnosed = diagnosed and shape in DIAGNOSING
        """Whether the provider is asked why its cache missed."""
        self._turn = turn
        self._frozen = frozen
        self._stable = len(lead(assembly.prompt.blocks))
        self._marked: Marked | None = None
        self._theirs = ""

    def write(self, request: Mapping[str, Any], past: Sequence[Segment], at: datetime) -> bytes:
        """Mark a finished request, which is about to leave, and write it with what stands before it."""
        self._look(at)
        meter = self._assembly.terms.meter
        to = Addressed(
            model=meter.facts.name,
            facts=meter.facts.cache,
            count=meter.count,
            at=at,
            stable=self._stable,
            turn=self._turn,
        )
        self._marked, self._theirs = address(self._shape, request, self._frozen, to, past), ""
        marked = self._marked.request
        if self.diagnosed:
            marked = ask(self._shape, marked, self._frozen.last.answer if self._frozen else "")
        return write_request(self._shape, marked, self._marked.past)

    def hear(self, reason: str) -> None:
        """Hear what the provider itself says of the request."""
        self._theirs = reason

    @property
    def hour(self) -> bool:
        """Whether what the last request writes to the cache is kept for an hour."""
        return self._marked is not None and any(one.ttl == HOUR for one in self._marked.breakpoints)

    def settle(self, usage: Usage | None, overrides: Mapping[str, ModelOverride], answer: str = "") -> Settled | None:
        """Account for a request that was accepted and answered; from now on it was sent."""
        if self._marked is None:
            return None
        sent, facts = self._marked.sent, self._assembly.terms.meter.facts
        self._look(sent.at)  # who was there before the request may have been started anew for it
        made = self._account(sent, usage, overrides) if usage else None
        sent = replace(sent, answer=answer) if self.diagnosed else sent
        self._frozen = advance(self._frozen, self._assembly.standing, sent, facts.cache)
        return Settled(account=made, frozen=self._frozen, counted=sent.tokens)

    def _look(self, at: datetime) -> None:
        """Look whether who is asked still has what was sent before, as far as that can be known."""
        since = self._remembers(at) if self._remembers else None
        if since and self._frozen and self._frozen.last.at < since:
            self._frozen = lose(self._frozen)

    def _account(self, sent: Sent, usage: Usage, overrides: Mapping[str, ModelOverride]) -> Account:
        """Account for a request, with what the provider itself says of it."""
        facts, standing = self._assembly.terms.meter.facts, self._assembly.standing
        prices = find_prices(facts.name, overrides, Request(tokens=usage.tokens_in, now=sent.at))
        answered = Answered(base=standing.base, sent=sent, reported=self._count(usage))
        made = account(self._frozen, answered, facts.cache, prices, self._known)
        if made.blame and self._theirs:
            made = replace(made, blame=confirm(made.blame, self._theirs))
        if standing.rebase and standing.rebase.ground is Ground.PRIVATE:
            made = conceal(made)
        return made

    def _count(self, usage: Usage) -> Counted:
        """Count what a provider reports; where it says nothing of its cache, everything is new."""
        return Counted(
            read=usage.cache_read,
            write=usage.cache_write,
            hour=usage.cache_write if self.hour else 0,
            fresh=max(0, usage.tokens_in - usage.cache_read - usage.cache_write),
        )
