"""The inbox: accepted messages, who works on them, and how far they are.

A turn is worked on under a lease. Its own messages are kept after every step, and only by who holds the lease: so one
that was left by a process that died goes on after its last step, and one that was taken over is not written twice.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from foreword.errors import ForewordError
from foreword.events.event import Place, Usage
from foreword.frozen import frozen
from foreword.gateway.bookkeeping import Entry
from foreword.gateway.held_calls import HeldCall
from foreword.gateway.message import Accepted, Incoming, State
from foreword.gateway.session import Session
from foreword.runtime.ears import Asking
from foreword.runtime.history import Messages


class LeaseLost(ForewordError):
    """Another process has taken this turn over; what this one knows of it is void."""


@frozen
class Arrival:
    """A message that is about to be accepted."""

    turn: str
    session: Session
    incoming: Incoming
    place: Place
    """Where in its trace the turn goes on."""
    now: datetime


@frozen
class Spent:
    """What a turn has used so far, all attempts together."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0

    def add(self, usage: Usage, cost_usd: float | None) -> "Spent":
        """Add what another attempt used; a price that nobody knows makes the sum unknown."""
        mine = self.usage
        return Spent(
            usage=Usage(
                tokens_in=mine.tokens_in + usage.tokens_in,
                tokens_out=mine.tokens_out + usage.tokens_out,
                cache_read=mine.cache_read + usage.cache_read,
                cache_write=mine.cache_write + usage.cache_write,
            ),
            cost_usd=None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd,
        )


@frozen
class Claimed:
    """A turn that this process works on."""

    turn: str
    session: Session
    incoming: Incoming
    attempt: int
    place: Place
    received: datetime
    taken: Messages = ()
    """The turn's own messages, as far as an earlier attempt came."""
    spent: Spent = Spent()


@frozen
class Ending:
    """What came of a turn, or of an attempt at it."""

    state: State
    text: str
    messages: Messages
    spent: Spent
    now: datetime
    prompt_hash: str = ""
    tokens: int = 0
    """What the messages weigh in the history."""
    cut: bool = False
    """Whether the reply ends because it became too long."""
    plan: bool = False
    """Whether the reply is a plan, which is kept as such."""
    entry: Entry | None = None
    """What its session has sent by now; nothing where the turn has sent nothing."""
    wait: float | None = None
    """The seconds after which a provider asked to be tried again."""
    spoken: str = ""
    """The words as a stream showed them, those before a tool among them."""
    brief: bool = False
    """Whether the model had the brief prompt: it is so small that its words may not say what they are about."""


class Inbox(Protocol):
    """Where accepted messages are kept until they are answered; an engine on another database can stand here."""

    async def add(
        self, arrival: Arrival, begin: Callable[[Claimed], None], unsealed: Callable[[Exception], None]
    ) -> Claimed | Accepted:
        """Accept a message, and claim it at once where nothing of its session comes first.

        `begin` is called with what was claimed as soon as no crash of the process can lose it; when this returns, no
        loss of power can, either, unless `unsealed` was called with the reason. What raises has left nothing.
        """

    async def claim(self, most: int) -> Sequence[Claimed]:
        """Claim turns that are due, one of each session, and those that a dead process left."""

    async def keep(self, claimed: Claimed, messages: Messages, entry: Entry | None = None) -> None:
        """Keep the turn's own messages after a step, and what its session has sent by then, if that is more."""

    async def begin(self, claimed: Claimed, call: str, name: str) -> bool:
        """Note that a call begins which changes the world; False if it had begun before."""

    async def hold(self, claimed: Claimed, asking: Asking, arguments: Mapping[str, Any]) -> HeldCall | None:
        """Store a call that needs a person's yes; None where too many of that person wait already."""

    async def find_held(self, claimed: Claimed) -> HeldCall:
        """Find the held call that a turn runs."""

    async def list_held(self, claimed: Claimed) -> Sequence[HeldCall]:
        """List the calls of a turn that wait for a yes."""

    async def keep_result(self, claimed: Claimed, text: str) -> None:
        """Keep what the held call of a turn answered, for every further attempt at the turn."""

    async def finish(self, claimed: Claimed, ending: Ending) -> None:
        """End a turn: its reply, and its place in the history, together or not at all, and once if it is done twice."""

    async def postpone(self, claimed: Claimed, ending: Ending, due: datetime) -> None:
        """Leave a turn for later, and with it what waits behind it."""

    async def hasten(self, session: str = "") -> int:
        """Make the queued turns of a session due now, or all of them; return how many there are."""

    async def release(self, claimed: Claimed) -> None:
        """Leave a turn to whoever comes next, at once."""

    async def renew(self) -> Sequence[str]:
        """Renew the leases of this process; return the turns that somebody wants stopped."""

    async def stop(self, turn: str) -> State | None:
        """Stop a turn that nobody works on, or have it stopped by who does; return its state now."""
