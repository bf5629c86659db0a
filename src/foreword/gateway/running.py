"""A turn that this process knows of: who listens, what it asks, and the task that works on it."""

import asyncio
from collections.abc import Awaitable, Callable

from foreword.gateway.broadcast import Broadcast
from foreword.gateway.inbox import Claimed, Inbox
from foreword.gateway.message import Reply
from foreword.runtime.ears import Asking, Ears, ask_nobody

ALONE = 30.0  # seconds that are waited where nobody listens, as after a restart


class Running:
    """One turn, waiting or under way."""

    def __init__(self, session: str, thinking: float) -> None:
        self.session = session
        self._thinking = thinking
        self.broadcast = Broadcast()
        self.task: asyncio.Task[None] | None = None
        self.reply: Reply | None = None
        """What came of it, once that is written."""
        self._begun = False
        self._stopped = False
        self._questions: dict[str, asyncio.Future[bool]] = {}

    def is_stopped(self) -> bool:
        """Whether a person has stopped it."""
        return self._stopped

    def stop(self) -> bool:
        """Stop it, if it is under way."""
        if self.task is None or self.task.done() or self.broadcast.ended.is_set():
            return False
        if self._begun and not self._stopped:
            self.task.cancel()
        self._stopped = True
        return True

    def decide(self, question: str, *, allowed: bool) -> bool:
        """Answer a question; return whether it was asked."""
        waiting = self._questions.get(question)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(allowed)
        return True

    def make_ears(self, inbox: Inbox, claimed: Claimed) -> Ears:
        """Make what is called while the turn runs; from now on it is under way."""
        self._begun = True

        async def begin(call: str, name: str) -> bool:
            return await inbox.begin(claimed, call, name)

        ask: Callable[[Asking], Awaitable[bool | None]] = self._ask if claimed.incoming.asks else ask_nobody
        return Ears(delta=self.broadcast.pass_on, begin=begin, ask=ask)

    async def _ask(self, asking: Asking) -> bool | None:
        """Ask the person; None if they do not answer in time."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[asking.id] = waiting
        await self.broadcast.pass_on(asking)
        try:
            async with asyncio.timeout(self._thinking if self.broadcast.heard else min(ALONE, self._thinking)):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._questions[asking.id]
