"""How a conversation begins, as a chain of hashes: a client that keeps no session is known again by what it repeats."""

import hashlib
from collections.abc import Iterable, Iterator

from foreword.turn import Message

NOTHING = ""


def extend(beginning: str, message: Message) -> str:
    """Extend the hash of a beginning by one message."""
    text = f"{beginning}\x00{message.role}\x00{message.text.strip()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def chain(messages: Iterable[Message]) -> Iterator[str]:
    """Hash every beginning of a conversation, the shortest first."""
    beginning = NOTHING
    for message in messages:
        beginning = extend(beginning, message)
        yield beginning
