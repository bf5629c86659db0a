"""Checks of regular expressions from the configuration: only patterns with bounded search time are accepted.

Python's engine backtracks at every position and repetition. The check computes an upper bound of these tries and
refuses patterns that exceed it: nested repetitions, and more than one unbounded repetition.
"""

import re
from collections.abc import Callable

from foreword.errors import InputError

MAX_SEARCHED_CHARS = 1_000  # characters of a text that a search reads
MAX_PATTERN_CHARS = 200  # maximum characters of a pattern
MAX_TRIES = 2_500_000  # maximum tries of a search in the worst case
QUANTIFIERS = {"?": (0, 1), "*": (0, MAX_SEARCHED_CHARS), "+": (1, MAX_SEARCHED_CHARS)}
_TIMES = re.compile(r"[*+?]|\{(\d+)(,(\d*))?\}|\{,(\d+)\}")
_SIMPLE = re.compile(r"\\[AbBdDsSwWZ]|\\[^A-Za-z0-9]|\\[fnrtv]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}")
_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


class _Refused(InputError):
    """A pattern that cannot be used; the message continues the name of the key."""


def check_pattern(pattern: str) -> str:
    """Return the problem with a pattern, or an empty text."""
    if not pattern:
        return "is missing; trigger regex needs one"
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"has {len(pattern):,} characters; the maximum is {MAX_PATTERN_CHARS}"
    try:
        re.compile(pattern)
        tries = _TryCounter(pattern).count()
    except re.error as error:
        return f"is not a regular expression: {error}"
    except (OverflowError, RecursionError):
        return "is not a usable regular expression"
    except _Refused as error:
        return str(error)
    return "" if tries <= MAX_TRIES else "could take too long; use * or + only once, and {0,9} for short repetitions"


def make_search(pattern: str) -> Callable[[str], bool]:
    """Return a case-insensitive search for a checked pattern."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.search(text[:MAX_SEARCHED_CHARS]) is not None


class _TryCounter:
    """Reads a pattern from left to right and counts the tries a search can need."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def count(self) -> int:
        """Count the tries from all positions of a text."""
        starts = 1 if self._pattern.startswith(("^", r"\A")) and "|" not in self._pattern else MAX_SEARCHED_CHARS
        return starts * self._read_group()[0]

    def _read_group(self) -> tuple[int, bool]:
        """Read to the end of a group; return its tries, and whether it can match in several ways."""
        branches, tries, varies = 0, 1, False
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|":
                self._at += 1
                branches, tries, varies = branches + tries, 1, True
                continue
            inner, inner_varies = self._read_atom()
            least, most = self._read_times()
            if most > 1 and inner_varies:
                raise _Refused("repeats a part that can itself vary; repeat single characters or fixed words")
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
                raise _Refused("refers to a group or uses an unsupported escape")
            self._at = escaped.end()
        else:
            self._at += 1
        return 1, False

    def _open_group(self) -> None:
        self._at += 1
        if self._pattern.startswith("?:", self._at):
            self._at += 2
        elif self._pattern.startswith("?", self._at):
            raise _Refused("has an unsupported kind of group; use only ( ) and (?: )")

    def _read_times(self) -> tuple[int, int]:
        """Read the minimum and maximum repetitions of the last atom."""
        found = _TIMES.match(self._pattern, self._at)
        if not found:
            return 1, 1
        self._at = found.end()
        if self._pattern.startswith(("?", "+"), self._at):  # lazy and possessive quantifiers count the same
            self._at += 1
        if found[0] in QUANTIFIERS:
            return QUANTIFIERS[found[0]]
        least = min(int(found[1] or 0), MAX_SEARCHED_CHARS)
        if found[1] and found[2] is None:
            return least, least
        return least, min(int(found[3] or found[4] or MAX_SEARCHED_CHARS), MAX_SEARCHED_CHARS)
