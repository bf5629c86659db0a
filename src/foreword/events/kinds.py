"""What sums are kept by; a file of its own, since help texts and tool schemas need the words and nothing else."""

from foreword.words import Word


class By(Word):
    """What sums are kept by; a day is that of the reader's zone."""

    ALL = "all"
    DAY = "day"
    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    CHANNEL = "channel"
    SECTION = "section"
    MODEL = "model"


KINDS = tuple(kind.value for kind in By if kind is not By.ALL)
"""What people and models may ask for; the sum of everything comes with each."""
