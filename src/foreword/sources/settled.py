"""Files that decide something, read once an edit has come to rest: half of a configuration may be a valid one."""

import os
import time
from collections.abc import Callable
from threading import Lock

from foreword.sources.document import Trouble
from foreword.sources.files import Files

DEBOUNCE = 0.2  # seconds that a file has to be left alone before its edit counts

Text = str | Trouble | None


class Settled:
    """Reads files of a workspace, and gives what they said before while somebody still writes them."""

    def __init__(self, files: Files, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._lock = Lock()
        self._kept: dict[str, Text] = {}
        self._changing: dict[str, tuple[Text, float]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an edit was seen that has not come to rest yet."""
        return bool(self._changing)

    def look(self, *, now: bool = False) -> None:
        """Look again at every file that was read."""
        for path in [*self._kept]:
            self.read(path, now=now)

    def read(self, path: str, *, now: bool = False) -> Text:
        """Return the text at a path, None where there is none, or what is wrong with it; `now` waits for nothing."""
        with self._lock:  # around the reading, too: what one thread read before another must not count after it
            found = self._files.read_text(path)
            if not now and path in self._kept and found != self._kept[path] and not self._rests(path, found):
                return self._kept[path]
            self._changing.pop(path, None)
            self._kept[path] = found
            return found

    def _rests(self, path: str, found: Text) -> bool:
        """Whether an edit was left alone for long enough, as far as the file tells or as it was seen."""
        clock = self._clock()
        seen, since = self._changing.setdefault(path, (found, clock))
        if seen == found and (clock - since >= DEBOUNCE or self._is_old(path)):
            self._files.refresh(now=True)  # what was read may be as old as the last sweep, and half of what is there
            seen = self._files.read_text(path)
            if seen == found:
                return True
            found = seen
        if self._changing[path][0] != found:
            self._changing[path] = (found, clock)
        return False

    def _is_old(self, path: str) -> bool:
        """Whether a file was put in its place long ago; one that is gone does not tell."""
        try:
            facts = os.stat(os.path.join(self._files.root, path))
        except OSError:
            return False
        return time.time() - max(facts.st_mtime, facts.st_ctime) >= DEBOUNCE
