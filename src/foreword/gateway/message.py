"""What goes in and out of the gateway: a message, the turn that it became, and what came of it."""

from datetime import datetime

from foreword.errors import InputError
from foreword.events.event import Usage
from foreword.frozen import frozen
from foreword.turn import Client, Message
from foreword.words import Delivery, Mode, Trust, Word


class State(Word):
    """How far a turn is."""

    WAITING = "waiting"
    """It is accepted, and another turn of its session comes first."""
    RUNNING = "running"
    QUEUED = "queued"
    """The provider could not take it; it is tried again later."""
    ANSWERED = "answered"
    REFUSED = "refused"
    """A budget does not allow it."""
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self not in UNFINISHED


UNFINISHED = (State.WAITING, State.RUNNING, State.QUEUED)


class NotFound(InputError):
    """There is no such session or turn, or it is somebody else's: both are told in the same words."""

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}")
        self.what = what


class KeyReused(InputError):
    """An idempotency key came with another message than the first time."""


class WrongSession(InputError):
    """A named session exists and is this person's, but the message cannot be part of it."""


class BadMessage(InputError):
    """A message cannot be accepted; `field` is the part that is at fault."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


@frozen(eq=True)
class Errand:
    """What makes a message the run of a schedule: nobody waits for its reply."""

    schedule: str
    """The id of the schedule; its runs have a session of their own."""
    delivery: Delivery
    ceiling: Trust
    """The lower of the clearance at its creation and that of its destination."""
    light: bool = False
    """Whether it has the small prompt of a heartbeat, and little of what was said before."""
    home: Trust | None = None
    """The person's own clearance in private, where the reply is added to their conversations."""
    late: int = 0
    """How many runs it makes up for beside its own."""
    asked: str = ""
    """The words of the schedule."""


@frozen(eq=True)
class Proof:
    """Who wrote and where, by the channel's own ids: who and what that is here can be found by them again."""

    sender: str
    place: str


@frozen(eq=True)
class ClientRequest:
    """What the HTTP request of a message says beyond its words."""

    id: str = ""
    """The id of the request, as its answer and the log have it."""
    token: str = ""
    """The id of the token it came with."""
    digest: str = ""
    """The hash of what it asks for, without how the answer is delivered."""
    retry: bool = False
    """Whether the client says that it has sent the same request before."""
    streamed: bool = False
    """Whether the client hears the words as they come, those before a tool among them."""
    client_tools: int = 0
    """How many tools of its own the client sent, which the model is not shown."""
    response_format: str = ""
    """The format that the answer must have, as OpenAI's JSON; nothing for plain text."""


@frozen(eq=True)
class Incoming:
    """A message as a channel hands it in; who sent it is the channel's proof, never the text's word."""

    text: str
    user: str = ""
    channel: str = "terminal"
    agent: str = ""
    """Whom it is for; the first agent of the configuration where nobody is named."""
    situation: str = "dm"
    room: str = ""
    session: str = ""
    """The session it belongs to; else the current one of its lane."""
    client: Client = Client()
    project: str = ""
    mode: Mode | None = None
    """The prompt mode that is asked for; else the model decides."""
    cwd: str = ""
    """The working directory of a person at a terminal."""
    plan: bool | None = None
    """Whether the agent only plans; else as the session has it."""
    key: str = ""
    """The channel's own id of the message: delivered twice, it is one turn."""
    before: tuple[Message, ...] | None = None
    """What a client that keeps no session says was said before; the session is found by it, and it is not kept."""
    beginning: str | None = None
    """The hash of `before`, which stays."""
    asks: bool = False
    """Whether whoever hears the turn can be asked before it changes something."""
    address: str = ""
    """Where the reply is to be delivered, on a channel that delivers; else whoever asked fetches it."""
    through: str = ""
    """The channel that delivers the reply, where another than its own."""
    shelves: tuple[str, ...] = ()
    """The channels on which the reply is added to the person's private conversation."""
    errand: Errand | None = None
    """The run of a schedule that it is."""
    origin: str = ""
    """The channel's own ids of place and sender, by which a message is known again whatever they are called by then."""
    held: str = ""
    """The id of the held call that the person allows with it; only the gateway sets it."""
    traceparent: str = ""
    """The cleaned W3C header of the client's trace, which exported spans continue."""
    proof: Proof | None = None
    """What the user and the room were found by; nothing where the channel knows people by their names here."""
    request: ClientRequest = ClientRequest()
    """What the HTTP request said, where there was one."""


@frozen(eq=True)
class Accepted:
    """A message that is kept, whatever happens now."""

    turn: str
    session: str
    repeated: bool = False
    """Whether the same message had been accepted before."""


@frozen
class Reply:
    """What came of a turn so far."""

    turn: str
    session: str
    agent: str
    user: str
    state: State
    text: str
    received: datetime
    finished: datetime | None = None
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    prompt_hash: str = ""
    cut: bool = False
    """Whether the reply ends because it became too long."""

    @property
    def silent(self) -> bool:
        """Whether the agent has answered that it has nothing to say."""
        return self.state is State.ANSWERED and not self.text


@frozen
class Exchange:
    """A message, and what came of it so far."""

    asked: str
    reply: Reply
