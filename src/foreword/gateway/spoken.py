"""The words of a turn as a stream shows them: a blank line stands between the answers before and after a tool."""

from foreword.runtime.ears import Anew, Calling, Delta, Words

SEPARATOR = "\n\n"


class Spoken:
    """Collects the words of a turn."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._apart = False

    @property
    def text(self) -> str:
        """Everything that was shown so far."""
        return "".join(self._pieces)

    def add(self, delta: Delta) -> str:
        """Add a piece of the turn; return the text to show for it, with the separator where one is due."""
        if isinstance(delta, Anew | Calling):
            self._apart = True
        if not isinstance(delta, Words):
            return ""
        text = f"{SEPARATOR}{delta.text}" if self._apart and self._pieces else delta.text
        self._apart = False
        self._pieces.append(text)
        return text
