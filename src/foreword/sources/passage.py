"""Passages: what memory and files hold for one message, and the seam through which a turn asks for them."""

from collections.abc import Sequence
from typing import Protocol

from foreword.frozen import frozen
from foreword.sources.document import Document
from foreword.trust import Audience


@frozen(eq=True)
class Passage:
    """A few lines of a memory or of another file."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    cut: bool = False
    """Whether it is only a part of its lines."""
    origin: str = ""
    """Whose words they are, where no owner has reviewed them."""
    file: str = ""
    """The file of the workspace that has them."""
    line: int = 0
    """The line of that file in which the text begins; 0 where a line says nothing, as in JSON."""

    def to_dict(self) -> dict[str, str | int]:
        """Return it as a quote: where it comes from, its words, and whose they are if no owner has reviewed them."""
        return {
            "file": self.file,
            "line": self.line,
            "heading": self.heading,
            "text": self.text,
            "origin": self.origin,
        }


class Recall(Protocol):
    """What can be asked for the passages that a message is about."""

    def recall(self, message: str, audience: Audience, documents: Sequence[Document] = ()) -> Sequence[Passage]:
        """Return a few passages that the audience may see, the best first, or none where none is clearly meant.

        The documents are searched beside the stores; the caller has checked that the audience may see them.
        """
