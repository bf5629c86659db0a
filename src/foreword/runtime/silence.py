"""Silent replies: an agent that has nothing to say says so in one word, which nobody is shown.

A reply that is only that word is no reply; at its beginning or end the word is cut off; amid other words it stays. What
is heard while it is being said holds back whatever may still become the word.
"""

import re

TOKEN = "NO_ACTION_NEEDED"  # noqa: S105 - a word, and no secret
LONGEST = 200  # characters that are held back

_OPEN, _CLOSE = r"[*_`~\"'“”‘’(\[]", r"[*_`~\"'“”‘’)\]]"
_SIGNS = r"[.!:;,…—–-]"
_BROAD = r"[\s*_`~\"'“”‘’()\[\].!:;,…—–-]"
_LETTERS = [rf"\\?{sign}" if sign == "_" else sign for sign in TOKEN]  # Markdown writes \_ for it
_WORD = "".join(_LETTERS)
_BEGUN = "".join(f"(?:{letter}" for letter in _LETTERS) + ")?" * len(TOKEN)
_END = rf"{_CLOSE}*+{_SIGNS}*+"

_ONLY = re.compile(rf"{_BROAD}*?{_WORD}{_BROAD}*+")
_MAYBE_ONLY = re.compile(rf"{_BROAD}*?(?:{_WORD}{_BROAD}*+|{_BEGUN}\\?)")
_FIRST = re.compile(rf"\s*{_OPEN}*?{_WORD}{_END}(?!\w)\s*")
_LAST = re.compile(rf"\s*{_OPEN}*?{_WORD}{_END}\s*")
_MAYBE_LAST = re.compile(rf"(?<!\w)\s*+(?:{_OPEN}*?(?:{_WORD}{_END}\s*+|{_BEGUN}\\?))\Z")


class Hush:
    """Passes on what is said but the word of silence, as soon as it can be none."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # the sign before what is held; nothing as long as nothing was passed on

    def add(self, text: str) -> str:
        """Add what was said, and return what may be passed on."""
        self._held += text
        while not self._last:
            if _MAYBE_ONLY.fullmatch(self._held) and len(self._held) <= LONGEST:
                return ""
            if not (first := _FIRST.match(self._held)):
                break
            self._held = self._held[first.end() :]
        before = len(self._last)
        found = _MAYBE_LAST.search(self._last + self._held, before)
        start = found.start() - before if found else len(self._held)
        return self._pass_on(start if len(self._held) - start <= LONGEST else len(self._held))

    def end(self) -> str:
        """Say that nothing more comes, and return what was held back without being the word."""
        silent = (_LAST if self._last else _ONLY).fullmatch(self._held)
        rest = "" if silent else self._pass_on(len(self._held))
        self._held = self._last = ""
        return rest

    def _pass_on(self, end: int) -> str:
        passed, self._held = self._held[:end], self._held[end:]
        self._last = passed[-1:] or self._last
        return passed


def find_silence(text: str) -> str:
    """Say why nothing of a reply is shown, or nothing where something is."""
    if not text.strip():
        return "nothing was said after the tools"
    return "" if cut_silence(text) else f"the reply was {TOKEN}"


def cut_silence(text: str) -> str:
    """Cut the word of silence from the edges of a reply; nothing is left of a reply that is only that."""
    hush = Hush()
    cut = hush.add(text) + hush.end()
    return text if cut == text else cut.strip()
