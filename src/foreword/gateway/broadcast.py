"""The words of a running turn, for everybody who listens; a late listener gets what was said so far as one piece."""

import asyncio
from collections.abc import AsyncIterator

from foreword.gateway.spoken import SEPARATOR
from foreword.runtime.ears import Anew, Asking, Calling, Delta, Recalled, Returned, Words
from foreword.runtime.silence import Hush

MOST = 10_000  # pieces that wait for one slow listener; then it is left behind


class Broadcast:
    """Passes on the pieces of one turn."""

    def __init__(self) -> None:
        self._answers: list[list[str]] = [[]]  # the words of each answer; a tool ends one, and the next one begins
        self._hush = Hush()
        self._asking: Asking | None = None
        self._recalled: Recalled | None = None
        self._listeners: set[asyncio.Queue[Delta | None]] = set()
        self.ended = asyncio.Event()
        """Set when the turn has ended, or was left for later."""

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    async def pass_on(self, delta: Delta) -> None:
        """Pass a piece on, but nothing that is or may become the word of silence."""
        match delta:
            case Words():
                if text := self._hush.add(delta.text):
                    self._pass_on(Words(text=text))
                return
            case Anew():
                self._hush = Hush()
                self._answers[-1].clear()
            case Calling():
                self._finish_words()
                if self._answers[-1]:
                    self._answers.append([])
            case Recalled():
                self._recalled = delta
            case Asking():
                self._asking = delta
            case Returned():
                self._asking = None
        self._pass_on(delta)

    def _finish_words(self) -> None:
        """Pass on what was held back of an answer that has come to its end."""
        if text := self._hush.end():
            self._pass_on(Words(text=text))

    def _pass_on(self, delta: Delta) -> None:
        """Pass a piece on; a listener that does not keep up is left behind rather than waited for."""
        if isinstance(delta, Words):
            self._answers[-1].append(delta.text)
        for listener in tuple(self._listeners):
            if listener.qsize() < MOST:
                listener.put_nowait(delta)
            else:
                self._listeners.discard(listener)
                listener.put_nowait(None)

    def end(self) -> None:
        """Say that nothing more comes."""
        self._finish_words()
        self.ended.set()
        for listener in self._listeners:
            listener.put_nowait(None)

    async def listen(self) -> AsyncIterator[Delta]:
        """Yield what was said so far and what is being asked, and then each piece as it comes."""
        pieces: asyncio.Queue[Delta | None] = asyncio.Queue()
        if self._recalled:
            pieces.put_nowait(self._recalled)
        if said := SEPARATOR.join("".join(answer) for answer in self._answers):
            pieces.put_nowait(Words(text=said))
        if self._asking:
            pieces.put_nowait(self._asking)
        if self.ended.is_set():
            pieces.put_nowait(None)
        self._listeners.add(pieces)
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
        finally:
            self._listeners.discard(pieces)
