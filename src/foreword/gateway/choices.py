"""Which model a turn speaks with."""

import asyncio

from foreword.runtime.loop import Finds
from foreword.workspace import Workspace


class Choices:
    """Chooses models, and has each opened beside the loop: a provider's client takes seconds to import."""

    def __init__(self, workspace: Workspace, models: Finds) -> None:
        self._workspace = workspace
        self._models = models
        self._opened: set[str] = set()

    async def choose(self, agent: str, chosen: str = "") -> str:
        """Choose the model of an agent, unless another was chosen for its session."""
        model = chosen or self._workspace.config.agents[agent].model
        if model not in self._opened:
            await asyncio.to_thread(self._models.find, model)
            self._opened.add(model)
        return model
