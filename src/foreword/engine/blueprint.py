"""Blueprints: the slots of a prompt in order, their conditions and budget, loaded from YAML."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Protocol

from foreword.config.structure import convert_node, raise_or_return
from foreword.errors import ConfigFault, suggest_name
from foreword.types import Mode, Pace, Placement, TextEnum, Trust, frozen

NOT_PREFIX = "not "
CONDITIONS: Mapping[str, Pace] = {
    "tools": Pace.STATIC,
    "native_tools": Pace.STATIC,
    "shell": Pace.STATIC,
    "identity": Pace.STATIC,
    "sandbox": Pace.SESSION,
    "plan": Pace.TURN,
}
TOOL_PREFIX, KIND_PREFIX = "tool:", "kind:"


def find_condition_pace(condition: str) -> Pace | None:
    """Return the pace at which a condition is known, or None if the condition does not exist."""
    name = condition.removeprefix(NOT_PREFIX)
    if name.startswith((TOOL_PREFIX, KIND_PREFIX)):
        return Pace.STATIC if name.partition(":")[2] else None
    return CONDITIONS.get(name)


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


MARKER_FIELDS = {"kept": "1", "total": "2", "first": "1", "last": "2", "lines": "3", "call": "memory_get()"}
NOTICE_FIELDS = {**MARKER_FIELDS, "limit": "8,000", "size": "9,000", "name": "AGENTS.md"}
SLOT_ID = re.compile(r"[A-Za-z0-9_.-]+")
VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*")
LocatedProblem = tuple[tuple[str | int, ...], str]


SlotCheck = Callable[[Slot], Iterable[str]]


def accept_slot(_: Slot) -> Iterable[str]:
    """Report nothing: the default check of a slot's texts."""
    return ()


class SourceAbility(Protocol):
    """What a blueprint needs to know about a source."""

    @property
    def pace(self) -> Pace:
        """The pace of the data it depends on."""
        ...

    @property
    def fields(self) -> AbstractSet[str]:
        """The fields of a form that the source fills in."""
        ...


def load_blueprint(
    text: str, file: str, sources: Mapping[str, SourceAbility], judge: SlotCheck = accept_slot
) -> Blueprint:
    """Read a blueprint and check what its types cannot express: the sources, and the texts through `judge`."""
    from foreword.config.yaml import parse_nodes

    structured = convert_node(parse_nodes(text, file), Blueprint, file)
    findings = [] if structured.value is None else [*find_blueprint_problems(structured.value, sources, judge)]
    lines = {keys: place.line for keys, place in structured.values.items()}
    return raise_or_return(
        structured, [ConfigFault(file=file, line=lines.get(keys), message=message) for keys, message in findings]
    )


def find_blueprint_problems(
    blueprint: Blueprint, sources: Mapping[str, SourceAbility], judge: SlotCheck
) -> Iterator[LocatedProblem]:
    """Yield each inconsistency of a blueprint with its location."""
    seen: set[str] = set()
    for at, slot in enumerate(blueprint.slots):
        if slot.id in seen:
            yield ("slots", at), f"slot {slot.id!r} is defined twice"
        seen.add(slot.id)
        for message in (*check_slot(slot, blueprint, sources), *(judge(slot) if slot.source in sources else ())):
            yield ("slots", at), f"slot {slot.id!r} {message}"
    yield from check_budget(blueprint)
    yield from check_markers(blueprint)


def check_budget(blueprint: Blueprint) -> Iterator[LocatedProblem]:
    """Check the numbers of the budget."""
    budget = blueprint.budget
    for key, tiers in (("tiers", budget.tiers), ("turn_tiers", budget.turn_tiers)):
        for name, share in tiers.items():
            if not 0 <= share <= 1:
                yield ("budget", key, name), f"tier {name!r} needs a share from 0 to 1, not {share}"
    for key in ("window_share", "turn_share"):
        if not 0 <= (share := getattr(budget, key)) <= 1:
            yield ("budget",), f"{key} must be a share from 0 to 1, not {share}"
    if min(budget.system, budget.turn, budget.reserve, budget.least, budget.window, budget.texts) < 0:
        yield ("budget",), "the numbers of a budget must not be negative"


def check_markers(blueprint: Blueprint) -> Iterator[LocatedProblem]:
    """Check the texts that replace omitted text."""
    if blueprint.strict and not (blueprint.stub and blueprint.stub_without_call):
        yield (), "a strict blueprint must name what it left out; set stub and stub_without_call"
    for key in ("marker", "marker_without_call", "notice", "stub", "stub_without_call"):
        known = NOTICE_FIELDS if key == "notice" else MARKER_FIELDS
        try:
            getattr(blueprint, key).format(**known)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            yield (key,), f"{key} has an unknown field: {error}; known fields: {', '.join(known)}"


def check_slot(slot: Slot, blueprint: Blueprint, sources: Mapping[str, SourceAbility]) -> Iterator[str]:
    """Yield the problems of one slot."""
    yield from check_source(slot, sources)
    yield from check_placement(slot, blueprint)
    yield from check_conditions(slot)
    yield from check_paths(slot)
    if min(slot.floor, slot.room, slot.limit, slot.limit_all) < 0:
        yield "has a negative floor, room or limit"
    if slot.room and (slot.pace is not Pace.TURN or blueprint.budget.turn_room is TurnRoomKind.REST):
        yield "has a room, which only a turn slot can have, in a blueprint with turn_room: fixed"
    if slot.source == "recall" and not slot.room:
        yield "has the source recall and needs a room"


def check_source(slot: Slot, sources: Mapping[str, SourceAbility]) -> Iterator[str]:
    """Check the id of a slot and its source."""
    if not SLOT_ID.fullmatch(slot.id):
        yield "needs a plain name: letters, digits, _ . and -"
    if slot.source not in sources:
        yield f"has the unknown source {slot.source!r}{suggest_name(slot.source, sorted(sources))}"
        return
    if slot.source in ("template", LISTED_SOURCE) and slot.pace is Pace.TURN:
        yield "may hold a template, which is expanded once for many turns; make its pace static or session"
    fast = sources[slot.source].pace
    if fast > slot.pace:
        yield f"is {slot.pace}, but its source {slot.source!r} depends on what changes with the {fast}; make it {fast}"
    if sources[slot.source].fields and not slot.form:
        yield f"needs a form for the source {slot.source!r} to fill in"


def check_placement(slot: Slot, blueprint: Blueprint) -> Iterator[str]:
    """Check the tier, the placement and the variable of a slot."""
    tiers = list(blueprint.budget.turn_tiers if slot.pace is Pace.TURN else ()) or list(blueprint.budget.tiers)
    if slot.tier not in tiers:
        yield f"has the unknown tier {slot.tier!r}{suggest_name(slot.tier, tiers)}"
    if slot.placement is Placement.TAIL and slot.pace is not Pace.TURN:
        yield "is in the tail, which holds only turn slots"
    if (slot.variable or slot.placement is Placement.NESTED) and not VARIABLE_NAME.fullmatch(slot.variable):
        yield "needs a variable of letters, digits and _ by which templates place it"
    if slot.variable and slot.pace is Pace.TURN:
        yield "changes with the turn and would change everything after it in a template; remove its variable"


def check_conditions(slot: Slot) -> Iterator[str]:
    """Check that the conditions of a slot exist and are known at its pace."""
    for condition in slot.when:
        pace = find_condition_pace(condition)
        if pace is None:
            known = [*CONDITIONS, "tool:NAME", "kind:NAME"]
            yield f"has the unknown condition {condition!r}; known: {', '.join(known)}, each also with `not` before it"
        elif pace > slot.pace:
            yield f"is {slot.pace}, but {condition!r} is only known with the {pace}; make it {pace}"


def check_paths(slot: Slot) -> Iterator[str]:
    """Check the paths of a slot."""
    if slot.pace is Pace.STATIC and (slot.per_user or slot.situations or "{" in slot.file + slot.folder + slot.text):
        yield "is static, but depends on the user or the situation; make its pace session"
    for path in filter(None, (slot.file, slot.folder, slot.text)):
        if path.startswith(("/", "~")) or posixpath.normpath(path).startswith(".."):
            yield f"names {path!r}, which is outside the workspace"
