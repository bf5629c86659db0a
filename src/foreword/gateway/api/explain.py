"""Explaining: what an agent would be told with a message, before anybody sends it."""

from typing import Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.device import Languages, read_device
from foreword.gateway.api.shapes import LONGEST_TEXT, Asked, Device, Name, Path, Told, answers
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.message import Incoming

router = APIRouter(prefix="/api", tags=["explain"])


class ExplainRequest(Asked):
    """A message that nobody has sent yet."""

    text: str = Field("", max_length=LONGEST_TEXT, description="What the person would say.")
    agent: Name | None = Field(None, description="The agent; else the first one of the configuration.")
    session: Name | None = Field(None, description="The session that it would belong to; else a new one.")
    situation: Name | None = Field(None, description="A situation that allows less than a private chat.")
    client: Device | None = Field(None, description="What the person's own device says of them.")
    plan: bool | None = Field(None, description="Whether the agent would only plan; else as the session has it.")
    project: Path | None = Field(None, description="The project's directory, in one of the agent's.")


class Explained(Told):
    """An assembly, in the schema `foreword/1`, and the table that explains it."""

    model_config = ConfigDict(extra="allow")
    schema_: str = Field(alias="schema")
    clearance: dict[str, Any]
    text: str
    tokens: int
    sections: list[dict[str, Any]]
    blocks: list[dict[str, Any]]
    table: str


@router.post("/explain", operation_id="explain", response_model=Explained, responses=answers())
async def explain(asked: ExplainRequest, desk: AtDesk, languages: Languages = None) -> dict[str, Any]:
    """Assemble the prompt of a message and explain it; nothing is sent, and nothing above one's clearance is told."""
    incoming = Incoming(
        text=asked.text,
        user=desk.user,
        channel=CHANNEL,
        agent=asked.agent or "",
        situation=desk.choose_situation(asked.situation),
        session=asked.session or "",
        client=read_device(asked.client, languages),
        plan=asked.plan,
        project=desk.open_project(asked.project, asked.agent, asked.situation),
    )
    assembly = await desk.gateway.foresee(incoming)
    return {**assembly.to_dict(), "table": assembly.explain()}
