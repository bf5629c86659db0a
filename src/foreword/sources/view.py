"""Views: a source sees only what its pace may depend on, so it cannot cheat."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from foreword.config.schema import Agent, Store
from foreword.frozen import frozen
from foreword.signal import Signal
from foreword.sources.character import Character
from foreword.sources.passage import Passage
from foreword.sources.trace import Reader
from foreword.tokens import Meter
from foreword.turn import Client, Extension, Git, Host, Sandbox, State, Task, Toolset
from foreword.words import Delivery, Mode, Trust


@frozen
class StaticView:
    """The agent, its model, the clearance, and the bytes of the workspace."""

    agent: str
    settings: Agent
    kept: Character
    clearance: Trust
    mode: Mode
    tools: Toolset
    left_out: tuple[str, ...]
    """The tools that the turn would be offered by a model with a larger window."""
    extensions: tuple[Extension, ...]
    files: Reader
    stores: Mapping[str, Store]
    meter: Meter
    beyond: int
    """Tokens of the window that neither the system budget nor the answer may take."""


@frozen
class SessionView:
    """Also the person, the channel, the room and the situation."""

    static: StaticView
    user: str
    alone: str
    """The person once more where nobody else reads the reply, and nobody in company: whose own files may be read."""
    channel: str
    room: str
    situation: str
    session: str
    zone: str
    server_zone: str
    """What a clock shows where nobody's zone is known."""
    project: str
    project_stops: tuple[str, ...]
    """Folders at which the way up from the project ends."""
    directories: tuple[str, ...]
    instructions: str
    client: Client
    host: Host | None
    sandbox: Sandbox | None


@frozen
class TurnView:
    """Also the clock, the message, the task and the state of the moment."""

    session: SessionView
    now: datetime
    message: str
    task: Task | None
    plan: bool
    background: Delivery | None
    signal: Signal | None
    state: State
    git: Git | None
    cwd: str
    """The working directory of a person at a terminal, which may be another in each turn."""
    remaining: int
    said: tuple[str, ...]
    """What was said before, as it was sent."""
    recall: Callable[[str], Sequence[Passage]] | None
    """Finds the passages that a message is about, at the clearance of the turn; None where recall is off."""

    @property
    def static(self) -> StaticView:
        """What a static source may know."""
        return self.session.static


View = StaticView | SessionView | TurnView
