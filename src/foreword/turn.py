"""The turn: one request to the agent, with everything about it already resolved."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from foreword.errors import InputError, UnknownName
from foreword.frozen import frozen
from foreword.names import normalize_name
from foreword.signal import Signal
from foreword.words import Delivery, Mode, Trust, Word

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

NAMED = ("agent", "user", "channel", "room", "situation")
STATUSES = ("active", "open", "done")


@frozen
class Tool:
    """A tool the agent may call; without a trust of its own it is for `full` only."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    trust: Trust = Trust.FULL
    kind: str = ""
    changes: bool = False
    """Whether it changes the world; then a call begins at most once."""
    confirm: bool = True
    """Whether each call needs a person's yes, where it changes something; a call without one is held."""
    seconds: float | None = None
    """How long it may take, where that is not the usual time."""
    shown_in: tuple[str, ...] = ()
    """The sources or form fields that show its effect; a turn whose prompt has none of them is not offered the tool."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} is no name for a tool; use letters, digits, _ . and -, 128 at most")
        if not isinstance(self.parameters, Mapping):
            raise InputError(f"the parameters of tool {self.name!r} are not a JSON object")
        try:
            json.dumps(self.parameters, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"the parameters of tool {self.name!r} cannot be written as JSON: {error}") from None

    @property
    def schema(self) -> str:
        """The tool as the canonical JSON that its price is counted on."""
        shape = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return json.dumps(shape, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Toolset:
    """Tools in a stable order, by name; equal if they hold the very same tools in the same order."""

    __slots__ = ("_allowed", "_hash", "_schemas", "names", "tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._hold(tuple(sorted(tools, key=lambda tool: tool.name)))

    @classmethod
    def in_order(cls, tools: Iterable[Tool]) -> "Toolset":
        """Make a toolset that keeps the order it was given, for a caller whose order is stable already."""
        made = cls()
        made._hold(tuple(tools))
        return made

    def _hold(self, ordered: tuple[Tool, ...]) -> None:
        self.tools = ordered
        self.names = frozenset(tool.name for tool in ordered)
        self._allowed: dict[Trust, Toolset] = {}
        self._schemas: tuple[str, ...] | None = None
        self._hash = hash(ordered)
        if len(self.names) != len(ordered):
            twice = sorted({tool.name for tool in ordered if [t.name for t in ordered].count(tool.name) > 1})
            raise InputError(f"two tools have the same name: {', '.join(twice)}")

    def allowed(self, clearance: Trust) -> "Toolset":
        """Return the tools that this clearance may know of, always the same object for the same level."""
        if clearance not in self._allowed:
            self._allowed[clearance] = Toolset.in_order(tool for tool in self.tools if tool.trust <= clearance)
        return self._allowed[clearance]

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schema of each tool, written once: a toolset outlives many turns."""
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
    """A server of tools, with its own words on how to use them; without a trust of its own it is for `full` only."""

    name: str
    instructions: str = ""
    trust: Trust = Trust.FULL


@frozen(eq=True)
class Message:
    """One message of the conversation so far, as it was sent."""

    role: Literal["user", "assistant"]
    text: str


@frozen(eq=True)
class Step:
    """One step of a task."""

    text: str
    status: Literal["active", "open", "done"] = "open"

    def __post_init__(self) -> None:
        check_texts((self.text, self.status), "a step's text and status")
        if self.status not in STATUSES:
            raise UnknownName("status of a step", self.status, STATUSES)


@frozen(eq=True)
class Task:
    """The task that a session is bound to."""

    id: str
    title: str
    description: str = ""
    status: str = "active"
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        check_texts((self.id, self.title, self.description, self.status), "a task's id and texts")
        for step in self.steps:
            check_kind("each of a task's steps", step, Step)


@frozen(eq=True)
class Communication:
    """How the speaking person writes, as far as their own messages show."""

    formality: str = ""
    length: str = ""
    topics: tuple[str, ...] = ()


@frozen(eq=True)
class Bulletin:
    """A digest of memory, and the clearance it was made at."""

    text: str
    trust: Trust = Trust.FULL


@frozen(eq=True)
class State:
    """What goes on around a session while it runs."""

    workflow: str = ""
    tasks: tuple[Task, ...] = ()
    communication: Communication | None = None
    bulletins: tuple[Bulletin, ...] = ()


@frozen(eq=True)
class Host:
    """Facts about the machine, gathered by the caller; empty ones are left out."""

    host: str = ""
    os: str = ""
    arch: str = ""
    shell: str = ""
    sudo_non_interactive: bool | None = None


@frozen(eq=True)
class Sandbox:
    """How commands are confined, as far as the caller knows; empty facts are left out."""

    enabled: bool
    mode: str = ""
    backend: str = ""
    scope: str = ""
    image: str = ""
    workspace_mount: str = ""
    network: str = ""


@frozen(eq=True)
class Git:
    """The state of the project's repository."""

    branch: str
    changed: int | None = 0
    """How many files; None where nobody knows."""
    commit: str = ""


@frozen(eq=True)
class Client:
    """What the person's own device says about them."""

    zone: str = ""
    language: str = ""
    location: str = ""


@frozen(eq=True)
class Turn:
    """Who, where, what and when; a bare `Turn()` is a stranger's and sees what is public."""

    agent: str = ""
    user: str = ""
    channel: str = "terminal"
    room: str = ""
    situation: str = ""
    ceiling: Trust | None = None
    """A bound of its own, such as that of the schedule it runs for; it can only lower."""
    session: str = ""
    message: str = ""
    history: tuple[Message, ...] = ()
    project: str = ""
    project_root: str = ""
    """The folder at which the way up from the project ends, where that is before the configured stop."""
    cwd: str = ""
    """The working directory of the person at a terminal."""
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
        check_texts((*names, self.project, self.project_root, self.cwd, self.instructions, self.blueprint, self.model))
        for name, value in zip(NAMED, names, strict=False):
            if not value.isascii():
                object.__setattr__(self, name, normalize_name(value))
        if type(self.mode) is not Mode:
            object.__setattr__(self, "mode", choose(Mode, "mode", self.mode))
        if self.background is not None:
            object.__setattr__(self, "background", choose(Delivery, "background", self.background))
        if type(self.tools) is not Toolset:
            check_kind("tools", self.tools, Toolset)
        if self.ceiling is not None:
            check_kind("ceiling", self.ceiling, Trust)
        check_kind("signal", self.signal, Signal)
        check_kind("state", self.state, State)
        if type(self.now) is not datetime:
            check_kind("now", self.now, datetime)
        if self.extensions and len({one.name for one in self.extensions}) != len(self.extensions):
            raise InputError("two extensions have the same name")
        if self.now is not None and self.now.tzinfo is None:
            raise InputError(f"now needs a zone, and {self.now!r} has none; use datetime.now(UTC)")


def check_texts(values: tuple[object, ...], what: str = "a turn's names and texts") -> None:
    """Refuse a name or a text that is none."""
    if set(map(type, values)) == {str}:
        return
    for value in values:
        if not isinstance(value, str):
            raise InputError(f"{what} are texts, not {value!r}; leave out what there is not")


def check_kind(name: str, value: object, kind: type) -> None:
    """Refuse a field of a turn that is of another kind."""
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} is a {kind.__name__}, not {value!r}")


def choose(kind: type[Word], name: str, value: object) -> Word | None:
    """Take a word, or its written form; refuse what is neither."""
    if value is None or isinstance(value, kind):
        return value
    for word in kind:
        if word.value == value:
            return word
    raise UnknownName(name, str(value), [str(word) for word in kind])
