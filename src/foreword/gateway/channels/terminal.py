"""The terminal as a channel: who can open the workspace at a shell is its owner, or speaks as whom the owner names."""

from foreword.gateway.channel import Chat, Heard
from foreword.gateway.channels.fetched import Fetched
from foreword.words import Mode

CHANNEL = "terminal"


class Terminal(Fetched):
    """One person at a terminal, whom they speak with, and in which room."""

    def __init__(
        self,
        user: str,
        *,
        agent: str = "",
        room: str = "",
        situation: str = "",
        project: str = "",
        cwd: str = "",
        mode: Mode | None = None,
        asks: bool = True,
    ) -> None:
        self._user = user
        self._agent = agent
        self._room = room
        self._situation = situation
        self._project = project
        self._cwd = cwd
        self._mode = mode
        self.asks = asks
        """Whether the person can be asked; if not, a call that needs a yes is held."""

    def hear(self, text: str, session: str = "", key: str = "") -> Heard:
        """Hear what is typed."""
        return Heard(
            channel=CHANNEL,
            sender=self._user,
            text=text,
            key=key,
            chat=Chat.GROUP if self._room else Chat.PRIVATE,
            place=self._room,
            agent=self._agent,
            session=session,
            situation=self._situation,
            project=self._project,
            cwd=self._cwd,
            mode=self._mode,
            asks=self.asks,
        )
