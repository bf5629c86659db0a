"""A workspace: a folder with a configuration and files, ready to assemble turns."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock, RLock
from typing import Any, Self

from foreword.assemble import assemble, decide
from foreword.assembly import Assembly
from foreword.blueprint import Blueprint
from foreword.blueprint import load as load_blueprint
from foreword.blueprint.installed import find_hooks
from foreword.config import Config, load
from foreword.errors import ConfigError, Fault, ForewordError, InputError, UnknownName, WorkspaceError
from foreword.facts import find_zone
from foreword.ledger import NOTHING_FROZEN, Ledger
from foreword.memo import Memo
from foreword.memory import Memory
from foreword.names import judge_name
from foreword.shipped import list_blueprints, read_blueprint
from foreword.sources import SOURCES, Files
from foreword.sources.document import Document, Trouble
from foreword.sources.ground import Ground
from foreword.sources.passage import Passage
from foreword.sources.settled import Settled
from foreword.sources.supposed import suppose
from foreword.sources.wording import judge_wording
from foreword.store.long_term_memory import upgrade_notes
from foreword.store.reader import StateReader
from foreword.tokens import Counter, Meter, ModelFacts, find
from foreword.tokens.caches import list_rules
from foreword.tokens.shelf import CountShelf
from foreword.tools import (
    BUILT_IN,
    DUTIES,
    FILES,
    INSTRUCTING,
    INTROSPECTION,
    REMEMBERING,
    SKILLS,
    TASKS,
    WORKFLOWS,
    Answer,
    DutyKeeping,
    Instructing,
    Reading,
    Remembering,
    TaskKeeping,
    WorkflowKeeping,
    call,
)
from foreword.tools.instructing import INSTRUCTED
from foreword.tools.introspection import is_log_tool, name_log_tools
from foreword.tools.skills import read_skill
from foreword.trust import Audience, has_company
from foreword.turn import NO_TOOLS, Toolset, Turn
from foreword.words import Mode, Vocabulary

CONFIG = "foreword.yaml"
STATE = ".foreword"
SMALL_WINDOW = 16_000  # tokens; below this a full prompt leaves no room to work
TINY_WINDOW = 8_000  # tokens; below this the schemas of tools leave no room either
FRESH_COUNTS = 32  # new token counts that are worth a write


def open_workspace(
    path: str = ".", clock: Callable[[], datetime] = lambda: datetime.now(UTC), zone: str = ""
) -> "Workspace":
    """Open the workspace in a folder; its configuration is read and checked at once.

    Long-term memory of a SPEC-010 database that became the state is imported once: this writes entries to `users/`.
    `zone` is the server's time zone, where the configuration names none; if left out, the machine's.
    """
    if os.path.isfile(path):
        raise WorkspaceError(f"{path} is a file; name the folder that has a {CONFIG}")
    if not os.path.isdir(path):
        raise WorkspaceError(f"{path} is no folder; make a workspace with: foreword init {shlex.quote(path)}")
    workspace = Workspace(path, clock, zone or find_zone())
    workspace.notices = upgrade_notes(workspace.state, workspace.files.root, workspace.config, clock())
    return workspace


class Workspace:
    """Assembles turns over one folder; edits are seen within a second, and a broken one changes nothing."""

    def __init__(self, path: str, clock: Callable[[], datetime], zone: str = "UTC") -> None:
        self.files = Files(path)
        self.faults: dict[str, InputError] = {}
        """What is wrong with edits that are not in force, by their files; what was there before is used instead."""
        self.notices: list[str] = []
        """What was upgraded when the workspace was opened, for the owner."""
        self._clock, self._zone = clock, zone
        self._settled = Settled(self.files)
        self._reloading, self._making = RLock(), Lock()
        self.state = os.path.join(self.files.root, STATE)
        self._shelf = CountShelf(self.state)
        self.kept = StateReader(self.state)
        """What the state has of agents, people and models."""
        self._windows: dict[str, int] = {}
        self._counters: dict[Vocabulary, Counter] = {}
        self._blueprints: dict[str, tuple[str | Trouble | None, Blueprint]] = {}
        self._memory: tuple[Config, Memory] | None = None
        self._generation = self.files.generation
        self._runs = (
            (REMEMBERING, self._remember),
            (SKILLS, self._open_skill),
            (FILES, self._file),
            (INTROSPECTION, self._inquire),
            (INSTRUCTING, self._instruct),
            (TASKS, self._keep_tasks),
            (WORKFLOWS, self._keep_workflow),
            (DUTIES, self._keep_duties),
        )
        self._names = self.blueprint_names()
        self._text = self._read_config()
        self.ground = self._lay_ground(self._load(self._text), self._text)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.ground.config

    @property
    def fault(self) -> InputError | None:
        """What is wrong with an edit that is not in force, that of the configuration first."""
        found = [*self.faults.items()]
        return next((error for path, error in found if path == CONFIG), found[0][1] if found else None)

    def assemble(self, turn: Turn, ledger: Ledger = NOTHING_FROZEN) -> Assembly:
        """Assemble the prompt of a turn from what is on the disk now."""
        self.refresh()
        ground = self.ground
        complete = self.complete(turn, ground)
        name = complete.blueprint or ground.config.agents[complete.agent].blueprint
        assembly = assemble(complete, ground, self.blueprint(name), ledger)
        for counter in self._counters.values():
            if counter.fresh >= FRESH_COUNTS:
                counter.save()
        return assembly

    def preview(self) -> Iterator[Assembly]:
        """Assemble the owner's prompt of each agent: its files and all overlays are read, and broken ones are found."""
        for situation in self.config.situations.values():
            if situation.prompt_overlay:
                self.files.read(situation.prompt_overlay)
        for name in self.config.agents:
            with suppress(ForewordError):  # a turn of this agent says what is wrong with its prompt
                yield self.assemble(Turn(agent=name, user=self.config.owner, situation="dm"))

    def suppose(self, texts: Mapping[str, str | None]) -> Callable[[Turn, Ledger], Assembly]:
        """Assemble turns as if files had other texts, or were not there; nothing is written or remembered of it."""
        files, now = suppose(self.files.root, texts), self.ground
        ground = replace(now, files=files, memories=None, memo=Memo(), scratch=Memo(), lock=Lock())

        def assemble_so(turn: Turn, ledger: Ledger) -> Assembly:
            complete = self.complete(turn, ground)
            name = complete.blueprint or ground.config.agents[complete.agent].blueprint
            return assemble(complete, ground, self.blueprint(name), ledger)

        return assemble_so

    def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        """Run one of the built-in tools that a prompt names, at the clearance of its turn."""
        if is_log_tool(assembly.terms.tools, name):
            return self._inquire(assembly, name, arguments)
        run = next((run for tools, run in self._runs if name in tools), self._read)
        return run(assembly, name, arguments)

    def _read(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return call(assembly, self.ground, name, arguments)

    def _remember(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        kept = self.find_instructions(assembly.turn)
        return Remembering(assembly, self.ground, self.memory, kept).call(name, arguments)

    def _open_skill(self, assembly: Assembly, _: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return read_skill(assembly, self.ground, arguments)

    def _file(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        from foreword.tools.filing import Filing

        return Filing(assembly, self.ground).call(name, arguments)

    def _inquire(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        from foreword.tools.inquiry import Inquiry

        return Inquiry(assembly, self.ground, self.memory, self.state).call(name, arguments)

    def _instruct(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return Instructing(assembly, self.state).call(name, arguments)

    def _keep_tasks(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return TaskKeeping(assembly, self.state).call(name, arguments)

    def _keep_workflow(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return WorkflowKeeping(assembly, self.state).call(name, arguments)

    def _keep_duties(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        return DutyKeeping(assembly, self.ground, self.state).call(name, arguments)

    @property
    def memory(self) -> Memory:
        """The memory of the workspace, under the configuration in force; who has an earlier one can go on with it."""
        with self._making:
            config, kept = self.config, self._memory
            if kept is None:
                kept = (config, Memory(self.files, config, self.state, self._clock))
            elif kept[0] is not config:
                kept = (config, kept[1].follow(config))
            self._memory = kept
            return kept[1]

    def complete(self, turn: Turn, ground: Ground) -> Turn:
        """Fill in what the caller left open: agent, model, instructions, the built-in tools, and the time."""
        agents = ground.config.agents
        agent = turn.agent or next(iter(agents))
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        model = turn.model or agents[agent].model
        instructions = turn.instructions or self._recall_instructions(turn, agent, ground)
        named = turn.agent and turn.model == model and turn.mode and turn.mode is not Mode.NONE
        facts = ground.measure(model).facts
        mode = turn.mode or choose_mode(facts)
        blueprint = self.blueprint(turn.blueprint or agents[agent].blueprint)
        tools = name_log_tools(find_tools(turn.tools, mode, facts), blueprint.log_tools)
        if named and turn.now and tools is turn.tools and instructions == turn.instructions:
            return turn
        return replace(
            turn,
            agent=agent,
            model=model,
            mode=mode,
            now=turn.now or self._clock(),
            instructions=instructions,
            tools=tools,
            extensions=turn.extensions if facts.tools else (),
        )

    def find_instructions(self, turn: Turn) -> str | None:
        """Find the standing instructions that the store has for the person of a complete turn, where nobody else reads.

        None says that there are none that its clearance may know of.
        """
        if not turn.user or has_company(turn):
            return None
        return self.kept.find_instructions(turn.user, turn.agent, decide(turn, self.ground).level)

    def _recall_instructions(self, turn: Turn, agent: str, ground: Ground) -> str:
        """Recall a person's instructions, unless the clearance is too low for them: then they are not even opened."""
        clearance = decide(turn, ground).level
        if not turn.user or has_company(turn) or clearance < INSTRUCTED:
            return ""
        return self.kept.find_instructions(turn.user, agent, clearance) or ""

    def blueprint(self, name: str) -> Blueprint:
        """Return a blueprint: the workspace's own of this name, else the shipped one; a broken edit changes nothing."""
        path = f"blueprints/{name}.yaml"
        own = self._settled.read(path) if not judge_name(name) else None
        known = self._blueprints.get(name)
        if known and known[0] == own:
            self.faults.pop(path, None)
            return known[1]
        try:
            made = self._make_blueprint(name, own)
        except InputError as error:
            if known is None:
                raise
            self.faults[path] = error
            return known[1]
        self._blueprints[name] = (own, made)
        self.faults.pop(path, None)
        return made

    def _make_blueprint(self, name: str, own: str | Trouble | None) -> Blueprint:
        if isinstance(own, Trouble):
            raise WorkspaceError(f"blueprints/{name}.yaml {own.reason}")
        text = read_blueprint(name) if own is None else own
        if text is None:
            raise UnknownName("blueprint", name, self.blueprint_names())
        return load_blueprint(text, f"blueprints/{name}.yaml", SOURCES, judge_wording)

    def blueprint_names(self) -> tuple[str, ...]:
        """Name the blueprints that this workspace can use."""
        folder = os.path.join(self.files.root, "blueprints")
        own = os.listdir(folder) if os.path.isdir(folder) else []
        return tuple(
            sorted({*list_blueprints(), *(name.removesuffix(".yaml") for name in own if name.endswith(".yaml"))})
        )

    def refresh(self, *, now: bool = False) -> None:
        """See what changed on the disk; a configuration or a blueprint that became wrong leaves the old one in force.

        An edit of either counts once its file was left alone for 200 ms, unless asked to see it now.
        """
        generation = self.files.refresh(now=now)
        if generation == self._generation and not (now or self._settled.is_waiting or self._has_other_names()):
            return
        with self._reloading:
            self._generation, self._names = generation, self.blueprint_names()
            self._settled.look(now=now)
            for name in [*self._blueprints]:
                self.blueprint(name)
            try:
                text = self._read_config()
                if text != self._text:
                    self.ground = self._lay_ground(self._load(text), text)
                    self._text = text
                self.faults.pop(CONFIG, None)
            except InputError as error:
                self.faults[CONFIG] = error

    def _has_other_names(self) -> bool:
        """Whether blueprints came or went, one of which a faulty configuration may have been waiting for."""
        return CONFIG in self.faults and self.blueprint_names() != self._names

    def forget_counted(self) -> None:
        """Remember no text that was counted: somebody was forgotten, and it may have been theirs."""
        for counter in [*self._counters.values()]:
            counter.forget()

    def close(self) -> None:
        """Put the token counts that are new where the next process finds them."""
        for counter in self._counters.values():
            counter.save()
        if self._memory:
            self._memory[1].close()
        self.kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self, text: str) -> Config:
        config = load(text, blueprints=self.blueprint_names(), list_caches=list_rules)
        return replace(config, host=replace(config.host, timezone=config.host.timezone or self._zone))

    def _lay_ground(self, config: Config, text: str) -> Ground:
        meters: dict[str, Meter] = {}
        self.files.templates = frozenset(file.path for file in config.prompt.files if file.template)

        def measure(model: str) -> Meter:
            meter = meters.get(model)
            if meter is None:
                facts = find(model, config.models, self._windows.get(model))
                meter = meters[model] = Meter(facts, self._count_with(facts.tokenizer))
            return meter

        return Ground(
            config=config,
            files=self.files,
            measure=measure,
            hooks=find_hooks(config.prompt.hooks, text, CONFIG),
            characters=self.kept.find_character,
            archives=self.kept.find_archived,
            memories=self,
        )

    def learn_window(self, model: str, window: int) -> None:
        """Take the window that a server on this machine says it serves a model with; the configuration wins over it."""
        with self._reloading:
            if self._windows.get(model) != window:
                self._windows[model] = window
                self.ground = self._lay_ground(self.config, self._text)

    def recall(self, message: str, audience: Audience, documents: Sequence[Document] = ()) -> Sequence[Passage]:
        """Find the few passages of memory, and of further documents, that a message is about."""
        return self.memory.recall(message, audience, documents)

    def _count_with(self, vocabulary: Vocabulary) -> Counter:
        return self._counters.setdefault(vocabulary, Counter(vocabulary, self._shelf))

    def _read_config(self) -> str:
        text = self._settled.read(CONFIG)
        if text is None:
            root = self.files.root
            raise WorkspaceError(f"there is no {CONFIG} in {root}; make one with: foreword init {shlex.quote(root)}")
        if isinstance(text, Trouble):
            raise ConfigError([Fault(file=CONFIG, line=None, message=text.reason)])
        return text


def choose_mode(facts: ModelFacts) -> Mode:
    """Choose the prompt mode of a model: the one it is known to need, else the largest that its window allows."""
    if facts.mode:
        return facts.mode
    if facts.window < TINY_WINDOW:
        return Mode.BRIEF
    return Mode.MINIMAL if facts.window < SMALL_WINDOW else Mode.FULL


def find_tools(named: Toolset | None, mode: Mode, facts: ModelFacts) -> Toolset:
    """Find the tools of a turn: those it names, else the built-in ones.

    A model that cannot use tools gets none in any mode, and a title or a summary is made without any.
    """
    if mode in (Mode.NONE, Mode.BRIEF) or not facts.tools:
        return NO_TOOLS
    return BUILT_IN if named is None else named
