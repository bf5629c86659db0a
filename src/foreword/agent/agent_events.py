"""The events of a turn in the order of its run, and the errors that end a turn early.

The caller of the agent loop consumes them: it shows, stores and logs them. The loop waits until an event is
consumed, so what must be durable before a tool runs is stored when its event arrives.
"""

from collections.abc import Mapping
from typing import Any

from foreword.agent.conversation import Answer, Messages
from foreword.engine.sources.sections import Passage
from foreword.errors import ForewordError
from foreword.events.cost import Reservation
from foreword.events.event import Usage
from foreword.promptcache.cache_usage import CacheAccount
from foreword.promptcache.ledger import LedgerState
from foreword.types import TextEnum, frozen


@frozen(eq=True)
class TextDelta:
    """A piece of the agent's reply."""

    text: str


@frozen(eq=True)
class ThinkingDelta:
    """A piece of what the model thinks before it answers."""

    text: str


@frozen(eq=True)
class CallRestarted:
    """The call is retried: discard the text of this answer so far."""


@frozen(eq=True)
class PassagesRecalled:
    """The passages given to a very small model, shown to the person as quotes; may be empty."""

    passages: tuple[Passage, ...]


@frozen(eq=True)
class ToolStarted:
    """A tool call starts."""

    name: str


@frozen(eq=True)
class ToolFinished:
    """A tool call ended; `done` is true if it succeeded."""

    name: str
    done: bool


class ApprovalNeeded:
    """A tool call that changes something needs a person's approval.

    The consumer calls `decide` or `hold`; without either, the call is refused.
    """

    def __init__(self, call_id: str, name: str, question: str, arguments: Mapping[str, Any]) -> None:
        self.id = call_id
        self.name = name
        self.question = question
        """The tool and its arguments, formatted for a person."""
        self.arguments = arguments
        self.allowed: bool | None = None
        """The person's decision; None if there is none."""
        self.held = f"{name} was not called: it needs approval, and no person is available."
        """What the model is told if there is no decision."""

    def decide(self, *, allowed: bool) -> None:
        """Record the person's decision."""
        self.allowed = allowed

    def hold(self, text: str) -> None:
        """Keep the call for a later decision; the model gets the text as its result."""
        self.held = text


@frozen(eq=True)
class CallBegins:
    """A call that changes something is about to run; after an interruption it must not run again."""

    id: str
    name: str


@frozen
class CallSettled:
    """A model call is answered and accounted for: what it cost, and the new state of the session's ledger."""

    answer: Answer
    account: CacheAccount | None
    """None if the provider reported no usage."""
    ledger_state: LedgerState
    counted: int
    """Tokens of the request by our count."""
    usage: Usage = Usage()
    usd: float | None = None
    """Its cost; None if it is unknown."""


@frozen
class StepDone:
    """A step is complete: an answer of the model, or the result of a tool. The turn can resume from its messages."""

    messages: Messages


class TurnEnd(TextEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    CALLED = "called"
    """It waits for the results of tools that the client runs."""
    QUEUED = "queued"
    """The provider is unavailable; the turn is retried later."""
    REFUSED = "refused"
    """A budget refused it."""
    FAILED = "failed"


@frozen
class Finished:
    """The result of a turn, its last event."""

    end: TurnEnd
    text: str
    """The reply, or the message shown instead of one."""
    messages: Messages
    """The messages of this turn, ready for the next turn; for a queued turn, the messages to resume from."""
    cut: bool = False
    """Whether the reply was truncated at its token limit."""
    too_long: bool = False
    """Whether the conversation exceeds the model's context window."""
    wait: float | None = None
    """Seconds after which the provider asked to be retried."""
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    """Cost of all calls, those of subagents included; None if the cost of any call is unknown."""
    prompt_hash: str = ""
    """The hash of the sent prompt; it identifies the recorded prompt."""


ShownEvent = TextDelta | CallRestarted | PassagesRecalled | ToolStarted | ToolFinished | ApprovalNeeded
"""What a person sees while the turn runs."""
AgentEvent = ShownEvent | ThinkingDelta | CallBegins | CallSettled | StepDone | Finished


class TurnSpending:
    """Adds up the calls of a turn, those of its subagents and summaries included."""

    def __init__(self) -> None:
        self.calls: list[tuple[Usage, float | None]] = []

    def add(self, usage: Usage, usd: float | None) -> None:
        """Add a call."""
        self.calls.append((usage, usd))

    def total(self) -> tuple[Usage, float | None]:
        """Return the usage and the cost of all calls; the cost is None if that of any call is unknown."""
        usage = Usage(
            tokens_in=sum(used.tokens_in for used, _ in self.calls),
            tokens_out=sum(used.tokens_out for used, _ in self.calls),
            cache_read=sum(used.cache_read for used, _ in self.calls),
            cache_write=sum(used.cache_write for used, _ in self.calls),
        )
        known = [usd for _, usd in self.calls if usd is not None]
        return usage, sum(known) if len(known) == len(self.calls) else None


class TurnEnded(ForewordError):
    """Base of the errors that end a turn early."""

    end = TurnEnd.FAILED

    @property
    def message(self) -> str:
        """The message for the person."""
        return str(self)


class ProviderError(TurnEnded):
    """A model call failed; the provider's message is for the log only."""

    def __init__(
        self,
        message: str,
        status_code: int | None = None,
        wait: float | None = None,
        *,
        passing: bool,
        too_long: bool = False,
        stale_thinking: bool = False,
    ) -> None:
        super().__init__(f"{status_code} {message}" if status_code else message)
        self.status_code = status_code
        self.wait = wait
        self.model_title = "The model"
        """The model as shown to the person: with name and address if their trust allows it."""
        self.passing = passing
        self.too_long = too_long
        self.stale_thinking = stale_thinking
        """Whether the provider refuses a thought because the prompt before it has changed."""
        self.end = TurnEnd.QUEUED if passing else TurnEnd.FAILED
        self.tries = 1
        """Number of attempts, including this one."""

    @property
    def message(self) -> str:
        """The message for the person."""
        status = f" (status {self.status_code})" if self.status_code else ""
        if self.too_long:
            return "The conversation has become too long for the model."
        if self.passing:
            return f"{self.model_title} cannot be reached right now{status}. Your message is kept and will be answered."
        return f"{self.model_title} could not answer this{status}. The log has the details."


class BudgetExceeded(TurnEnded):
    """A budget refuses the call; the message contains only what concerns the person."""

    end = TurnEnd.REFUSED

    def __init__(self, reservation: Reservation) -> None:
        super().__init__(reservation.message)


class TurnUnfinished(TurnEnded):
    """The turn cannot be finished; the message gives the person the reason."""
