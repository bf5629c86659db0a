"""What a tool answers."""

from foreword.frozen import frozen


@frozen(eq=True)
class Answer:
    """The words that go back to the model, what they weigh, and what the log is told of them."""

    text: str
    tokens: int
    store: str = ""
    """The store that was asked or written; nothing where it was all that the turn may see."""
    count: int = 0
    """How many passages or entries it is about."""
