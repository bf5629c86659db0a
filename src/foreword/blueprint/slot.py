"""The shape of a blueprint file: slots in order, and the rules they share."""

from collections.abc import Mapping
from dataclasses import field

from foreword.frozen import frozen
from foreword.words import Mode, Pace, Placement, Trust, Word

LISTED = "files"  # the source whose slot holds the further files of the configuration
SKILLS = "skills"  # the source that takes two fields of every SKILL.md
TEXT_SHARE = 0.6  # of a small system budget that tool schemas leave to the texts

ROOM_SHARE = 12  # a slot's own room is at most this part of the window


class Rendering(Word):
    """How sections become text."""

    MARKDOWN = "markdown"
    XML = "xml"
    PLAIN = "plain"


class Fitting(Word):
    """How slots of a tier divide what the tier may use."""

    FAIR = "fair"
    SEQUENTIAL = "sequential"


class Cut(Word):
    """Which part of a text stays when it is shortened."""

    HEAD = "head"
    HEAD_TAIL = "head_tail"
    NEVER = "never"


class Room(Word):
    """What the slots of a turn may use: a number of tokens, or whatever the window has left."""

    FIXED = "fixed"
    REST = "rest"


class Listing(Word):
    """When a file is listed on the memory menu instead of being part of the prompt."""

    NEVER = "never"
    OVERFLOW = "overflow"
    ALWAYS = "always"


class Voice(Word):
    """Whose words a slot carries: ours, the owner's, or somebody's from outside."""

    SYSTEM = "system"
    OWNER = "owner"
    OUTSIDE = "outside"


@frozen(eq=True)
class Slot:
    """One place in a prompt."""

    id: str
    """The name that explain, markers and read_section use."""
    source: str
    """The registered source that fills it."""
    pace: Pace
    """What it may depend on."""
    trust: Trust = Trust.FULL
    """The least clearance that may see it."""
    title: str = ""
    """The heading or tag it is rendered under; none if empty."""
    group: str = ""
    """A heading that it shares with its neighbours of the same group; its own is then one level deeper."""
    item: str = ""
    """The tag around each of its texts, in a rendering with tags; the title's tag is then around all of them."""
    file: str = ""
    """The workspace file it is read from; {family}, {situation}, {overlay}, {group}, {user}, {os} and {machine} are
    filled in."""
    file_trust: Trust | None = None
    """The least clearance for that file, where the built-in text beneath it is for more people."""
    folder: str = ""
    """The workspace folder its files come from."""
    text: str = ""
    """The built-in text that stands where no file does."""
    form: str = ""
    """What its facts are filled into, or its text put into at {text}: the name of a built-in form, or the form."""
    when: tuple[str, ...] = ()
    """What must hold for it to exist, such as `tools`, `not tools`, `kind:memory`; all of them."""
    variable: str = ""
    """The name by which a template places it; elsewhere it keeps its own place."""
    per_user: bool = False
    """Whether it belongs to the one who speaks; such slots are absent in rooms."""
    situations: tuple[str, ...] = ()
    """The only situations it exists in; all of them if empty."""
    modes: tuple[Mode, ...] = (Mode.FULL,)
    """The prompt modes that include it."""
    placement: Placement = Placement.SYSTEM
    """Where it travels; `nested` is only where a template names its variable."""
    required: bool = False
    """Whether the prompt cannot be without it."""
    governs: bool = False
    """Whether safety follows from it; a change of it then never travels in a message of a user."""
    tier: str = "low"
    """The budget tier it belongs to."""
    floor: int = 0
    """Tokens that no other slot can take from it."""
    room: int = 0
    """Tokens of its own beyond what the slots of a turn share, for a text that is there in some turns only; at most a
    twelfth of the window."""
    cut: Cut = Cut.HEAD
    """How it is shortened."""
    limit: int = 0
    """The most characters of one of its texts, of the whole list for skills; no limit if 0."""
    limit_all: int = 0
    """The most characters of all its texts together, the first ones cut first; no limit if 0."""
    listed: Listing = Listing.NEVER
    """Whether it moves to the memory menu."""
    voice: Voice = Voice.OWNER
    """Whose words it carries, and so how much of its structure is kept."""
    hint: str = ""
    """What its verdict adds when it has a text, such as a better place for it."""

    def find_room(self, window: int) -> int:
        """Return the tokens of its own that it has in a window."""
        return min(self.room, window // ROOM_SHARE)

    @property
    def file_least(self) -> Trust:
        """The least clearance for the slot's file."""
        return self.trust if self.file_trust is None else self.file_trust


@frozen(eq=True)
class Budget:
    """How many tokens there are, and who gets them."""

    system: int = 30_000
    """The most that static and session slots may use together, tool schemas included."""
    window_share: float = 0.15
    """The same as a share of the model's window; the smaller one holds."""
    reserve: int = 4_096
    """Tokens of the window that are kept for the answer."""
    window: int = 0
    """The most of a model's window that is used; all of it if 0."""
    turn: int = 400
    """The most that the slots of a turn may use; with `turn_room: rest`, the least that the whole prompt may use."""
    turn_share: float = 0
    """The same as a share of the model's window; the larger one holds. Not with `turn_room: rest`."""
    turn_room: Room = Room.FIXED
    """Whether the slots of a turn have a fixed number of tokens, or what conversation and prompt leave."""
    turn_tiers: Mapping[str, float] = field(default_factory=dict)
    """The tiers of a turn's slots in order, each with its most as a share of what the prompt may use; none if empty."""
    texts: int = 6_000
    """Tokens of the system budget that tool schemas leave to the texts; of a small budget, 60 %."""
    session_share: float = 0.3
    """The part of the system budget that static slots leave to session slots."""
    menu_share: float = 0.05
    """The part of the system budget that the memory menu may take."""
    least: int = 200
    """A shortened text has at least so many tokens; with less room it is listed or dropped."""
    fitting: Fitting = Fitting.FAIR
    """How the slots of a tier divide it."""
    tiers: Mapping[str, float] = field(default_factory=lambda: {"low": 1.0})
    """The tiers in order, each with the most it may take as a share of the system budget."""

    def bound(self, window: int) -> int:
        """Return the part of a model's window that is used."""
        return min(self.window, window) if self.window else window

    def keep_back(self, window: int) -> int:
        """Return what is kept for the answer; of a small window no more than a quarter."""
        return min(self.reserve, window // 4)

    def limit(self, window: int) -> int:
        """Return the tokens that static and session slots share, from blueprint and model alone."""
        used = self.bound(window)
        return min(self.system, int(used * self.window_share), self.spare(used))

    def spare(self, used: int) -> int:
        """Return what answer and turn leave to static and session slots where all share one window."""
        return used - self.keep_back(used) - self.keep_for_turn(used) if self.turn_room is Room.REST else used

    def keep_for_turn(self, used: int) -> int:
        """Return what is kept for the turn's slots where they get the rest; no more than a quarter."""
        return min(self.turn, used // 4)

    def spell_limit(self, window: int) -> str:
        """Say how `limit` follows from the window."""
        used = self.bound(window)
        if self.limit(window) < min(self.system, int(used * self.window_share)):
            answer, turn = self.keep_back(used), self.keep_for_turn(used)
            return f"{used:,} of a window of {window:,} less {answer:,} for the answer and {turn:,} for the turn"
        share = f"{self.window_share:.0%}".replace("%", " %")
        return f"the smaller of {self.system:,} and {share} of a window of {window:,}"

    def turn_limit(self, window: int) -> int:
        """Return the tokens that the slots of a turn share."""
        return max(self.turn, int(self.bound(window) * self.turn_share))

    def tool_limit(self, window: int) -> int:
        """Return the part of the system budget that tool schemas may take, from blueprint and model alone."""
        limit = self.limit(window)
        return limit - min(self.texts, int(limit * TEXT_SHARE))


@frozen
class Blueprint:
    """An ordered catalogue of slots."""

    name: str
    """The name that `--blueprint` takes."""
    description: str = ""
    """What it is for, in one sentence."""
    strict: bool = False
    """Whether laws 5, 6, 8 and 9 bind it."""
    rendering: Rendering = Rendering.MARKDOWN
    """How its sections become text."""
    marker: str
    """What stands where a text was shortened; {kept}, {total}, {first}, {last}, {lines} and {call} are filled in."""
    marker_without_call: str
    """The same for a turn that has no tool to read the rest with."""
    notice: str = ""
    """What stands where a text has more characters than its slot's limit; {limit} and {size} are characters, and
    {name}, {call} and the marker's fields are filled in, too; the marker stands there if there is none."""
    stub: str = ""
    """What stands in the place of a text that had to be left out; a strict blueprint needs one."""
    stub_without_call: str = ""
    """The same for a turn that has no tool to read it with."""
    log_tools: str = "foreword"
    """What the names of the tools that ask the event log begin with, as in `foreword_logs`."""
    separator: str = "\n\n"
    """What stands between two sections."""
    budget: Budget = field(default_factory=Budget)
    """How many tokens there are, and who gets them."""
    slots: tuple[Slot, ...]
    """The slots, in order."""
