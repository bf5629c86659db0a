"""The equipment of a turn: its model, its tools, the open project, and facts about Git and the host."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from foreword.agent.conversation import ImagePart
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.providers.model_discovery import choose_model, find_served_window
from foreword.agent.tools.registry import Toolbox, remove_tools
from foreword.config.env import Secrets
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.gateway.client_tools import add_client_tools
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.gateway_tools import find_unusable_tools
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.schedule.destinations import find_address
from foreword.host import describe_place, find_git
from foreword.tokens.models import find_model as find_facts
from foreword.turn import Extension, Git, Host, Sandbox, State, Task, Toolset
from foreword.types import Trust, frozen
from foreword.workspace import Workspace


def changes_model(before: Config, after: Config) -> bool:
    """Return whether an edit changes which model answers, or its endpoint."""
    models = [{name: agent.model for name, agent in config.agents.items()} for config in (before, after)]
    return models[0] != models[1] or (before.models, before.providers) != (after.models, after.providers)


class ModelSelection:
    """Selects models and opens each in a thread: importing a provider's client takes seconds."""

    def __init__(self, workspace: Workspace, models: ModelClients, environ: Mapping[str, str] | Secrets) -> None:
        self._workspace = workspace
        self._models = models
        self._environ = environ
        self._opened: set[str] = set()
        self._started = workspace.config

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Apply a new configuration; return the settings of running engines that need a restart."""
        self._follow(after)
        facts = self._started.models
        return [f"models.{name}" for name in self._models.engines if after.models.get(name) != facts.get(name)]

    def _follow(self, config: Config) -> None:
        if self._models.follow(config):
            self._opened.clear()

    async def choose(self, agent: str, chosen: str = "") -> str:
        """Choose the model of an agent or of its session; without any API key, the embedded model."""
        config = self._workspace.config
        model = choose_model(chosen or config.agents[agent].model, config, self._environ).model
        self._follow(config)
        if model not in self._opened:
            await self._models.start(model)
            if window := await asyncio.to_thread(find_served_window, model, config, self._environ):
                self._workspace.set_served_window(model, window)
            self._opened.add(model)
        return model

    async def judge_format(self, agent: str, wanted: str, chosen: str = "", *, tools: bool = True) -> str:
        """Return why the model of an agent or session rejects a response format; empty if it accepts it.

        Some models accept no response format together with tools. Housekeeping has no tools.
        """
        model = await self.choose(agent, chosen)
        tools = tools and find_facts(model, self._workspace.config.models).tools
        return self._models.find(model).find_unsupported_format(model, wanted, tools=tools)

    async def judge_images(self, agent: str, images: Sequence[ImagePart], chosen: str = "") -> str:
        """Return why the model of an agent or session does not take images; empty if it does."""
        model = await self.choose(agent, chosen)
        facts = find_facts(model, self._workspace.config.models)
        return self._models.find(model).find_unsupported_image(facts, images)


SHELL_CHANNEL = "terminal"  # the person at the shell is the owner
MIN_PROJECT_TRUST = Trust.INNER
MAX_PATH_CHARS = 1_000


@frozen(eq=True)
class Project:
    """A project that may be opened."""

    path: str
    root: str
    """The configured directory that contains it; nothing above it is read."""


NO_PROJECT = Project(path="", root="")


def find_project(named: str, channel: str, agent: str, clearance: Trust, workspace: Workspace) -> Project:
    """Find the project of a turn; raise InputError if its channel may not open it."""
    if not named:
        return NO_PROJECT
    if channel == SHELL_CHANNEL:
        return Project(path=named, root="")
    return open_project(named, agent, clearance, workspace.config, workspace.files.root)


def list_roots(agent: str, clearance: Trust, config: Config, workspace: str) -> list[str]:
    """List the directories in which a clearance may open projects of an agent, with links resolved."""
    if clearance < MIN_PROJECT_TRUST or agent not in config.agents:
        return []
    given = [os.path.expanduser(one.path) for one in config.agents[agent].folders if one.trust <= clearance]
    return list(dict.fromkeys(os.path.realpath(os.path.join(workspace, path)) for path in given))


def open_project(path: str, agent: str, clearance: Trust, config: Config, workspace: str) -> Project:
    """Find a project by its path or by its name in an allowed directory; raise InputError for anything else."""
    roots = list_roots(agent, clearance, config, workspace)
    if clearance < MIN_PROJECT_TRUST:
        raise InputError(f"a project needs at least {MIN_PROJECT_TRUST} trust")
    if not roots:
        raise InputError(f"no project can be opened: agents.{agent}.directories names no directory for {clearance}")
    if len(path) <= MAX_PATH_CHARS and path.strip() and "\x00" not in path:
        for root in roots:
            found = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
            if Path(found).is_relative_to(root) and os.path.isdir(found):
                return Project(path=found, root=root)
    raise InputError(f"{path[:200]!r} is not a project here; it must be a directory in {' or '.join(roots)}")


@frozen
class Equipment:
    """What a turn works with, apart from its history."""

    tools: Toolset
    extensions: tuple[Extension, ...] = ()
    model: str = ""
    task: Task | None = None
    state: State = State()
    project: Project = NO_PROJECT
    git: Git | None = None
    host: Host | None = None
    sandbox: Sandbox | None = None


def find_useless_tools(
    state: sqlite3.Connection, incoming: RoutedMessage, config: Config, channels: Collection[str]
) -> frozenset[str]:
    """Find the tools that cannot work in a turn: notices without a separate address, schedules of unknown people."""
    known = incoming.user in config.users
    address = find_address(state, config, incoming.user, channels) if known else None
    reached = address not in (None, (incoming.through or incoming.channel, incoming.address))
    return find_unusable_tools(known=known, planned=bool(incoming.scheduled_run), reached=reached)


GIT_CACHE_S = 30.0  # seconds for which a result is reused
GIT_TIMEOUT_S = 1.0  # seconds that a turn waits; after that it runs without Git state, and a later turn gets the result
MAX_CACHED_PROJECTS = 64


@frozen
class GitQuery:
    """One Git query, shared by the turns that wait for it."""

    begun: float
    found: "asyncio.Task[Git | None]"


class GitStates:
    """Finds the Git state of directories, and reuses recent results."""

    def __init__(
        self,
        find: Callable[[str], Git | None] = find_git,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = GIT_TIMEOUT_S,
    ) -> None:
        self._find = find
        self._clock = clock
        self._timeout_s = timeout_s
        self._queries: dict[str, GitQuery] = {}

    async def find(self, project: str) -> Git | None:
        """Find the Git state of a directory; None without a repository or without an answer from git in time."""
        query = self._queries.get(project)
        if query is None or self._clock() - query.begun >= GIT_CACHE_S:
            self._queries.pop(project, None)
            while len(self._queries) >= MAX_CACHED_PROJECTS:
                del self._queries[next(iter(self._queries))]
            task = asyncio.create_task(asyncio.to_thread(self._find, project))
            query = self._queries[project] = GitQuery(begun=self._clock(), found=task)
        done, _ = await asyncio.wait((query.found,), timeout=self._timeout_s)
        return query.found.result() if done else None


MIN_HOST_TRUST = Trust.INNER  # minimum clearance to see the project and the host


class EquipmentFinder:
    """Finds the equipment of turns."""

    def __init__(
        self,
        context: GatewayContext,
        choices: ModelSelection,
        toolbox: Toolbox,
        environ: Mapping[str, str],
    ) -> None:
        self._context = context
        self._workspace = context.workspace
        self._choices = choices
        self._toolbox = toolbox
        self._environ = environ
        self._git_states = GitStates()

    async def equip(self, claimed: ClaimedTurn) -> Equipment:
        """Find the model, tools and environment of a turn."""
        session, config = claimed.session, self._workspace.config
        model = await self._choices.choose(session.key.agent, session.model)
        tools, extensions = await self._toolbox.find(session.key.agent, session=session.id)
        useless = await self._context.writer.read(
            lambda state: find_useless_tools(state, claimed.incoming, config, self._context.channels)
        )
        key, named = session.key, claimed.incoming.project or session.project
        project = find_project(named, claimed.incoming.channel, key.agent, key.clearance, self._workspace)
        git = await self._find_git(claimed, project.path)
        # The client's tools are not bound by plan mode, so they are not offered in it.
        plan = session.plan if claimed.incoming.plan is None else claimed.incoming.plan
        passes = find_facts(model, config.models).native_tools and not plan
        host, sandbox = describe_place(config, self._environ)
        return Equipment(
            tools=add_client_tools(remove_tools(tools, useless), claimed.incoming.request.tools if passes else ""),
            extensions=extensions,
            model=model,
            project=project,
            git=git,
            host=host,
            sandbox=sandbox,
        )

    async def _find_git(self, claimed: ClaimedTurn, project: str) -> Git | None:
        """Find the Git state of the directory that the turn works in, if its clearance may see it."""
        key = claimed.session.key
        if key.clearance < MIN_HOST_TRUST:
            return None
        roots = list_roots(key.agent, key.clearance, self._workspace.config, self._workspace.files.root)
        place = project or claimed.incoming.cwd or next(iter(roots), "")
        return await self._git_states.find(place) if place else None
