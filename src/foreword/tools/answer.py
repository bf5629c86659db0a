"""What a tool answers."""

from foreword.frozen import frozen


@frozen(eq=True)
class Answer:
    """The words that go back to the model, and what they weigh."""

    text: str
    tokens: int
