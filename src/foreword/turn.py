"""The turn: one request to the agent with all its inputs resolved, its tools and signal, and valid names."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, Protocol
from unicodedata import category, normalize
from unicodedata import name as describe

from foreword.errors import InputError, UnknownName
from foreword.types import Delivery, Mode, TextEnum, Trust, frozen


@frozen(eq=True)
class ToolAnswer:
    """The text for the model, its tokens, and the facts for the event log."""

    text: str
    tokens: int
    store: str = ""
    """The store that was read or written; empty if it was every visible store."""
    count: int = 0
    """Number of passages or entries."""


class SignalMode(TextEnum):
    """The kind of work that a message asks for."""

    BUILD = "build"
    EXECUTE = "execute"
    ANALYZE = "analyze"
    MAINTAIN = "maintain"
    ASSIST = "assist"


class Genre(TextEnum):
    """The intent of a message: an order, a promise, a decision, a feeling, or information."""

    DIRECT = "direct"
    COMMIT = "commit"
    DECIDE = "decide"
    EXPRESS = "express"
    INFORM = "inform"


class SignalType(TextEnum):
    """The subject of a message; a signal calls it `type`."""

    QUESTION = "question"
    ISSUE = "issue"
    SCHEDULING = "scheduling"
    SUMMARY = "summary"
    GENERAL = "general"


class SignalFormat(TextEnum):
    """The form of a message, which follows from its channel."""

    COMMAND = "command"
    MESSAGE = "message"
    NOTIFICATION = "notification"
    DOCUMENT = "document"


DIMENSIONS = (SignalMode, Genre, SignalType, SignalFormat)


@frozen(eq=True)
class Signal:
    """One message in five dimensions; the weight is the attention it needs, from 0 to 1."""

    mode: SignalMode
    genre: Genre
    type: SignalType
    format: SignalFormat
    weight: float

    def __post_init__(self) -> None:
        words = (self.mode, self.genre, self.type, self.format)
        if (*map(type, words),) != DIMENSIONS:
            raise InputError(
                f"a signal needs a SignalMode, a Genre, a SignalType and a SignalFormat, in this order, not {words}"
            )
        if not 0 <= self.weight <= 1:
            raise InputError(f"the weight of a signal must be from 0 to 1, not {self.weight!r}")


MAX_NAME_BYTES = 200  # file systems allow 255 for one name
NAME_SIGNS = "._-"
# Invisible letters and marks, which Unicode categories do not distinguish from visible ones.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
VARIATIONS = (("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef"))
# Scripts with many identical letter shapes: a name that mixes two of them can pass for another name.
SIMILAR_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK"})


def normalize_name(name: str) -> str:
    """Return the NFC form of a name: Unicode has several spellings of letters such as é."""
    return name if name.isascii() else normalize("NFC", name)


def check_name(name: str, signs: str = NAME_SIGNS) -> str:
    """Return the problem with a normalised name, or an empty string."""
    allowed = name[:1].isalnum() and all(is_letter(sign) or sign in signs for sign in name)
    if not allowed or ".." in name:
        return f"is not a usable name; use letters, digits and {signs}, a letter or digit first, and no '..'"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"is not a usable name; it has {len(name.encode())} bytes, and the maximum is {MAX_NAME_BYTES}"
    if len(scripts := find_scripts(name)) > 1:
        return f"is not a usable name; it mixes {' and '.join(scripts)} letters, which look alike"
    return ""


def is_letter(sign: str) -> bool:
    """Return whether a character is a visible letter, a mark on one, or a digit."""
    if sign in INVISIBLE or any(low <= sign <= high for low, high in VARIATIONS):
        return False
    kind = category(sign)
    return kind[0] == "L" or kind in ("Mn", "Mc", "Nd")


def find_scripts(name: str) -> list[str]:
    """Return the scripts of a name, among those whose letters look alike."""
    if name.isascii():
        return []
    words = {describe(sign, "").partition(" ")[0] for sign in name if sign.isalpha()}
    return sorted(word.capitalize() for word in words & SIMILAR_SCRIPTS)


TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
CLIENT_TOOL_KIND = "client"  # the kind of tools that the sender of the message runs
MAX_ARGUMENT_CHARS = 200_000  # the default limit of the arguments of one call, as JSON

NAME_FIELDS = ("agent", "user", "channel", "room", "situation")
STEP_STATUSES = ("active", "open", "done")


class ToolFunction(Protocol):
    """What runs the calls of a tool: a Python function, or a server."""

    def read(self, tool: "Tool", arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check and convert the arguments of a call; raise InputError that names the wrong one."""

    async def call(self, run: Any, values: Mapping[str, Any]) -> ToolAnswer:
        """Run one call, with the values that `read` returned."""


@frozen
class Tool:
    """A tool the agent may call; it needs `full` trust unless it sets its own."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    trust: Trust = Trust.FULL
    kind: str = ""
    changes: bool = False
    """Whether it has side effects; such a call is started at most once."""
    confirm: bool = True
    """Whether a call with side effects needs a confirmation; without one the call is held."""
    seconds: float | None = None
    """Its timeout, if not the default."""
    shown_in: tuple[str, ...] = ()
    """The sources or form fields that show its effect; a turn without any of them does not offer the tool."""
    guidance: str = ""
    """When and how to use it; a section of the prompt has it."""
    max_argument_chars: int = MAX_ARGUMENT_CHARS
    """Maximum characters of the arguments of one call, as JSON."""
    function: ToolFunction | None = None
    """What runs it; without one it is only shown to the model."""

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} is not a valid tool name; use letters, digits, _ . and -, at most 128")
        if not isinstance(self.parameters, Mapping):
            raise InputError(f"the parameters of tool {self.name!r} are not a JSON object")
        try:
            json.dumps(self.parameters, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"the parameters of tool {self.name!r} cannot be written as JSON: {error}") from None

    @property
    def schema(self) -> str:
        """The canonical JSON of the tool; its tokens are counted on this."""
        shape = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return json.dumps(shape, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Toolset:
    """Tools in a stable order, by name; two toolsets are equal if they hold the same tools in the same order."""

    __slots__ = ("_allowed", "_by_name", "_hash", "_schemas", "names", "tools")

    def __init__(self, tools: Iterable[Tool] = (), *, ordered: bool = False) -> None:
        self.tools = tuple(tools) if ordered else tuple(sorted(tools, key=lambda tool: tool.name))
        self._by_name = {tool.name: tool for tool in self.tools}
        self.names = frozenset(self._by_name)
        self._allowed: dict[Trust, Toolset] = {}
        self._schemas: tuple[str, ...] | None = None
        self._hash = hash(self.tools)
        if len(self.names) != len(self.tools):
            twice = sorted(name for name, count in Counter(tool.name for tool in self.tools).items() if count > 1)
            raise InputError(f"two tools have the same name: {', '.join(twice)}")

    @classmethod
    def in_order(cls, tools: Iterable[Tool]) -> "Toolset":
        """Build a toolset in the given order, for a caller whose order is already stable."""
        return cls(tools, ordered=True)

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._by_name.get(name)

    def allowed(self, clearance: Trust) -> "Toolset":
        """Return the tools that this clearance may use, always the same object for the same level."""
        if clearance not in self._allowed:
            self._allowed[clearance] = Toolset.in_order(tool for tool in self.tools if tool.trust <= clearance)
        return self._allowed[clearance]

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schema of each tool; cached, because a toolset outlives many turns."""
        if self._schemas is None:
            self._schemas = tuple(tool.schema for tool in self.tools)
        return self._schemas

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Toolset) and self.tools == other.tools)

    def __hash__(self) -> int:
        return self._hash

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __bool__(self) -> bool:
        return bool(self.tools)


NO_TOOLS = Toolset()


@frozen(eq=True)
class Extension:
    """A tool server with instructions for its tools; it needs `full` trust unless it sets its own."""

    name: str
    instructions: str = ""
    trust: Trust = Trust.FULL


@frozen(eq=True)
class Message:
    """One message of the conversation so far, as sent."""

    role: Literal["user", "assistant"]
    text: str


@frozen(eq=True)
class Step:
    """One step of a task."""

    text: str
    status: Literal["active", "open", "done"] = "open"

    def __post_init__(self) -> None:
        check_strings((self.text, self.status), "a step's text and status")
        if self.status not in STEP_STATUSES:
            raise UnknownName("status of a step", self.status, STEP_STATUSES)


@frozen(eq=True)
class Task:
    """The task that a session is bound to."""

    id: str
    title: str
    description: str = ""
    status: str = "active"
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        check_strings((self.id, self.title, self.description, self.status), "a task's id and texts")
        for step in self.steps:
            check_type("each of a task's steps", step, Step)


@frozen(eq=True)
class Communication:
    """The user's writing style, derived from their messages."""

    formality: str = ""
    length: str = ""
    topics: tuple[str, ...] = ()


@frozen(eq=True)
class Bulletin:
    """A digest of memory, and the clearance it was written for."""

    text: str
    trust: Trust = Trust.FULL


@frozen(eq=True)
class State:
    """The current state around a session: workflow, tasks, writing style and bulletins."""

    workflow: str = ""
    tasks: tuple[Task, ...] = ()
    communication: Communication | None = None
    bulletins: tuple[Bulletin, ...] = ()


@frozen(eq=True)
class Host:
    """Facts about the machine, gathered by the caller; empty values are left out."""

    host: str = ""
    os: str = ""
    arch: str = ""
    shell: str = ""
    sudo_non_interactive: bool | None = None


@frozen(eq=True)
class Sandbox:
    """How commands are confined, as far as the caller knows; empty values are left out."""

    enabled: bool
    mode: str = ""
    """Which commands run in it, such as all."""
    backend: str = ""
    """The sandbox technology, such as docker."""
    scope: str = ""
    """The lifetime of a sandbox, such as session."""
    image: str = ""
    """The image it runs."""
    workspace_mount: str = ""
    """How the workspace is mounted, such as ro."""
    network: str = ""
    """Network access, such as disabled."""


@frozen(eq=True)
class Git:
    """The state of the project's repository."""

    branch: str
    changed: int | None = 0
    """The number of changed files; None if unknown."""
    commit: str = ""


@frozen(eq=True)
class Client:
    """Facts that the user's device reports."""

    zone: str = ""
    language: str = ""
    location: str = ""


@frozen(eq=True)
class Turn:
    """The user, the place, the message and the time. A bare `Turn()` is a stranger's and sees only public content."""

    agent: str = ""
    user: str = ""
    channel: str = "terminal"
    room: str = ""
    situation: str = ""
    ceiling: Trust | None = None
    """An upper bound of the clearance, such as a schedule's; it can only lower the clearance."""
    session: str = ""
    message: str = ""
    history: tuple[Message, ...] = ()
    image_tokens: int = 0
    """The estimated tokens of the images in the history and the message."""
    project: str = ""
    project_root: str = ""
    """The folder at which the walk up from the project ends, if that is below the configured stop."""
    cwd: str = ""
    """The working directory of a terminal user."""
    directories: tuple[str, ...] = ()
    instructions: str = ""
    task: Task | None = None
    plan: bool = False
    background: Delivery | None = None
    signal: Signal | None = None
    state: State = State()
    mode: Mode | None = None
    tools: Toolset | None = None
    extensions: tuple[Extension, ...] = ()
    client: Client = Client()
    host: Host | None = None
    sandbox: Sandbox | None = None
    git: Git | None = None
    blueprint: str = ""
    model: str = ""
    now: datetime | None = None

    def __post_init__(self) -> None:
        names = (self.agent, self.user, self.channel, self.room, self.situation, self.session, self.message)
        check_strings(
            (*names, self.project, self.project_root, self.cwd, self.instructions, self.blueprint, self.model)
        )
        for name, value in zip(NAME_FIELDS, names, strict=False):
            if not value.isascii():
                object.__setattr__(self, name, normalize_name(value))
        object.__setattr__(self, "mode", parse_word(Mode, "mode", self.mode))
        object.__setattr__(self, "background", parse_word(Delivery, "background", self.background))
        for name, kind in TYPED_FIELDS:
            check_type(name, getattr(self, name), kind)
        if self.extensions and len({one.name for one in self.extensions}) != len(self.extensions):
            raise InputError("two extensions have the same name")
        if self.now is not None and self.now.tzinfo is None:
            raise InputError(f"now needs a time zone, and {self.now!r} has none; use datetime.now(UTC)")


TYPED_FIELDS = (("tools", Toolset), ("ceiling", Trust), ("signal", Signal), ("state", State), ("now", datetime))


def check_strings(values: tuple[object, ...], what: str = "a turn's names and texts") -> None:
    """Raise InputError if a name or a text is not a string."""
    if set(map(type, values)) == {str}:
        return
    for value in values:
        if not isinstance(value, str):
            raise InputError(f"{what} must be strings, not {value!r}; leave out what does not apply")


def check_type(name: str, value: object, kind: type) -> None:
    """Raise InputError if a field has the wrong type."""
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, not {value!r}")


def parse_word(kind: type[TextEnum], name: str, value: object) -> TextEnum | None:
    """Return a word of a vocabulary, given the word or its text; raise UnknownName otherwise."""
    if value is None or isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        raise UnknownName(name, str(value), map(str, kind)) from None
