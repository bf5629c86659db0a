"""Events and outcome of a turn, the callbacks that receive them, and the errors that end a turn early."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic_ai.messages import ModelMessage

from foreword.engine.sources.sections import Passage
from foreword.errors import ForewordError
from foreword.events.cost import Reservation
from foreword.events.event import Usage
from foreword.promptcache.cache_usage import CacheAccount
from foreword.promptcache.ledger import LedgerState
from foreword.types import TextEnum, frozen

T = TypeVar("T")


@frozen
class Settled:
    """The ledger entry of one call: the expected and reported usage, and the new state of the session."""

    account: CacheAccount | None
    """None if the provider reported no usage."""
    ledger_state: LedgerState
    counted: int
    """Tokens of the request by our count."""


@frozen(eq=True)
class TextDelta:
    """A piece of the agent's reply."""

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


@frozen(eq=True)
class ApprovalNeeded:
    """A tool call that changes something needs a person's approval."""

    id: str
    name: str
    question: str
    """The tool and its arguments, formatted for a person."""


class CallbackError(ForewordError):
    """A callback failed, not the provider; the call is not retried."""


AgentEvent = TextDelta | CallRestarted | PassagesRecalled | ToolStarted | ToolFinished | ApprovalNeeded


async def ignore(_: object) -> None:
    """Do nothing."""


async def decline_to_ask(_: ApprovalNeeded) -> bool | None:
    """Return None: no person can be asked for approval here."""
    return None


async def refuse_unapproved_call(request: ApprovalNeeded, _: Mapping[str, Any]) -> str:
    """Refuse a call that needs approval where calls cannot be held."""
    return f"{request.name} was not called: it needs a person's yes, and nobody can be asked here."


async def allow_start(_id: str, _name: str) -> bool:
    """Return True: the call has not started before."""
    return True


@frozen
class TurnCallbacks:
    """Callbacks of a running turn. The turn awaits each of them; an error in one ends the turn with CallbackError."""

    delta: Callable[[AgentEvent], Awaitable[None]] = ignore
    """Called with each event as it arrives."""
    step: Callable[[tuple[ModelMessage, ...]], Awaitable[None]] = ignore
    """Called with the turn's messages after each step; the turn can resume from them."""
    ask: Callable[[ApprovalNeeded], Awaitable[bool | None]] = decline_to_ask
    """Called before a call that needs approval: returns the person's decision, or None if there is none."""
    hold: Callable[[ApprovalNeeded, Mapping[str, Any]], Awaitable[str]] = refuse_unapproved_call
    """Called with the question and the arguments if there is no decision: stores the call, returns text for the model.
    """
    begin: Callable[[str, str], Awaitable[bool]] = allow_start
    """Called with the id and name before a call runs; returns False if the call started before an interruption."""
    advance: Callable[[Settled], None] = lambda _: None
    """Called with the new ledger state after each answer; the next step persists it."""

    async def emit(self, event: AgentEvent) -> None:
        """Pass on an event."""
        await guard_callback(self.delta(event))


async def guard_callback(callback: Awaitable[T]) -> T:
    """Await a callback; convert its error into a CallbackError."""
    try:
        return await callback
    except Exception as error:
        raise CallbackError(f"a callback failed: {type(error).__name__}: {error}") from error


NO_CALLBACKS = TurnCallbacks()


class TurnEnd(TextEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    QUEUED = "queued"
    """The provider is unavailable; the turn is retried later."""
    REFUSED = "refused"
    """A budget refused it."""
    FAILED = "failed"


@frozen
class Outcome:
    """The result of a turn."""

    end: TurnEnd
    text: str
    """The reply, or the message shown instead of one."""
    messages: tuple[ModelMessage, ...]
    """The messages of this turn, ready for the next turn; for a queued turn, the messages to resume from."""
    cut: bool = False
    """Whether the reply was truncated at its token limit."""
    too_long: bool = False
    """Whether the conversation exceeds the model's context window."""
    wait: float | None = None
    """Seconds after which the provider asked to be retried."""
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    """Cost of all calls; None if the cost of any call is unknown."""
    prompt_hash: str = ""
    """The hash of the sent prompt; it identifies the recorded prompt."""


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
    ) -> None:
        super().__init__(f"{status_code} {message}" if status_code else message)
        self.status_code = status_code
        self.wait = wait
        self.model_title = "The model"
        """The model as shown to the person: with name and address if their trust allows it."""
        self.passing = passing
        self.too_long = too_long
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
