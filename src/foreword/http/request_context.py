"""What routes share: the request context, the base models, and the reading of client values and idempotency keys."""

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from foreword.agent.tools.registry import give_built_in_tools
from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.engine.sources.documents import join_lines
from foreword.engine.trust import get_ceiling, resolve_trust
from foreword.errors import InputError
from foreword.events.event import Reader, find_reader
from foreword.events.query import query_log
from foreword.gateway.channels.pull_channel import WEB_CHANNEL
from foreword.gateway.equipment import MAX_PATH_CHARS, open_project
from foreword.gateway.messages import MAX_CLIENT_FACT_CHARS, MAX_MESSAGE_CHARS, ClientRequest
from foreword.gateway.service import Gateway
from foreword.http.error_responses import IDEMPOTENCY_HEADER, SESSION_HEADER, HttpError, make_not_found
from foreword.storage.database import use_state
from foreword.turn import Client, Turn
from foreword.types import Trust
from foreword.workspace import STATE_FOLDER

MAX_NAME_CHARS = 200
PRIVATE_SITUATION = "dm"  # a token belongs to one person, so a request is a private chat
RETRY_COUNT_HEADER = "x-stainless-retry-count"  # sent by the SDKs of OpenAI and Anthropic; 0 for the first attempt
DELIVERY_FIELDS = ("stream", "stream_options")  # delivery options, which do not change the turn
# A list of language tags with weights, as browsers send it; anything else in the header is ignored.
_TAG = r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,3}(?:;q=[01](?:\.[0-9]{0,3})?)?"
LANGUAGE_TAGS = re.compile(rf"{_TAG}(?:,{_TAG}){{0,9}}(?=,|$)")
T = TypeVar("T")


class RequestModel(BaseModel):
    """Base of request models: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ResponseModel(BaseModel):
    """Base of response models."""

    model_config = ConfigDict(frozen=True)


def read_integer(value: object) -> object:
    """Convert 3.0 to 3: JSON does not distinguish the two."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


TextField = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE_CHARS)]
NameField = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
PathField = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_CHARS)]
FactField = Annotated[str, StringConstraints(max_length=MAX_CLIENT_FACT_CHARS)]
CountField = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(read_integer)]
MessageField = Annotated[str, Field(max_length=MAX_MESSAGE_CHARS, description="The message.")]
AgentField = Annotated[NameField | None, Field(description="The agent; default: the first one in foreword.yaml.")]
SituationField = Annotated[
    NameField | None, Field(description="A situation with a lower clearance than a private chat.")
]
PlanField = Annotated[bool | None, Field(description="Whether plan mode is on; default: the session's setting.")]
ProjectField = Annotated[
    PathField | None, Field(description="The project's directory, within the agent's directories.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(alias=IDEMPOTENCY_HEADER, max_length=200, description="Requests with the same key and token are one turn."),
]
AcceptLanguage = Annotated[
    str | None, Header(alias="Accept-Language", description="The user's languages, as sent by the browser.")
]


class ClientDevice(RequestModel):
    """Values reported by the user's device; they apply to this message only."""

    zone: FactField = Field("", description="The time zone, such as Europe/Paris; an unknown zone is read as UTC.")
    language: FactField = Field("", description="Languages as in Accept-Language; the header applies if this is empty.")
    location: FactField = Field("", description="The user's location, in a few words.")


ClientField = Annotated[ClientDevice | None, Field(description="Values reported by the user's device.")]
bearer = HTTPBearer(auto_error=False, description="A token made with `foreword token create`. It identifies the user.")


class RequestContext:
    """An authenticated request, its user and its token, by whose id idempotency keys are kept apart."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.gateway: Gateway = request.app.state.gateway
        self.user: str = request.state.user
        self.token: str = request.state.token
        self.request_id: str = request.state.request_id

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.gateway.workspace.config

    @property
    def now(self) -> datetime:
        """The current time."""
        return self.gateway.workspace.memory.now()

    @property
    def folder(self) -> str:
        """The folder of the state files."""
        return os.path.join(self.gateway.workspace.files.root, STATE_FOLDER)

    @property
    def is_owner(self) -> bool:
        """Whether the caller is the owner at full trust."""
        return self.user == self.config.owner and self.find_clearance() is Trust.FULL

    def choose_situation(self, named: str | None) -> str:
        """Return the situation of a request: a private chat, or a named situation with a lower clearance."""
        if not named or named == PRIVATE_SITUATION:
            return PRIVATE_SITUATION
        is_higher = get_ceiling(named, self.config) >= get_ceiling(PRIVATE_SITUATION, self.config)
        if is_higher and named in self.config.situations:
            message = f"a request can only lower its clearance; situation {named} is not below {PRIVATE_SITUATION}"
            raise HttpError(422, message, param="situation")
        return named

    def make_turn(self, situation: str | None = None) -> Turn:
        """Make a turn of this user, from which their current clearance is resolved."""
        return Turn(user=self.user, channel=WEB_CHANNEL, situation=self.choose_situation(situation))

    def find_clearance(self, situation: str | None = None) -> Trust:
        """Return the current clearance of this user."""
        return resolve_trust(self.make_turn(situation), self.config).level

    def make_reader(self) -> Reader:
        """Make the reader that limits log queries to what this user may see."""
        return find_reader(self.make_turn(), self.find_clearance(), self.config)

    def require_owner(self) -> None:
        """Raise a 404 unless the caller is the owner at full trust."""
        if not self.is_owner:
            raise make_not_found("route")

    def open_project(self, path: str | None, agent: str | None, situation: str | None = None) -> str:
        """Return the directory of a project; raise a 422 if this user may not open it with the agent."""
        if not path:
            return ""
        name, root = agent or next(iter(self.config.agents)), self.gateway.workspace.files.root
        try:
            return open_project(path, name, self.find_clearance(situation), self.config, root).path
        except InputError as error:
            raise HttpError(422, str(error), param="project") from None

    async def assemble(self, situation: str | None = None) -> Assembly:
        """Assemble a turn of this user with the user's own tools."""
        return give_built_in_tools(await self.gateway.preparing.assemble(self.make_turn(situation)))

    async def use_log(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on the event log in a thread."""
        result, _ = await asyncio.to_thread(query_log, self.folder, query)
        return result

    async def use_state(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read or change the state in a thread."""

        def run() -> T:
            with use_state(self.folder) as state:
                return work(state)

        return await asyncio.to_thread(run)

    async def read_client_request(self, **more: Any) -> ClientRequest:
        """Collect the facts about a request that a retry is recognised by."""
        headers, body = self.request.headers, json.loads(await self.request.body())
        count = headers.get(RETRY_COUNT_HEADER, "")
        content = {name: value for name, value in body.items() if name not in DELIVERY_FIELDS}
        hashed = json.dumps([headers.get(SESSION_HEADER, ""), content], sort_keys=True, separators=(",", ":"))
        return ClientRequest(
            id=self.request_id,
            token=self.token,
            digest=sha256(hashed.encode()).hexdigest(),
            retry=count.isdecimal() and int(count[:9]) > 0,
            **more,
        )

    def make_idempotency_key(self, key: str | None) -> str:
        """Return the idempotency key of a message, scoped to the client's token."""
        return f"{self.token}/{key}" if key else ""


async def get_context(request: Request, _: Annotated[object, Security(bearer)] = None) -> RequestContext:
    """Return the context of an authenticated request."""
    return RequestContext(request)


ContextDep = Annotated[RequestContext, Depends(get_context)]


def read_client(device: ClientDevice | None, languages: str | None) -> Client:
    """Read the client's values, in one printable line each; Accept-Language applies if the client names no language."""
    values = device.model_dump() if device else {}
    facts = {name: "".join(filter(str.isprintable, join_lines(text))) for name, text in values.items()}
    return Client(**{**facts, "language": facts.get("language") or read_languages(languages)})


def read_languages(header: str | None) -> str:
    """Read Accept-Language: the valid tags at its beginning, at most ten."""
    tags = LANGUAGE_TAGS.match((header or "").replace(" ", ""))
    return tags[0] if tags and len(tags[0]) <= MAX_CLIENT_FACT_CHARS else ""
