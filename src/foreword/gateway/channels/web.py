"""The web as a channel: everything that comes over HTTP, from whoever the token says."""

from typing import Any

from foreword.gateway.channel import Heard
from foreword.gateway.channels.fetched import Fetched

CHANNEL = "web"
OPENAI = "web:openai"  # a channel of its own: such a client cannot be asked, and keeps its own account of what was said


class Web(Fetched):
    """One person's requests."""

    def __init__(self, user: str, channel: str = CHANNEL) -> None:
        self._user = user
        self._channel = channel

    def hear(self, text: str, **about: Any) -> Heard:
        """Hear a request, with what else `Heard` may say about it; the token alone says whose it is."""
        return Heard(**about | {"text": text, "channel": self._channel, "sender": self._user})
