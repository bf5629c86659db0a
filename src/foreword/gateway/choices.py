"""Which model a turn speaks with."""

import asyncio
from collections.abc import Iterable, Mapping

from foreword.config.environment import Secrets
from foreword.config.schema import Config
from foreword.runtime.choosing import choose_model
from foreword.runtime.discovery import find_window
from foreword.runtime.models import Models
from foreword.runtime.response_format import find_refusal
from foreword.tokens import find as find_facts
from foreword.workspace import Workspace


def is_other_model(before: Config, after: Config) -> bool:
    """Whether an edit changes which model answers, or where one is reached."""
    models = [{name: agent.model for name, agent in config.agents.items()} for config in (before, after)]
    return models[0] != models[1] or (before.models, before.providers) != (after.models, after.providers)


class Choices:
    """Chooses models, and has each opened beside the loop: a provider's client takes seconds to import."""

    def __init__(self, workspace: Workspace, models: Models, environ: Mapping[str, str] | Secrets) -> None:
        self._workspace = workspace
        self._models = models
        self._environ = environ
        self._opened: set[str] = set()
        self._started = workspace.config

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Hold to addresses and facts of another configuration; an engine that runs keeps what it was started with."""
        self._follow(after)
        facts = self._started.models
        return [f"models.{name}" for name in self._models.engines if after.models.get(name) != facts.get(name)]

    def _follow(self, config: Config) -> None:
        if self._models.follow(config):
            self._opened.clear()

    async def choose(self, agent: str, chosen: str = "") -> str:
        """Choose the model of an agent or of its session; where no key is set at all, the embedded one."""
        config = self._workspace.config
        model = choose_model(chosen or config.agents[agent].model, config, self._environ).model
        self._follow(config)
        if model not in self._opened:
            await self._models.start(model)
            if window := await asyncio.to_thread(find_window, model, config, self._environ):
                self._workspace.learn_window(model, window)
            self._opened.add(model)
        return model

    async def judge_format(self, agent: str, wanted: str, chosen: str = "", *, tools: bool = True) -> str:
        """Return why the model of an agent or of its session does not take a response format; empty if it does.

        Some models take no format together with tools, which housekeeping does not have.
        """
        model = await self.choose(agent, chosen)
        tools = tools and find_facts(model, self._workspace.config.models).tools
        return find_refusal(self._models.find(model), wanted, model, tools=tools)
