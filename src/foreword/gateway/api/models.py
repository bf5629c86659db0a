"""The agents of the configuration, as OpenAI's clients list models."""

from typing import Annotated

from fastapi import APIRouter, Path

from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.openai import Model, ModelList
from foreword.gateway.api.shapes import LONGEST_NAME, answers

router = APIRouter(prefix="/v1/models", tags=["openai"])


def show(name: str) -> Model:
    """Show an agent as a model; what stands behind it is not told."""
    return Model(id=name, created=0, owned_by="foreword")


@router.get("", operation_id="listModels", responses=answers())
async def show_all(desk: AtDesk) -> ModelList:
    """List the agents; the first one answers where none is named."""
    return ModelList(data=[show(name) for name in desk.config.agents])


@router.get("/{model}", operation_id="showModel", responses=answers())
async def show_one(model: Annotated[str, Path(max_length=LONGEST_NAME)], desk: AtDesk) -> Model:
    """Show one agent."""
    if model not in desk.config.agents:
        raise missing("model")
    return show(model)
