"""Who listens to a turn while it runs: words as they come, and every step that is worth keeping."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic_ai.messages import ModelMessage

from foreword.errors import ForewordError
from foreword.frozen import frozen
from foreword.runtime.accounting import Settled
from foreword.sources.passage import Passage


@frozen(eq=True)
class Words:
    """A piece of what the agent says."""

    text: str


@frozen(eq=True)
class Anew:
    """The call is made again: the words of this answer so far are to be forgotten."""


@frozen(eq=True)
class Recalled:
    """The passages given to a very small model, shown to the person as quotes; there may be none."""

    passages: tuple[Passage, ...]


@frozen(eq=True)
class Calling:
    """A tool begins."""

    name: str


@frozen(eq=True)
class Returned:
    """A tool has ended, and whether it did what it was asked."""

    name: str
    done: bool


@frozen(eq=True)
class Asking:
    """A person is asked whether a call that changes something may be made; it waits for the answer."""

    id: str
    name: str
    question: str
    """The tool and what it was called with, in words for a person."""


class ListenerFailed(ForewordError):
    """Who listens has failed, and not the provider: nothing is tried again."""


Delta = Words | Anew | Recalled | Calling | Returned | Asking


async def ignore(_: object) -> None:
    """Hear nothing."""


async def ask_nobody(_: Asking) -> bool | None:
    """Say that nobody can be asked here."""
    return None


async def refuse_call(asking: Asking, _: Mapping[str, Any]) -> str:
    """Refuse a call that needs a yes, where calls cannot be held."""
    return f"{asking.name} was not called: it needs a person's yes, and nobody can be asked here."


async def begin_always(_id: str, _name: str) -> bool:
    """Say that a call has not begun before."""
    return True


def forget(_: Settled) -> None:
    """Keep no ledger."""


@frozen
class Ears:
    """What is called while a turn runs; the turn waits for each, and an error in any ends it as ListenerFailed."""

    delta: Callable[[Delta], Awaitable[None]] = ignore
    """Called with each piece as it comes."""
    step: Callable[[tuple[ModelMessage, ...]], Awaitable[None]] = ignore
    """Called with the turn's own messages after each step; who keeps them can go on after it."""
    ask: Callable[[Asking], Awaitable[bool | None]] = ask_nobody
    """Called before a call that needs a yes: whether the person allows it, or None where nobody answers."""
    hold: Callable[[Asking, Mapping[str, Any]], Awaitable[str]] = refuse_call
    """Called with the question and the arguments where nobody answers: stores the call and returns words for the model.
    """
    begin: Callable[[str, str], Awaitable[bool]] = begin_always
    """Called with the id and the name before that; False if the call had begun before an interruption."""
    advance: Callable[[Settled], None] = forget
    """Called with what the session has sent by now, once a provider has answered; the step that follows keeps it."""

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

    async def may_begin(self, call: str, name: str) -> bool:
        """Note that a call begins, unless it had begun before."""
        try:
            return await self.begin(call, name)
        except Exception as error:
            raise ListenerFailed(f"the beginning of a call was not kept: {type(error).__name__}: {error}") from error

    async def is_allowed(self, asking: Asking) -> bool | None:
        """Ask a person, for as long as they think."""
        try:
            return await self.ask(asking)
        except Exception as error:
            raise ListenerFailed(f"the person could not be asked: {type(error).__name__}: {error}") from error

    async def hold_call(self, asking: Asking, arguments: Mapping[str, Any]) -> str:
        """Hold a call until a person decides, and return what the model is told."""
        try:
            return await self.hold(asking, arguments)
        except Exception as error:
            raise ListenerFailed(f"a call could not be held: {type(error).__name__}: {error}") from error


DEAF = Ears()
