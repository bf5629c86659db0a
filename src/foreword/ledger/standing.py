"""Where a prompt stands against what its session has sent: a decision for each difference, with its reason."""

from foreword.frozen import frozen
from foreword.ledger.line import Base, Channel, Update
from foreword.ledger.state import Heard, Identity
from foreword.render import Prompt
from foreword.words import Policy, Word


class Deed(Word):
    """What is done about a section that differs from what was sent."""

    REUSE = "reuse"
    APPEND = "append"
    REBASE = "rebase"
    HOLD = "hold"


class Ground(Word):
    """Why a rebase is made."""

    COLD = "cold"
    MODEL = "model"
    TOOLS = "tools"
    COMPACTED = "compacted"
    CHEAPER = "cheaper"
    ORDERED = "ordered"
    PRIVATE = "private"
    GOVERNING = "governing"
    CROWDED = "crowded"
    DAMAGED = "damaged"


@frozen(eq=True)
class Decision:
    """What is done about one section."""

    section: str
    what: str
    """changed, added or removed."""
    deed: Deed
    reason: str
    policy: Policy = Policy.AUTO
    tokens: int = 0
    """What an update says, in tokens."""


@frozen(eq=True)
class Rebase:
    """The prefix is sent anew from some section on."""

    ground: Ground
    reason: str
    section: str
    """The first section that is not where and what it was; empty where the base itself stays."""
    byte: int
    """The first byte of the system part that differs."""
    tokens: int
    """What is billed anew because of it; nothing where it is free."""
    usd: float | None = None

    @property
    def free(self) -> bool:
        """Whether nothing had to be billed again because of it."""
        return self.tokens == 0


@frozen
class Standing:
    """What a turn sends for its session, and why."""

    prompt: Prompt
    """What is sent: the base as it is frozen, what follows it, and the updates in the tail."""
    base: Base
    identity: Identity
    reason: str = "nothing is frozen: the session has sent nothing yet"
    decisions: tuple[Decision, ...] = ()
    rebase: Rebase | None = None
    new: tuple[Update, ...] = ()
    """What is said now for the first time."""
    updates: tuple[Update, ...] = ()
    """All that counts beside the base after this turn."""
    settled: tuple[Update, ...] = ()
    """What was said once, may stand in the history still, and counts no longer."""
    notice: str = ""
    """What is said now about those that have just become void."""
    scrub: tuple[str, ...] = ()
    """Texts of earlier updates that must leave the history before anything is sent."""
    heard: Heard = Heard()
    inserted: str = ""
    """What travels as a system message of its own behind the newest message."""

    @property
    def deed(self) -> Deed:
        """What is done on the whole: a rebase if there is one, else the strongest of the decisions."""
        done = {one.deed for one in self.decisions} | ({Deed.REBASE} if self.rebase else set())
        return next((deed for deed in (Deed.REBASE, Deed.APPEND, Deed.HOLD) if deed in done), Deed.REUSE)

    @property
    def held(self) -> tuple[str, ...]:
        """The sections whose change waits."""
        return tuple(one.section for one in self.decisions if one.deed is Deed.HOLD)

    @property
    def says(self) -> bool:
        """Whether the model has to hear the message of this turn to know what counts."""
        return bool(self.new or self.notice)


def pick(updates: tuple[Update, ...], channel: Channel) -> tuple[Update, ...]:
    """Pick the updates that travel one way."""
    return tuple(update for update in updates if update.channel is channel)
