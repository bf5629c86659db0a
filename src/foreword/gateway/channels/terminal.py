"""The terminal as a channel: who can open the workspace at a shell is its owner, or speaks as whom the owner names."""

from foreword.gateway.channel import Heard
from foreword.gateway.channels.fetched import Fetched

CHANNEL = "terminal"


class Terminal(Fetched):
    """One person at a terminal, and whom they speak with."""

    def __init__(self, user: str, *, agent: str = "", situation: str = "", project: str = "") -> None:
        self._user = user
        self._agent = agent
        self._situation = situation
        self._project = project

    def hear(self, text: str, session: str = "", key: str = "") -> Heard:
        """Hear what is typed; the person can be asked before something is changed."""
        return Heard(
            channel=CHANNEL,
            sender=self._user,
            text=text,
            key=key,
            agent=self._agent,
            session=session,
            situation=self._situation,
            project=self._project,
            asks=True,
        )
