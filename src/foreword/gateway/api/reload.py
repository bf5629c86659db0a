"""Reloading: the owner has the workspace read now, and is told what came into force and what did not."""

from fastapi import APIRouter
from pydantic import Field

from foreword.errors import ConfigError
from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import Told, answers
from foreword.words import Trust

router = APIRouter(prefix="/api", tags=["reload"])


class Reload(Told):
    """What a look at the workspace has found."""

    changed: list[str] = Field(description="The parts of foreword.yaml that are others since it was last looked at.")
    restart: list[str] = Field(description="What is edited and needs a restart, such as server.port.")
    faults: list[str] = Field(
        description="What is wrong on the disk, so that what was in force before still is, or a built-in text."
    )


@router.post("/reload", operation_id="reload", responses=answers())
async def reload(desk: AtDesk) -> Reload:
    """Read the workspace now; for its owner alone."""
    if desk.user != desk.config.owner or desk.find_clearance() is not Trust.FULL:
        raise missing("route")
    found = desk.gateway.reloading.look(now=True)
    workspace = desk.gateway.workspace
    faults = [*workspace.faults.values()]
    words = [str(one) for fault in faults for one in (fault.faults if isinstance(fault, ConfigError) else [fault])]
    spoiled = {**workspace.files.losses, **workspace.files.faults}
    words += [f"{path} {trouble.reason}" for path, trouble in sorted(spoiled.items())]
    return Reload(changed=list(found.changed), restart=list(found.restart), faults=words)
