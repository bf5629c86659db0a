"""The dimensions of a message, S = (mode, genre, type, format, weight), and what each may be."""

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.words import Word


class SignalMode(Word):
    """What kind of work a message wants."""

    BUILD = "build"
    EXECUTE = "execute"
    ANALYZE = "analyze"
    MAINTAIN = "maintain"
    ASSIST = "assist"


class Genre(Word):
    """How a message is meant: as an order, a promise, a decision, a feeling, or information."""

    DIRECT = "direct"
    COMMIT = "commit"
    DECIDE = "decide"
    EXPRESS = "express"
    INFORM = "inform"


class Kind(Word):
    """What a message is about; a signal calls it `type`."""

    QUESTION = "question"
    ISSUE = "issue"
    SCHEDULING = "scheduling"
    SUMMARY = "summary"
    GENERAL = "general"


class Format(Word):
    """In which form a message came, which follows from its channel."""

    COMMAND = "command"
    MESSAGE = "message"
    NOTIFICATION = "notification"
    DOCUMENT = "document"


KINDS = (SignalMode, Genre, Kind, Format)


@frozen(eq=True)
class Signal:
    """One message in five dimensions; the weight says from 0 to 1 how much attention it wants."""

    mode: SignalMode
    genre: Genre
    type: Kind
    format: Format
    weight: float

    def __post_init__(self) -> None:
        words = (self.mode, self.genre, self.type, self.format)
        if (*map(type, words),) != KINDS:
            raise InputError(f"a signal has a mode, a genre, a type and a format, each a word of its own, not {words}")
        if not 0 <= self.weight <= 1:
            raise InputError(f"the weight of a signal is from 0 to 1, not {self.weight!r}")
