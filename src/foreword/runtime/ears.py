"""Who listens to a turn while it runs: words as they come, and every step that is worth keeping."""

from collections.abc import Awaitable, Callable

from pydantic_ai.messages import ModelMessage

from foreword.errors import ForewordError
from foreword.frozen import frozen


@frozen(eq=True)
class Words:
    """A piece of what the agent says."""

    text: str


@frozen(eq=True)
class Anew:
    """The call is made again: the words of this answer so far are to be forgotten."""


@frozen(eq=True)
class Calling:
    """A tool begins."""

    name: str


@frozen(eq=True)
class Returned:
    """A tool has ended, and whether it did what it was asked."""

    name: str
    done: bool


class ListenerFailed(ForewordError):
    """Who listens has failed, and not the provider: nothing is tried again."""


Delta = Words | Anew | Calling | Returned


async def ignore(_: object) -> None:
    """Hear nothing."""


@frozen
class Ears:
    """What is called while a turn runs; the turn waits for both, and an error in either ends it as ListenerFailed."""

    delta: Callable[[Delta], Awaitable[None]] = ignore
    """Called with each piece as it comes."""
    step: Callable[[tuple[ModelMessage, ...]], Awaitable[None]] = ignore
    """Called with the turn's own messages after each step; who keeps them can go on after it."""

    async def hear(self, delta: Delta) -> None:
        """Pass on a piece."""
        try:
            await self.delta(delta)
        except Exception as error:
            raise ListenerFailed(f"who listens to the turn failed: {type(error).__name__}: {error}") from error

    async def keep(self, messages: tuple[ModelMessage, ...]) -> None:
        """Pass on a step."""
        try:
            await self.step(messages)
        except Exception as error:
            raise ListenerFailed(f"a step could not be kept: {type(error).__name__}: {error}") from error


DEAF = Ears()
