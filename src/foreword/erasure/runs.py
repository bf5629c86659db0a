"""Runs of words: what makes a passage somebody's own, and how it is found again wherever it was repeated."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from foreword.events.forgetting import PLACE, RUN, WORD

Run = tuple[str, ...]
NONE: Mapping[int, dict[Run, bool]] = {}


class Runs:
    """Words in a row that a person said: eight at a time, or a whole text that is shorter.

    A passage is a quotation where at least one run of it is nobody else's: what two people say alike belongs to both.
    """

    def __init__(self) -> None:
        # By their first two words: few places of a long text begin so.
        self._known: dict[tuple[str, str], dict[int, dict[Run, bool]]] = {}

    def learn(self, text: str, least: int) -> None:
        """Learn a text, unless it has fewer words than this."""
        words = split(text)
        if len(words) < least:
            return
        size = min(RUN, len(words))
        for at in range(len(words) - size + 1):
            self._known.setdefault((words[at], words[at + 1]), {}).setdefault(size, {})[
                tuple(words[at : at + size])
            ] = True

    def share(self, texts: Iterable[str]) -> None:
        """Learn that others say whatever stands in these texts, too."""
        if not self._known:
            return
        for text in texts:
            words = split(text)
            for at, pair in enumerate(pairwise(words)):
                for size, runs in self._known.get(pair, NONE).items():
                    if (run := tuple(words[at : at + size])) in runs:
                        runs[run] = False

    def wipe(self, text: str) -> str:
        """Put a word in the place of each quotation."""
        if not self._known:
            return text
        words = list(WORD.finditer(text))
        parts: list[str] = []
        at = 0
        for first, last in self._find([match[0].lower() for match in words]):
            parts += [text[at : words[first].start()], PLACE]
            at = words[last].end()
        return "".join([*parts, text[at:]])

    def _find(self, spoken: list[str]) -> Iterator[tuple[int, int]]:
        """Find the passages that are theirs alone: the first and the last word of each."""
        first, stop, alone = 0, -1, False
        for at, pair in enumerate(pairwise(spoken)):
            for size, runs in self._known.get(pair, NONE).items():
                own = runs.get(tuple(spoken[at : at + size]))
                if own is None:
                    continue
                if at > stop:
                    if alone:
                        yield first, stop - 1
                    first, alone = at, False
                stop, alone = max(stop, at + size), alone or own
        if alone:
            yield first, stop - 1


def split(text: str) -> list[str]:
    """Split a text into its words, as they are compared."""
    return [word.lower() for word in WORD.findall(text)]
