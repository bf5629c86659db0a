"""The bell: what the owner has to know is said at the prompt, and never into an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from foreword.events.notices import Notice


class Bell:
    """Holds notices until the terminal is free; where somebody else sits at it, they are for the log alone."""

    def __init__(self, say: Callable[[str], None], *, is_owner: Callable[[], bool]) -> None:
        self._say = say
        self._is_owner = is_owner
        self._held: list[Notice] = []
        self._free = False

    def notify(self, notice: Notice) -> None:
        """Take a notice."""
        self._held.append(notice)
        if self._free:
            self._ring()

    @contextmanager
    def free(self) -> Iterator[None]:
        """Let notices be said while a line is typed, those that came before it first."""
        self._free = True
        try:
            self._ring()
            yield
        finally:
            self._free = False

    def _ring(self) -> None:
        held, self._held = self._held, []
        if self._is_owner():
            for notice in held:
                self._say(f"{notice.level}: {notice.text}")
