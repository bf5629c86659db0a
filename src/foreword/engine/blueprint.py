"""Blueprints: the slots of a prompt in order, their conditions and budget."""

from collections.abc import Mapping
from dataclasses import field

from foreword.types import Mode, Pace, Placement, TextEnum, Trust, frozen

NOT_PREFIX = "not "
TOOL_PREFIX, KIND_PREFIX = "tool:", "kind:"
LISTED_SOURCE = "files"  # the source of the slot for additional files of the configuration
SKILLS_SOURCE = "skills"  # the source that reads two fields of every SKILL.md
TEXT_SHARE = 0.6  # the share of a small system budget that is reserved for texts against tool schemas

ROOM_WINDOW_DIVISOR = 12  # a slot's room is at most the window divided by this


class Rendering(TextEnum):
    """How sections become text."""

    MARKDOWN = "markdown"
    XML = "xml"
    PLAIN = "plain"


class SharingOrder(TextEnum):
    """How the slots of a tier share its budget."""

    FAIR = "fair"
    SEQUENTIAL = "sequential"


class CutStyle(TextEnum):
    """Which part of a text stays when it is shortened."""

    HEAD = "head"
    HEAD_TAIL = "head_tail"
    NEVER = "never"


class TurnRoomKind(TextEnum):
    """The room of a turn's slots: a fixed number of tokens, or the rest of the window."""

    FIXED = "fixed"
    REST = "rest"


class MenuListing(TextEnum):
    """When a file moves to the memory menu instead of the prompt."""

    NEVER = "never"
    OVERFLOW = "overflow"
    ALWAYS = "always"


class Voice(TextEnum):
    """Who wrote the text of a slot: we, the owner, or someone outside."""

    SYSTEM = "system"
    OWNER = "owner"
    OUTSIDE = "outside"


@frozen(eq=True)
class Slot:
    """One slot of a prompt."""

    id: str
    """The name used by explain, markers and read_section."""
    source: str
    """The registered source that fills it."""
    pace: Pace
    """The fastest pace at which its text may change."""
    trust: Trust = Trust.FULL
    """The lowest clearance that may see it."""
    title: str = ""
    """The heading or tag it is rendered under; none if empty."""
    group: str = ""
    """A heading that it shares with adjacent slots of the same group; its own heading is then one level deeper."""
    item: str = ""
    """The tag around each of its texts, in a rendering with tags; the title's tag then encloses all of them."""
    file: str = ""
    """The workspace file it is read from; {family}, {situation}, {overlay}, {group}, {user}, {os} and {machine} are
    filled in."""
    file_trust: Trust | None = None
    """The lowest clearance for that file, where its built-in fallback text needs less trust."""
    folder: str = ""
    """The workspace folder its files come from."""
    text: str = ""
    """The built-in text that is used where the file does not exist."""
    form: str = ""
    """The form that its facts, or its text as {text}, are filled into: the name of a built-in form, or the form."""
    when: tuple[str, ...] = ()
    """Conditions that must all hold, such as `tools`, `not tools`, `kind:memory`."""
    variable: str = ""
    """The variable by which a template places it; without such a template it stays in its own place."""
    per_user: bool = False
    """Whether it belongs to the user who speaks; such slots are absent in rooms."""
    situations: tuple[str, ...] = ()
    """The situations it exists in; all of them if empty."""
    modes: tuple[Mode, ...] = (Mode.FULL,)
    """The prompt modes that include it."""
    placement: Placement = Placement.SYSTEM
    """The part of the request it is sent in; a `nested` slot appears only where a template names its variable."""
    required: bool = False
    """Whether the prompt fails without it."""
    governs: bool = False
    """Whether it carries safety rules; a change of it is then never sent in a user message."""
    tier: str = "low"
    """The budget tier it belongs to."""
    floor: int = 0
    """Tokens that no other slot can take from it."""
    room: int = 0
    """Tokens for this slot alone, in addition to what the slots of a turn share; for a text that appears in some turns
    only. At most a twelfth of the window."""
    cut: CutStyle = CutStyle.HEAD
    """How it is shortened."""
    limit: int = 0
    """The maximum characters of one of its texts, or of the whole list for skills; no limit if 0."""
    limit_all: int = 0
    """The maximum characters of all its texts together; the first ones are cut first. No limit if 0."""
    listed: MenuListing = MenuListing.NEVER
    """When it moves to the memory menu."""
    voice: Voice = Voice.OWNER
    """The author of its text, which decides how much of its structure is escaped."""
    hint: str = ""
    """A note that its verdict adds when it has a text, such as a better place for it."""

    def find_room(self, window: int) -> int:
        """Return the tokens of its room in a window."""
        return min(self.room, window // ROOM_WINDOW_DIVISOR)

    @property
    def file_required_trust(self) -> Trust:
        """The lowest clearance for the slot's file."""
        return self.trust if self.file_trust is None else self.file_trust


@frozen(eq=True)
class Budget:
    """How many tokens a prompt may use, and how slots share them."""

    system: int = 30_000
    """The maximum tokens of static and session slots together, tool schemas included."""
    window_share: float = 0.15
    """The same as a share of the model's window; the smaller one applies."""
    reserve: int = 4_096
    """Tokens of the window that are reserved for the answer."""
    window: int = 0
    """The maximum part of a model's window that is used, in tokens; all of it if 0."""
    turn: int = 400
    """The maximum tokens of a turn's slots; with `turn_room: rest`, the minimum that the whole prompt may use."""
    turn_share: float = 0
    """The same as a share of the model's window; the larger one applies. Not with `turn_room: rest`."""
    turn_room: TurnRoomKind = TurnRoomKind.FIXED
    """Whether the slots of a turn have a fixed number of tokens, or what conversation and prompt leave."""
    turn_tiers: Mapping[str, float] = field(default_factory=dict)
    """The tiers of a turn's slots in order, each with its maximum share of the prompt's tokens; none if empty."""
    texts: int = 6_000
    """Tokens of the system budget that tool schemas cannot take from the texts; 60 % of a small budget."""
    session_share: float = 0.3
    """The share of the system budget that static slots leave to session slots."""
    menu_share: float = 0.05
    """The maximum share of the system budget for the memory menu."""
    least: int = 200
    """The minimum tokens of a shortened text; with less room the text is listed or dropped."""
    fitting: SharingOrder = SharingOrder.FAIR
    """How the slots of a tier share its budget."""
    tiers: Mapping[str, float] = field(default_factory=lambda: {"low": 1.0})
    """The tiers in order, each with its maximum share of the system budget."""

    def bound(self, window: int) -> int:
        """Return the part of a model's window that is used."""
        return min(self.window, window) if self.window else window

    def get_answer_reserve(self, window: int) -> int:
        """Return the tokens reserved for the answer, at most a quarter of the window."""
        return min(self.reserve, window // 4)

    def limit(self, window: int) -> int:
        """Return the tokens that static and session slots share; depends only on blueprint and model."""
        used = self.bound(window)
        return min(self.system, int(used * self.window_share), self.spare(used))

    def spare(self, used: int) -> int:
        """Return what answer and turn leave to static and session slots where all of them share one window."""
        return (
            used - self.get_answer_reserve(used) - self.get_turn_reserve(used)
            if self.turn_room is TurnRoomKind.REST
            else used
        )

    def get_turn_reserve(self, used: int) -> int:
        """Return the tokens reserved for the turn's slots where they get the rest, at most a quarter."""
        return min(self.turn, used // 4)

    def describe_limit(self, window: int) -> str:
        """Describe how `limit` follows from the window."""
        used = self.bound(window)
        if self.limit(window) < min(self.system, int(used * self.window_share)):
            answer, turn = self.get_answer_reserve(used), self.get_turn_reserve(used)
            return f"{used:,} of a window of {window:,} less {answer:,} for the answer and {turn:,} for the turn"
        share = f"{self.window_share:.0%}".replace("%", " %")
        return f"the smaller of {self.system:,} and {share} of a window of {window:,}"

    def turn_limit(self, window: int) -> int:
        """Return the tokens that the slots of a turn share."""
        return max(self.turn, int(self.bound(window) * self.turn_share))

    def tool_limit(self, window: int) -> int:
        """Return the part of the system budget that tool schemas may take; depends only on blueprint and model."""
        limit = self.limit(window)
        return limit - min(self.texts, int(limit * TEXT_SHARE))


@frozen
class Blueprint:
    """A prompt layout: slots in order, budget and rendering."""

    name: str
    """The name that `--blueprint` takes."""
    description: str = ""
    """Its purpose in one sentence."""
    strict: bool = False
    """Whether laws 5, 6, 8 and 9 apply to it."""
    rendering: Rendering = Rendering.MARKDOWN
    """How its sections become text."""
    marker: str
    """The text in place of a cut; {kept}, {total}, {first}, {last}, {lines} and {call} are filled in."""
    marker_without_call: str
    """The same for a turn without a tool that reads the rest."""
    notice: str = ""
    """The text in place of what exceeds a slot's character limit; {limit} and {size} are in characters, and {name},
    {call} and the fields of the marker are filled in. The marker is used if this is empty."""
    stub: str = ""
    """The text in place of a section that was left out; a strict blueprint needs one."""
    stub_without_call: str = ""
    """The same for a turn without a tool that reads it."""
    log_tools: str = "foreword"
    """The prefix of the tools that query the event log, as in `foreword_logs`."""
    separator: str = "\n\n"
    """The text between two sections."""
    budget: Budget = field(default_factory=Budget)
    """How many tokens a prompt may use, and how slots share them."""
    slots: tuple[Slot, ...]
    """The slots, in order."""
