"""What a stream said where that is not its reply: a client repeats what it heard, and is known again by it.

A turn may speak before it uses a tool, or begin an answer twice. Those words are out; the history has the reply alone.
"""

from collections import OrderedDict
from dataclasses import replace

from foreword.turn import Message

MOST = 10_000  # answers that are remembered; one that is not forks its session, and nothing is lost


class Spoken:
    """Remembers what people heard."""

    def __init__(self) -> None:
        self._replies: OrderedDict[tuple[str, str], str] = OrderedDict()

    def remember(self, user: str, heard: str, reply: str) -> None:
        """Remember what somebody heard for a reply."""
        if heard.strip() == reply.strip():
            return
        self._replies[user, heard.strip()] = reply
        if len(self._replies) > MOST:
            self._replies.popitem(last=False)

    def restore(self, user: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Put replies in the place of what was heard for them."""
        return tuple(self._restore(user, message) for message in messages)

    def _restore(self, user: str, message: Message) -> Message:
        reply = self._replies.get((user, message.text.strip())) if message.role == "assistant" else None
        return message if reply is None else replace(message, text=reply)
