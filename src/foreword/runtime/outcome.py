"""What came of a turn, and the errors by which it ends early.

ForewordError
├── Ended               the turn ends early, with words for the person
│   ├── ProviderError       a call of a model failed; `passing` says whether trying again may help
│   ├── OverBudget          a budget does not allow a call
│   └── GaveUp              the model answers nothing, or never comes to an end
├── ListenerFailed      who listens to the turn failed (in runtime.ears)
└── NotOurs             a request would not have been ours (in runtime.own)
"""

from pydantic_ai.messages import ModelMessage

from foreword.errors import ForewordError
from foreword.events.budget import Grant
from foreword.events.event import Usage
from foreword.frozen import frozen
from foreword.words import Word


class End(Word):
    """How a turn ended."""

    ANSWERED = "answered"
    QUEUED = "queued"
    """The provider could not take it now; the same turn is to be tried again later."""
    REFUSED = "refused"
    """A budget does not allow it."""
    FAILED = "failed"


@frozen
class Outcome:
    """What came of a turn."""

    end: End
    text: str
    """The reply, or what the person is told instead."""
    messages: tuple[ModelMessage, ...]
    """The turn's own messages, which the next turn can follow; of a queued one what is to be handed in again."""
    cut: bool = False
    """Whether the reply ends because it became too long."""
    too_long: bool = False
    """Whether the provider refused because the conversation does not fit its window."""
    wait: float | None = None
    """The seconds after which a provider that refused asked to be tried again."""
    usage: Usage = Usage()
    """What all calls used together."""
    cost_usd: float | None = 0.0
    """What they cost together; None where nobody knows it of one of them."""
    prompt_hash: str = ""
    """The hash of the prompt that was sent, by which it can be shown again."""


class Ended(ForewordError):
    """The turn ends early."""

    end = End.FAILED

    @property
    def told(self) -> str:
        """What the person is told."""
        return str(self)


class ProviderError(Ended):
    """A call of a model failed; the provider's own words are for the log."""

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
        self.whom = "The model"
        """The model in words: name and address for people who may know of the host, else no more than that."""
        self.passing = passing
        self.too_long = too_long
        self.end = End.QUEUED if passing else End.FAILED
        self.tries = 1
        """How many times it was tried, this one among them."""

    @property
    def told(self) -> str:
        """What the person is told."""
        status = f" (status {self.status_code})" if self.status_code else ""
        if self.too_long:
            return "The conversation has become too long for the model."
        if self.passing:
            return f"{self.whom} cannot be reached right now{status}. Your message is kept and will be answered."
        return f"{self.whom} could not answer this{status}. The log has the details."


class OverBudget(Ended):
    """A budget refuses the call; the person is told what concerns them."""

    end = End.REFUSED

    def __init__(self, grant: Grant) -> None:
        super().__init__(grant.told)


class GaveUp(Ended):
    """The turn leads nowhere; the message says why, in words for the person."""
