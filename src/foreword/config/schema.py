"""The schema of `foreword.yaml` as frozen values. Field docstrings become the descriptions editors show."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from foreword.config.schedule_settings import ScheduleSettings
from foreword.errors import InputError
from foreword.turn import Sandbox
from foreword.types import EditPolicy, Mode, Trust, Vocabulary, frozen


@frozen(eq=True)
class BulletinSettings:
    """A digest of memory that is sent with messages, one per agent and clearance."""

    hours: float = 0.0
    """Minimum hours between two digests; 0 disables them. A new one is made only if memory has changed."""
    by: Literal["model", "rule"] = "model"
    """The author: the agent's model, for the price of a call, or a rule, which is also the fallback."""


@frozen(eq=True)
class HostSettings:
    """Host facts that cannot be detected, or should not be."""

    sudo: bool | None = None
    """Whether sudo works without a password. If left out: yes for root, otherwise unknown and not shown."""
    timezone: str = ""
    """Time zone of people and rooms without one, such as Europe/Paris. Default: the machine's."""


@frozen(eq=True)
class SandboxSettings(Sandbox):
    """How tool commands are sandboxed. Shown to the agent; not enforced."""

    enabled: bool = True
    """Whether commands run in the sandbox."""


@frozen(eq=True)
class User:
    """A known person."""

    trust: Trust = Trust.PUBLIC
    """The highest clearance of this person."""
    timezone: str = ""
    """Their time zone, such as Europe/Paris."""
    identities: tuple[str, ...] = ()
    """Their identities on channels, such as telegram:1001; `foreword pair` adds more."""


@frozen(eq=True)
class Situation:
    """A kind of place where the agent is used."""

    ceiling: Trust = Trust.PUBLIC
    """The highest clearance of anyone in it."""
    prompt_overlay: str = ""
    """A file with the rules of this situation."""
    answer_noise: bool | None = None
    """Whether to answer a greeting or a mere "ok". Default: in private, and when the agent is addressed."""


@frozen(eq=True)
class Room:
    """A place where several people read every reply."""

    ceiling: Trust | None = None
    """The highest clearance in it, if lower than its situation's."""
    situation: str = "group"
    """The situation that governs it."""
    group: str = ""
    """The folder below groups/ with its files. Default: the room's name."""
    timezone: str = ""
    """The time zone of the room; users' zones are not used in rooms."""
    places: tuple[str, ...] = ()
    """Its addresses on channels, such as telegram:-100123."""
    members: tuple[str, ...] | None = None
    """The users it knows; others are public in it. Default: all users."""
    trigger: Literal["mention", "always", "regex"] = "mention"
    """When the agent answers: if it is mentioned, always, or also if the pattern matches."""
    pattern: str = ""
    """The regular expression for `trigger: regex`, searched in the first 1,000 characters of a message."""


@frozen(eq=True)
class StrangerLimits:
    """Limits for unknown people, in private and in places that are not listed as rooms."""

    turns: int = 20
    """Turns per person and hour; 0 answers none."""
    all_turns: int = 100
    """Turns of all unknown people per channel and hour."""


TOKEN_VARIABLE = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
_SHAPE = re.compile(r"[0-9]+:\S+")  # the bot's id and its secret
_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")


@frozen(eq=True)
class TelegramBotSettings:
    """The Telegram bot; create one with @BotFather, which also issues the token."""

    token: str = f"${TOKEN_VARIABLE}"
    """The variable with the bot's token in the environment or .env, as `$NAME`."""
    api: str = "https://api.telegram.org"
    """The address of the Bot API; change it for a self-hosted server."""
    agent: str = ""
    """The agent that answers. Default: the first one."""


def check_token(written: str) -> str:
    """Return the problem with a configured token, without showing it."""
    if _VARIABLE.fullmatch(written):
        return ""
    return f"must name a variable, such as ${TOKEN_VARIABLE}; put the token itself into .env"


def find_token(settings: TelegramBotSettings, environ: Mapping[str, str]) -> str:
    """Return the bot's token from the environment; raise InputError if it is missing or malformed. Imports nothing."""
    name = settings.token.removeprefix("$")
    token = environ.get(name, "")
    if not token:
        raise InputError(
            f"telegram needs the bot's token in {name}: put the line {name}=… with the token from @BotFather into .env"
        )
    if not _SHAPE.fullmatch(token):
        raise InputError(f"{name} is not a bot's token; @BotFather issues one such as 12345678:AA…")
    return token


@frozen(eq=True)
class Identity:
    """The identity of an agent, as fields."""

    name: str = ""
    """Its name."""
    emoji: str = ""
    """An emoji shown with the name."""
    creature: str = ""
    """What kind of being it is."""
    vibe: str = ""
    """Its manner."""
    description: str = ""
    """Its purpose, in one phrase."""


@frozen(eq=True)
class Responsibility:
    """A responsibility of an agent."""

    title: str
    """Its name."""
    content: str
    """The task."""


@frozen(eq=True)
class Directory:
    """A folder an agent may work in."""

    path: str
    """The folder; relative paths start at the workspace."""
    trust: Trust = Trust.INNER
    """The minimum clearance to read it."""


@frozen(eq=True)
class McpServer:
    """An MCP server that provides tools to an agent: a command to start, or an address."""

    command: tuple[str, ...] = ()
    """The program to start, with arguments; it communicates over standard input and output."""
    url: str = ""
    """The address of a running server, instead of a command."""
    name: str = ""
    """The prefix of its tools. Default: the server's name, the last word of its command, or its host."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for its process; `$NAME` refers to the environment or .env."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers for its address; `$NAME` refers to the environment or .env."""
    trust: Trust = Trust.FULL
    """The minimum clearance to see its tools and texts."""
    confirm: Literal["always", "changes", "never"] = "always"
    """When to ask a person first: always, for tools not declared read-only, or never."""
    tools: tuple[str, ...] = ()
    """The tools to offer, by the server's names. Default: all."""
    seconds: float = 60.0
    """Timeout of a call."""


@frozen(eq=True)
class Agent:
    """An agent of the workspace."""

    model: str = ""
    """Its model, as `provider:name`."""
    blueprint: str = "default"
    """The blueprint of its prompt."""
    identity: Identity | str | None = None
    """Its identity: fields, or a text."""
    soul: str = ""
    """Its character, instead of a SOUL.md."""
    instructions: str = ""
    """How it works."""
    responsibilities: tuple[Responsibility, ...] = ()
    """Its responsibilities, each with a title."""
    role: str = ""
    """Identity and instructions in one text; supported for older configurations."""
    directories: tuple[Directory | str, ...] = ()
    """Folders it may work in: paths, or mappings with a trust."""

    mcp: tuple[McpServer, ...] = ()
    """MCP servers that provide its tools."""

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
    """The minimum clearance to see it."""
    per_user: bool = False
    """Whether each person has a separate file."""
    template: bool = False
    """Whether it is a template whose variables are filled in."""
    edits: EditPolicy = EditPolicy.AUTO
    """When an edit reaches a running session: now, append, cold, next-session, or auto (by cost)."""


@frozen(eq=True)
class PromptFiles:
    """Prompt content besides the blueprint."""

    files: tuple[PromptFile, ...] = ()
    """Additional files, or another trust for known ones."""
    hooks: tuple[str, ...] = ()
    """Installed hooks that may change the list of files, by name, in order."""
    project_stop: str = ""
    """The folder where the upward search from a project ends. Default: the root of the file system."""


@frozen(eq=True)
class Store:
    """A folder of memories with one minimum trust."""

    trust: Trust = Trust.FULL
    """The minimum clearance to see it."""


@frozen(eq=True)
class MemorySettings:
    """Memory settings besides the menu."""

    recall: bool | None = None
    """Add up to four matching passages to each message. Default: only in `brief` mode."""


@frozen(eq=True)
class ModelOverride:
    """Facts about a model that override or complete the built-in table."""

    window: int | None = None
    """The context window in tokens."""
    tokenizer: Vocabulary | None = None
    """The vocabulary for counting, if the model name does not determine it."""
    factor: float | None = None
    """Tokens of this model per token of the vocabulary."""
    native_tools: bool | None = None
    """Whether it accepts tool schemas as a separate parameter; otherwise they are part of the prompt."""
    tools: bool | None = None
    """Whether it can use tools; otherwise it gets none."""
    history: bool | None = None
    """Whether earlier messages of the conversation are sent; `local:smollm2` gets none unless this is true."""
    images: bool | None = None
    """Whether it takes images in a person's message; default: as the built-in table says, false for unknown models."""
    mode: Mode | None = None
    """The prompt mode: full, minimal, brief or none. Default: by its window."""
    answer: int | None = None
    """Maximum answer length in tokens; `local:smollm2` has 200 unless this is set."""
    cache: str = ""
    """The cache rules to apply, by a name from data/caches.yaml, such as anthropic behind a proxy."""
    system_messages: bool | None = None
    """Whether it accepts and obeys a system message in the middle of a conversation."""
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
class AcceptedFinding:
    """An accepted finding of `lint`."""

    file: str
    """The file, relative to the workspace."""
    rule: str
    """The rule's name."""
    text: str = ""
    """Words of the line; without them the rule is accepted for the whole file."""


@frozen(eq=True)
class LintSettings:
    """Exceptions for `lint`."""

    accept: tuple[AcceptedFinding, ...] = ()
    """Accepted findings, each with its file, its rule and words of its line."""


@frozen(eq=True)
class ProviderOptions:
    """Address and options of a provider."""

    base_url: str = ""
    """Its address, with the version if it has one, such as https://proxy.example/v1; keys belong in .env."""
    diagnostics: bool = False
    """Whether to request the provider's cache-miss diagnostics, for comparison. The provider stores hashes for this."""


@frozen(eq=True)
class SpendingLimits:
    """Spending limits in US dollars; omitted ones do not apply."""

    daily_usd: float | None = None
    """Per day in the owner's time zone."""
    monthly_usd: float | None = None
    """Per month in the owner's time zone."""
    per_turn_usd: float | None = None
    """Per turn, for all its calls together."""


@frozen(eq=True)
class Budgets:
    """Spending limits for models: in total, and per agent, user, channel and schedule."""

    daily_usd: float | None = None
    """In total, per day in the owner's time zone."""
    monthly_usd: float | None = None
    """In total, per month in the owner's time zone."""
    per_turn_usd: float | None = None
    """Per turn, for all its calls together."""
    agents: Mapping[str, SpendingLimits] = field(default_factory=dict)
    """Limits per agent."""
    users: Mapping[str, SpendingLimits] = field(default_factory=dict)
    """Limits per user."""
    channels: Mapping[str, SpendingLimits] = field(default_factory=dict)
    """Limits per channel."""
    schedules: Mapping[str, SpendingLimits] = field(default_factory=dict)
    """Limits per schedule."""


@frozen(eq=True)
class EventSettings:
    """Retention and content of the event log, and export of spans."""

    retention_days: int = 30
    """Days after which events are deleted."""
    otlp: str = ""
    """The address of an OpenTelemetry collector for spans; unless set, nothing leaves the machine."""
    arguments: bool = False
    """Whether to record tool arguments and memory search queries, with secrets redacted."""


@frozen(eq=True)
class HttpServer:
    """Address and limits of the HTTP API."""

    host: str = "127.0.0.1"
    """The address to listen on; a non-loopback address requires `public`."""
    port: int = 8707
    """The port; 0 selects a free one."""
    public: bool = False
    """Whether a non-loopback address is allowed."""
    hosts: tuple[str, ...] = ()
    """Allowed Host headers besides the loopback and the address itself; others are refused."""
    rate: int = 600
    """Requests per person and minute."""
    client_tools: Literal["pass", "ignore", "refuse"] = "ignore"
    """How to handle tools that a client sends: pass them to the model, ignore them, or refuse the request."""
    housekeeping: tuple[str, ...] = ()
    """Extra patterns for a chat UI's own requests (titles, tags)."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """Whether a turn continues or stops when its last waiting client disconnects."""
    cors: tuple[str, ...] = ()
    """Origins whose web pages may call the API, such as https://chat.example; none by default."""


DEFAULT_SITUATIONS = {
    "dm": Situation(ceiling=Trust.FULL),
    "group": Situation(ceiling=Trust.FAMILIAR),
    "system": Situation(ceiling=Trust.FULL),
}
DEFAULT_STORES = {
    "private": Store(trust=Trust.FULL),
    "shared": Store(trust=Trust.INNER),
    "social": Store(trust=Trust.FAMILIAR),
}


@frozen(eq=True)
class Config:
    """A whole `foreword.yaml`."""

    owner: str
    """The owner of this workspace; must be listed under users."""
    agents: Mapping[str, Agent] = field(default_factory=lambda: {"assistant": Agent()})
    """The agents; the first one answers when none is named."""
    users: Mapping[str, User] = field(default_factory=dict)
    """The known people; all others are public."""
    situations: Mapping[str, Situation] = field(default_factory=lambda: dict(DEFAULT_SITUATIONS))
    """Kinds of places; dm, group and system are built in and can be replaced here."""
    rooms: Mapping[str, Room] = field(default_factory=dict)
    """Rooms that need a separate ceiling, situation or folder."""
    strangers: StrangerLimits = StrangerLimits()
    """Limits for unknown people."""
    prompt: PromptFiles = field(default_factory=PromptFiles)
    """Prompt content besides the blueprint."""
    stores: Mapping[str, Store] = field(default_factory=lambda: dict(DEFAULT_STORES))
    """Folders below memory/ with their trust; private, shared and social are built in and can be replaced here."""
    archive: bool = False
    """Whether to save ended conversations as Markdown with their room or person, at their clearance."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """Memory settings besides the menu."""
    bulletin: BulletinSettings = field(default_factory=BulletinSettings)
    """The memory digest that is sent with messages."""
    models: Mapping[str, ModelOverride] = field(default_factory=dict)
    """Facts about models that override the built-in table."""
    providers: Mapping[str, ProviderOptions] = field(default_factory=dict)
    """Providers by name; an unknown name needs an address and is treated as OpenAI-compatible."""
    budgets: Budgets = field(default_factory=Budgets)
    """Spending limits for models."""
    schedule: tuple[ScheduleSettings, ...] = ()
    """Messages to agents at later times."""
    events: EventSettings = field(default_factory=EventSettings)
    """The event log."""
    server: HttpServer = field(default_factory=HttpServer)
    """The HTTP API."""
    lint: LintSettings = field(default_factory=LintSettings)
    """Exceptions for `foreword lint`."""
    host: HostSettings = HostSettings()
    """Facts about the machine agents work on."""
    sandbox: SandboxSettings | None = None
    """The sandbox of commands, if any; shown to agents."""
    telegram: TelegramBotSettings | None = None
    """The Telegram bot; disabled unless set. `telegram: {}` is enough."""
