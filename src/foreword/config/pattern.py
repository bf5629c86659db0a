"""Patterns that people configure and that anybody's text is searched with: only such as end soon, whatever the text.

Python's own engine tries again at every place and for every repetition. So it is counted beforehand how often that can
be, and what could become too much is refused: repetitions inside repetitions, and more than one without an end.
"""

import re
from collections.abc import Callable

from foreword.errors import InputError

READ = 1_000  # characters of a text that are searched
LONGEST = 200  # characters of a pattern
MOST = 2_500_000  # tries that a search may need at worst
SIGNS = {"?": (0, 1), "*": (0, READ), "+": (1, READ)}
_TIMES = re.compile(r"[*+?]|\{(\d+)(,(\d*))?\}|\{,(\d+)\}")
_SIMPLE = re.compile(r"\\[AbBdDsSwWZ]|\\[^A-Za-z0-9]|\\[fnrtv]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}")
_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


class _Refused(InputError):
    """A pattern that cannot be used; the words follow its name."""


def judge_pattern(pattern: str) -> str:
    """Say what is wrong with a pattern, or nothing."""
    if not pattern:
        return "is missing; trigger regex needs one"
    if len(pattern) > LONGEST:
        return f"has {len(pattern):,} characters, and {LONGEST} are the most"
    try:
        re.compile(pattern)
        tries = _Counting(pattern).count()
    except re.error as error:
        return f"is no regular expression: {error}"
    except (OverflowError, RecursionError):
        return "is no regular expression that can be used"
    except _Refused as error:
        return str(error)
    return "" if tries <= MOST else "could take too long; use * and + once, and {0,9} for what is short"


def make_search(pattern: str) -> Callable[[str], bool]:
    """Make the search for a pattern that was judged; case does not matter."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.search(text[:READ]) is not None


class _Counting:
    """Reads a pattern from left to right, and counts how many tries a search can need."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def count(self) -> int:
        """Count the tries from all places of a text together."""
        starts = 1 if self._pattern.startswith(("^", r"\A")) and "|" not in self._pattern else READ
        return starts * self._read_group()[0]

    def _read_group(self) -> tuple[int, bool]:
        """Read to the end of a group; return its tries, and whether it can go more than one way."""
        branches, tries, varies = 0, 1, False
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|":
                self._at += 1
                branches, tries, varies = branches + tries, 1, True
                continue
            inner, inner_varies = self._read_atom()
            least, most = self._read_times()
            if most > 1 and inner_varies:
                raise _Refused("repeats what can itself vary; repeat single characters or fixed words")
            varies = varies or inner_varies or most > least
            tries *= inner * (most - least + 1)
        return branches + tries, varies

    def _read_atom(self) -> tuple[int, bool]:
        """Read one character, set or group."""
        sign = self._pattern[self._at]
        if sign == "(":
            self._open_group()
            found = self._read_group()
            self._at += 1
            return found
        if sign == "[" and (whole := _SET.match(self._pattern, self._at)):
            self._at = whole.end()
        elif sign == "\\":
            escaped = _SIMPLE.match(self._pattern, self._at)
            if not escaped:
                raise _Refused("refers to a group or uses an escape that is not known here")
            self._at = escaped.end()
        else:
            self._at += 1
        return 1, False

    def _open_group(self) -> None:
        self._at += 1
        if self._pattern.startswith("?:", self._at):
            self._at += 2
        elif self._pattern.startswith("?", self._at):
            raise _Refused("has a group of a kind that is not allowed; use ( ) and (?: ) alone")

    def _read_times(self) -> tuple[int, int]:
        """Read how many times the last atom stands there, at least and at most."""
        found = _TIMES.match(self._pattern, self._at)
        if not found:
            return 1, 1
        self._at = found.end()
        if self._pattern.startswith(("?", "+"), self._at):  # lazy and possessive ones vary as much
            self._at += 1
        if found[0] in SIGNS:
            return SIGNS[found[0]]
        least = min(int(found[1] or 0), READ)
        if found[1] and found[2] is None:
            return least, least
        return least, min(int(found[3] or found[4] or READ), READ)
