"""The shape of `foreword.yaml`: frozen values, with a docstring under each field that editors show."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from foreword.config.living import BulletinSettings
from foreword.config.machine import HostSettings, SandboxSettings
from foreword.config.people import Room, Situation, Strangers, User
from foreword.config.scheduling import Schedule
from foreword.config.telegram import TelegramBot
from foreword.frozen import frozen
from foreword.words import Mode, Policy, Trust, Vocabulary


@frozen(eq=True)
class Identity:
    """Who an agent is, as fields."""

    name: str = ""
    """The name it answers to."""
    emoji: str = ""
    """A sign that goes with the name."""
    creature: str = ""
    """What kind of being it is."""
    vibe: str = ""
    """How it comes across."""
    description: str = ""
    """What it is for, in one phrase."""


@frozen(eq=True)
class Responsibility:
    """Something that an agent has taken on."""

    title: str
    """The name it is known by."""
    content: str
    """What it asks of the agent."""


@frozen(eq=True)
class Directory:
    """A folder that an agent may work in."""

    path: str
    """The folder; a relative one lies in the workspace."""
    trust: Trust = Trust.INNER
    """The least clearance that may read in it."""


@frozen(eq=True)
class Server:
    """An MCP server that gives an agent tools: a command to start, or an address."""

    command: tuple[str, ...] = ()
    """The program to start and its arguments; it speaks over its standard input and output."""
    url: str = ""
    """The address of a server that is running elsewhere, instead of a command."""
    name: str = ""
    """The prefix of its tools; else the server's own name, the last word of its command, or its host."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for its process; `$NAME` stands for one of the environment or of .env."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers for its address; `$NAME` stands for a variable, as with env."""
    trust: Trust = Trust.FULL
    """The least clearance that may know of its tools and its words."""
    confirm: Literal["always", "changes", "never"] = "always"
    """When a person is asked first: always, for tools it does not call read-only, or never."""
    tools: tuple[str, ...] = ()
    """The tools to take, by the server's own names; all of them if left out."""
    seconds: float = 60.0
    """How long a call may take."""


@frozen(eq=True)
class Agent:
    """One agent of the workspace."""

    model: str = ""
    """The model it speaks with, as `provider:name`."""
    blueprint: str = "default"
    """The blueprint its prompt is built by."""
    identity: Identity | str | None = None
    """Who it is: fields, or a text."""
    soul: str = ""
    """Its character, instead of a SOUL.md."""
    instructions: str = ""
    """How it works."""
    responsibilities: tuple[Responsibility, ...] = ()
    """What it has taken on, each under a title."""
    role: str = ""
    """Who it is and how it works in one text, as older configurations have it."""
    directories: tuple[Directory | str, ...] = ()
    """Folders it may work in: paths, or mappings with a trust of their own."""

    mcp: tuple[Server, ...] = ()
    """MCP servers whose tools it has."""

    @property
    def folders(self) -> tuple[Directory, ...]:
        """The directories, each with its trust."""
        return tuple(Directory(path=one) if isinstance(one, str) else one for one in self.directories)


@frozen(eq=True)
class PromptFile:
    """A file that belongs in the prompt."""

    path: str
    """The file, relative to the workspace (or to users/NAME with per_user)."""
    trust: Trust = Trust.FULL
    """The least clearance that may see it."""
    per_user: bool = False
    """Whether each person has a file of their own."""
    template: bool = False
    """Whether it is a template whose variables are filled in."""
    edits: Policy = Policy.AUTO
    """When an edit of it reaches a running session: now, append, cold, next-session, or auto, by price."""


@frozen(eq=True)
class PromptFiles:
    """What the prompt is made of beyond the blueprint."""

    files: tuple[PromptFile, ...] = ()
    """Further files, and another trust for the known ones."""
    hooks: tuple[str, ...] = ()
    """Installed hooks that may change the list of files, by their names, in order."""
    project_stop: str = ""
    """The folder at which the way up from a project ends; else the root of the file system."""


@frozen(eq=True)
class Store:
    """A folder of memories with one minimum trust."""

    trust: Trust = Trust.FULL
    """The least clearance that may see it."""


@frozen(eq=True)
class MemorySettings:
    """How memory is used beyond its menu."""

    recall: bool | None = None
    """Add up to four matching passages to each message. Default: only in `brief` mode."""


@frozen(eq=True)
class ModelOverride:
    """What is known about a model, where the built-in table is wrong or silent."""

    window: int | None = None
    """The context window in tokens."""
    tokenizer: Vocabulary | None = None
    """The vocabulary to count with, where the name of the model does not tell it."""
    factor: float | None = None
    """Tokens of this model for one token of the vocabulary."""
    native_tools: bool | None = None
    """Whether it takes tool schemas beside the prompt; else they stand in it."""
    tools: bool | None = None
    """Whether it can use tools at all; else it is given none."""
    history: bool | None = None
    """Whether earlier messages of the conversation are sent; `local:smollm2` gets none unless this is true."""
    mode: Mode | None = None
    """The prompt mode: full, minimal, brief or none; else its window decides."""
    answer: int | None = None
    """The longest answer in tokens; `local:smollm2` has 200 unless this is set."""
    cache: str = ""
    """Whose cache it is served with, by a name from data/caches.yaml, such as anthropic behind a proxy."""
    system_messages: bool | None = None
    """Whether it takes and honours a system message in the middle of a conversation."""
    cache_minimum: int | None = None
    """The shortest prefix that the provider caches, in tokens."""
    input_usd: float | None = None
    """The price of a million input tokens."""
    output_usd: float | None = None
    """The price of a million output tokens."""
    cache_read_usd: float | None = None
    """The price of a million tokens read from the cache."""
    cache_write_usd: float | None = None
    """The price of a million tokens written to the cache."""
    cache_write_1h_usd: float | None = None
    """The price of a million tokens written to the cache for an hour."""


@frozen(eq=True)
class Accepted:
    """A finding of `lint` that the owner has looked at and accepts."""

    file: str
    """The file, relative to the workspace."""
    rule: str
    """The rule, as `lint` names it."""
    text: str = ""
    """Words of the line; without them the rule is accepted in the whole file."""


@frozen(eq=True)
class LintSettings:
    """What `lint` does not report."""

    accept: tuple[Accepted, ...] = ()
    """Findings that are accepted, each by its file, its rule and words of its line."""


@frozen(eq=True)
class ProviderOptions:
    """Where a provider is reached, if not where it usually is, and what it is asked."""

    base_url: str = ""
    """Its address, with the version if it has one, such as https://proxy.example/v1; keys belong in .env."""
    diagnostics: bool = False
    """Whether it is asked why its cache missed, to set that beside what the ledger says. It keeps hashes for that."""


@frozen(eq=True)
class Limits:
    """The most that may be spent, in US dollars; what is left out has no limit."""

    daily_usd: float | None = None
    """In a day of the owner's zone."""
    monthly_usd: float | None = None
    """In a month of the owner's zone."""
    per_turn_usd: float | None = None
    """In one turn, all of its calls together."""


@frozen(eq=True)
class Budgets:
    """What may be spent on models: by everybody together, and by each agent, user, channel and schedule."""

    daily_usd: float | None = None
    """By everybody together, in a day of the owner's zone."""
    monthly_usd: float | None = None
    """By everybody together, in a month of the owner's zone."""
    per_turn_usd: float | None = None
    """In any one turn, all of its calls together."""
    agents: Mapping[str, Limits] = field(default_factory=dict)
    """The limits of single agents."""
    users: Mapping[str, Limits] = field(default_factory=dict)
    """The limits of what single people ask for."""
    channels: Mapping[str, Limits] = field(default_factory=dict)
    """The limits of single channels."""
    schedules: Mapping[str, Limits] = field(default_factory=dict)
    """The limits of single schedules."""


@frozen(eq=True)
class Events:
    """How long the event log keeps events, what it records of tool calls, and where spans are sent."""

    retention_days: int = 30
    """Days after which events are deleted."""
    otlp: str = ""
    """The address of an OpenTelemetry collector to send spans to; unless it is set, nothing leaves the machine."""
    arguments: bool = False
    """Whether the arguments of tools and the queries of memory searches are recorded, without secrets."""


@frozen(eq=True)
class HttpServer:
    """Where the HTTP API listens, and how much it takes."""

    host: str = "127.0.0.1"
    """The address to listen on; one that others can reach needs `public`."""
    port: int = 8707
    """The port; 0 takes one that is free."""
    public: bool = False
    """Whether an address that others can reach is meant to be one."""
    hosts: tuple[str, ...] = ()
    """Names under which it is reached, beside the loopback and the address itself; requests for others are refused."""
    rate: int = 600
    """Requests that one person may make in a minute."""
    client_tools: Literal["pass", "ignore", "refuse"] = "ignore"
    """What becomes of tools that a client sends with a request: they are ignored or refused; pass is not built yet."""
    housekeeping: tuple[str, ...] = ()
    """Extra patterns for a chat UI's own requests (titles, tags)."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """Whether a turn goes on or is stopped when the last client that waits for it hangs up."""
    cors: tuple[str, ...] = ()
    """Origins whose web pages may call the API, such as https://chat.example; none unless listed."""


SITUATIONS = {
    "dm": Situation(ceiling=Trust.FULL),
    "group": Situation(ceiling=Trust.FAMILIAR),
    "system": Situation(ceiling=Trust.FULL),
}
STORES = {
    "private": Store(trust=Trust.FULL),
    "shared": Store(trust=Trust.INNER),
    "social": Store(trust=Trust.FAMILIAR),
}


@frozen(eq=True)
class Config:
    """A whole `foreword.yaml`."""

    owner: str
    """The user who owns this workspace; must be listed under users."""
    agents: Mapping[str, Agent] = field(default_factory=lambda: {"assistant": Agent()})
    """The agents; the first one answers when none is named."""
    users: Mapping[str, User] = field(default_factory=dict)
    """The people the workspace knows; everybody else is public."""
    situations: Mapping[str, Situation] = field(default_factory=lambda: dict(SITUATIONS))
    """Kinds of places; dm, group and system exist unless replaced here."""
    rooms: Mapping[str, Room] = field(default_factory=dict)
    """Rooms that need a ceiling, a situation or a folder of their own."""
    strangers: Strangers = Strangers()
    """How often people are answered whom the workspace does not know."""
    prompt: PromptFiles = field(default_factory=PromptFiles)
    """What goes into the prompt beyond the blueprint."""
    stores: Mapping[str, Store] = field(default_factory=lambda: dict(STORES))
    """Folders below memory/ and who may see them; private, shared and social exist unless replaced here."""
    archive: bool = False
    """Whether conversations that have ended are kept as Markdown with their room or person, each at its clearance."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """How memory is used beyond its menu."""
    bulletin: BulletinSettings = field(default_factory=BulletinSettings)
    """The digest of memory that travels with messages."""
    models: Mapping[str, ModelOverride] = field(default_factory=dict)
    """Facts about models that win over the built-in table."""
    providers: Mapping[str, ProviderOptions] = field(default_factory=dict)
    """Providers, by name; one that is not known by its name needs an address, and is taken to speak as OpenAI does."""
    budgets: Budgets = field(default_factory=Budgets)
    """What may be spent on models."""
    schedule: tuple[Schedule, ...] = ()
    """What agents are told later, and when."""
    events: Events = field(default_factory=Events)
    """The event log."""
    server: HttpServer = field(default_factory=HttpServer)
    """The HTTP API."""
    lint: LintSettings = field(default_factory=LintSettings)
    """What `foreword lint` does not report."""
    host: HostSettings = HostSettings()
    """Facts about the machine that agents work on."""
    sandbox: SandboxSettings | None = None
    """How commands are confined, if they are; agents are told."""
    telegram: TelegramBot | None = None
    """The bot on Telegram; there is none unless this is set, and `telegram: {}` is enough."""
