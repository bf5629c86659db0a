"""What the stand-in does to a request instead of answering it."""

from foreword.frozen import frozen


@frozen
class Drops:
    """The connection closes without an answer."""

    done: bool = False
    """Whether what was asked for is done all the same."""


@frozen
class Errs:
    """It answers with an error, and does nothing."""

    status: int = 500
    description: str = "Internal Server Error"
    retry_after: int | None = None
    """The seconds that the answer asks the caller to wait."""
    text: str = ""
    """The whole answer, where it is no JSON at all, such as the page of a proxy."""


@frozen
class Delays:
    """It waits so many seconds, then goes on as usual."""

    seconds: float = 30.0


Fault = Drops | Errs | Delays


class Refused(Exception):
    """What the Bot API answers when it does not do what it was asked."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters
