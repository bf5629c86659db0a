"""A workspace: a folder with a configuration and files, which assembles turns."""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Self

from foreword.agent.tools.log_tools import rename_log_tools
from foreword.agent.tools.registry import BUILT_IN, call_built_in_tool
from foreword.agent.tools.state_tools import INSTRUCTIONS_TRUST
from foreword.assemble import assemble
from foreword.assembly import Assembly
from foreword.config.load import load_config
from foreword.config.schema import Config
from foreword.engine.blueprint import Blueprint
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.context import AssemblyContext
from foreword.engine.selection import load_hooks
from foreword.engine.sources.documents import Document, FileProblem
from foreword.engine.sources.files import Files, replace_files
from foreword.engine.sources.sections import Passage
from foreword.engine.trust import Audience, has_other_readers, resolve_trust
from foreword.errors import ConfigError, ConfigFault, ForewordError, InputError, UnknownName, WorkspaceError
from foreword.host import find_host_zone
from foreword.memory.stores import Memory
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.resources import list_blueprints, read_blueprint
from foreword.storage.legacy_import import import_state_notes
from foreword.storage.state_reader import StateReader
from foreword.tokens.count import Counter, Meter, SqliteCountStore
from foreword.tokens.models import ModelFacts, find_model, list_cache_rules
from foreword.turn import NO_TOOLS, ToolAnswer, Toolset, Turn, check_name
from foreword.types import Mode, Vocabulary

if TYPE_CHECKING:
    from foreword.agent.session import OpenSession
    from foreword.events.sinks import EventStream

DEBOUNCE_S = 0.2  # seconds without a change before an edit counts

FileText = str | FileProblem | None


class DebouncedFiles:
    """Reads files of a workspace, and returns the previous text while a file is still being written."""

    def __init__(self, files: Files, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._clock, self._lock = files, clock, Lock()
        self._kept: dict[str, FileText] = {}
        self._changing: dict[str, tuple[FileText, float]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a changed file is still waiting for its pause."""
        return bool(self._changing)

    def reread(self, *, now: bool = False) -> None:
        """Reread every file that was read before."""
        for path in [*self._kept]:
            self.read(path, now=now)

    def read(self, path: str, *, now: bool = False) -> FileText:
        """Return the text at a path, None if there is no file, or the problem; `now` skips the pause."""
        with self._lock:  # around the read as well: an older read must not overwrite a newer one
            found = self._files.read_text(path)
            if not now and path in self._kept and found != self._kept[path] and not self._rests(path, found):
                return self._kept[path]
            self._changing.pop(path, None)
            self._kept[path] = found
            return found

    def _rests(self, path: str, found: FileText) -> bool:
        """Return whether an edit has paused long enough, by the file's timestamps or by observation."""
        clock = self._clock()
        seen, since = self._changing.setdefault(path, (found, clock))
        if seen == found and (clock - since >= DEBOUNCE_S or self._is_old(path)):
            self._files.refresh(now=True)  # the text may be as old as the last sweep, and incomplete
            seen = self._files.read_text(path)
            if seen == found:
                return True
            found = seen
        if self._changing[path][0] != found:
            self._changing[path] = (found, clock)
        return False

    def _is_old(self, path: str) -> bool:
        """Return whether a file was last changed before the pause; a deleted file has no timestamps."""
        try:
            facts = os.stat(os.path.join(self._files.root, path))
        except OSError:
            return False
        return time.time() - max(facts.st_mtime, facts.st_ctime) >= DEBOUNCE_S


CONFIG_FILE = "foreword.yaml"
STATE_FOLDER = ".foreword"
SMALL_WINDOW_TOKENS = 16_000  # tokens; below this a full prompt leaves too little room
TINY_WINDOW_TOKENS = 8_000  # tokens; below this tool schemas leave too little room as well
MIN_COUNTS_TO_SAVE = 32  # the number of new token counts that triggers a write


def open_workspace(
    path: str = ".", clock: Callable[[], datetime] = lambda: datetime.now(UTC), zone: str = ""
) -> "Workspace":
    """Open the workspace in a folder; its configuration is read and checked at once.

    If its state was converted from a SPEC-010 database, long-term memory is imported once: this writes entries to
    `users/`. `zone` is the server's time zone if the configuration sets none; the default is the machine's.
    """
    if os.path.isfile(path):
        raise WorkspaceError(f"{path} is a file; name the folder that has a {CONFIG_FILE}")
    if not os.path.isdir(path):
        raise WorkspaceError(f"{path} is not a folder; create a workspace with: foreword init {shlex.quote(path)}")
    workspace = Workspace(path, clock, zone or find_host_zone())
    workspace.notices = import_state_notes(workspace.state, workspace.files.root, workspace.config, clock())
    return workspace


class Workspace:
    """Assembles turns over one folder; edits take effect within a second, and a broken edit changes nothing."""

    def __init__(self, path: str, clock: Callable[[], datetime], zone: str = "UTC") -> None:
        self.files = Files(path)
        self.faults: dict[str, InputError] = {}
        """The problems of edits that are not in effect, by file; the previous version is used instead."""
        self.notices: list[str] = []
        """Upgrades done when the workspace was opened, for the owner."""
        self.clock, self._zone = clock, zone
        self._debounced = DebouncedFiles(self.files)
        self._reloading, self._making = RLock(), Lock()
        self.state = os.path.join(self.files.root, STATE_FOLDER)
        self._count_store = SqliteCountStore(self.state)
        self.kept = StateReader(self.state)
        """The stored state of agents, users and models."""
        self._windows: dict[str, int] = {}
        self._counters: dict[Vocabulary, Counter] = {}
        self._blueprints: dict[str, tuple[str | FileProblem | None, Blueprint]] = {}
        self._memory: tuple[Config, Memory] | None = None
        self._events: EventStream | None = None
        self._opened = ExitStack()
        self._generation = self.files.generation
        self._names = self.blueprint_names()
        self._text = self._read_config()
        self.context = self._make_context(self._load(self._text), self._text)

    @property
    def config(self) -> Config:
        """The configuration in effect."""
        return self.context.config

    @property
    def fault(self) -> InputError | None:
        """The problem with an edit that is not in effect, the configuration's first."""
        faults = {**self.faults}
        return faults.get(CONFIG_FILE) or next(iter(faults.values()), None)

    def assemble(self, turn: Turn, ledger: Ledger = NO_LEDGER) -> Assembly:
        """Assemble the prompt of a turn from the current files."""
        self.refresh()
        assembly = self._assemble(turn, self.context, ledger)
        for counter in self._counters.values():
            if counter.fresh >= MIN_COUNTS_TO_SAVE:
                counter.save()
        return assembly

    def _assemble(self, turn: Turn, context: AssemblyContext, ledger: Ledger) -> Assembly:
        complete = self.complete(turn, context)
        name = complete.blueprint or context.config.agents[complete.agent].blueprint
        return assemble(complete, context, self.blueprint(name), ledger)

    def preview(self) -> Iterator[Assembly]:
        """Assemble the owner's prompt of each agent, to read its files and all overlays and find broken ones."""
        for situation in self.config.situations.values():
            if situation.prompt_overlay:
                self.files.read(situation.prompt_overlay)
        for name in self.config.agents:
            with suppress(ForewordError):  # a turn of this agent reports the problem
                yield self.assemble(Turn(agent=name, user=self.config.owner, situation="dm"))

    def suppose(self, texts: Mapping[str, str | None]) -> Callable[[Turn, Ledger], Assembly]:
        """Return a function that assembles turns as if files had other texts or did not exist; nothing is stored."""
        context = replace(self.context, files=replace_files(self.files.root, texts), memories=None, caches={})
        return lambda turn, ledger: self._assemble(turn, context, ledger)

    def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run one of the built-in tools that a prompt offers, at the clearance of its turn."""
        return call_built_in_tool(self, assembly, name, arguments)

    def session(
        self,
        *,
        load: str | bytes = "",
        events: "EventStream | bool" = True,
        max_tokens: int = 8_192,
        **fields: Any,
    ) -> "OpenSession":
        """Open a session for a loop of your own, or continue one that `dump` returned.

        `fields` are those of its `Turn`s, such as `user`, `situation`, `model` and `tools`; tools that are no `Toolset`
        are added to the built-in ones. `max_tokens` limits each reply. Its events, prompts and costs are recorded in
        the workspace, and its budgets apply, unless `events` is False.
        """
        from foreword.agent.session import NO_EVENTS, OpenSession
        from foreword.agent.session_dump import parse_session

        if isinstance(events, bool):
            events = self.events if events else NO_EVENTS
        return OpenSession(self, fields, events, max_tokens, parse_session(load) if load else None)

    @property
    def events(self) -> "EventStream":
        """The event log, recorded prompts and budgets of the workspace, opened on first use; `close` closes them."""
        from foreword.events.sinks import open_event_stream

        with self._making:
            if self._events is None:
                self._events = self._opened.enter_context(open_event_stream(self.state, self.config, self.clock))
            return self._events

    @property
    def memory(self) -> Memory:
        """The memory of the workspace under the current configuration; earlier memory objects stay usable."""
        with self._making:
            config = self.config
            if self._memory is None:
                self._memory = config, Memory(self.files, config, self.state, self.clock)
            elif self._memory[0] is not config:
                self._memory = config, self._memory[1].follow(config)
            return self._memory[1]

    def complete(self, turn: Turn, context: AssemblyContext) -> Turn:
        """Fill in the open fields of a turn: agent, model, instructions, built-in tools and time."""
        agents = context.config.agents
        agent = turn.agent or next(iter(agents))
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        model = turn.model or agents[agent].model
        instructions = turn.instructions or self.find_instructions(turn, agent) or ""
        facts = context.measure(model).facts
        mode = turn.mode or choose_mode(facts)
        blueprint = self.blueprint(turn.blueprint or agents[agent].blueprint)
        tools = rename_log_tools(find_tools(turn.tools, mode, facts), blueprint.log_tools)
        return replace(
            turn,
            agent=agent,
            model=model,
            mode=mode,
            now=turn.now or self.clock(),
            instructions=instructions,
            tools=tools,
            extensions=turn.extensions if facts.tools else (),
        )

    def find_instructions(self, turn: Turn, agent: str = "") -> str | None:
        """Return the stored instructions of a turn's user for its agent, if no one else reads the reply.

        None means that there are none that the clearance may see; if it is too low, they are not opened.
        """
        clearance = resolve_trust(turn, self.config).level
        if not turn.user or has_other_readers(turn) or clearance < INSTRUCTIONS_TRUST:
            return None
        return self.kept.find_instructions(turn.user, agent or turn.agent, clearance)

    def blueprint(self, name: str) -> Blueprint:
        """Return a blueprint: the workspace's, or else the shipped one; a broken edit changes nothing."""
        path = f"blueprints/{name}.yaml"
        known = self._blueprints.get(name)
        own = self._debounced.read(path) if known or not check_name(name) else None
        try:
            made = known[1] if known and known[0] == own else self._make_blueprint(name, own)
        except InputError as error:
            if known is None:
                raise
            self.faults[path] = error
            return known[1]
        self._blueprints[name] = (own, made)
        self.faults.pop(path, None)
        return made

    def _make_blueprint(self, name: str, own: str | FileProblem | None) -> Blueprint:
        if isinstance(own, FileProblem):
            raise WorkspaceError(f"blueprints/{name}.yaml {own.reason}")
        text = read_blueprint(name) if own is None else own
        if text is None:
            raise UnknownName("blueprint", name, self.blueprint_names())
        return load_blueprint(text, f"blueprints/{name}.yaml")

    def blueprint_names(self) -> tuple[str, ...]:
        """List the blueprints that this workspace can use."""
        folder = os.path.join(self.files.root, "blueprints")
        own = os.listdir(folder) if os.path.isdir(folder) else []
        names = (name.removesuffix(".yaml") for name in own if name.endswith(".yaml"))
        return tuple(sorted({*list_blueprints(), *names}))

    def refresh(self, *, now: bool = False) -> None:
        """Apply changes on the disk; a broken configuration or blueprint leaves the previous one in effect.

        An edit of either counts after its file was unchanged for 200 ms, or at once with `now`.
        """
        generation = self.files.refresh(now=now)
        if generation == self._generation and not (now or self._debounced.is_waiting or self._has_other_names()):
            return
        with self._reloading:
            self._generation, self._names = generation, self.blueprint_names()
            self._debounced.reread(now=now)
            for name in [*self._blueprints]:
                self.blueprint(name)
            try:
                text = self._read_config()
                if text != self._text:
                    before = self.config
                    self.context = self._make_context(self._load(text), text)
                    self._text = text
                    if self._events:
                        self._events.follow(before, self.config)
                self.faults.pop(CONFIG_FILE, None)
            except InputError as error:
                self.faults[CONFIG_FILE] = error

    def _has_other_names(self) -> bool:
        """Return whether blueprints were added or removed; a faulty configuration may have needed one."""
        return CONFIG_FILE in self.faults and self.blueprint_names() != self._names

    def clear_token_counts(self) -> None:
        """Clear the cached token counts: they may include texts of a user who was erased."""
        for counter in [*self._counters.values()]:
            counter.forget()

    def close(self) -> None:
        """Save new token counts for the next process, and close memory and state."""
        for counter in self._counters.values():
            counter.save()
        if self._memory:
            self._memory[1].close()
        self.kept.close()
        self._events = None
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self, text: str) -> Config:
        config = load_config(text, blueprints=self.blueprint_names(), list_caches=list_cache_rules)
        return replace(config, host=replace(config.host, timezone=config.host.timezone or self._zone))

    def _make_context(self, config: Config, text: str) -> AssemblyContext:
        meters: dict[str, Meter] = {}
        self.files.templates = frozenset(file.path for file in config.prompt.files if file.template)

        def measure(model: str) -> Meter:
            meter = meters.get(model)
            if meter is None:
                facts = find_model(model, config.models, self._windows.get(model))
                fresh = Counter(facts.tokenizer, self._count_store)
                meter = meters[model] = Meter(facts, self._counters.setdefault(facts.tokenizer, fresh))
            return meter

        return AssemblyContext(
            config=config,
            files=self.files,
            measure=measure,
            hooks=load_hooks(config.prompt.hooks, text, CONFIG_FILE),
            characters=self.kept.find_character,
            archives=self.kept.find_archived,
            memories=self,
        )

    def set_served_window(self, model: str, window: int) -> None:
        """Set the window that a local server reports for a model; the configuration takes precedence."""
        with self._reloading:
            if self._windows.get(model) != window:
                self._windows[model] = window
                self.context = self._make_context(self.config, self._text)

    def recall(self, message: str, audience: Audience, documents: Sequence[Document] = ()) -> Sequence[Passage]:
        """Find the few passages of memory and of additional documents that match a message."""
        return self.memory.recall(message, audience, documents)

    def _read_config(self) -> str:
        text = self._debounced.read(CONFIG_FILE)
        if text is None:
            hint = f"create one with: foreword init {shlex.quote(self.files.root)}"
            raise WorkspaceError(f"there is no {CONFIG_FILE} in {self.files.root}; {hint}")
        if isinstance(text, FileProblem):
            raise ConfigError([ConfigFault(file=CONFIG_FILE, line=None, message=text.reason)])
        return text


def choose_mode(facts: ModelFacts) -> Mode:
    """Choose the prompt mode of a model: the one it is known to need, or the largest that its window allows."""
    if facts.mode:
        return facts.mode
    if facts.window < TINY_WINDOW_TOKENS:
        return Mode.BRIEF
    return Mode.MINIMAL if facts.window < SMALL_WINDOW_TOKENS else Mode.FULL


def find_tools(named: Toolset | None, mode: Mode, facts: ModelFacts) -> Toolset:
    """Return the tools of a turn: those it names, or the built-in ones.

    A model without tool support gets none in any mode; neither does a title or a summary.
    """
    if mode in (Mode.NONE, Mode.BRIEF) or not facts.tools:
        return NO_TOOLS
    return BUILT_IN if named is None else named
