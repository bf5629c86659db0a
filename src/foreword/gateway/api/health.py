"""Health: whether the process lives, and whether it can work; neither says anything about anybody."""

from typing import Any, Literal

from fastapi import APIRouter, Request

from foreword.gateway.api.faults import Fault
from foreword.gateway.api.shapes import Told, answers

WITHOUT_TOKEN: dict[str, Any] = {"security": []}

router = APIRouter(tags=["health"])


class Health(Told):
    """A sign of life."""

    status: Literal["ok"]


@router.get("/healthz", operation_id="isAlive", responses=answers(), openapi_extra=WITHOUT_TOKEN)
async def live() -> Health:
    """Say that the process lives."""
    return Health(status="ok")


@router.get("/readyz", operation_id="isReady", responses=answers(), openapi_extra=WITHOUT_TOKEN)
async def ready(request: Request) -> Health:
    """Say whether the state can be written, so that messages can be accepted."""
    try:
        await request.app.state.gateway.prove()
    except Exception as error:
        raise Fault(503, "not ready", wait=5) from error
    return Health(status="ok")
