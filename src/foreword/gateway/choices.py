"""Which model a turn speaks with."""

from collections.abc import Mapping

from foreword.config.environment import Secrets
from foreword.runtime.choosing import choose_model
from foreword.runtime.models import Models
from foreword.workspace import Workspace


class Choices:
    """Chooses models, and has each opened beside the loop: a provider's client takes seconds to import."""

    def __init__(self, workspace: Workspace, models: Models, environ: Mapping[str, str] | Secrets) -> None:
        self._workspace = workspace
        self._models = models
        self._environ = environ
        self._opened: set[str] = set()

    async def choose(self, agent: str, chosen: str = "") -> str:
        """Choose the model of an agent or of its session; where no key is set at all, the embedded one."""
        config = self._workspace.config
        model = choose_model(chosen or config.agents[agent].model, config, self._environ).model
        if self._models.follow(config):
            self._opened.clear()
        if model not in self._opened:
            await self._models.start(model)
            self._opened.add(model)
        return model
