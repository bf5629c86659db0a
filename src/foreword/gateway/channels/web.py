"""The web as a channel: everything that comes over HTTP, from whoever the token says."""

from foreword.gateway.channel import Heard
from foreword.gateway.channels.fetched import Fetched
from foreword.turn import Message

CHANNEL = "web"
OPENAI = "web:openai"  # a channel of its own: such a client cannot be asked, and keeps its own account of what was said


class Web(Fetched):
    """One person's requests."""

    def __init__(self, user: str) -> None:
        self._user = user

    def hear(
        self, text: str, *, agent: str = "", session: str = "", key: str = "", situation: str = "", asks: bool = False
    ) -> Heard:
        """Hear a request; who listens to its events can be asked before something is changed."""
        return Heard(
            channel=CHANNEL,
            sender=self._user,
            text=text,
            key=key,
            agent=agent,
            session=session,
            situation=situation,
            asks=asks,
        )

    def hear_client(
        self, text: str, before: tuple[Message, ...] | None, *, agent: str, session: str = "", key: str = ""
    ) -> Heard:
        """Hear a client of OpenAI, with what it says was said before."""
        return Heard(
            channel=OPENAI,
            sender=self._user,
            text=text,
            key=key,
            agent=agent,
            session=session,
            before=before,
        )
